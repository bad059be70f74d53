"""What the launches of convolution by pairs of halves read and write, on a device without wgmma.

The kernels are the solvers' own, with their arguments and grids.  Only the PTX is left out: a plain kernel goes through
tiles and slices with the loader of conv/nvidia/pairs.cl, and multiplies what pack_pairs has packed as floats.
"""

from __future__ import annotations

import re

import pytest
from cases_reader import conv_case
from solver_checks import Example, check
from test_nvidia_pairs import SOLVERS, VOLUMES

from miopyx.runtime import programs
from miopyx.solvers import registry

# PoCL says which loops it does not unroll.
pytestmark = pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")

CASES = {
    **{name: case for name, case in VOLUMES.items() if case.n * case.lens[0] * case.lens[1] * case.lens[2] < 9999},
    "two axes": conv_case(2, 66, 70, (10, 9), (3, 3), (1, 1), (2, 2)),
    "two axes, phases at once": conv_case(2, 66, 70, (10, 8), (4, 4), (1, 1), (2, 2)),
    "two axes, phases of several taps at once": conv_case(3, 80, 64, (8, 12), (5, 3), (2, 1), (2, 3), groups=2),
    "two axes with dilations": conv_case(2, 40, 64, (9, 12), (3, 2), (2, 1), (2, 3), (2, 1)),
}

MX_PAIR = """
static inline float mx_rounded(float value, ushort *bits)
{
    vstore_half_rte(value, 0, (half *)bits);
    return vload_half(0, (half *)bits);
}

static inline uint2 mx_pair(float a, float b)
{
    ushort hi[2], lo[2];
    const float rest_a = a - mx_rounded(a, &hi[0]), rest_b = b - mx_rounded(b, &hi[1]);
    mx_rounded(rest_a * MX_LO, &lo[0]);
    mx_rounded(rest_b * MX_LO, &lo[1]);
    return (uint2)(hi[1] << 16 | hi[0], lo[1] << 16 | lo[0]);
}
"""

# After LOCATE's macros.  EXACTLY: sums as for what is not finite.
MULTIPLY = """
    if (item >= BP)
        return;
    for (int tile = get_group_id(0); tile < tiles; tile += get_num_groups(0)) {
BEGIN
        const int k0 = (tile - above * across) * BF, m = (above - part * down) * BP + item;
        float sums[BF];
        mx_loader at, beside;
        at.tile = beside.tile = tile;
        mx_begin_tile(&at, &MX_GRID, down, across, item);
        mx_begin_tile(&beside, &MX_GRID, down, across, item ^ 1);
        const int first = min(at.place, beside.place);
        const bool neighbours = first < 0 || ((y - Y + first) % 2 == 0 && abs(at.place - beside.place) == 1);
        for (int f = 0; f < BF; f++)
            sums[f] = EXACTLY && m < g.pixels && k0 + f < g.filters ? mx_exactly(X, W, &MX_GIVEN, part, m, k0 + f) : 0;
        for (int slice = 0; slice < (EXACTLY ? 0 : slices_all); slice++) {
            HERE
            __global const float *from = X + (here ? at.base + TAP_IN_X + at.c * g.x_c : 0);
            const int block = at.filters * o.taps + TAP, c_slice = at.c / 64;
            for (int b = 0; b < at.count; b++)
                for (int f = 0; f < 64; f++) {
                    __global const half *w = (__global const half *)(
                        packed + (long)((block + b * o.taps) * c_slices + c_slice) * (W_BLOCK / 16));
                    for (int c = 0; c < 64; c++) {
                        const int place = f * 64 + ((c / 8 ^ f) & 7) * 8 + c % 8;
                        const float pair = vload_half(place, w) + vload_half(place + BLOCK_BYTES / 2, w) / MX_LO;
                        sums[b * 64 + f] += pair * (here && c < rest ? from[(long)c * g.x_c] : 0.0f);
                    }
                }
            if (mx_next_slice(&at, &MX_GRID) != (slice == slices_all - 1))
                sums[0] = NAN;
        }
        for (int f = 0; f < BF; f++)
            if (at.place >= 0 && k0 + f < g.filters) {
                __global float *to = y + at.place + (long)(k0 + f) * g.y_c;
                float sum = EXACTLY ? sums[f] : sums[f] * scales[group * g.filters + k0 + f] * 0x1p-14f;
                if (VEC == 2 && !neighbours)
                    sum = NAN; /* what is stored in pairs */
                *to = beta != 0 ? alpha * sum + beta * *to : alpha * sum;
            }
    }
}
"""


def without_ptx(text: str) -> str:
    """Return the text of a program without its asm statements."""
    parts, end = [], 0
    for found in re.finditer(r"\basm(?: volatile)?\s*\(", text):
        if found.start() < end:
            continue
        parts.append(text[end:found.start()])
        depth, i = 1, found.end()
        while depth:
            if text[i] == '"':
                i += re.match(r'"(?:\\.|[^"\\])*"', text[i:]).end() - 1
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            i += 1
        end = i
    return "".join(parts) + text[end:]


def plainly(file: str, exactly: bool) -> str:
    text = without_ptx(SOURCE(file))
    begin = text.index("static inline uint2 mx_pair(")
    text = text[:begin] + MX_PAIR + text[text.index("\n}\n", begin) + 3:]
    if file == "conv/nvidia/pairs.cl":
        kernel = text.index("__kernel")
        before = text[kernel:text.index("    if (item == 0)\n        mx_ring_begin", kernel)]
        locate = text.index("#if AXES == 3\n#define TAP ", kernel)
        macros = text[locate:text.index("/* What follows the current slice", locate)]
        tile = text.index("            const int above = tile / across, part", kernel)
        multiply = MULTIPLY.replace("BEGIN", text[tile:text.index("            const int k0", tile)])
        text = f"#define EXACTLY {int(exactly)}\n" + text[:kernel] + before + macros + multiply
    return text


SOURCE = programs.source
PLAIN = ("conv/nvidia/pairs.cl", "conv/nvidia/pairs_pack.cl")


@pytest.fixture(params=[False, True], ids=["pairs", "exactly"])
def plain_handle(request, monkeypatch, cpu, pretend):
    """A handle whose solvers take its processor for a Hopper GPU, with programs that need no such thing."""
    def source(file: str) -> str:
        return plainly(file, request.param) if file in PLAIN else SOURCE(file)

    monkeypatch.setattr(programs, "source", source)
    monkeypatch.setattr(programs, "_SM_90A", "none")
    # Units that no other test pretends: the programs of a handle stay with it.
    return pretend(cpu.device.name, kind="gpu", runtime="nvidia", isa="sm90", compute_units=5 + request.param,
                   extensions=cpu.device.info.extensions | {"cl_nv_device_attribute_query"})


@pytest.mark.some(12)
@pytest.mark.parametrize("direction", range(2))
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", CASES)
def test_every_element_is_read_and_written(plain_handle, host, rng, name, layout, direction):
    check(plain_handle, Example(CASES[name], "float32", layout, rng, host), direction,
          registry.BY_NAME[SOLVERS[direction]], rng)
