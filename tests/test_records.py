"""Reading find-db records, against the grammar in regular expressions."""

import math
import re
from collections import Counter

import pytest

from miopyx.database import records

ROUNDS = 20_000
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:[iI][nN][fF]|[nN][aA][nN])")
NAMES = [*records.ALGORITHMS, b"miopenConvolutionFwdAlgo", b"GemmFwdRest", b"X", b"", b"\xff\xc3"]
NUMBERS = [b"1", b"12.5", b".5", b"5.", b".", b"1e5", b"1E-3", b"1e", b"1e+", b"+1", b"-1", b"0", b"inf", b"-NaN",
           b"nan", b"Infinity", b"1e999", b"1e-999", b"0x10", b"1_0", b" 1", b"1 ", b"9" * 18, b"9" * 19, b"9" * 400,
           b"1\0", b"\0", b"", b"1e5e", b"1..2", b"--1", b"007", b"iNf", b"+inf"]
MARKS = [b"@somebody/1.0", b"@", b"partial", b"!A", b"!", b"junk", b"", b"#01234567", b"partially", b"@\xff",
         b"Partial"]


def understood(items):
    """The record as the grammar has it."""
    found, stamp, partial, failed, skipped = {}, "", False, [], Counter()
    for item in items.split(b";") if items else []:
        if b":" not in item:
            if item[:1] == b"@":
                stamp = item[1:].decode(errors="replace")
            elif item[:1] == b"!":
                failed.append(item[1:].decode(errors="replace"))
            elif item == b"partial":
                partial = True
            else:
                skipped["no colon"] += 1
            continue
        name, text = item.split(b":", 1)
        values = text.split(b",")
        if name in records.ALGORITHMS:
            values = [*values[:3], name] if len(values) > 2 else []
        else:
            values = [name, *values] if len(values) == 3 else []
        if values and name in records.ALGORITHMS and (b":" in values[0] or values[0] in records.ALGORITHMS):
            reason = "no name of a solver"  # the new form has no room for it
        else:
            reason = refusal(values, found)
        if reason:
            skipped[reason] += 1
        else:
            solver, time, workspace, algorithm = values
            found[solver.decode(errors="replace")] = (float(time), int(workspace), *records.ALGORITHMS[algorithm])
    return [(name, *rest) for name, rest in found.items()], stamp, partial, failed, skipped


def refusal(values, found):
    if not values:
        return "number of values"
    solver, time, workspace, algorithm = values
    if algorithm not in records.ALGORITHMS:
        return "unknown algorithm"
    if not NUMBER.fullmatch(time):
        return "time is no number"
    if not 0 < float(time) < math.inf:
        return "time is not above zero"
    if not re.fullmatch(rb"[0-9]{1,18}", workspace):
        return "workspace is no number of bytes"
    if not solver:
        return "no solver"
    return "solver stands twice" if solver.decode(errors="replace") in found else ""


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


def random_item(rng):
    if rng.integers(6) == 0:
        return pick(rng, MARKS)
    if rng.integers(3):  # as it should be, or nearly so
        solver, algorithm = b"Gemm%d" % rng.integers(9), pick(rng, NAMES[:-5])
        time, workspace = b"%g" % 10 ** rng.uniform(-5, 6), b"%d" % 10 ** rng.integers(12)
        parts = [solver, time, workspace, algorithm]
        if rng.integers(3) == 0:
            i = int(rng.integers(4))
            parts[i] = pick(rng, NAMES if i in (0, 3) else NUMBERS)
        if rng.integers(4) == 0:
            parts = [parts[3], *parts[:3], b"x", b"<unused>"]
        return parts[0] + b":" + b",".join(parts[1:])
    return pick(rng, NAMES) + b":" + b",".join(pick(rng, NUMBERS + NAMES) for _ in range(int(rng.integers(6))))


def read(items):
    record = records.read_find(items)
    return ([(i.solver, i.time, i.workspace, i.direction, i.algorithm) for i in record.items], record.stamp,
            record.partial, record.failed, record.skipped)


def test_random_records_are_read_as_the_grammar_says(rng, amount):
    whole, reasons, rounds = 0, set(), amount(ROUNDS // 5, ROUNDS)
    for _ in range(rounds):
        text = bytearray(b";".join(random_item(rng) for _ in range(int(rng.integers(6)))))
        for _ in range(int(rng.integers(3)) if text else 0):
            text[int(rng.integers(len(text)))] = pick(rng, b";:,@!.e0\0\xff+-")
        want = understood(bytes(text))
        assert read(bytes(text)) == want, bytes(text)
        whole += bool(want[0])
        reasons |= set(want[4])
    assert whole > rounds // 4
    assert reasons == {"no colon", "number of values", "unknown algorithm", "time is no number",
                       "time is not above zero", "workspace is no number of bytes", "no solver",
                       "solver stands twice", "no name of a solver"}


def test_times_are_read_to_the_last_bit(rng):
    for value in (10.0 ** rng.uniform(-300, 300, 2000)).tolist():
        for text in (repr(value), f"{value:.30e}", f"{value:.6g}"):
            (item,) = records.read_find(b"A:%b,0,miopenConvolutionFwdAlgoGEMM" % text.encode()).items
            assert item.time == float(text)


def test_every_name_of_an_algorithm():
    for name, (direction, algorithm) in records.ALGORITHMS.items():
        (item,) = records.read_find(b"A:1,2," + name).items
        assert (item.direction, item.algorithm) == (direction, algorithm)
        (item,) = records.read_find(name + b":A,1,2,x,y").items
        assert (item.solver, item.direction, item.algorithm) == ("A", direction, algorithm)
        for wrong in (name[:-1], name + b"x", name.lower()):
            assert not records.read_find(b"A:1,2," + wrong).items


def test_what_is_no_text():
    for wrong in (None, "A:1,2,miopenConvolutionFwdAlgoGEMM", bytearray(b"A"), 5):
        with pytest.raises(TypeError):
            records.read_find(wrong)


def test_what_was_skipped_is_counted_each_time_anew():
    record = records.read_find(b"junk;junk;A:1")
    record.skipped.clear()
    assert record.skipped == Counter({"no colon": 2, "number of values": 1})
