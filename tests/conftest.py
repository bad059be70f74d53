"""What all tests share: a cache folder of their own, the devices to run on, and random numbers that can be repeated."""

import collections
import contextlib
import ctypes
import gc
import itertools
import os
import random
import resource
import secrets
import shutil
import tempfile
from functools import cache
from pathlib import Path

# Before miopyx is imported: no variable of the user's counts, and nothing is read from or written to the user's caches.
for _name in [name for name in os.environ if name.startswith(("MIOPYX_", "MIOPEN_"))]:
    del os.environ[_name]
# pytest-xdist's workers share the programs that they build; what they write to databases is their own.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
CACHE = os.environ["TESTS_FOLDER"] if WORKER else tempfile.mkdtemp(prefix="miopyx-tests-")
os.environ["TESTS_FOLDER"] = CACHE
# Which cases are drawn without --long: the workers must agree, and collect the same ones.
DRAW = int(os.environ.setdefault("TESTS_DRAW", str(secrets.randbits(32))))
os.environ["MIOPYX_CACHE_DIR"] = os.path.join(CACHE, "cache")
os.environ["MIOPEN_USER_DB_PATH"] = os.path.join(CACHE, "databases" + WORKER)
# Handles that end would write their programs, which takes a third of the time.  PoCL keeps its own.
os.environ["MIOPEN_DISABLE_CACHE"] = "1"

import hypothesis  # noqa: E402
import hypothesis.configuration  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from problems import resident, write_costs  # noqa: E402

import miopyx  # noqa: E402
from miopyx.choose import _costs, _model  # noqa: E402
from miopyx.device import devices  # noqa: E402
from miopyx.runtime import programs  # noqa: E402
from miopyx.values import config  # noqa: E402

hypothesis.configuration.set_hypothesis_home_dir(os.path.join(CACHE, "hypothesis"))
# A busy machine is no defect of a test.
hypothesis.settings.register_profile("miopyx", deadline=None, database=None,
                                     suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("miopyx")

DEVICES = "device_name", "opencl_name", "any_handle"  # parameters that name one
# What builds many programs, starts many processes or searches long; `-m quick` leaves these files out.
SLOW_FILES = {
    "test_activation", "test_allocator", "test_basic_device", "test_batchnorm", "test_batchnorm_activation",
    "test_compiling", "test_configurations", "test_depthwise", "test_deterministic", "test_device", "test_docs",
    "test_driver", "test_driver_layers", "test_examples", "test_few_cpu", "test_fft", "test_find_search", "test_float8",
    "test_gpu_benches", "test_gpu_programs", "test_grouped_cpu", "test_implicit_cpu", "test_implicit_cpu_nhwc",
    "test_implicit_cpu_weights", "test_implicit_gpu", "test_largest_errors", "test_leaks", "test_logs",
    "test_logs_layers", "test_long_sums", "test_lrn", "test_mha", "test_nvidia_emulated", "test_nvidia_pack",
    "test_onnx", "test_onnx_fusion",
    "test_onnx_nodes", "test_onnx_recurrent", "test_overhead", "test_pooling", "test_pretended_devices",
    "test_programs", "test_random_operations", "test_released", "test_second_process", "test_simulated",
    "test_solvers", "test_store", "test_streams", "test_system_file", "test_tensor_ops", "test_threads",
    "test_torch_models", "test_tune", "test_tune_fleet", "test_tuning", "test_typing", "test_user_file", "test_versus",
    "test_winograd_cpu", "test_winograd_gpu",
}


def pytest_addoption(parser):
    group = parser.getgroup("miopyx")
    group.addoption("--device", action="append", metavar="NAME",
                    help="run the tests of all devices on this one, as `miopyx doctor` names it (may be repeated; "
                         "default: the host and every OpenCL device that works, but PoCL's `basic` one)")
    group.addoption("--emulated", action="store_true",
                    help="run the tests of all devices on NVIDIA's kernels, on this CPU: a stub stands in for CUDA's "
                         "driver, as cuda:0")
    group.addoption("--configurations", type=int, default=200,
                    help="how many random configurations the comparison with PyTorch takes (default: 200)")
    group.addoption("--long", action="store_true",
                    help="all cases of every test, whole loops, and tests marked `long`; without it OpenCL CPU devices "
                    "run a random tenth of a test's cases, two at least")
    group.addoption("--seed", type=int, help="seed of the random tests (default: a new one each, shown on failure)")


def pytest_configure(config):
    for line in ("long: takes long and finds what others seldom miss; runs with --long only",
                 "pairwise: without --long a random few of the cases that hold every pair of two parameters' values",
                 "each: without --long a random few of the cases that hold every value of every parameter",
                 "some(number, host=number): without --long so many of the cases, on each device, drawn at random",
                 "quick: added here to the tests of every file that is not in SLOW_FILES, and to tests that say so"):
        config.addinivalue_line("markers", line)
    if config.getoption("--emulated"):
        import cuda_stub
        import nvidia_emulator

        folder = Path(CACHE) / ("emulator" + WORKER)
        folder.mkdir()
        library = cuda_stub.build(folder)
        why = "needs a compiler of C" if library is None else nvidia_emulator.why_not()
        if why:
            pytest.exit(why, 5)
        os.environ["MIOPYX_LIBCUDA"] = str(library)
        cuda_stub.compile_by_clang(emulated=True)


def pytest_report_header(config):
    return "cases: all" if config.getoption("--long") else f"cases: drawn with TESTS_DRAW={DRAW} (all: --long)"


NO_FP64 = "device has no double precision"
FEW, SHARE = 2, 10  # of a function's cases on an OpenCL CPU device: at least, and one of how many


def _without(cases, number):
    """Return all but a random `number` of one test's cases."""
    return set(cases) - set(random.Random(f"{DRAW} {cases[0].nodeid}").sample(cases, min(number, len(cases))))


MOST = []  # bytes of memory that xdist's workers and their children took at most


def _most_memory():
    """Return the bytes of memory that this process, or a child of its that has ended, took at most."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) << 10


def _draw(items, size):
    """Return a random few of one test's cases in which any `size` values of parameters that occur at once still do."""
    groups = {}
    for item in items:
        values = [(name, repr(value)) for name, value in sorted(item.callspec.params.items())]
        groups[item] = set(itertools.combinations(values, min(size, len(values))))
    order = list(items)
    random.Random(f"{DRAW} {items[0].nodeid}").shuffle(order)
    missing, kept = set().union(*groups.values()), set()
    while missing:
        best = max(order, key=lambda item: len(groups[item] & missing))
        kept.add(best)
        missing -= groups[best]
    return kept


def _slow_ones_first(items):
    """Let each of xdist's processes, which get equal shares of the list, end with short tests, easily shared out."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.path.stem in SLOW_FILES]
    quick = [item for item in items if item.path.stem not in SLOW_FILES]
    items[:] = [item for i in range(count) for part in (slow, quick)
                for item in part[i * len(part) // count:(i + 1) * len(part) // count]]


def pytest_collection_modifyitems(config, items):
    functions = collections.defaultdict(list)
    for item in items:
        if item.path.stem not in SLOW_FILES:
            item.add_marker("quick")
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        devices = [repr(parameters[name]) for name in DEVICES if name in parameters]
        functions[item.nodeid.partition("[")[0], *devices].append(item)  # each device has its own draw
    if config.getoption("--long"):
        return
    left_out = {item for item in items if item.get_closest_marker("long")}
    for cases in functions.values():
        cases = [item for item in cases if item not in left_out]
        if not cases:
            continue
        parameters = cases[0].callspec.params if hasattr(cases[0], "callspec") else {}
        device = next((parameters[name] for name in DEVICES if name in parameters), None)
        some = cases[0].get_closest_marker("some")
        if some:
            left_out |= _without(cases, some.kwargs.get("host", some.args[0]) if device == "host" else some.args[0])
            continue
        whole = True
        for size, marker in ((1, "each"), (2, "pairwise")):
            if len(cases) > 1 and cases[0].get_closest_marker(marker):
                left_out |= set(cases) - _draw(cases, size)
                whole = False
        # CPUs build most programs for one test alone; what takes the time there is their compiler.
        if whole and device not in (None, "host") and (config.getoption("--emulated")
                                                             or not config.getoption("--device")):
            left_out |= _without(cases, max(FEW, -(-len(cases) // SHARE)))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    _slow_ones_first(items)


def pytest_sessionfinish(session):
    if WORKER:
        session.config.workeroutput["most"] = _most_memory()


def pytest_testnodedown(node):
    MOST.append(getattr(node, "workeroutput", {}).get("most", 0))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"largest process: {max(MOST, default=_most_memory()) >> 20} MiB of memory")


def pytest_unconfigure():
    if not WORKER:
        shutil.rmtree(CACHE, ignore_errors=True)


@cache
def _working_devices():
    names = [info.name for info in devices.ranked() if info.kind != "host"]
    # PoCL's `basic` device runs the same programs as its usual one: test_basic_device.py takes it, to save time.
    usual = [name for name in names if "-basic_" not in name]
    return ["host", *dict.fromkeys(usual or names)]


def pytest_generate_tests(metafunc):
    """Run each test that asks for `device_name` or `opencl_name`, itself or through another fixture, once a device."""
    names = metafunc.config.getoption("--device") or (
        ["cuda:0"] if metafunc.config.getoption("--emulated") else _working_devices())
    if "device_name" in metafunc.fixturenames:
        metafunc.parametrize("device_name", names, scope="session")
    if "opencl_name" in metafunc.fixturenames:
        others = [name for name in names if name != "host"]
        nothing = pytest.param("host", marks=pytest.mark.skip(reason="no OpenCL device"))
        metafunc.parametrize("opencl_name", others or [nothing], scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that a device without fp64 refused for that reason, and no other device."""
    try:
        return (yield)
    except miopyx.MIOpenError as error:
        names = [item.callspec.params.get(name) for name in DEVICES] if hasattr(item, "callspec") else []
        names = [name[0] if isinstance(name, tuple) else name for name in names]  # and how it is looked at
        if NO_FP64 in str(error) and not all(devices.find(name).fp64 for name in names if isinstance(name, str)):
            pytest.skip(f"{error}")
        raise


@pytest.fixture(autouse=True)
def _own_folders():
    """Refuse to run a test on the user's caches and databases, and forget variables that the test set."""
    for name in ("MIOPYX_CACHE_DIR", "MIOPEN_USER_DB_PATH"):
        folder = os.environ.get(name, "")
        assert folder.startswith(tempfile.gettempdir()), f"tests must not use the folder {folder!r}"
    yield
    config.forget()


@pytest.fixture
def setting(monkeypatch):
    """Return a function that sets environment variables for this test, as if the process had begun with them."""

    def set_variables(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))
        config.forget()

    yield set_variables
    monkeypatch.undo()
    config.forget()


@pytest.fixture
def keep_programs(setting):
    """Let handles of this test keep their programs on disk, as they do outside of tests."""
    setting(MIOPEN_DISABLE_CACHE=0)


@pytest.fixture
def user_folder(tmp_path, setting):
    """Let this test begin with empty databases of the user's; return their folder."""
    folder = tmp_path / "databases"
    setting(MIOPEN_USER_DB_PATH=folder)
    return folder


COMPILE_LONG = ("layers/", "conv/amd/", "conv/gpu/depthwise", "conv/nvidia/depthwise")
SHARED = {}  # the handles of `handles` and `pretend`
MEMORY = 600 << 20  # bytes of a process, above which shared handles are made anew for the next file


def _let_go():
    """Destroy the shared handles, and return what they had to the system."""
    for handle in SHARED.values():
        miopyx.miopenDestroy(handle)
    SHARED.clear()
    gc.collect()
    with contextlib.suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True, scope="module")
def _not_too_much():
    yield
    if resident() > MEMORY:
        _let_go()


@pytest.fixture(scope="session")
def handles():
    """Return a function from a device's name to a handle that all tests share, so that each program is built once."""
    def handle_of(name):
        if name not in SHARED:
            SHARED[name] = miopyx.Handle(name)
        return SHARED[name]

    yield handle_of
    _let_go()


@pytest.fixture(scope="session")
def pretend(request):
    """Return a function from a device's name and fields of its DeviceInfo to a handle whose solvers believe them.

    Of kernels for GPUs those that take a CPU longer to optimise than to run are not optimised without --long.
    """
    pretended = set()
    build = programs.build

    def build_quickly(device, file, options):
        unoptimised = device.info in pretended and file.startswith(COMPILE_LONG)
        return build(device, file, options + " -cl-opt-disable" * unoptimised)

    if not request.config.getoption("--long"):
        programs.build = build_quickly

    def handle_of(name, /, **fields):
        key = name, *sorted(fields.items())
        if key not in SHARED:
            known = devices.find(name)
            info = known._replace(**fields)
            if known.kind == "cpu" and info.kind == "gpu":
                pretended.add(info)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(devices, "find", lambda _: info)
                SHARED[key] = miopyx.Handle(name)
        return SHARED[key]

    yield handle_of
    programs.build = build
    _let_go()


@pytest.fixture(scope="session")
def as_gpu(pretend):
    """Return a function from a device's name to a handle on which its solvers take it for a GPU."""
    return lambda name: pretend(name, kind="gpu")


@pytest.fixture
def host(handles):
    """Return the shared handle of the host path."""
    return handles("host")


@pytest.fixture
def torch_device(request, monkeypatch):
    """PyTorch's device of tests of PyTorch: the one of `--device cuda:0`, where float32 is strict, else its CPU."""
    torch = pytest.importorskip("torch")
    names = [name for name in request.config.getoption("--device") or () if name.startswith("cuda")]
    if names:
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    return torch.device(names[0] if names else "cpu")


@pytest.fixture
def handle(device_name, handles):
    """Return the shared handle of each device in turn."""
    return handles(device_name)


@pytest.fixture
def opencl_handle(opencl_name, handles):
    """Return the shared handle of each OpenCL device in turn."""
    return handles(opencl_name)


@pytest.fixture
def cpu(opencl_handle):
    """Return the shared handle of each OpenCL device that is a CPU."""
    if not opencl_handle.device.is_cpu:
        pytest.skip("needs a CPU device")
    return opencl_handle


@pytest.fixture
def gpu(opencl_name, as_gpu):
    """Return a handle of each OpenCL device on which its solvers take it for a GPU."""
    return as_gpu(opencl_name)


@pytest.fixture
def h200(cpu, pretend):
    """A device that is only pretended, with the package's cost table: nothing can be run on it."""
    handle = pretend(cpu.device.name, name="nv-sm90_132", kind="gpu", runtime="nvidia", isa="sm90", compute_units=132,
                     local_mem=49152, max_alloc=35 << 30,
                     extensions=cpu.device.info.extensions | {"cl_nv_device_attribute_query"})
    for tables in (_costs, _model):
        tables.forget()
        tables.of(handle.device)  # read before a test names other folders
    return handle


@pytest.fixture
def system_folder(tmp_path, setting):
    """Let this test begin without databases of the system's, cost tables and models included; return their folder."""
    folder = tmp_path / "system"
    folder.mkdir()
    setting(MIOPEN_SYSTEM_DB_PATH=folder)
    _costs.forget()
    _model.forget()
    yield folder
    _costs.forget()
    _model.forget()


@pytest.fixture(params=["no table", "cost table"])
def any_costs(request, device_name, system_folder):
    """A device without a cost table, and one whose table calls half of the solvers too slow to be timed."""
    if request.param == "cost table":
        write_costs(system_folder, devices.find(device_name))


@pytest.fixture
def new_handle(device_name, user_folder):
    """Return a new handle of each device in turn with empty databases, for tests that look at what is kept."""
    with miopyx.Handle(device_name) as fresh:
        yield fresh


@pytest.fixture
def amount(request):
    """Return a function that takes the first number for a loop's length, or the second one with --long."""
    return lambda short, long: long if request.config.getoption("--long") else short


@pytest.fixture
def seed(request):
    """Return a new seed; pytest shows it if the test fails, and --seed repeats it."""
    value = request.config.getoption("--seed")
    if value is None:
        value = secrets.randbits(32)
    print(f"repeat with: --seed {value}")
    return value


@pytest.fixture
def rng(seed):
    """Return NumPy's random generator on a new seed."""
    return np.random.default_rng(seed)
