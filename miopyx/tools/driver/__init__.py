"""`miopyx-driver`: run, verify and time layers with MIOpenDriver's flags, one at a time or in lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import miopyx
from miopyx.errors import MIOpenError
from miopyx.tools import pipes

from . import data, families, listing
from .families import FAMILIES
from .options import ADDITIONS, CONVOLUTION, Command, UsageError, Value, help_text, parse_flags, parse_operation
from .run import Session, exit_code

__all__ = ["main"]

DEVICE = 3


class DeviceError(MIOpenError):
    """The device does not exist or does not work."""

    def __str__(self) -> str:
        return self.message


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (default: the process's arguments).

    Returns
    -------
    int
        0 all right, 1 verification failed, 2 usage or lines of a list that were refused, 3 device.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    return pipes.quietly(lambda: _caught(arguments))


def _caught(arguments: list[str]) -> int:
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        print("miopyx-driver: interrupted", file=sys.stderr)
        return 130
    except MemoryError as e:
        print(f"miopyx-driver: out of memory: {e}", file=sys.stderr)
        return DEVICE
    except (UsageError, MIOpenError) as e:
        print(f"miopyx-driver: {e}", file=sys.stderr)
        return exit_code(e)


def _main(arguments: list[str]) -> int:
    if not arguments or any(word in ("-h", "--help", "-?") for word in arguments):
        family = FAMILIES.get(arguments[0], CONVOLUTION) if arguments else CONVOLUTION
        others = [] if arguments and arguments[0] in FAMILIES else families.LAYERS
        print(help_text(listing.shipped(), family, others), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if "--version" in arguments:
        print(f"miopyx-driver {miopyx.__version__}")
        return 0
    operation, tokens = "", arguments
    if not tokens[0].startswith("-"):
        operation, tokens = parse_operation(tokens[0], FAMILIES), tokens[1:]
    family = FAMILIES[operation or "conv"]
    flags = parse_flags(tokens, additions=True, family=family)
    name, batch, device, json, verbose = (flags.pop(flag.name, None) for flag in ADDITIONS)
    if json:
        listing.require_writable(str(json))
    if name:
        return _list(str(name), operation or "conv", flags, batch, device, json, bool(verbose), arguments)
    if not operation:
        raise UsageError("which operation? " + help_text([]).splitlines()[0])
    if batch or verbose:
        raise UsageError("--batch and --verbose belong to --file")
    return _single(Command(operation, flags, family), device, json, arguments)


def _session(device: Value | None) -> Session:
    """Return a session on a device; that there is no such device is the device's fault, not the grammar's."""
    seed = data.seed()
    try:
        return Session(str(device) if device else None, seed)
    except MIOpenError as e:
        raise DeviceError(str(e)) from e


def _emit(line: str) -> None:
    print(line, flush=True)


def _single(command: Command, device: Value | None, json: Value | None, arguments: list[str]) -> int:
    work = families.make(command)
    session = _session(device)
    try:
        if families.prints(command):
            _emit(" ".join(["miopyx-driver", *arguments]))
        outcomes = families.run(session, work, _emit, bool(command.number("time")), command.number("iter"), False)
        if json:
            listing.write(str(json), listing.document(session, arguments, [(command, work, outcomes)]))
    finally:
        session.close()
    return listing.exit_code(outcomes)


def _list(name: str, operation: str, flags: dict[str, Value], batch: Value | None, device: Value | None,
          json: Value | None, verbose: bool, arguments: list[str]) -> int:
    refused: list[listing.Refused] = []
    lines = listing.read(name, operation, flags, batch, refused)
    for one in refused:
        print(f"miopyx-driver: {name}, line {one.line}: {one.why}; skipped", file=sys.stderr, flush=True)
    if not lines:
        raise UsageError(f"--file {name}: not a line of it can be run")
    session = _session(device)
    done: listing.Done = []

    kept = listing.Kept(str(json), session, arguments, refused) if json else None

    def keep(finished: bool | None = None) -> None:
        if kept is not None:
            kept.keep(done, finished)

    try:
        listing.run(session, lines, verbose, _emit, done, keep)
        for line in listing.summary(session, done, len(refused)):
            _emit(line)
        keep(True)
    except BaseException:
        keep(False)
        raise
    finally:
        session.close()
    return listing.exit_code([outcome for _, outcomes in done for outcome in outcomes]) or (2 if refused else 0)
