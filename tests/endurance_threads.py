"""Threads that share handles and plans, and threads that pull the ground from under each other's feet.

Run with the installed package, for example:

    python -P tests/endurance_threads.py stress --device host --threads 8 --calls 10000
    python -P tests/endurance_threads.py fault --device pocl --kind destroy --seconds 5

`stress` lets each thread make its calls in its own way and compares a random part of the results, element by element,
with what the host path computed before the threads began.  `fault` destroys handles, moves them to other queues and
releases buffers while other threads call: each call must give the right result or raise a MIOpenError.  Both print one
JSON object with what they counted and exit with 1 if anything was wrong.
"""

import argparse
import copy
import itertools
import json
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

import miopyx
from miopyx import BadParmError, ConvolutionDescriptor, TensorDescriptor

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from problems import DIRECTIONS, NAMES, Problem

OUTPUT = (2, 0, 1)  # which of x, w, y a direction computes
POISON = 1e30       # no result is anywhere near, and beta times it is a number
SCALARS = ((1.0, 0.0), (2.0, 0.0), (0.5, 1.0), (-1.0, 0.5), (1.0, 1.0), (0.0, 2.0))
SHAPES = (
    {"x": (2, 6, 9, 8), "k": 10, "filter": (3, 3), "pads": (1, 1)},
    {"x": (1, 5, 7, 7), "k": 6, "filter": (1, 1), "pads": (0, 0)},
    {"x": (1, 4, 11, 6), "k": 8, "filter": (3, 3), "pads": (1, 1), "strides": (2, 2), "groups": 2},
    {"x": (2, 4, 5, 6), "k": 3, "filter": (3, 2), "pads": (1, 0), "strides": (2, 1), "mode": 1},
    {"x": (1, 3, 6, 7), "k": 4, "filter": (5, 3), "pads": (2, 1), "dtype": "float64"},
)


def has_gil():
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def has_fp64(handle):
    return handle.device.is_host or handle.device.info.fp64


class Whole(Problem):
    """A convolution of small integers: sums are whole numbers, but for what solvers that transform round.

    Any wrong element shows.
    """

    def __init__(self, handle, rng, **shape):
        super().__init__(handle, rng, **shape)
        self.host = [rng.integers(-3, 4, a.shape).astype(a.dtype) for a in self.host]
        self.reset()
        self.shape, self.scratch = shape, None

    def workspace(self, size):
        """Return a buffer of this copy's own that only grows."""
        if size and (self.scratch is None or self.scratch[1] < size):
            self.scratch = self.handle.upload(np.zeros(size, np.uint8)), size
        return self.scratch[0] if size else None

    def of_a_thread(self, direction):
        """Return a copy with an output and a workspace of its own; the inputs are everybody's."""
        mine = copy.copy(self)
        mine.data, mine.scratch = list(self.data), None
        which = OUTPUT[direction]
        mine.start = {
            "poison": self.handle.upload(np.full_like(self.host[which], POISON)),
            "old": self.handle.upload(self.host[which]),
        }
        mine.data[which] = self.handle.upload(self.host[which])
        return mine

    def overwrite(self, direction, start):
        """Put poison, or the values that beta multiplies, where the result will be."""
        target = self.data[OUTPUT[direction]]
        if self.handle.device.is_host:
            target[...] = self.start[start]
        else:
            import pyopencl as cl

            cl.enqueue_copy(self.handle.queue, target, self.start[start])


class Shared:
    """What all threads use: a problem on a handle, its plans, solutions, algorithms and right results."""

    def __init__(self, handle, rng, shape):
        self.problem = Whole(handle, rng, **shape)
        self.truth = [self.problem.truth(d) for d in DIRECTIONS]
        self.found = [self.problem.find(d) for d in DIRECTIONS]
        self.problem.reset()  # Find wrote to the outputs
        self.plans = [self.problem.plan(d) for d in DIRECTIONS]
        self.solutions = [self.problem.call("GetSolution", d, 99) for d in DIRECTIONS]

    def want(self, direction, alpha, beta):
        return alpha * self.truth[direction] + beta * self.problem.host[OUTPUT[direction]]


class Worker:
    """One thread: `ways` are the kinds of call that it makes, in random order."""

    def __init__(self, shared, ways, seed, share):
        self.shared, self.ways, self.share = shared, ways, share
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.mine, self.sizes = {}, 0
        self.counts, self.failures = Counter(), []

    def run(self, calls):
        try:
            for _ in range(calls):
                shared, direction = self.random.choice(self.shared), self.random.choice(DIRECTIONS)
                way = self.random.choice(self.ways)
                if way(self, shared, direction):
                    self.counts["checked"] += 1
                self.counts[way.__name__] += 1
        except BaseException:
            self.failures.append(traceback.format_exc())

    def own(self, shared, direction):
        key = id(shared), direction
        if key not in self.mine:
            self.mine[key] = shared.problem.of_a_thread(direction)
        return self.mine[key]

    def check(self, shared, direction, call, alpha=1.0, beta=0.0, always=False):
        """Poison the output, make the call, and compare all of the result in a share of the calls."""
        mine = self.own(shared, direction)
        mine.overwrite(direction, "old" if beta else "poison")
        call(mine)
        if not always and self.random.random() > self.share:
            return False
        self.compare(mine.result(direction), shared.want(direction, alpha, beta), call, direction)
        return True

    def compare(self, got, want, call, direction):
        off = np.abs(got - want)
        wrong = int((~(off < 1e-3)).sum())
        if wrong:
            raise AssertionError(f"{getattr(call, '__name__', call)}, {NAMES[direction]}: {wrong} of {want.size} "
                                 f"elements are wrong, by up to {off.max()}")

    # Ways of calling.

    def plan(self, shared, direction):
        return self.check(shared, direction, lambda m: shared.plans[direction](*m.buffers(direction)))

    def scaled_plan(self, shared, direction):
        alpha, beta = self.random.choice(SCALARS)
        return self.check(shared, direction,
                          lambda m: shared.plans[direction](*m.buffers(direction), alpha=alpha, beta=beta), alpha, beta)

    def immediate(self, shared, direction):
        solution = self.random.choice(shared.solutions[direction])
        return self.check(shared, direction,
                          lambda m: m.immediate(direction, solution.solution_id, solution.workspace_size))

    def algorithm(self, shared, direction):
        found = self.random.choice(shared.found[direction])
        alpha, beta = self.random.choice(SCALARS)
        return self.check(shared, direction, lambda m: m.run(direction, found.algo, found.memory, alpha, beta),
                          alpha, beta)

    def new_plan(self, shared, direction):
        """Make descriptors and a plan of them, use it, and destroy or change what it was made of."""

        def call(mine):
            ours = copy.copy(mine)
            ours.x, ours.w, ours.y = (TensorDescriptor(d.dtype, d.lens) for d in (mine.x, mine.w, mine.y))
            ours.conv = ConvolutionDescriptor(mine.conv.pads, mine.conv.strides, groups=mine.conv.group_count,
                                              mode=mine.shape.get("mode", 0))
            solution = self.random.choice([None, *shared.solutions[direction]])
            plan = ours.plan(direction, solution_id=solution and solution.solution_id)
            plan(*mine.buffers(direction))
            miopyx.miopenDestroyTensorDescriptor(ours.x)
            miopyx.miopenDestroyConvolutionDescriptor(ours.conv)
            plan(*mine.buffers(direction))

        return self.check(shared, direction, call)

    def new_handle(self, shared, direction):
        """Make a handle on the same queue, use it once and destroy it."""

        def call(mine):
            queue = miopyx.miopenGetStream(mine.handle)
            ours = copy.copy(mine)
            with miopyx.Handle("host") if queue is None else miopyx.miopenCreateWithStream(queue) as ours.handle:
                ours.plan(direction)(*mine.buffers(direction))

        if self.random.random() > 0.05:  # builds its programs again, if only from the cache
            return self.plan(shared, direction)
        return self.check(shared, direction, call)

    def growing(self, shared, direction):
        """Ask for more workspace than anybody before, by a problem that nobody else has."""
        if self.random.random() > 0.02:
            return self.plan(shared, direction)
        self.sizes = self.sizes % 40 + 1
        ours = Whole(shared.problem.handle, self.rng, x=(1, 3, 8 + self.sizes, 9), k=4)
        greedy = max(ours.call("GetSolution", direction, 99), key=lambda s: s.workspace_size)
        plan = ours.plan(direction, solution_id=greedy.solution_id)
        ours.poison(direction)
        plan(*ours.buffers(direction))
        self.compare(ours.result(direction), ours.truth(direction), "growing", direction)
        return True

    def arrays(self, shared, direction):
        """Hand over NumPy arrays, in place where the device works in the host's memory."""
        if not shared.problem.handle.device.is_host and not shared.problem.handle.device.shares_memory:
            return self.plan(shared, direction)
        mine = self.own(shared, direction)
        ours = copy.copy(mine)
        ours.data = list(mine.host)
        ours.data[OUTPUT[direction]] = out = np.full_like(mine.host[OUTPUT[direction]], POISON)
        shared.plans[direction](*ours.buffers(direction))
        self.compare(out, shared.want(direction, 1.0, 0.0), "arrays", direction)
        return True

    def queries(self, shared, direction):
        """Everything that only asks must answer as it did before the threads began."""
        problem, first = shared.problem, shared.solutions[direction][0]
        assert problem.call("GetSolutionCount", direction) == len(shared.solutions[direction])
        size = problem.call("GetSolutionWorkspaceSize", direction, first.solution_id)
        assert size == first.workspace_size
        problem.call("CompileSolution", direction, first.solution_id)
        assert shared.plans[direction].workspace >= 0
        return self.plan(shared, direction)

    def control(self, shared, direction):
        """Now and then switch profiling or search; else call."""
        chance, handle = self.random.random(), shared.problem.handle
        if chance < 0.02:
            miopyx.miopenEnableProfiling(handle, self.random.random() < 0.3)
            miopyx.miopenGetKernelTime(handle)
        elif chance < 0.023:
            self.sizes = self.sizes % 12 + 1
            ours = Whole(handle, self.rng, x=(1, 4, 6, 7 + self.sizes), k=5)
            ours.conv = ConvolutionDescriptor((1, 1))
            miopyx.miopenSetConvolutionFindMode(ours.conv, 1)
            assert ours.find(direction)
            self.counts["finds"] += 1
        return self.scaled_plan(shared, direction)


ROLES = (
    (Worker.plan,),
    (Worker.scaled_plan,),
    (Worker.immediate, Worker.plan),
    (Worker.algorithm, Worker.plan),
    (Worker.new_plan, Worker.new_handle, Worker.growing),
    (Worker.arrays, Worker.plan),
    (Worker.queries, Worker.immediate),
    (Worker.control,),
)


def run_threads(functions):
    """Run the functions in threads that switch as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        ready = threading.Barrier(len(functions))

        def start(function):
            ready.wait()
            function()

        threads = [threading.Thread(target=start, args=(function,)) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def stress(device, threads=8, calls=10_000, seed=None, share=0.25, handles=2):
    """Let `threads` threads make `calls` calls each on shared handles of a device."""
    seed = random.randrange(2**32) if seed is None else seed
    rng = np.random.default_rng(seed)
    made = [miopyx.Handle(device) for _ in range(handles)]
    shared = [Shared(handle, rng, shape) for handle in made for shape in SHAPES
              if shape.get("dtype") != "float64" or has_fp64(handle)]
    workers = [Worker(shared, ROLES[i % len(ROLES)], seed + i, share) for i in range(threads)]
    begin = time.perf_counter()
    run_threads([partial(worker.run, calls) for worker in workers])
    seconds = time.perf_counter() - begin
    for handle in made:
        handle.destroy()
    counts = sum((worker.counts for worker in workers), Counter())
    checked, finds = counts.pop("checked", 0), counts.pop("finds", 0)
    return {
        "device": made[0].device.name, "seed": seed, "threads": threads, "calls": counts.total(), "checked": checked,
        "finds": finds, "seconds": round(seconds, 2), "ways": dict(counts),
        "failures": [failure for worker in workers for failure in worker.failures],
    }


# Faults


class Faulty:
    """Callers of one shared problem and somebody who disturbs them."""

    def __init__(self, device, seed):
        self.device, self.rng, self.stop = device, np.random.default_rng(seed), threading.Event()
        self.counts, self.failures, self.lock = Counter(), [], threading.Lock()

    def guarded(self, function, allowed):
        """Run a function until told to stop; of errors only those that the fault explains may come out of a turn."""

        def run():
            while not self.stop.is_set():
                try:
                    outcome = function()
                except BaseException as e:
                    outcome = f"{type(e).__name__}: {e}".split(" [")[0]
                    if not (isinstance(e, BadParmError) and allowed and allowed in str(e)):
                        self.failures.append(traceback.format_exc())
                        self.stop.set()
                with self.lock:
                    self.counts[outcome] += 1

        return run

    def problem(self, handle, profiling=False):
        """A problem and its plan of the solver with the most steps that there is: workspace, several kernels."""
        problem = Whole(handle, self.rng, x=(3, 4, 9, 8), k=5, filter=(3, 3), pads=(1, 1))
        greedy = max(problem.call("GetSolution", 0, 99), key=lambda s: s.workspace_size)
        plan = problem.plan(0, solution_id=greedy.solution_id)
        if profiling:
            miopyx.miopenEnableProfiling(handle, True)  # calls wait, without the GIL, between their kernels
        return problem, plan, problem.truth(0)

    @staticmethod
    def right(got, want):
        wrong = int((~(np.abs(got - want) < 1e-3)).sum())
        assert not wrong, f"{wrong} of {want.size} elements are wrong"
        return "right"

    def destroy(self):
        """Handles are destroyed while other threads call their plans."""
        place = [None]

        def renew():
            old, queue = place[0], None if place[0] is None else miopyx.miopenGetStream(place[0][0])
            handle = miopyx.Handle(self.device) if queue is None else miopyx.miopenCreateWithStream(queue)
            place[0] = (handle, *self.problem(handle, profiling=True))
            if old is not None:
                miopyx.miopenDestroy(old[0])
            return "destroyed"

        def call():
            _, problem, plan, want = place[0]
            mine = problem.of_a_thread(0)
            mine.overwrite(0, "poison")
            plan(*mine.buffers(0))
            return self.right(mine.result(0), want)

        renew()
        return [renew, call, call, call]

    def stream(self):
        """A handle is moved to another queue of its context while other threads call its plans."""
        handle = miopyx.Handle(self.device)
        problem, plan, want = self.problem(handle, profiling=True)
        import pyopencl as cl

        context, device = handle.queue.context, handle.queue.device

        def move():
            for _ in range(20):
                queue = cl.CommandQueue(context, device, properties=cl.command_queue_properties.PROFILING_ENABLE)
                miopyx.miopenSetStream(handle, queue)
            call()
            return "moved"

        def call():  # NumPy arrays: the call itself waits, whatever queue it went to
            out = np.full_like(problem.host[2], POISON)
            plan(problem.host[0], problem.host[1], out)
            return self.right(out, want)

        return [move, call, call, call]

    def release(self):
        """Buffers are released while other threads pass them; a first call saw each of them alive."""
        handle = miopyx.Handle(self.device)
        problem, plan, want = self.problem(handle)
        place = []

        def renew():
            new = handle.upload(problem.host[0])
            call(new)
            place.append(new)
            if len(place) > 1:
                place.pop(0).release()
            return "released"

        def call(x=None):
            mine = problem.of_a_thread(0)
            mine.overwrite(0, "poison")
            mine.data[0] = random.choice(place.copy()) if x is None else x
            plan(*mine.buffers(0))
            return self.right(mine.result(0), want)

        renew()
        return [renew, call, call, call]

    def repoint(self):
        """A pyopencl Array gets another buffer while other threads pass it."""
        import pyopencl.array as cl_array

        handle = miopyx.Handle(self.device)
        problem, plan, want = self.problem(handle, profiling=True)
        array = cl_array.to_device(handle.queue, problem.host[0])

        def renew():
            array.base_data = handle.upload(problem.host[0])
            call()
            return "swapped"

        def call():
            mine = problem.of_a_thread(0)
            mine.overwrite(0, "poison")
            mine.data[0] = array
            plan(*mine.buffers(0))
            return self.right(mine.result(0), want)

        return [renew, call, call, call]

    def descriptors(self):
        """Descriptors are set to something else and back while other threads hand them over."""
        handle = miopyx.Handle(self.device)
        problem, _, want = self.problem(handle)
        best = problem.call("GetSolution", 0, 1)[0]
        n, c, h, w = problem.x.lens

        def change():
            miopyx.miopenSet4dTensorDescriptor(problem.x, "float32", n, c, h, w + 1)
            miopyx.miopenSet4dTensorDescriptor(problem.x, "float32", n, c, h, w)
            return "changed"

        def call():
            mine = problem.of_a_thread(0)
            mine.overwrite(0, "poison")
            mine.immediate(0, best.solution_id, best.workspace_size)
            return self.right(mine.result(0), want)

        return [change, call, call, call]

    def problems(self):
        """One handle is asked for problems that it never met."""
        handle, numbers = miopyx.Handle(self.device), itertools.count()
        w, conv = TensorDescriptor("float32", (4, 3, 3, 3)), ConvolutionDescriptor()

        def ask():
            n = next(numbers) % 4096  # some twice, by several threads
            desc = TensorDescriptor("float32", (n // 64 + 1, n % 64 + 1))
            out = handle.empty(desc)
            miopyx.miopenSetTensor(handle, desc, out, float(n))
            x = TensorDescriptor("float32", (1, 3, n % 64 + 3, n // 64 + 3))
            y = TensorDescriptor("float32", conv.output_lens(x, w))
            assert miopyx.miopenConvolutionForwardGetSolutionCount(handle, w, x, conv, y) > 0
            return self.right(handle.download(out), np.full(desc.lens, n, np.float32))

        return [ask] * 8

    def settings(self):
        """Descriptors are set while other threads read them: all that is read at once was set at once."""
        tensor, conv, pool = TensorDescriptor(), ConvolutionDescriptor(), miopyx.PoolingDescriptor()
        steps = miopyx.SeqTensorDescriptor()

        def first():
            miopyx.miopenSetTensorDescriptor(tensor, "float32", 4, (2, 3, 4, 5), None)
            miopyx.miopenInitConvolutionNdDescriptor(conv, 2, (1, 2), (3, 4), (5, 6), 0)
            miopyx.miopenSetNdPoolingDescriptor(pool, 0, 2, (2, 3), (1, 1), (4, 5))
            miopyx.miopenSetRNNDataSeqTensorDescriptor(steps, "float32", 2, 4, 3, 7, (4, 1, 2), None)

        def second():
            miopyx.miopenSetTensorDescriptor(tensor, "float16", 2, (70, 80), (100, 1))
            miopyx.miopenInitConvolutionNdDescriptor(conv, 3, (7, 8, 9), (2, 2, 2), (1, 1, 1), 1)
            miopyx.miopenSetNdPoolingDescriptor(pool, 1, 3, (9, 8, 7), (3, 3, 3), (6, 6, 6))
            miopyx.miopenSetRNNDataSeqTensorDescriptor(steps, "float16", 3, 9, 2, 5, (9, 8), None)

        readers = [partial(miopyx.miopenGetTensorDescriptor, tensor), partial(repr, tensor), partial(hash, tensor),
                   partial(repr, conv), lambda: miopyx.miopenGetConvolutionNdDescriptor(conv, 2)[1:],
                   partial(repr, pool), partial(hash, pool), lambda: tensor.lens, lambda: conv.dilations,
                   partial(repr, steps), lambda: miopyx.miopenGetRNNDataSeqTensorDescriptor(steps, None)[2:]]
        known = []
        for setter in (first, second):
            setter()
            known.append([reader() for reader in readers])

        def change():
            for _ in range(50):
                first()
                second()
            return "changed"

        def read():
            for _ in range(50):
                for reader, *settings in zip(readers, *known, strict=True):
                    value = reader()
                    assert value in settings, (value, settings)
            return "right"

        return [change, change, *[read] * 6]

    def records(self):
        """A file of records is replaced while other threads look records up."""
        from miopyx.database._system_file import RecordFile

        folder = Path(tempfile.mkdtemp(dir=os.environ["MIOPEN_USER_DB_PATH"]))
        path, numbers = folder / "system.txt", itertools.count()

        def replace():
            n = next(numbers)
            text = "".join([f"key{i}=algo:{n},{i}{'0' * (n % 50)}\n" for i in range(200)])
            (folder / "new").write_text(text)
            os.replace(folder / "new", path)
            time.sleep(0.002)
            return "replaced"

        replace()
        file = RecordFile(path, folder / "cache")

        def look():
            for i in range(200):
                items = file.get(f"key{i}".encode())
                assert items is not None
                head, _, rest = items.decode().partition(",")
                assert (head[:5], rest) == ("algo:", f"{i}{'0' * (int(head[5:]) % 50)}"), items
            assert len(file) == 200
            return "right"

        return [replace, *[look] * 7]

    def functions(self):
        """Operations on arrays of ever other shapes, and on the same in several threads."""
        numbers = itertools.count()

        def call():
            n = next(numbers) % 2048
            x = np.arange(-n, 96 - n, dtype=np.float32).reshape(1, 2, 6, 8)[..., :n % 7 + 2, :n % 5 + 3]
            assert np.array_equal(miopyx.relu(x), np.maximum(x, 0))
            wide = np.zeros((1, 1, n // 32 + 1, n % 32 + 1), np.float32)
            got = miopyx.softmax(wide, -1)
            return self.right(got, np.full_like(wide, 1 / wide.shape[-1]))

        return [call] * 8

    def programs(self):
        """Handles are made, prepare the same few problems, and go."""

        def call():
            with miopyx.Handle(self.device) as handle:
                problem = Whole(handle, np.random.default_rng(1), x=(1, 2, 4, 4), k=3)
                problem.plan(0)(*problem.buffers(0))
                return self.right(problem.result(0), problem.truth(0))

        return [call] * 4

    def torch(self):
        """PyTorch's convolutions and their gradients, of ever other shapes, by our kernels."""
        import torch
        from torch.nn import functional

        import miopyx.torch
        from miopyx.torch import choice

        choice.recall = lambda info, key: None
        choice.measure = lambda info, key, *how: choice.Times(1.0, 2.0, "said")  # ours are faster
        miopyx.torch.enable()
        torch.set_num_threads(1)
        numbers = itertools.count()

        def call():
            n = next(numbers) % 2048
            x = (torch.arange(2 * 3 * (n % 7 + 3) * (n // 7 % 9 + 3)) % 5 - 2.0).reshape(2, 3, n % 7 + 3, -1)
            w = (torch.arange(4 * 27) % 3 - 1.0).reshape(4, 3, 3, 3).requires_grad_()
            y = functional.conv2d(x, w, padding=1)
            y.sum().backward()
            taps = functional.unfold(x, 3, padding=1)  # whole numbers: products of them are exact
            assert torch.equal(y.detach().flatten(2), w.detach().flatten(1) @ taps)
            return self.right(w.grad.flatten(1).numpy(), taps.sum((0, 2)).expand(4, -1).numpy())

        return [call] * 8


# What the callers may be told meanwhile.
KINDS = {
    "destroy": "handle was destroyed", "stream": None, "release": "buffer was released", "repoint": None,
    "descriptors": "lengths are not those of the convolution's output", "problems": None, "settings": None,
    "records": None, "functions": None, "programs": None, "torch": None,
}


def fault(device, kind, seconds=5.0, seed=None):
    """Disturb callers for some seconds; the process survives, and what comes out is right or an error."""
    seed = random.randrange(2**32) if seed is None else seed
    faulty = Faulty(device, seed)
    threads = [faulty.guarded(function, KINDS[kind]) for function in getattr(faulty, kind)()]
    timer = threading.Timer(seconds, faulty.stop.set)
    timer.start()
    run_threads(threads)
    timer.cancel()
    timer.join()
    return {"device": device, "kind": kind, "seed": seed, "outcomes": dict(faulty.counts),
            "failures": faulty.failures}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    one = modes.add_parser("stress")
    one.add_argument("--threads", type=int, default=8)
    one.add_argument("--calls", type=int, default=10_000, help="of each thread")
    one.add_argument("--share", type=float, default=0.25, help="of the calls that are checked")
    two = modes.add_parser("fault")
    two.add_argument("--kind", choices=tuple(KINDS), required=True)
    two.add_argument("--seconds", type=float, default=5.0)
    for mode in (one, two):
        mode.add_argument("--device", default="host")
        mode.add_argument("--seed", type=int)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MIOPEN_USER_DB_PATH"] = folder  # searches must not write to the user's databases
        if options.mode == "stress":
            result = stress(options.device, options.threads, options.calls, options.seed, options.share)
        else:
            result = fault(options.device, options.kind, options.seconds, options.seed)
    failures = result.pop("failures")
    if os.environ.get("PYTHON_GIL") == "0" and has_gil():
        failures.append("PYTHON_GIL=0, and yet there is a GIL")
    if options.mode == "fault" and not result["outcomes"].get("right"):
        failures.append("nothing came out right")
    print(json.dumps({**result, "gil": has_gil(), "failed": len(failures)}))
    for failure in failures[:3]:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
