"""Activations: on the host path and as kernels."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Step, is_streamed, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport fill_grid, grid_lines
from miopyx.host._activation cimport host_activation
from miopyx.values._types cimport (
    MX_ACTIVATION_FORWARD, MX_AXES, MX_DOUBLE, MX_HALF, mx_activation_problem, mx_grid, mx_tensor,
)
from miopyx.problem._activation cimport (
    ACTIVATION_ALPHA, ACTIVATION_BETA, ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_GAMMA, ACTIVATION_X, ACTIVATION_Y,
    ActivationProblem, read_backward,
)
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div, result_type

cdef enum:
    SMALLEST_SHARE = 1 << 12   # elements that are worth another work-group on a CPU
    SMALL = 1 << 16            # up to here there is one work-group to a core
    ITEM = 8                   # elements of a work-item on a GPU
    CHEAP = 1 << 0 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10   # modes without exponentials: miopenActivationMode_t


cdef class HostActivation(HostLayer):
    """Either direction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1222, "HostActivation", host_activation


cdef class OpenCLActivation(OpenCLLayer):
    """Either direction on OpenCL devices, in one launch.

    On CPUs a work-item has some chunks of rows; on GPUs a group has one, by vectors where all tensors are one packed
    row and the function takes no time.
    """

    def __cinit__(self):
        self.id, self.name = 1221, "OpenCLActivation"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_activation_problem* p = &(<ActivationProblem> problem).c
        cdef const mx_tensor* tensors[3]
        cdef mx_grid grid
        cdef int slots[3]
        cdef int64_t type = result_type(problem), local = 1, chunk, groups, row, elements, parts
        cdef bint packed = True, wide = type == MX_DOUBLE, forward = p.what == MX_ACTIVATION_FORWARD
        cdef unsigned read = read_backward(<int> p.mode)
        cdef int i, width = type_size(<int> type), count = 2 if forward else 3
        cdef double eps = 1e-4 if type == MX_HALF else 1e-6
        cdef dict defines = {"T": TOKENS[type], "ACC": "double" if wide else "float", "ACTIVATION": p.mode}
        # The output, the first input, backward the second one: dy again where the mode reads neither x nor y.
        if forward:
            slots[0], slots[1], slots[2] = ACTIVATION_Y, ACTIVATION_X, ACTIVATION_X
        else:
            slots[0], slots[1], slots[2] = ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_DY
            if read:
                slots[2] = ACTIVATION_X if read >> ACTIVATION_X & 1 else ACTIVATION_Y
        for i in range(count):
            tensors[i] = problem.tensor[slots[i]]
        fill_grid(&grid, tensors, count)
        row = grid.len[MX_AXES - 1]
        elements = row * grid_lines(&grid)
        if dev.is_cpu:
            groups = max(1, min(dev.compute_units * (1 if elements <= SMALL else 4), elements // SMALLEST_SHARE))
            parts = ceil_div(groups, grid_lines(&grid))
            chunk = (ceil_div(row, parts) + 63) // 64 * 64
            groups = min(groups, ceil_div(row, chunk) * grid_lines(&grid))
            defines.update(ROWS=1, VEC=8 if wide else 16, STREAM=int(is_streamed(dev, count * elements * width)))
        else:
            local = min(256, dev.max_work_group)
            chunk = local * ITEM
            defines.update(ROWS=0, LOCAL=local, INDEX="int" if elements < 1 << 31 else "long")
            # Vectors pay where functions take no time; there the exponential ones are those of the device.
            if grid_lines(&grid) == 1 and (1 << p.mode) & CHEAP:
                for i in range(count):
                    packed = packed and grid.stride[i][MX_AXES - 1] == 1
                if packed:
                    defines["VEC"] = 16 // width
                    chunk = local * (16 // width)
            groups = ceil_div(elements, chunk)
        args = [Arg.slot_of(slots[i], width) for i in range(count - 1, -1, -1)]
        args += [struct_arg(&grid, sizeof(grid)), Arg.int64(chunk)]
        args += [Arg.scalar_of(i, wide) for i in (ACTIVATION_ALPHA, ACTIVATION_BETA, ACTIVATION_GAMMA)]
        args.append(Arg.real(eps, wide))
        spec = KernelSpec("layers/activation.cl", "activation_forward" if forward else "activation_backward", **defines)
        return Solution([Step(spec, args, (groups * local,), (local,))])
