"""What miopyx reads, on the corpora of tests/fuzz and what becomes of them at random, without a fuzzer."""

import random
import re
import time
from pathlib import Path

import pytest
from fuzz import targets

CORPUS = Path(__file__).parent / "fuzz" / "corpus"
TARGETS = sorted(targets.load())
SLOW = 1.0  # seconds of the processor that nothing may take
NUMBERS = (b"0", b"-1", b"1", b"2147483648", b"9223372036854775808", b"1e400", b"nan", b"9" * 50, b"\0", b"\xff")


@pytest.fixture(params=TARGETS)
def name(request):
    if request.param.startswith("onnx"):
        pytest.importorskip("onnx")
    return request.param


@pytest.fixture
def run(name, tmp_path, user_folder):
    """Return a function from bytes to whether a target read them: quickly, and raising nothing else."""
    with targets.Runner(name, tmp_path) as runner:
        def timed(data):
            begun = time.process_time()
            reached = runner.run(data)
            assert time.process_time() - begun < SLOW
            return reached

        for _, data in corpus(name)[:2]:
            runner.run(data)  # what is prepared once takes its time
        yield timed


def corpus(name):
    return [(path.name, path.read_bytes()) for path in sorted((CORPUS / name).iterdir())]


def test_every_target_has_a_corpus():
    assert sorted(path.name for path in CORPUS.iterdir()) == TARGETS
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 300_000


def test_corpora(name, run):
    reached = [run(data) for _, data in corpus(name)]
    assert any(reached), "nothing of the corpus is what the target reads"


def changed(rng, data, others, words):
    """Return some bytes with a few changes: bits, bytes, pieces that go, come twice or from elsewhere, numbers."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 16, len(data))))
        what = rng.randrange(7)
        if what == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif what == 2:
            del data[at:end]
        elif what == 3:
            data[at:at] = data[at:end]
        elif what == 4:
            data[at:end if rng.randrange(2) else at] = rng.choice(words)
        elif what == 5:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data[at:end] = other[start:start + rng.choice((1, 8, 64))]
        else:
            places = [found.span() for found in re.finditer(rb"-?\d+", data)]
            if places:
                start, stop = rng.choice(places)
                data[start:stop] = rng.choice(NUMBERS)
    return bytes(data)


def test_random_changes(name, run, seed, amount):
    rng = random.Random(seed)
    others = [data for _, data in corpus(name)]
    words = [*targets.load()[name].words, *NUMBERS]
    until = time.monotonic() + amount(0.3, 20)
    while time.monotonic() < until:
        data = changed(rng, rng.choice(others), others, words)
        try:
            run(data)
        except Exception:
            print(f"{name}: {data!r}")
            raise
