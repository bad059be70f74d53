"""A find-db file beside sqlite3, lmdb and a dictionary of its lines; record_store.py says what each figure is."""

from __future__ import annotations

import bz2
import importlib.util
import random
from pathlib import Path

import pytest
import record_store

from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.problem._key import find_key
from miopyx.problem._problem import ConvProblem

RUNS = 3
FIGURES = {
    "open first": ("from nothing to the first record, no index yet", "ms", 1e-3),
    "open later": ("from nothing to the first record", "ms", 1e-3),
    "hits": ("a key that is there, all in random order", "ns", 1e-9),
    "hits of few": ("a key that is there, 1,000 again and again", "ns", 1e-9),
    "misses": ("a key that is not there", "ns", 1e-9),
    "problem": ("from a problem to its record, 1,000", "ns", 1e-9),
}


def made_up(count: int) -> bytes:
    """Return a find-db text of that many different problems."""
    rng = random.Random(count)
    lines = {}
    while len(lines) < count:
        conv = ConvolutionDescriptor((1, 1))
        c, h = rng.randrange(1, 513), rng.randrange(3, 225)
        x = TensorDescriptor("float32", (rng.randrange(1, 65), c, h, h))
        w = TensorDescriptor("float32", (rng.randrange(1, 513), c, 3, 3))
        key = find_key(ConvProblem(rng.randrange(3), x, w, TensorDescriptor("float32", conv.output_lens(x, w)), conv))
        items = ";".join(f"{solver}:{rng.uniform(0.01, 9):.6g},{rng.randrange(1 << 20)},miopenConvolutionFwdAlgoGEMM"
                         for solver in ("GemmFwdRest", "ConvDirectNaiveConvFwd"))
        lines[key] = b"%b=%b\n" % (key, items.encode())
    return b"".join(lines.values())


@pytest.fixture(scope="session")
def measured(request, tmp_path_factory):
    """Return each store's figures in each run."""
    given = request.config.getoption("--records")
    if given is None:
        text = made_up(5_000)
    else:
        text = Path(given).read_bytes()
        text = bz2.decompress(text) if given.endswith(".bz2") else text
    folder = tmp_path_factory.mktemp("records")
    (folder / "cache").mkdir()
    stores = [name for name in record_store.STORES if name != "lmdb" or importlib.util.find_spec("lmdb")]
    count = len(record_store.prepare(text, folder, stores))
    runs = 1 if request.config.getoption("benchmark_disable") else RUNS
    return count, [record_store.run(folder, stores, random.getrandbits(32)) for _ in range(runs)]


@pytest.mark.parametrize("figure", FIGURES)
def test_store(record, measured, figure):
    count, runs = measured
    text, unit, scale = FIGURES[figure]
    values = {store: [run[store][figure] * scale for run in runs] for store in runs[0]}
    ours = values.pop("miopyx")
    record(f"find-db of {count} records", text, unit, ours, values, relative=True)
