"""A small convolution with data, and each direction's functions called alike, for tests of the API."""

from __future__ import annotations

import os

import numpy as np
from solver_checks import OUTPUT, arguments, plan

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.choose import _costs
from miopyx.choose._survey import Survey
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

DIRECTIONS = (0, 1, 2)
NAMES = ("Forward", "BackwardData", "BackwardWeights")


def resident():
    """Bytes of memory of this process, 0 where nobody says."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def applicable(handle, problem):
    """The solvers that can run a convolution, in registry order."""
    return [offer.solver for offer in Survey(handle, problem).applicable()]


def refusals(handle, problem):
    """All other solvers, with their reasons."""
    return Survey(handle, problem).refusals()


def write_costs(folder, info):
    """Write a cost table for a device, by which every second solver of a direction takes too long to be timed."""
    usual = [[s for s in registry.CONV if s.direction == d and not s.last_resort] for d in DIRECTIONS]
    _costs.write(folder / _costs.file_names(info)[-1], "made up", [
        _costs.Line(s.name, _costs.ANY_BITS, 0.1, 9, {s.cost_names[0]: 1e5 if i % 2 else 1.0})
        for solvers in usual for i, s in enumerate(solvers)])


def timed_solvers(handle, problem):
    """The solvers that a whole search times: all but last resorts, and by a table of `write_costs` half of those."""
    able = applicable(handle, problem)
    usual = [s for s in able if not s.last_resort]
    table = _costs.of(handle.device)
    if table is not None:
        assert table.about == "made up", "the test needs a table of its own"
        usual = [s for s in usual if table.predict(s.offer(handle.device, problem)) < 1e4] or usual
    return usual or able


class Problem:
    """x, w and y of one convolution on a handle; `direction` 0 forward, 1 backward data, 2 backward weights."""

    def __init__(self, handle, rng, x=(2, 6, 9, 8), k=10, filter=(3, 3), pads=(1, 1), strides=(1, 1), groups=1,
                 mode=0, dtype="float32"):
        self.handle = handle
        self.conv = ConvolutionDescriptor(pads, strides, groups=groups, mode=mode)
        self.x = TensorDescriptor(dtype, x)
        self.w = TensorDescriptor(dtype, (x[1], k // groups, *filter) if mode else (k, x[1] // groups, *filter))
        self.y = TensorDescriptor(dtype, self.conv.output_lens(self.x, self.w))
        self.host = [rng.standard_normal(d.lens).astype(dtype) for d in (self.x, self.w, self.y)]
        self.reset()

    def reset(self):
        self.data = [self.handle.upload(a) for a in self.host]

    def result(self, direction):
        """The tensor that a direction computes, fetched."""
        which = OUTPUT[direction]
        return self.handle.download(self.data[which], np.empty_like(self.host[which]))

    def poison(self, direction):
        which = OUTPUT[direction]
        self.data[which] = self.handle.upload(np.full_like(self.host[which], np.nan))

    def truth(self, direction):
        """The same by the host path in float64."""
        with miopyx.Handle("host") as host:
            wide = [TensorDescriptor("float64", d.lens) for d in (self.x, self.w, self.y)]
            out = np.full(wide[OUTPUT[direction]].lens, np.nan)
            plan(host, direction, wide, self.conv)(
                *arguments(direction, [a.astype(np.float64) for a in self.host], out))
        return out

    def close(self, direction, alpha=1.0, beta=0.0):
        want = alpha * self.truth(direction) + beta * self.host[OUTPUT[direction]]
        np.testing.assert_allclose(self.result(direction), want, rtol=1e-5, atol=1e-4)

    def descriptors(self, direction):
        """As the query functions take them."""
        return ((self.w, self.x, self.conv, self.y), (self.y, self.w, self.conv, self.x),
                (self.y, self.x, self.conv, self.w))[direction]

    def pairs(self, direction):
        """Descriptor and buffer in turn, as Find takes them."""
        x, w, y = self.data
        return ((self.x, x, self.w, w, self.conv, self.y, y), (self.y, y, self.w, w, self.conv, self.x, x),
                (self.y, y, self.x, x, self.conv, self.w, w))[direction]

    def struct(self, direction):
        return ConvProblem(direction, self.x, self.w, self.y, self.conv)

    def call(self, name, direction, *rest):
        """miopenConvolution<direction><name>(handle, descriptors, ...)."""
        function = getattr(miopyx, f"miopenConvolution{NAMES[direction]}{name}")
        return function(self.handle, *self.descriptors(direction), *rest)

    def workspace(self, size):
        return self.handle.upload(np.zeros(size, np.uint8)) if size else None

    def find(self, direction, size=None, count=5):
        size = self.call("GetWorkSpaceSize", direction) if size is None else size
        function = getattr(miopyx, f"miopenFindConvolution{NAMES[direction]}Algorithm")
        return function(self.handle, *self.pairs(direction), count, self.workspace(size), size, False)

    def run(self, direction, algo, size, alpha=1.0, beta=0.0):
        a, b, c, d, conv, e, f = self.pairs(direction)
        function = getattr(miopyx, f"miopenConvolution{NAMES[direction]}")
        function(self.handle, alpha, a, b, c, d, conv, algo, beta, e, f, self.workspace(size), size)

    def immediate(self, direction, solution_id, size):
        a, b, c, d, conv, e, f = self.pairs(direction)
        if direction == 0:
            a, b, c, d = c, d, a, b  # w before x
        function = getattr(miopyx, f"miopenConvolution{NAMES[direction]}Immediate")
        function(self.handle, a, b, c, d, conv, e, f, self.workspace(size), size, solution_id)

    def plan(self, direction, **options):
        return plan(self.handle, direction, (self.x, self.w, self.y), self.conv, **options)

    def buffers(self, direction):
        return arguments(direction, self.data, self.data[OUTPUT[direction]])
