"""The house rules find what they forbid, and the tree keeps them."""

import house_rules
import pytest

BAD = {
    "no blanks at the end of a line": ("miopyx/a.py", "x = 1 \n"),
    "no tabs": ("miopyx/a.cl", "\tx;\n"),
    "no folder of one machine": ("docs/a.md", "see `/home/somebody/x`\n"),
    "printing is for programs": ("miopyx/solvers/a.py", "def f():\n    print(1)\n"),
    "a constant that is divided does not compile in the checked build": (
        "miopyx/a.pyx", "cdef enum:\n    HALF = WHOLE // 2\n"),
    "a kernel's arguments are Arg.int32, Arg.int64, Arg.real or a structure of a shared header": (
        "miopyx/solvers/conv/_a.pyx", "import struct\n"),
    "a conflict of a merge": ("docs/a.md", "<" * 7 + " ours\n"),
}


def test_every_rule_finds_its_fault():
    assert set(BAD) == {rule.why for rule in house_rules.RULES}
    for why, (path, text) in BAD.items():
        assert [line.partition(": ")[2] for line in house_rules.faults_of(path, text)] == [why]
    assert list(house_rules.faults_of("docs/a.md", "x")) == ["docs/a.md: ends without a line feed"]


def test_the_tree_keeps_the_rules(capsys):
    if not (house_rules.ROOT / ".git").exists():
        pytest.skip("not a clone: there is no list of files")
    assert house_rules.main([]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(("message", "fault"), [
    ("Fix\n\nbecause\n", None), ("x" * 72 + "\n\nwhy", None), ("x" * 73 + "\n\nwhy", "73 characters"),
    ("Fix.\n\nbecause\n", "full stop"), ("Fix\nbecause\n", "second"), ("Fix\n", "no body"),
    ("Fix\n\n# not\n", "no body"), ("Version 0.3.0\n", None), ("Merge branch 'a'\n", None), ("\n\nbecause", "empty"),
    ("Fix\n\nbecause\n# " + "a comment of git's " * 9, None),
])
def test_messages(message, fault):
    found = list(house_rules.faults_of_message(message))
    assert [fault in line for line in found] == ([True] if fault else [])
