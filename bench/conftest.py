"""What all benches share: an environment of their own, devices, measuring side by side, the table at the end."""

import os
import shutil
import statistics
import tempfile

# Before miopyx is imported: no variable of the user's counts, and nothing is read from or written to the user's caches.
for _name in [name for name in os.environ if name.startswith(("MIOPYX_", "MIOPEN_"))]:
    del os.environ[_name]
CACHE = tempfile.mkdtemp(prefix="miopyx-bench-")
os.environ["MIOPYX_CACHE_DIR"] = os.path.join(CACHE, "cache")
os.environ["MIOPEN_USER_DB_PATH"] = os.path.join(CACHE, "databases")
os.environ["PYOPENCL_NO_CACHE"] = "1"

import launching  # noqa: E402
import measuring  # noqa: E402
import pytest  # noqa: E402
import report  # noqa: E402
import runtimes  # noqa: E402
from fingerprint import differences, fingerprint  # noqa: E402
from pytest_benchmark.session import PerformanceRegression  # noqa: E402

ENVIRONMENT = dict(os.environ)  # of child processes: the user's choice of devices
runtimes.choose("basic", "pthread")

import miopyx  # noqa: E402
from miopyx.device import devices  # noqa: E402

ROWS = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup("miopyx")
    group.addoption("--device", action="append", metavar="NAME",
                    help="measure on this device, as `miopyx doctor` names it (may be repeated; default: all)")
    group.addoption("--rounds", type=int, default=201, help="how often each side of a comparison is measured")
    group.addoption("--processes", type=int, default=9, help="how many processes of each kind a cold start takes")
    group.addoption("--records", metavar="FILE",
                    help="the find-db file to look records up in (default: one of 5,000 records that is made up)")


def pytest_configure(config):
    config.stash[ROWS] = []


def pytest_unconfigure():
    shutil.rmtree(CACHE, ignore_errors=True)


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=measuring.clock))


def _in_calling_thread(name):
    """Whether launches on a device are done by the thread that makes them: other threads disturb its times."""
    return name.startswith("host") or "-basic_" in name or "-cpu-minimal_" in name


def pytest_generate_tests(metafunc):
    """Run each bench that asks for one of these names once for each device that it stands for."""
    names = metafunc.config.getoption("--device") or [info.name for info in devices.ranked()]
    names = sorted(dict.fromkeys(names), key=lambda name: (name.startswith("host"), not _in_calling_thread(name)))
    others = [name for name in names if not name.startswith("host")]
    kinds = {
        "device_name": names,
        "choosing_name": others[:1] + names[len(others):],  # choosing is the same on all OpenCL devices of a kind
        "worker_name": [name for name in others if not _in_calling_thread(name)] or others,
    }
    for name, values in kinds.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, values, scope="session")


@pytest.fixture
def steady(device_name):
    """Return whether times of launches on this device mean something: PoCL's own threads take the caller's cores."""
    return not device_name.startswith("pocl-") or _in_calling_thread(device_name)


# Results and what they may be compared with.


@pytest.hookimpl(tryfirst=True)  # the first answer counts
def pytest_benchmark_generate_machine_info():
    return fingerprint()


def pytest_benchmark_compare_machine_info(machine_info, compared_benchmark):
    found = differences(machine_info, compared_benchmark["machine_info"])
    if found:
        raise pytest.UsageError("The stored results come from another machine or installation and are not compared:\n  "
                                + "\n  ".join(found))


def pytest_benchmark_update_json(config, output_json):
    output_json["rows"] = config.stash[ROWS]
    for entry in output_json["benchmarks"]:
        entry["stats"].pop("data", None)  # medians and quartiles are there; a file of results should stay readable


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[ROWS]
    if rows:
        terminalreporter.section("ours beside others, medians")
        for line in report.lines(rows):
            terminalreporter.write_line(line)
        goals = sum(row["goal"] is not None for row in rows)
        terminalreporter.write_line(f"\n{report.missed(rows)} of {goals} goals missed (marked !)")
    try:
        return (yield)
    except PerformanceRegression as e:
        pytest.exit(f"{e} The lines above say where.", returncode=1)


# Fixtures.


@pytest.fixture
def record(benchmark, request):
    """Return a function that takes the values of a call and its peers, in seconds, as a line of the table.

    What later runs are compared by is the call's time, or where the goal is about the difference to the first peer,
    that difference, in both cases times `scale`; with `relative` the ratio to the first peer; without `compared`
    nothing.  The other arguments are those of `measuring.row`.
    """

    def take(section, call, unit, ours, peers=None, *, goal=None, beyond=False, flops=None, scale=1.0, relative=False,
             compared=True):
        peers = peers or {}
        request.config.stash[ROWS].append(measuring.row(section, call, unit, ours, peers, goal, beyond, flops))
        first = next(iter(peers.values()), None)
        values = [value * scale for value in ours]
        if beyond:
            values = [(a - b) * scale for a, b in zip(ours, first, strict=True)]
        elif relative and first is not None:
            values = [a / b for a, b in zip(ours, first, strict=True)]
        if compared:
            measuring.replay(benchmark, values)

    return take


def rounds(config):
    """Return how many rounds there are; one where the benches are only to be seen to run."""
    return 1 if config.getoption("benchmark_disable") else config.getoption("--rounds")


@pytest.fixture
def row(record, request):
    """Return a function that measures a call and its peers in turns and makes them a line of the table."""

    def measure(section, call, ours, peers=None, *, unit="ns", each=1, **more):
        """`each`: what a call of `ours` is counted as."""
        peers = peers or {}
        *times, speed = measuring.compare([ours, *peers.values(), measuring.yardstick()], rounds(request.config))
        scale = measuring.YARDSTICK_S / statistics.median(speed) if unit == "ns" else 1.0
        record(section, call, unit, [t / each for t in times[0]], dict(zip(peers, times[1:], strict=True)), scale=scale,
               **more)

    return measure


@pytest.fixture(scope="session")
def handles():
    """Return a function from a device's name to a handle that all benches share."""
    made = {}

    def handle_of(name):
        if name not in made:
            made[name] = miopyx.Handle(name)
        return made[name]

    yield handle_of
    for handle in made.values():
        handle.destroy()


@pytest.fixture(scope="session")
def child_environment():
    """Return the environment of child processes: this one's caches, the user's devices."""
    return dict(ENVIRONMENT)


@pytest.fixture(scope="session")
def raw_library():
    try:
        return launching.raw_library()
    except launching.NotHere as e:
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def empty_kernels(handles, raw_library):
    """Return a function from a device's name to the empty kernel on its shared handle."""
    made = {}

    def kernel_of(name):
        if name not in made:
            try:
                made[name] = launching.EmptyKernel(handles(name), raw_library)
            except launching.NotHere as e:
                made[name] = e
        if isinstance(made[name], launching.NotHere):
            pytest.skip(str(made[name]))
        return made[name]

    return kernel_of
