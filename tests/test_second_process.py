"""What one process found is what the next one uses: nothing is timed and nothing compiled again."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.usefixtures("keep_programs")
CHILD = textwrap.dedent("""
    import json, sys, time
    import numpy as np
    import miopyx
    from miopyx.runtime import _opencl
    from miopyx.choose import find
    from miopyx.problem._problem import ConvProblem

    device, what = sys.argv[1:]
    counts = {"compiled": 0, "loaded": 0, "timed": 0}

    def counted(name, function):
        def call(*args):
            counts[name] += 1
            return function(*args)
        return call

    _opencl.program_from_source = counted("compiled", _opencl.program_from_source)
    _opencl.program_from_binary = counted("loaded", _opencl.program_from_binary)
    find._time = counted("timed", find._time)

    handle = miopyx.Handle(device)
    conv = miopyx.ConvolutionDescriptor((1, 1))
    x, w = miopyx.TensorDescriptor("float32", (3, 5, 9, 8)), miopyx.TensorDescriptor("float32", (7, 5, 3, 3))
    y = miopyx.TensorDescriptor("float32", conv.output_lens(x, w))
    rng = np.random.default_rng(1)
    data = [handle.upload(rng.standard_normal(d.lens, dtype=np.float32)) for d in (x, w, y)]
    size = 1 << 22
    if what == "find":
        workspace = handle.upload(np.zeros(size, np.uint8))
        perf = miopyx.miopenFindConvolutionForwardAlgorithm(handle, x, data[0], w, data[1], conv, y, data[2], 9,
                                                            workspace, size, False)
        best = handle.found[ConvProblem(0, x, w, y, conv).key].candidates[0]
        answer = [best.solver.id, best.time]
    else:
        (solution,) = miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 1)
        answer = [solution.solution_id, solution.time]
        workspace = handle.upload(np.zeros(size, np.uint8))
        began = time.perf_counter()
        miopyx.miopenConvolutionForwardImmediate(handle, w, data[1], x, data[0], conv, y, data[2], workspace, size,
                                                 solution.solution_id)
        handle.finish()
        counts["first_call_ms"] = (time.perf_counter() - began) * 1e3
    out = handle.download(data[2], np.empty(y.lens, np.float32))
    print(json.dumps({"answer": answer, "sum": float(np.abs(out).sum()), **counts}))
""")


@pytest.fixture
def process(tmp_path, device_name):
    environment = {**os.environ, "MIOPYX_CACHE_DIR": str(tmp_path / "cache"),
                   "MIOPEN_USER_DB_PATH": str(tmp_path / "databases")}

    def run(what):
        done = subprocess.run([sys.executable, "-P", "-c", CHILD, device_name, what], env=environment, cwd=tmp_path,
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert not done.stderr, "a normal run is quiet"
        return json.loads(done.stdout)

    return run


def test_find_here_immediate_mode_there(process, device_name):
    first = process("find")
    assert first["timed"] > 0
    second = process("immediate")
    assert second["answer"][0] == first["answer"][0]
    assert second["answer"][1] == pytest.approx(first["answer"][1], rel=1e-5)
    assert second["timed"] == second["compiled"] == 0
    assert second["sum"] == pytest.approx(first["sum"], rel=1e-5)
    if device_name != "host":
        assert second["loaded"] >= 1, "its programs come from the cache"
    print(f"first call of the second process: {second['first_call_ms']:.2f} ms")
