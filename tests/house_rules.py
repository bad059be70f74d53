"""House rules that are simple enough for a search of the text; pre-commit and the tests run them.

    python tests/house_rules.py [FILE...]            all files of the repository, or these
    python tests/house_rules.py --message FILE       a commit's message
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Rule(NamedTuple):
    why: str
    files: str  # a pattern for the path
    text: str  # a pattern for what must not stand there
    unless: str = "$^"  # paths that are excepted


RULES = (
    Rule("no blanks at the end of a line", r"\.(py|pyx|pxd|pyi|c|h|cl|sh|md|toml|ya?ml|txt)$", r"(?m)[ \t]+$",
         r"^tests/(data|cases)/|^miopyx/.*/?db/"),
    Rule("no tabs", r"\.(py|pyx|pxd|pyi|cl|h|md|toml|ya?ml)$", r"\t", r"^tests/|^miopyx/.*db/"),
    Rule("no folder of one machine", r"\.(py|pyx|pxd|pyi|c|h|cl|sh|md|toml|ya?ml)$",
         r"(?<![\w./])/(home|root|Users|mnt|srv|work|workspace)/\w", r"^tests/"),
    Rule("printing is for programs", r"^miopyx/.*\.(py|pyx)$", r"(?m)^\s*print\(",
         r"^miopyx/(tools/|.*_child\.py$)"),
    Rule("a constant that is divided does not compile in the checked build", r"^miopyx/.*\.(pyx|pxd)$",
         r"(?m)^    [A-Z][A-Z0-9_]* = [^#\n]*//"),
    Rule("a kernel's arguments are Arg.int32, Arg.int64, Arg.real or a structure of a shared header",
         r"^miopyx/solvers/", r"(?m)^\s*(import struct\b|from struct )"),
    Rule("a conflict of a merge", r"\.(py|pyx|pxd|pyi|c|h|cl|sh|md|toml|ya?ml|txt)$", r"(?m)^(<{7} |>{7} |={7}$)"),
)
SUBJECT = 72
NO_BODY = ("Merge ", "Version ", "Revert ", "fixup! ", "squash! ")  # what says why by itself, or is not kept


def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def faults_of(path: str, text: str) -> Iterable[str]:
    """Return what the rules find in a file's text, a line each."""
    for rule in RULES:
        if re.search(rule.files, path) and not re.search(rule.unless, path):
            for found in re.finditer(rule.text, text):
                yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {rule.why}"
    if text and not text.endswith("\n") and path.endswith((".py", ".pyx", ".md", ".cl", ".sh")):
        yield f"{path}: ends without a line feed"


def faults_of_message(text: str) -> Iterable[str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if not subject.strip():
        yield "the subject is empty"
    elif len(subject) > SUBJECT:
        yield f"the subject has {len(subject)} characters, at most {SUBJECT} are allowed"
    elif subject.endswith("."):
        yield "the subject ends with a full stop"
    if len(lines) > 1 and lines[1].strip():
        yield "the second line is not empty"
    if not any(line.strip() for line in lines[1:]) and not subject.startswith(NO_BODY):
        yield "there is no body that says why"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--message"]:
        faults = list(faults_of_message(Path(arguments[1]).read_text(encoding="utf-8")))
    else:
        faults = []
        for path in arguments or tracked():
            try:
                faults += faults_of(path, (ROOT / path).read_text(encoding="utf-8"))
            except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
                continue
    print(*faults, sep="\n", end="\n" if faults else "")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
