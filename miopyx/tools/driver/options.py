"""MIOpenDriver's flags: what a table of flags is, that of the convolutions, and the parser of commands and lists."""

from __future__ import annotations

import math
import re
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Value = int | float | str

# What each operation computes in.  convfp64 and those of OCP's float8 are not MIOpenDriver's.
OPERATIONS = {"conv": "float32", "convfp16": "float16", "convbfp16": "bfloat16", "convint8": "int8",
              "convfp8": "float8_e4m3fnuz", "convbfp8": "float8_e5m2fnuz", "convfp64": "float64",
              "convfp8ocp": "float8_e4m3fn", "convbfp8ocp": "float8_e5m2"}


class UsageError(Exception):
    """The command line, or a line of a list, asks for something that does not exist."""


@dataclass(frozen=True)
class Flag:
    """One flag: names without hyphens, default (its type is the flag's), meaning, and what it may be.

    `short` is empty for flags that MIOpenDriver does not have.  `allowed` None takes any value of the type.  `fixed`
    says why a flag of MIOpenDriver means nothing here: it is then accepted at its default only, so that nobody believes
    it had an effect.
    """

    name: str
    short: str
    default: Value
    meaning: str
    allowed: Sequence[Value] | None = None
    fixed: str = ""


_LAYOUTS = ("", "NCHW", "NHWC", "CHWN", "NCDHW", "NDHWC")
_SWITCH = (0, 1)
_PLAIN = re.compile(r"[ \t!#-&(-\[\]-~]*")  # a line without quotes, which need not wait for shlex
_NO_CASTS = "no solver uses cast types"
_NO_VECTORS = "no solver reads vectorised layouts"

FLAGS = (
    Flag("batchsize", "n", 100, "images"),
    Flag("in_channels", "c", 3, "channels of the input"),
    Flag("in_d", "!", 32, "depth of the input (3-D)"),
    Flag("in_h", "H", 32, "height of the input"),
    Flag("in_w", "W", 32, "width of the input"),
    Flag("out_channels", "k", 32, "channels of the output"),
    Flag("fil_d", "@", 3, "depth of the filter (3-D)"),
    Flag("fil_h", "y", 3, "height of the filter"),
    Flag("fil_w", "x", 3, "width of the filter"),
    Flag("conv_stride_d", "#", 1, "stride along the depth (3-D)"),
    Flag("conv_stride_h", "u", 1, "stride along the height"),
    Flag("conv_stride_w", "v", 1, "stride along the width"),
    Flag("pad_d", "$", 0, "zeros on both sides along the depth (3-D)"),
    Flag("pad_h", "p", 0, "zeros above and below"),
    Flag("pad_w", "q", 0, "zeros left and right"),
    Flag("pad_val", "r", 0, "value of the padding", fixed="padding is always 0"),
    Flag("dilation_d", "^", 1, "dilation along the depth (3-D)"),
    Flag("dilation_h", "l", 1, "dilation along the height"),
    Flag("dilation_w", "j", 1, "dilation along the width"),
    Flag("trans_output_pad_d", "%", 0, "what mode trans adds to the output's depth (3-D)"),
    Flag("trans_output_pad_h", "Y", 0, "what mode trans adds to the output's height"),
    Flag("trans_output_pad_w", "X", 0, "what mode trans adds to the output's width"),
    Flag("group_count", "g", 1, "groups", range(1, 2**31)),
    Flag("spatial_dim", "_", 2, "spatial dimensions; 1: the width alone", (1, 2, 3)),
    Flag("mode", "m", "conv", "conv or trans(posed)", ("conv", "trans")),
    Flag("pad_mode", "z", "default", "default: the pads given; same and valid compute them",
         ("default", "same", "valid")),
    Flag("in_layout", "I", "", "layout of the input; empty: NCHW, in 3-D NCDHW", _LAYOUTS),
    Flag("fil_layout", "f", "", "layout of the filter, K in the place of N", _LAYOUTS),
    Flag("out_layout", "O", "", "layout of the output", _LAYOUTS),
    Flag("tensor_vect", "Z", 0, "vectorised layout", fixed=_NO_VECTORS),
    Flag("vector_length", "L", 1, "its length", fixed=_NO_VECTORS),
    Flag("forw", "F", 0, "directions: 1 forward + 2 backward data + 4 backward weights; 0 all", range(8)),
    Flag("verify", "V", 1, "verify the results", _SWITCH),
    Flag("verification_cache", "C", "", "folder of reference results",
         fixed="reference results are not kept, they are computed anew"),
    Flag("iter", "i", 10, "runs of each convolution", range(1, 2**31)),
    Flag("time", "t", 0, "print kernel times", _SWITCH),
    Flag("wall", "w", 0, "print wall-clock times (1 or 2, which here mean the same); needs -t 1", (0, 1, 2)),
    Flag("search", "s", 0, "exhaustive search in Find", _SWITCH),
    Flag("printconv", "P", 1, "print the command line", _SWITCH),
    Flag("dump_output", "o", 0, "write every tensor to a file dump_*.bin in the current folder", _SWITCH),
    Flag("in_data", "d", "", "file with the input, raw elements in memory order"),
    Flag("weights", "e", "", "file with the weights"),
    Flag("bias", "b", "", "1: compute the bias functions too", ("", "0", "1")),
    Flag("in_bias", "a", "", "file with the bias"),
    Flag("dout_data", "D", "", "file with the output's gradient"),
    Flag("solution", "S", "-1", "below 0: Find; 0: immediate mode, its best solution; an id or a name: that one"),
    Flag("gpualloc", "G", 0, "make the data on the device", fixed="data are always made by the host"),
    Flag("in_cast_type", "U", "-1", "cast type of the input", fixed=_NO_CASTS),
    Flag("out_cast_type", "T", "-1", "cast type of the output", fixed=_NO_CASTS),
    Flag("wei_cast_type", "R", "-1", "cast type of the weights", fixed=_NO_CASTS),
    Flag("math_type", "", 1, "0: factors of float32 may be rounded to 11 bits; 1: not", _SWITCH),
    Flag("deterministic", "", 0, "take solvers that give the same bits in every run", _SWITCH),
)

# Not MIOpenDriver's; long names only.  "verbose" takes no value.
ADDITIONS = (
    Flag("file", "", "", "run every line of a list: a file of command lines, or the name of a list that ships"),
    Flag("batch", "", 0, "batch size for every line of the list", range(1, 2**31)),
    Flag("device", "", "", "device to run on, as `miopyx doctor` names it; default: the best that works"),
    Flag("json", "", "", "write the results to this file as JSON; of a list to .jsonl a line a result"),
    Flag("verbose", "", 0, "print MIOpenDriver's lines for every line of the list", _SWITCH),
)
_ADDITIONS = {flag.name: flag for flag in ADDITIONS}


@dataclass(frozen=True, eq=False)
class Family:
    """Operations that differ in their types only.

    Attributes
    ----------
    name : str
        The operation in float32.
    title : str
        What is computed, for the help text.
    operations : mapping
        What each operation computes in.
    flags : sequence of Flag
    """

    name: str
    title: str
    operations: Mapping[str, str]
    flags: Sequence[Flag]

    @cached_property
    def long(self) -> dict[str, Flag]:
        """Return the flags by name."""
        return {flag.name: flag for flag in self.flags}

    @cached_property
    def short(self) -> dict[str, Flag]:
        """Return the flags by MIOpenDriver's letter."""
        return {flag.short: flag for flag in self.flags if flag.short}


CONVOLUTION = Family("conv", "a convolution", OPERATIONS, FLAGS)
CONVOLUTIONS: Mapping[str, Family] = dict.fromkeys(OPERATIONS, CONVOLUTION)


@dataclass(frozen=True)
class Command:
    """What to run: the operation and the flags that were given; `command["n..."]` fills in defaults."""

    operation: str = "conv"
    given: Mapping[str, Value] = field(default_factory=dict)
    family: Family = CONVOLUTION

    def __getitem__(self, name: str) -> Value:
        return self.given.get(name, self.family.long[name].default)

    @property
    def dtype(self) -> str:
        """What the operation computes in."""
        return self.family.operations[self.operation]

    def number(self, name: str) -> int:
        """Return the value of a flag that takes an integer."""
        return int(self[name])

    def real(self, name: str) -> float:
        """Return the value of a flag that takes a number."""
        return float(self[name])

    def text(self, name: str) -> str:
        """Return the value of a flag that takes a text."""
        return str(self[name])

    def overridden(self, operation: str, flags: Mapping[str, Value]) -> Command:
        """Return this command with `flags` in place of its own, and with `operation` unless that is plain conv.

        Raises
        ------
        UsageError
            For an operation of another family, or a flag that this one's family does not have.
        """
        if operation == "conv":
            operation = self.operation
        if operation not in self.family.operations:
            raise UsageError(f"{self.operation} cannot be run as {operation}")
        for name in flags:
            if name not in self.family.long:
                raise UsageError(f"{operation} has no flag --{name}")
        return Command(operation, {**self.given, **flags}, self.family)

    def __str__(self) -> str:
        return " ".join([self.operation, *(f"{self._flag(name)} {shlex.quote(str(value))}"
                                           for name, value in self.given.items())])

    def _flag(self, name: str) -> str:
        short = self.family.long[name].short
        return f"-{short}" if short else f"--{name}"


def parse_flags(tokens: Iterable[str], additions: bool = False, family: Family = CONVOLUTION) -> dict[str, Value]:
    """Return the flags in `tokens` by long name.

    ``--name value``, ``--name=value``, ``-s value`` and ``-svalue`` are understood; a value may begin with a hyphen.
    `additions` allows the flags that MIOpenDriver does not have.

    Raises
    ------
    UsageError
        For an unknown flag, a missing value or one that the flag does not take.
    """
    known = {**family.long, **_ADDITIONS} if additions else family.long
    flags: dict[str, Value] = {}
    rest = iter(tokens)
    for token in rest:
        value: str | None = None
        if token.startswith("--"):
            name, equals, text = token[2:].partition("=")
            flag = known.get(name)
            value = text if equals else None
        elif token.startswith("-") and len(token) > 1:
            flag = family.short.get(token[1])
            value = token[2:] or None
        else:
            raise UsageError(f"{token!r} is not a flag")
        if flag is None:
            raise UsageError(f"unknown flag {token!r}")
        if value is None:
            value = "1" if flag.name == "verbose" else next(rest, None)
        if value is None:
            raise UsageError(f"{token} needs a value")
        flags[flag.name] = _value(flag, value, token)
    return flags


def _value(flag: Flag, text: str, token: str) -> Value:
    value: Value = text
    if not isinstance(flag.default, str):
        kind = type(flag.default)
        try:
            if not text.isascii() or "_" in text:
                raise ValueError  # what int() reads beyond what C programs do
            value = kind(text)
            if not math.isfinite(value):
                raise ValueError
        except (ValueError, OverflowError):
            raise UsageError(f"{token}: {text!r} is not {'an integer' if kind is int else 'a number'}") from None
    if flag.fixed and value != flag.default:
        raise UsageError(f"{token} {text}: {flag.fixed}; only {flag.default!r} is accepted")
    if flag.allowed is not None and value not in flag.allowed:
        if isinstance(flag.allowed, range):
            last = f" ... {flag.allowed[-1]}" if flag.allowed.stop < 2**31 else " or more"
            allowed = f"{flag.allowed.start}{last}"
        else:
            allowed = ", ".join(str(v) for v in flag.allowed if v != "")
        raise UsageError(f"{token} {text}: must be {allowed}")
    return value


def parse_line(line: str, families: Mapping[str, Family] = CONVOLUTIONS) -> Command | None:
    """Return what a line of a list asks for, None if it is blank or a comment.

    The line may begin with a path whose last part is MIOpenDriver or miopyx-driver, and with an operation, a key of
    `families`.
    """
    if line.lstrip().startswith("#"):
        return None
    try:
        tokens = line.split() if _PLAIN.fullmatch(line) else shlex.split(line)
    except ValueError as e:
        raise UsageError(str(e)) from None
    # A word that begins with # starts a comment; -# is a flag.
    tokens = tokens[:next((i for i, token in enumerate(tokens) if token.startswith("#")), len(tokens))]
    if not tokens:
        return None
    if tokens[0].rsplit("/", 1)[-1] in ("MIOpenDriver", "miopyx-driver"):
        tokens = tokens[1:]
    operation = "conv"
    if tokens and not tokens[0].startswith("-"):
        operation = parse_operation(tokens[0], families)
        tokens = tokens[1:]
    family = families[operation]
    return Command(operation, parse_flags(tokens, family=family), family)


def parse_operation(word: str, families: Mapping[str, Family] = CONVOLUTIONS) -> str:
    if word not in families:
        import difflib  # for those who mistype alone

        close = difflib.get_close_matches(word, families)
        raise UsageError(f"unknown operation {word!r}" + (f"; there is {', '.join(close)}" if close else ""))
    return word


def help_text(lists: Sequence[str], family: Family = CONVOLUTION, others: Iterable[Family] = ()) -> str:
    """Return what --help prints: `family`'s flags; `lists` are the names of the lists that ship."""
    rows = [(f"--{f.name}" + (f", -{f.short}" if f.short else ""), _describe(f)) for f in (*family.flags, *ADDITIONS)]
    width = max(len(names) for names, _ in rows) + 4
    flags = [textwrap.fill(text, 118, initial_indent=f"  {names}".ljust(width), subsequent_indent=" " * width)
             for names, text in rows]
    return "\n".join([
        f"usage: miopyx-driver {{{','.join(family.operations)}}} [flags]",
        "       miopyx-driver [operation] --file LIST [flags]",
        *([f"       miopyx-driver {{{','.join(other.name for other in others)}}} --help"] if others else []),
        "",
        *textwrap.wrap(f"Run {family.title} with MIOpenDriver's flags, verify it and time it, or every line of a list "
                       "of such commands.", 118),
        "Beside --file, flags replace those of the lines, and an operation other than conv replaces theirs.",
        f"Lists that ship: {', '.join(lists)}.",
        "Rows of a list are printed as they come, and what --json has is whole at any time; lines that cannot be",
        "read or run are skipped and counted.",
        "Exit codes: 0 all right, 1 verification failed, 2 usage or refused lines, 3 device, 141 nobody reads on.",
        "",
        *flags,
        f"  {'--help, -h':<{width - 2}}this text",
        f"  {'--version':<{width - 2}}the version",
    ])


def _describe(flag: Flag) -> str:
    default = "" if flag in ADDITIONS else f" [{flag.default}]" if flag.default != "" else ""
    return f"{flag.meaning}{default}" + (f" (default only: {flag.fixed})" if flag.fixed else "")
