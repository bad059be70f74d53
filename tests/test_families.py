"""bench/families.py: rows of the tables, and one layer measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cases_reader import conv_case


@pytest.fixture
def families(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "bench"))
    import families

    yield families
    for name in ("families", "versus", "convolutions"):
        sys.modules.pop(name, None)


def test_kinds(families):
    def kind(c, k, lens, filter, **more):
        return families.kind(conv_case(1, c, k, lens, filter, **more))

    assert kind(16, 8, (9, 9), (1, 1), stride=(2, 2)) == "1x1"
    assert kind(16, 8, (9, 9), (3, 3)) == "3x3"
    assert kind(16, 8, (9, 9), (3, 3), stride=(2, 2)) == "3x3, stride 2"
    assert kind(16, 8, (9, 9), (3, 3), dilation=(2, 2)) == "3x3, dilated"
    assert kind(16, 8, (28, 28), (5, 5)) == "5x5, images from 28x28"
    assert kind(16, 8, (40,) * 2, (1, 31)) == kind(16, 8, (9, 9), (7, 7)) == "7x7 and larger, 1x31"
    assert kind(16, 8, (9, 9), (7, 1)) == "1x3, 1x7, 7x1"
    assert kind(3, 8, (9, 9), (3, 3)) == "up to 4 channels"
    assert kind(8, 8, (9, 9), (3, 3), groups=8) == "depthwise"
    assert kind(16, 16, (9, 9), (3, 3), groups=4) == "3x3 in groups of 4 channels"
    assert kind(4, 4, (9, 9, 9), (3, 3, 3)) == "3x3x3"
    assert kind(4, 4, (9, 9), (3, 3), transposed=True) == "transposed, stride 2"


def test_one_layer(families, cpu):
    rows = families.measure(conv_case(1, 16, 24, (9, 8), (3, 3), (1, 1)), families.Ours(cpu, "float32", "nchw"))
    assert [row["direction"] for row in rows] == list(families.DIRECTIONS)
    for row in rows:
        assert row["times"]
        assert row["times"].keys() == row["index"].keys()
        assert all(found > 0 for found in row["times"].values())
    lines = families.tables(rows)
    assert lines[2].startswith("| 3x3 | 1 | ")
    assert lines[2].count("**") >= 2
    assert lines[2].count("|") == lines[0].count("|")
