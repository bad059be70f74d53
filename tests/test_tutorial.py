"""docs/writing-a-solver.md: what it says, done to a copy of the package, is a solver that computes."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import miopyx

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "writing-a-solver.md").read_text()
NAME = "PointwiseFwd"
# In a process that imports the copy: random problems, results against float64, tuned and not, and what is refused.
CHECKS = """
import sys
import numpy as np
import miopyx
import test_long_sums
from cases_reader import conv_case
from miopyx import TensorDescriptor
from solver_checks import Example, check, configurations_of
from miopyx.solvers import registry

assert miopyx.__file__.startswith(sys.argv[1]), miopyx.__file__
solver, rng, host = registry.BY_NAME["PointwiseFwd"], np.random.default_rng(), miopyx.Handle("host")
with miopyx.Handle(sys.argv[2]) as handle:
    def problems():
        yield 1, 1, 1, (1, 1)
        yield 2, 200, 3, (5,)
        for _ in range(6):
            rank = int(rng.integers(1, 4))
            yield (*(int(v) for v in rng.integers(1, 40, 3)), tuple(int(v) for v in rng.integers(1, 12, rank)))
    for n, c, k, lens in problems():
        example = Example(conv_case(n, c, k, lens, (1,) * len(lens)), "float32", "packed", rng, host)
        check(handle, example, 0, solver, rng)
    # Strides of axes of length 1 mean nothing.
    x, w, y = (TensorDescriptor("float32", lens, strides) for lens, strides in (
        ((3, 5, 4, 6), None), ((1, 5, 1, 1), None), ((3, 1, 4, 6), (24, 777, 6, 1))))
    conv = miopyx.ConvolutionDescriptor((0, 0))
    a, b = rng.standard_normal((3, 5, 4, 6), np.float32), rng.standard_normal((1, 5, 1, 1), np.float32)
    out = handle.upload(np.full(3 * 24 + 777, np.nan, np.float32))
    handle.convolution_forward(x, w, conv, y, solver.id)(handle.upload(a), handle.upload(b), out)
    got = handle.download(out)
    assert np.allclose(got[:72].reshape(3, 4, 6), (a * b).sum(1), atol=1e-5) and np.isnan(got[72:]).all()
    for config in configurations_of(solver, handle.device, example.problem(0)):
        check(handle, example, 0, solver, rng, config)
    for change in ({"filter": (3, 3)}, {"stride": (2, 2)}, {"pad": (1, 1)}, {"groups": 2}):
        options = {"filter": (1, 1), **change}
        other = Example(conv_case(2, 4, 4, (6, 6), **options), "float32", "packed", rng, host)
        assert solver.why_not(handle.device, other.problem(0)), change
        assert solver.why_not(handle.device, other.problem(1)) == "another direction"
    test_long_sums.check(handle, host, "cpu", 1_000_000, rng, 2, [solver])
    print("checked", solver.name)
"""


def written():
    """Return the files that the page writes, by their paths."""
    return dict(re.findall(r"^`(miopyx/[\w./]+)`\n\n```\w+\n(.*?)^```", PAGE, re.S | re.M))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Return a folder with a copy of the installed package that has the page's solver."""
    folder = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(Path(miopyx.__file__).parent, folder / "miopyx")
    files = written()
    assert [Path(name).suffix for name in files] == [".cl", ".pyx"]
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)  # kernels are installed as one file
        (folder / name).write_text(text)
    source = folder / next(name for name in files if name.endswith(".pyx"))
    module, c_file = ".".join(source.relative_to(folder).with_suffix("").parts), source.with_suffix(".c")
    commands = (
        [sys.executable, "-P", "-m", "cython", "-3", "-I", str(ROOT), "--module-name", module, "-X", "cdivision=True",
         str(source), "-o", str(c_file)],
        [*sysconfig.get_config_var("CC").split(), "-O1", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}",
         f"-I{ROOT}", f"-I{ROOT / 'miopyx' / 'kernels'}", str(c_file), "-o",
         str(source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX")))],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    source.unlink()
    registry = folder / "miopyx" / "solvers" / "registry.py"
    text = registry.read_text()
    line, entry = re.search(r"^```text\n(from .*)\n(    .*,)\n```", PAGE, re.M).groups()
    head = "CONV: tuple[Solver, ...] = (\n"
    assert text.count(head) == 1
    registry.write_text(text.replace(head, f"{line}\n\n{head}{entry}\n"))
    return folder


def run(package, *command, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT / "tests")]), **variables}
    done = subprocess.run([sys.executable, "-P", *command], env=environment, cwd=package, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_solver_of_the_page_computes(package, opencl_name):
    pytest.importorskip("Cython")
    assert f"checked {NAME}" in run(package, "-c", CHECKS, str(package), opencl_name)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_commands_of_the_page(package, opencl_name, tmp_path):
    """The driver's commands run as they stand there, a search included."""
    pytest.importorskip("Cython")
    lines = re.findall(r"^(?:(MIOPEN\w+)=(\w+) )?miopyx-driver (.*)$", PAGE, re.M)
    assert len(lines) == 2
    for name, value, arguments in lines:
        variables = {name: value} if name else {}
        main = "import sys; from miopyx.tools.driver import main; sys.exit(main())"
        out = run(package, "-c", main, *arguments.split(), MIOPYX_DEVICE=opencl_name,
                  MIOPEN_USER_DB_PATH=str(tmp_path), MIOPEN_DEBUG_TUNING_ITERATIONS_MAX="3", **variables)
        assert NAME in out
        assert "Verifies OK" in out
