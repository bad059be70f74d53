"""A solver that was added: one class, one kernel file, one line of the registry, and everything else follows."""

import pytest
from problems import Problem, applicable, refusals

import miopyx
from miopyx import Solver
from miopyx._core import Arg, KernelSpec, Solution, Step
from miopyx.choose import switches
from miopyx.database import store
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import programs
from miopyx.solvers import registry

X, W, Y = 0, 1, 2
FLOAT = 1  # miopenFloat
DIRECT = 1

# One work-item an output element, whatever the strides.
KERNEL = """
#include "include/common.h"

__kernel void one_by_one(__global const float *x, long x0, __global const float *w, long w0, __global float *y, long y0,
                         const mx_conv_problem p, const float alpha, const float beta)
{
    long at[5], rest = get_global_id(0), to = y0;
    for (int axis = 4; axis >= 0; axis--) {
        at[axis] = rest % p.y.len[axis];
        rest /= p.y.len[axis];
        to += at[axis] * p.y.stride[axis];
    }
    float sum = 0;
    for (long c = 0; c < p.w.len[1]; c++) {
        long from = x0 + at[0] * p.x.stride[0] + c * p.x.stride[1];
        for (int axis = 2; axis < 5; axis++)
            from += at[axis] * p.x.stride[axis];
        sum += x[from] * w[w0 + at[1] * p.w.stride[0] + c * p.w.stride[1]];
    }
    y[to] = alpha * sum + (beta == 0 ? 0 : beta * y[to]);
}
"""


class OneByOne(Solver):
    """Forward 1x1 convolutions of one group."""

    def __init__(self):
        super().__init__(id=9200, name="ToyOneByOne", algorithm=DIRECT, dynamic=True, deterministic=True)

    def why_not(self, dev, problem):
        f = problem.features
        if dev.is_host:
            return "runs on OpenCL devices only"
        if f["direction"] != 0:
            return "another direction"
        if f["x_type"] != FLOAT:
            return "data type"
        plain = {name: f[name] == least for least, names in ((1, "z r s stride_d stride_h stride_w groups"),
                                                             (0, "pad_d pad_h pad_w")) for name in names.split()}
        return None if all(plain.values()) else "not a plain 1x1 convolution"

    def wti(self, dev, problem):
        return 2.0  # ranks first

    def solution(self, dev, problem, config=None):
        args = [*(Arg.slot_of(slot, 4) for slot in (X, W, Y)), Arg.value_of(problem.key), Arg.alpha(False),
                Arg.beta(False)]
        f = problem.features
        return Solution([Step(KernelSpec("conv/toy.cl", "one_by_one"), args,
                              (f["n"] * f["k"] * f["do"] * f["ho"] * f["wo"],))])


@pytest.fixture
def toy(monkeypatch):
    """The registry with one line more, and the kernel file."""
    mine, source = OneByOne(), programs.source
    text = KERNEL.replace('#include "include/common.h"', source("include/common.h"))
    monkeypatch.setattr(programs, "source", lambda file: text if file == "conv/toy.cl" else source(file))
    monkeypatch.setattr(registry, "CONV", (*registry.CONV, mine))
    monkeypatch.setitem(registry.BY_ID, mine.id, mine)  # made of CONV when the registry is imported
    monkeypatch.setitem(registry.BY_NAME, mine.name, mine)
    return mine


def pointwise(handle, rng, k=6):
    return Problem(handle, rng, x=(2, 5, 4, 3), k=k, filter=(1, 1), pads=(0, 0))


def struct_of(problem, direction=0):
    return ConvProblem(direction, problem.x, problem.w, problem.y, problem.conv)


def test_it_is_ranked_planned_and_run(toy, opencl_name, user_folder, rng):
    with miopyx.Handle(opencl_name) as handle:
        problem = pointwise(handle, rng)
        plan = problem.plan(0)
        assert plan.solver is toy
        assert "9200/ToyOneByOne (chosen by" in plan.explain()
        assert "one_by_one" in plan.explain()
        problem.poison(0)
        plan(*problem.buffers(0))
        problem.close(0)
        solutions = problem.call("GetSolution", 0, 99)
        assert (solutions[0].solution_id, solutions[0].algorithm.name) == (toy.id, "miopenConvolutionAlgoDirect")
        problem.poison(0)
        problem.immediate(0, toy.id, 0)
        problem.close(0)
        assert (miopyx.solver_name(toy.id), miopyx.solver_id(toy.name)) == (toy.name, toy.id)


def test_it_is_timed_kept_and_known(toy, opencl_name, user_folder, rng, setting):
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=toy.name)
    with miopyx.Handle(opencl_name) as handle:
        problem = pointwise(handle, rng, k=7)
        (found,) = problem.find(0)
        assert found.fwd_algo.name == "miopenConvolutionFwdAlgoDirect"
        problem.poison(0)
        problem.run(0, found.fwd_algo, found.memory)
        problem.close(0)
        assert [c.solver for c in handle.found[struct_of(problem).key].candidates] == [toy]


def test_its_record_is_read_back(toy, opencl_name, user_folder, rng):
    with miopyx.Handle(opencl_name) as handle:
        problem = pointwise(handle, rng, k=8)
        problem.find(0)
        record, source = store.of(handle.device.info).find(struct_of(problem))
        assert source == "user"
        (time,) = (item.time for item in record.items if item.solver == toy.name)
    with miopyx.Handle(opencl_name) as other:
        again = pointwise(other, rng, k=8)
        times = {s.solution_id: s.time for s in again.call("GetSolution", 0, 99)}
        assert times[toy.id] == pytest.approx(time, rel=1e-5)


def test_it_is_refused_and_switched_off(toy, handle, rng, setting):
    problem = pointwise(handle, rng)
    assert (toy in applicable(handle, struct_of(problem))) != handle.device.is_host
    why = {r.solver: r.why for r in refusals(handle, struct_of(problem, 1))}
    assert why[toy] == ("runs on OpenCL devices only" if handle.device.is_host else "another direction")
    setting(MIOPEN_DEBUG_CONV_DIRECT="0")
    assert switches.why_off(toy) == "switched off by MIOPEN_DEBUG_CONV_DIRECT"
    assert toy not in applicable(handle, struct_of(problem))
