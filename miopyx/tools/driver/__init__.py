"""`miopyx-driver`: run, verify and time layers with MIOpenDriver's flags, one at a time or in lists."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import miopyx
from miopyx.errors import MIOpenError

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
        0 all right, 1 verification failed, 2 usage, 3 device.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(arguments)
    except BrokenPipeError:
        # Whoever read our output has left; nothing more may be written, at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
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
    lines = listing.read(name, operation, flags, batch)
    session = _session(device)
    try:
        done = listing.run(session, lines, verbose, _emit)
        for line in listing.summary(session, done):
            _emit(line)
        if json:
            listing.write(str(json), listing.document(session, arguments, [
                (line, line.work, outcomes) for line, outcomes in done]))
    finally:
        session.close()
    return listing.exit_code([outcome for _, outcomes in done for outcome in outcomes])
