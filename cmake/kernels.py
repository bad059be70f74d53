"""Write the kernels as they are installed, in one file, without their comments: `python cmake/kernels.py FILE`.

A third of them is comments.  Lines stay where they are, so that what a compiler says of one is true of the sources.
miopyx/values/kernels.py reads the file.
"""

import re
import sys
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "miopyx" / "kernels"
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|[ \t]*(?://[^\n]*|/\*.*?\*/)', re.DOTALL)


def without_comments(text):
    """Return a kernel's text without comments; what stands in strings stays, as do line feeds."""
    text = COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " " + "\n" * found[0].count("\n"), text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def main(file):
    parts = []
    for path in sorted([*SOURCES.rglob("*.cl"), *SOURCES.rglob("*.h")]):
        text = without_comments(path.read_text(encoding="utf-8"))
        assert "\f" not in text, path
        parts.append(f"{path.relative_to(SOURCES).as_posix()}\n{text}")
    Path(file).write_text("\f".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
