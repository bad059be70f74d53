"""int8 convolutions forward to each of their output types, by every solver that takes them; sums are exact."""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import conv_cases
from guarded import Tensor, strides_of
from solver_checks import plan

from miopyx import TensorDescriptor
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry


@pytest.mark.some(2, host=6)
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("out", ["int32", "float32", "int8"])
def test_every_output_type(handle, host, rng, out, layout):
    for case in conv_cases("smoke"):
        if case.transposed:
            continue
        conv, lens = case.conv(), case.all_lens
        desc = [TensorDescriptor(t, s, strides_of(s, layout)) for t, s in zip(("int8", "int8", out), lens, strict=True)]
        x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in lens[:2])
        want = np.empty(lens[2])
        plan(host, 0, [TensorDescriptor("float64", s) for s in lens], conv)(
            x.astype(np.float64), w.astype(np.float64), want)
        assert np.abs(want).max() < 2**24  # float32 holds each
        able = [s for s in registry.CONV if s.why_not(handle.device, ConvProblem(0, *desc, conv)) is None]
        assert able
        for solver in able:
            tensors = [Tensor(handle, d, v) for d, v in zip(desc, (x, w, None), strict=True)]
            plan(handle, 0, desc, conv, solver.id)(*[t.argument() for t in tensors])
            handle.finish()
            got = want.astype(np.int64).astype(out).astype(np.float64)
            np.testing.assert_array_equal(tensors[2].values(), got, f"{solver.name}: {case.text}")
