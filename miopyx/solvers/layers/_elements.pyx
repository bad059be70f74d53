"""Operations on elements: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport (
    SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, is_streamed, struct_arg,
)
from miopyx.host._elements cimport host_elements
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._elements cimport (
    ADAM_ADAMW, ADAM_AMSGRAD, ADAM_CORRECT, ADAM_FOUND, ADAM_MAXIMIZE, ADAM_P16, ADAM_SCALE, ADAM_STEP, ADAM_STEP_OUT,
    OPERANDS, REDUCE_MEAN, TERM, ElementsProblem, operand_t, operands_of, sum_of,
)
from miopyx.problem._grid cimport join_axes
from miopyx.problem._slots cimport elements_of, given
from miopyx.values._types cimport (
    MX_ADAM, MX_ADAM_TRANSFORMERS, MX_DOUBLE, MX_GLU, MX_ROPE, MX_ROPE_BACKWARD, mx_bias_problem, mx_slots_problem,
    mx_tensor,
)
from ._bias cimport sum_steps
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div
from ._tensor_ops cimport ALL_TOKENS

cdef extern from "layers/elements_args.h":
    ctypedef struct mx_elements_walk:
        int64_t len[5]
        int64_t stride[10][5]
        int64_t lines, pieces, piece

cdef enum:
    GROUPS = 4             # of a CPU, for each core: they need not end at the same time
    GROUP_BYTES = 1 << 15  # less is not worth another one
    PIECE = 1024           # elements of a piece of a row, at least
    TEAM = 256             # work-items of a group of a GPU

# How an operand lies along rows, as layers/elements.h says.
cdef enum:
    STILL = 0
    DENSE = 1
    FIRST = 2
    SECOND = 3
    STRIDED = 4


cdef class HostElements(HostLayer):
    """Every operation on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1276, "HostElements", host_elements


cdef int _fill_kinds(int* kinds, const mx_elements_walk* w, const operand_t* operands, int count, int inputs,
                     bint pairs) noexcept:
    """How operands lie along rows; with `pairs` each two of them have one tensor's elements of even and odd places."""
    cdef int64_t step
    cdef int k
    for k in range(count):
        step = w.stride[k][4]
        if w.len[4] == 1 or step == 0:
            kinds[k] = STILL if k < inputs else STRIDED
        elif pairs and step == 2 and operands[k | 1].offset == 1:
            kinds[k] = SECOND if k & 1 else FIRST
        else:
            kinds[k] = DENSE if step == 1 else STRIDED
    return 0


cdef class OpenCLElements(OpenCLLayer):
    """Every operation on OpenCL devices: one launch, one for Adam's counter, and those that sum terms."""

    def __cinit__(self):
        self.id, self.name = 1275, "OpenCLElements"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_slots_problem* p = &(<ElementsProblem> problem).c
        cdef operand_t operands[OPERANDS]
        cdef const mx_tensor* tensors[OPERANDS]
        cdef mx_elements_walk w
        cdef mx_bias_problem sum
        cdef int k, inputs, count = operands_of(p, operands, &inputs), to = sum_of(p, &sum), slot
        cdef bint wide = problem.tensor[problem.output].type == MX_DOUBLE, rope, adam
        cdef int64_t elements, touched = 0, groups, local = 1, vec, width, terms = 0, needed
        cdef int kinds[OPERANDS]
        cdef dict defines
        cdef list args, steps
        rope = p.what == MX_ROPE or p.what == MX_ROPE_BACKWARD
        adam = p.what == MX_ADAM or p.what == MX_ADAM_TRANSFORMERS
        memset(&w, 0, sizeof(w))
        for k in range(count):
            tensors[k] = &operands[k].t
        join_axes(w.len, &w.stride[0][0], tensors, count)
        w.lines, w.pieces, w.piece = w.len[0] * w.len[1] * w.len[2] * w.len[3], 1, w.len[4]
        elements = elements_of(&operands[0].t)
        defines = {"WHAT": p.what - MX_GLU, "INPUTS": inputs, "COUNT": count, "ACC": "double" if wide else "float",
                   "SCALAR": "double" if wide else "float"}
        for k in range(count):
            touched += elements_of(&operands[k].t) * type_size(<int> operands[k].t.type)
            defines[f"T{k}"] = TOKENS[operands[k].t.type]
        _fill_kinds(kinds, &w, operands, count, inputs, rope)
        if to != TERM:
            terms = ceil_div(elements * (8 if wide else 4), 64) * 64
        if dev.is_cpu:
            file = "layers/elements_cpu.cl"
            vec = 8 if wide or rope else 16
            groups = max(1, min(touched // GROUP_BYTES, GROUPS * dev.compute_units, elements))
            if w.lines < 4 * groups:
                w.piece = max(<int64_t> PIECE, ceil_div(w.len[4] * w.lines, 4 * groups * 64) * 64)
                w.pieces = ceil_div(w.len[4], w.piece)
            groups = min(groups, w.lines * w.pieces)
            defines.update(VEC=vec, STREAM=int(is_streamed(dev, touched)))
        else:
            file, local = "layers/elements_gpu.cl", min(<int64_t> TEAM, dev.max_work_group)
            vec = _vector(&w, operands, kinds, count, wide)
            groups = ceil_div(elements // vec, local)
            defines.update(VEC=vec, LOCAL=local, INDEX="int" if elements < 1 << 30 else "long")
        args = []
        for k in range(count):
            defines[f"KIND{k}"] = kinds[k]
            width = type_size(<int> operands[k].t.type)
            args.append(Arg.slot_of(SLOT_WORKSPACE if operands[k].slot == TERM else operands[k].slot, width,
                                    operands[k].offset * width))
        args.append(struct_arg(&w, sizeof(w)))
        steps = []
        if adam:
            defines.update(AMSGRAD=int(p.flags & ADAM_AMSGRAD != 0), MAXIMIZE=int(p.flags & ADAM_MAXIMIZE != 0),
                           ADAMW=int(p.flags & ADAM_ADAMW != 0), CORRECT=int(p.flags & ADAM_CORRECT != 0),
                           HALVED=int(given(p, ADAM_P16)))
            for slot, name in ((ADAM_SCALE, "SCALE_TYPE"), (ADAM_FOUND, "FOUND_TYPE"), (ADAM_STEP, "STEP_TYPE")):
                if given(p, slot):
                    defines[name] = ALL_TOKENS[p.t[slot].type]
                    args.append(Arg.slot_of(slot, type_size(<int> p.t[slot].type)))
            args += [Arg.scalar_of(k, wide) for k in range(7)]
        else:
            args.append(Arg.real(1.0 / elements if p.number[0] == REDUCE_MEAN and to == TERM else 1, wide))
        if elements != 0:
            steps.append(Step(KernelSpec(file, "elements", **defines), args, (groups * local,), (local,)))
        if adam and given(p, ADAM_STEP):
            width = type_size(<int> p.t[<int> ADAM_STEP].type)
            args = [Arg.slot_of(ADAM_STEP, width),
                    Arg.slot_of(ADAM_STEP_OUT if given(p, ADAM_STEP_OUT) else ADAM_STEP, width)]
            if given(p, ADAM_FOUND):
                args.append(Arg.slot_of(ADAM_FOUND, type_size(<int> p.t[<int> ADAM_FOUND].type)))
            steps.append(Step(KernelSpec(file, "elements_step", **defines), args, (1,), (1,)))
        needed = terms
        if to != TERM:
            more, space = sum_steps(
                dev, &sum, Arg.slot_of(to, type_size(<int> sum.b.type)),
                Arg.slot_of(SLOT_WORKSPACE, 8 if wide else 4), terms,
                Arg.real(1.0 / elements if p.number[0] == REDUCE_MEAN else 1, wide), Arg.real(0, wide))
            steps += more
            needed += space
        return Solution(steps, needed)


cdef int64_t _vector(const mx_elements_walk* w, const operand_t* operands, const int* kinds, int count,
                     bint wide) noexcept:
    """Neighbours that a work-item of a GPU takes at once: 16 bytes of the widest operand, if rows are made of such."""
    cdef int64_t vec = 8
    cdef int k, axis
    cdef bint fits
    for k in range(count):
        if kinds[k] != STILL:
            if kinds[k] != DENSE or (wide and operands[k].t.type != MX_DOUBLE):
                return 1
            vec = min(vec, 16 // type_size(<int> operands[k].t.type))
    while vec > 1:
        fits = w.len[4] % vec == 0
        for k in range(count):
            if kinds[k] == DENSE:
                fits = fits and operands[k].offset % vec == 0
                for axis in range(4):
                    fits = fits and (w.len[axis] == 1 or w.stride[k][axis] % vec == 0)
        if fits:
            return vec
        vec //= 2
    return 1
