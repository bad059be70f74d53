"""What importing the package, and first calls, bring into a process: each module costs whoever imports miopyx."""

import json
import os
import subprocess
import sys

import pytest

import miopyx
from miopyx import enums

# What a call that was made before has no use for, in the standard library and here.
HEAVY = {
    "bz2", "concurrent.futures", "email", "hashlib", "importlib.metadata", "inspect", "json", "onnx",
    "platformdirs", "pyopencl", "secrets", "signal", "socket", "statistics", "subprocess", "tempfile", "zipfile",
    "miopyx.api.commands", "miopyx.api.logged", "miopyx.tools.cli", "miopyx.choose.compiling", "miopyx.tools.db",
    "miopyx.choose.measurements", "miopyx.tools.onnx", "miopyx.choose.tuning",
}
FIRST = """
import numpy as np, miopyx
handle = miopyx.Handle({name!r})
x, w = miopyx.TensorDescriptor("float32", (1, 2, 4, 4)), miopyx.TensorDescriptor("float32", (3, 2, 1, 1))
conv = miopyx.ConvolutionDescriptor((0, 0))
y = miopyx.TensorDescriptor("float32", (1, 3, 4, 4))
a, b, c = (handle.upload(np.ones(d.lens, np.float32)) for d in (x, w, y))
handle.convolution_forward(x, w, conv, y)(a, b, c)
handle.finish()
assert (handle.download(c, np.empty(y.lens, np.float32)) == 2).all()
"""


def loaded(code, before="import numpy"):
    """Return the modules that `code` brings into a new process beyond those of `before`."""
    script = (f"{before}\nimport sys\nbefore = set(sys.modules)\n{code}\n"
              "after = set(sys.modules) - before\nimport json\nprint(json.dumps(sorted(after)))")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MIOPEN_ENABLE_LOGGING")}
    done = subprocess.run([sys.executable, "-P", "-c", script], env=environment, capture_output=True, text=True,
                          check=True)
    return set(json.loads(done.stdout))


def test_importing_brings_nothing_heavy():
    found = loaded("import miopyx")
    assert "miopyx._core" in found
    assert not found & HEAVY


def test_the_host_path_needs_no_opencl():
    """A first convolution on the host, found in no database, takes no more than importing."""
    assert not loaded(FIRST.format(name="host")) & HEAVY


def test_a_first_convolution_on_a_device_that_is_known(opencl_name):
    code = FIRST.format(name=opencl_name)
    loaded(code)  # its programs and verdicts are on disk from here on
    assert not loaded(code, "import numpy, pyopencl") & (HEAVY - {"pyopencl"})


def test_enums_are_made_when_they_are_asked_for():
    code = "import miopyx; made = sorted(n for n in vars(miopyx.enums) if n.endswith('_t')); before |= {*made}"
    script = f"before = set(); {code}; import json; print(json.dumps(made))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    made = set(json.loads(done.stdout))
    assert "miopenStatus_t" in made
    assert not made & {"miopenPoolingMode_t", "miopenTensorArgumentId_t", "miopenActivationMode_t"}


def test_names_of_enums_stand_in_the_package():
    assert set(enums.__all__) <= set(miopyx.__all__)
    assert set(enums.__all__) <= set(dir(miopyx))
    assert set(enums.__all__) <= set(dir(enums))
    for module in (miopyx, enums):
        with pytest.raises(AttributeError, match="has no attribute 'miopenNothing'"):
            _ = module.miopenNothing
    assert not hasattr(miopyx, "DEFAULT")


def test_threads_make_one_class():
    script = """
import sys, threading
from miopyx import enums
sys.setswitchinterval(1e-6)
def look(found, gate):
    gate.wait()
    for name in enums.__all__:
        found.append(getattr(enums, name))
found = [[] for _ in range(8)]
gate = threading.Barrier(8)
threads = [threading.Thread(target=look, args=(f, gate)) for f in found]
for t in threads: t.start()
for t in threads: t.join()
assert all(a is b for f in found[1:] for a, b in zip(found[0], f, strict=True))
assert all(m is type(m)[m.name] for m in found[0] if not isinstance(m, type))
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True)
