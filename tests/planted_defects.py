"""Plant defects one at a time and see whether the tests notice: `python -P tests/planted_defects.py [NUMBER...]`.

Each defect is one text of one file replaced by another.  The repository is copied and built (incrementally), then the
test files that the defect's row names run on it, or with `--all` the whole fast suite; a defect is found where pytest
fails or the build does.  They run without a defect first.  `--list` checks that each text still stands in its file
exactly once.  A row whose text is gone needs a new one: the list is to stay thirty or more long and to touch every
room.

Needs cmake, ninja and an environment with the package's build and test requirements.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Defect(NamedTuple):
    """`tests` are the names of test files without `test_`; `what` says what goes wrong."""

    kind: str
    file: str
    old: str
    new: str
    tests: str
    what: str


K, H, P, E, D, A, C = "kernel", "host path", "problem", "engine", "database", "API", "choosing"
DEFECTS = [Defect(*row) for row in (
    (K, "kernels/include/activation.h", "return v > 0 ? dy : dy * (alpha * mx_exp(v));",
     "return v > 0 ? dy : dy * mx_exp(v);", "activation", "ELU's gradient without alpha"),
    (K, "kernels/include/activation.h", "return v > 0 && v <= alpha ? dy : (V)0;",
     "return v > 0 && v < alpha ? dy : (V)0;", "activation", "CLIPPEDRELU's gradient at the limit itself"),
    (K, "kernels/layers/softmax.cl", "#define RESULT(v, scale) ((ACC)alpha * ((v) - (scale)))",
     "#define RESULT(v, scale) ((v) - (scale))", "softmax", "log softmax without alpha"),
    (K, "kernels/conv/im2col.cl", "if (d < 0 || d >= p.x.len[2] || h < 0 || h >= p.x.len[3]) {",
     "if (d < 0 || d >= p.x.len[2] || h < 0 || h > p.x.len[3]) {", "solvers", "a row below the image is read"),
    (K, "kernels/conv/gpu/depthwise.cl", "if (row >= 0 && row < g.h && col >= 0 && col < g.w)",
     "if (row >= 0 && row < g.h && col >= 0 && col <= g.w)", "depthwise", "a column behind the image is read"),
    (K, "kernels/conv/cpu/winograd.cl", "if (y >= 0 && y < g.h)", "if (y > 0 && y < g.h)", "winograd_cpu solvers",
     "Winograd takes the first row for padding"),
    (K, "kernels/conv/cpu/few.cl", "const bool inside = d >= 0 && d < p.x.len[2] && h >= 0",
     "const bool inside = d >= 0 && d < p.x.len[2] && h > 0", "few_cpu solvers", "the first row is taken for padding"),
    (K, "kernels/conv/gpu/implicit.cl", "(uint)w >= (uint)g->len[2])", "(uint)w > (uint)g->len[2])", "implicit_gpu",
     "a pixel behind the row is read"),
    (K, "kernels/layers/batchnorm_cpu.cl", "exact = exact && all(square <= FAR * squares[s]);", "", "batchnorm",
     "data far from its first element are not summed again"),
    (K, "kernels/layers/batchnorm.h", "    v = ACTIVATED(b, v);\n", "", "batchnorm_activation",
     "gradients of LOGISTIC and TANH from what they were given"),
    (H, "host/_batchnorm.pyx", "            times[i] *= inv[i]\n", "            pass\n", "batchnorm_activation",
     "an activation's gradient is taken elsewhere than where it was"),
    (K, "kernels/conv/cpu/implicit_weights.cl", "if (a < b && di >= 0 &&", "if (a < b && di > 0 &&",
     "implicit_cpu_weights solvers", "weights' gradient without a volume's first plane"),
    (K, "kernels/conv/naive.cl", "if (item >= mx_size(p.x))", "if (item + 1 >= mx_size(p.x))", "solvers",
     "the last element stays unwritten"),
    (H, "host/gemm_f64.c", "(bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13", "(bits - 0x38000000 + 0x1000) >> 13",
     "reference_conv", "float16's ties round up, not to even"),
    (H, "host/_softmax.pyx", "table[i] += c.beta * old[i]", "table[i] += old[i]", "softmax", "beta is taken for 1"),
    (P, "problem/_key.pyx", "t.stride[axis] if t.len[axis] > 1 else 0", "t.stride[axis]", "key",
     "strides of axes of one element are in the key"),
    (P, "problem/_key.pyx", "room // p.step[axis] + 1 if room > 0 else 1", "room // p.step[axis] if room > 0 else 1",
     "key", "a dilated filter's output is one too short in keys"),
    (P, "problem/_key.pyx", "if size > 19 or value > <uint64_t> most:", "if value > <uint64_t> most:", "key",
     "numbers beyond 64 bits wrap"),
    (P, "problem/_problem.pyx", "if desc.stride[axis] <= reach:", "if desc.stride[axis] < reach:",
     "convolution_descriptor plans reference_conv tensor_ops args errors", "outputs that overlap by one pass"),
    (P, "problem/_problem.pyx", "return 1 + _seed if", "return _seed if", "float8", "stochastic seed 0 is lost"),
    (P, "problem/_descriptors.pyx", "if self.groups > 1 and w.len[0] % self.groups:", "if False:",
     "convolution_descriptor", "transposed filters that groups do not divide"),
    (P, "problem/_descriptors.pyx", "            if strides[i] < 1:", "            if strides[i] < 0:",
     "tensor_descriptor", "strides of 0 are taken"),
    (E, "engine/_invoker.pyx", "if call.workspace_size != OWN and call.workspace_size < need:",
     "if call.workspace_size != OWN and call.workspace_size < need - 1:", "immediate find errors",
     "a workspace that lacks one byte is taken"),
    (E, "engine/_binding.pyx", "a.root_offset < b.root_offset + need_b and b.root_offset < a.root_offset + need_a",
     "a.root_offset < b.root_offset + need_b and b.root_offset < a.root_offset", "plans", "memory shared is taken"),
    (E, "engine/_invoker.pyx", "if b.serial == 0 or b.serial != a.serial:", "if b.serial == 0:", "plans immediate",
     "a kernel keeps the buffer of the call before"),
    (E, "engine/_plan.pyx", "if (<Descriptor> plan.descriptors[i]).stamp != plan.stamp[i]:",
     "if (<Descriptor> plan.descriptors[i]).stamp < plan.stamp[i]:", "plans", "a plan keeps what descriptors said"),
    (E, "engine/_handle.pyx", "if problem.size == size and memcmp(problem.data, data, size) == 0:",
     "if problem.size == size:", "plans immediate", "problems of one hash are one"),
    (A, "runtime/_buffers.pyx", "return need > 0 and cnp.PyArray_NBYTES(array) >= need and", "return need > 0 and",
     "immediate", "an array that is too short is taken"),
    (A, "runtime/_buffers.pyx", "(step[i] != layout.step[i] and", "(step[i] < layout.step[i] and",
     "plans errors args", "an array of another layout is taken"),
    (D, "database/records.py", 'b"%.6g" % item.time', 'b"%.3g" % item.time', "store records user_file find",
     "times lose digits in the file"),
    (D, "database/user_file.py", "2 * self._contents.live < size and not", "2 * self._contents.live > size and not",
     "user_file", "files are compacted when they need it least"),
    (D, "runtime/programs.py", "if total <= limit:", "if total <= 4 * limit:", "programs", "the limit is not kept"),
    (C, "choose/find.py", "times[0] <= CUT_OFF * best", "times[0] >= CUT_OFF * best", "find",
     "slow candidates are repeated, quick ones are not"),
    (C, "choose/tuning.py", "medians[best] >= GAIN * medians[default]", "medians[best] <= GAIN * medians[default]",
     "tuning", "a better configuration is dropped"),
    (C, "values/config.py", '"MIOPYX_NUM_THREADS", _within(0,', '"MIOPYX_NUM_THREADS", _within(-1,', "config",
     "a limit lets -1 through"),
)]


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          check=False, **more)


class Copy:
    """The repository in a folder of its own, built and installed there."""

    def __init__(self, folder: Path) -> None:
        self.root, self.site = folder / "source", folder / "site"
        self.built, self.cache = self.root / "build" / "dev", folder / "pocl"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        command = ["cmake", "-S", self.root, "-B", self.built, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DPython_EXECUTABLE={sys.executable}"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
        for done in (run(command), self.build()):
            if done.returncode:
                sys.exit(done.stdout)
        # What the built package would say of itself.
        about = self.site / "miopyx-0.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: miopyx\nVersion: 0\n")

    def build(self) -> subprocess.CompletedProcess:
        done = run(["ninja", "-C", self.built, f"-j{len(os.sched_getaffinity(0))}"])
        if done.returncode == 0:
            done = run(["cmake", "--install", self.built, "--prefix", self.site])
            shutil.copytree(self.root / "miopyx", self.site / "miopyx", dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("*.pyx", "*.pxd", "*.c", "__pycache__", "kernels"))
        return done

    def test(self, names: list[str]) -> subprocess.CompletedProcess:
        """Run test files of these names, all without any."""
        files = [f"tests/test_{name}.py" for name in names]
        environment = os.environ | {"PYTHONPATH": str(self.site), "POCL_CACHE_DIR": str(self.cache)}
        return run([sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files],
                   cwd=self.root, env=environment)

    def try_one(self, defect: Defect, everything: bool) -> tuple[str, str]:
        """Return "found" and by what, or "NOT FOUND"."""
        path = self.root / "miopyx" / defect.file
        before = path.read_text()
        if before.count(defect.old) != 1:
            return "NOT PLANTED", f"its text stands {before.count(defect.old)} times in the file"
        path.write_text(before.replace(defect.old, defect.new))
        try:
            if self.build().returncode:
                return "found", "by the compiler"
            done = self.test([] if everything else defect.tests.split())
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            if done.returncode == 0:
                return "NOT FOUND", f"by {defect.tests}"
            if done.returncode in (1, -6, -11) and (failed or done.returncode < 0):
                return "found", failed[0].partition(" - ")[0][:100] if failed else f"signal {-done.returncode}"
            return "UNCLEAR", done.stdout[-300:]
        finally:
            path.write_text(before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", type=int, nargs="*", help="rows of the list, from 0 (default: all)")
    parser.add_argument("--all", action="store_true", help="run the whole fast suite on each")
    parser.add_argument("--list", action="store_true", help="only look whether the texts are there")
    args = parser.parse_args()
    if args.list:
        wrong = [d for d in DEFECTS if (ROOT / "miopyx" / d.file).read_text().count(d.old) != 1]
        for number, defect in enumerate(DEFECTS):
            print(f"{number:2} {defect.kind:10} {defect.what}" + "  TEXT NOT THERE ONCE" * (defect in wrong))
        return bool(wrong)
    chosen = args.numbers or range(len(DEFECTS))
    found = 0
    with tempfile.TemporaryDirectory(prefix="miopyx-planted-") as folder:
        copy = Copy(Path(folder))
        control = copy.test([] if args.all else sorted({n for i in chosen for n in DEFECTS[i].tests.split()}))
        if control.returncode:
            print(control.stdout[-2000:], "The tests fail without any defect.", sep="\n")
            return 2
        print("control: nothing fails without a defect", flush=True)
        for number in chosen:
            begin = time.monotonic()
            result, by = copy.try_one(DEFECTS[number], args.all)
            found += result == "found"
            print(f"{number:2} {DEFECTS[number].kind:10} {result:11} {DEFECTS[number].what}: {by} "
                  f"({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{found} of {len(chosen)} found")
    return found != len(chosen)


if __name__ == "__main__":
    sys.exit(main())
