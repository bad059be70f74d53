"""Tensor maps of a convolution's operands (TMA, compute capability 9.0), for kernels that copy by them.

Only CUDA's driver makes maps, since they hold an address.  Functions return None where no map says how a tensor lies.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Arg, Device
from miopyx.runtime._runtime cimport tensor_map_t
from ._common cimport both, mx_nv_conv

cdef enum:
    ROW_BYTES = 128        # of a row of local memory
    ROW = 64               # numbers of 16 bits of it
    MOST_STEP = 8          # of a traversal
    MOST_BOX = 256

cdef bint _allowed = True


def allow_maps(bint allowed=True):
    """Whether kernels that copy by tensor maps are taken; for tests and benches."""
    global _allowed
    _allowed = allowed


cdef bint has_maps(Device dev) noexcept:
    return _allowed and dev.place.rt != NULL and dev.place.rt.set_map != NULL


cdef bint may_have_maps(Device dev) noexcept:
    """Likewise, or nobody knows by which runtime the device is opened: it is only described, to rank for it."""
    return dev.place.rt == NULL or has_maps(dev)


cdef Arg mapped(Arg arg, bytes map):
    """The same memory by a map."""
    return Arg.map_of(arg.slot, arg.width, map, arg.offset)


cdef int64_t _bytes_apart(const tensor_map_t* m, int64_t length, int64_t stride) noexcept nogil:
    """The stride of an axis in bytes, any where nothing is read by it; -1: one that no map has."""
    stride = ROW_BYTES if length == 1 else stride * m.bytes
    return stride if stride > 0 and stride % 16 == 0 else -1


cdef bint _set_axis(tensor_map_t* m, int axis, int64_t length, int64_t stride, int64_t count, int64_t step,
                    int64_t first, int64_t taps, int64_t tap) noexcept nogil:
    """An axis of pixels: `count` of them, `step` apart, from the lowest tap of the first one on."""
    cdef int64_t most = 128 if m.rank == 4 else 16
    cdef int64_t lower = first + min(<int64_t> 0, (taps - 1) * tap), upper = lower + (count - 1) * step - (length - 1)
    m.len[axis], m.stride[axis], m.step[axis] = length, _bytes_apart(m, length, stride), <int> step
    m.lower[axis - 1], m.upper[axis - 1] = <int> lower, <int> upper
    return (m.stride[axis] > 0 and step <= MOST_STEP and -most <= lower < most and -most <= upper < most
            and (taps - 1) * max(tap, -tap) < 2 * most)


cdef bytes map_pixels(const mx_nv_conv* g, int64_t x_d, int64_t pixels, int64_t size):
    """x, of numbers of `size` bytes, floats where 4: a box is 128 bytes of channels of so many pixels.

    `x_d` is the stride along a volume's depth.
    """
    cdef tensor_map_t m
    cdef int64_t row = ROW_BYTES // size
    cdef bint deep = g.p >> 16 != 0, fits
    if g.x_c != 1 or g.channels != g.reduced or g.reduced % row or g.groups > 1 and g.x_g != g.reduced:
        return None
    memset(&m, 0, sizeof(m))
    m.bytes, m.rank, m.im2col, m.box[0], m.box[1] = <int> size, 5 if deep else 4, True, <int> row, <int> pixels
    m.len[0], m.step[0] = g.groups * g.reduced, 1
    fits = _set_axis(&m, 1, g.w, g.x_w, g.q, g.step_w, g.first_w, g.taps_w, g.tap_w)
    if deep:
        fits &= _set_axis(&m, 2, g.h & 0xffff, g.x_h, g.p & 0xffff, <short> g.step_h, <short> g.first_h,
                          g.taps_h & 0xffff, <short> g.tap_h)
        fits &= _set_axis(&m, 3, g.h >> 16, x_d, g.p >> 16, g.step_h >> 16, g.first_h >> 16, g.taps_h >> 16,
                          g.tap_h >> 16)
    else:
        fits &= _set_axis(&m, 2, g.h, g.x_h, g.p, g.step_h, g.first_h, g.taps_h, g.tap_h)
    cdef int64_t images = g.pixels // (both(g.p) * g.q), apart = _bytes_apart(&m, images, g.x_n)
    m.len[m.rank - 1], m.stride[m.rank - 1], m.step[m.rank - 1] = images, apart, 1
    return (<const char*> &m)[:sizeof(m)] if fits and apart > 0 else None


cdef void _reach(int* first, int* taps, int other_first, int other_taps, int tap) noexcept nogil:
    """Let taps that are one apart reach as far as others; none do where there are none yet."""
    cdef int low = other_first + min(0, (other_taps - 1) * tap), high = other_first + max(0, (other_taps - 1) * tap)
    if taps[0]:
        high = max(high, first[0] + taps[0] - 1)
        low = min(low, first[0])
    first[0], taps[0] = low, high - low + 1


cdef mx_nv_conv reach_of(const mx_nv_conv* g, int phases) noexcept nogil:
    """Two axes' operands with all taps from the lowest to the highest of some phases, which have equal grids."""
    cdef mx_nv_conv o = g[0]
    cdef int i
    o.taps_h = o.taps_w = 0
    for i in range(phases):
        if g[i].taps_h and g[i].taps_w:
            _reach(&o.first_h, &o.taps_h, g[i].first_h, g[i].taps_h, g[i].tap_h)
            _reach(&o.first_w, &o.taps_w, g[i].first_w, g[i].taps_w, g[i].tap_w)
    o.tap_h = o.tap_w = 1
    return o


cdef bytes _rows(int64_t columns, int64_t rows, int64_t stride, int64_t box, int64_t size):
    """Rows of `columns` numbers of `size` bytes, `stride` apart: a box is 128 bytes of `box` rows."""
    cdef tensor_map_t m
    memset(&m, 0, sizeof(m))
    m.bytes, m.rank, m.len[0], m.len[1], m.stride[1], m.box[0], m.box[1] = (
        <int> size, 2, columns, rows, size * stride, <int> (ROW_BYTES // size), <int> box)
    m.step[0] = m.step[1] = 1
    return ((<const char*> &m)[:sizeof(m)]
            if m.stride[1] % 16 == 0 and 0 < columns <= stride and box <= MOST_BOX else None)


cdef bytes map_result(const mx_nv_conv* g, int64_t y_d, int64_t pixels, int64_t size):
    """dy where pixels follow each other without gaps: a box is 128 bytes of filters of so many pixels."""
    cdef int64_t planes = g.p >> 16, rows = g.p & 0xffff if planes else g.p, image = both(g.p) * g.q
    cdef int64_t pixel = g.y_w if g.q > 1 else g.y_h if rows > 1 else y_d if planes > 1 else g.y_n
    if (g.y_c != 1 or g.groups > 1 and g.y_g != g.filters or rows > 1 and g.y_h != g.q * pixel
            or planes > 1 and y_d != rows * g.q * pixel or g.pixels > image and g.y_n != image * pixel):
        return None
    return _rows(g.groups * g.filters, g.pixels, pixel, pixels, size)


cdef bytes map_channels(int64_t pixels, int64_t channels, int64_t images, int64_t c, int64_t n, int64_t rows,
                        int64_t size):
    """A tensor of contiguous pixels, `c` and `n` apart: a box is 128 bytes of pixels of `rows` channels of an image."""
    cdef tensor_map_t m
    memset(&m, 0, sizeof(m))
    m.bytes, m.rank, m.box[0], m.box[1], m.box[2] = <int> size, 3, <int> (ROW_BYTES // size), <int> rows, 1
    m.len[0], m.len[1], m.len[2] = pixels, channels, images
    m.stride[1], m.stride[2] = _bytes_apart(&m, channels, c), _bytes_apart(&m, images, n)
    m.step[0] = m.step[1] = m.step[2] = 1
    return ((<const char*> &m)[:sizeof(m)] if m.stride[1] > 0 and m.stride[2] > 0 and rows <= MOST_BOX else None)


cdef bytes map_filters(const mx_nv_conv* g, int64_t w_d, bint transposed, bint permuted, int64_t filters, int64_t size):
    """w, of numbers of `size` bytes: a box is 128 bytes of channels of so many filters.

    `permuted`: in the order of mx_permuted of conv/nvidia/hopper_store.h, or for floats of mx_filter_of_column of
    conv/nvidia/hopper_tf32.cl.  `transposed`: 64 filters of 64 channels, of 16 bits.  `w_d` is a volume's stride from
    one tap to the next along the depth.
    """
    cdef tensor_map_t m
    cdef bytes plain
    cdef int i
    cdef int64_t runs = 8 // size, block = 8 * runs  # of filters that are reordered; runs of two of them
    cdef int64_t taps_d = g.taps_h >> 16 if g.p >> 16 else 1, taps_h = g.taps_h & 0xffff if g.p >> 16 else g.taps_h
    cdef int64_t[3] far = [(taps_d - 1) * w_d, (taps_h - 1) * g.w_h, (g.taps_w - 1) * <int64_t> g.w_w]
    cdef int64_t low = g.w_first, high = g.w_first, rows = g.reduced if transposed else g.filters, w_k = g.w_k
    for i in range(3):
        low += min(<int64_t> 0, far[i])
        high += max(<int64_t> 0, far[i])
    if low < 0 or g.groups > 1 and g.w_g != rows * w_k:
        return None
    plain = _rows(high + (g.filters if transposed else g.reduced), g.groups * rows, w_k,
                  ROW if transposed else filters, size)
    if plain is None or not permuted:
        return plain
    if g.filters % block:
        return None
    m = (<const tensor_map_t*> <const char*> plain)[0]
    m.rank = 5
    m.len[1], m.len[2], m.len[3], m.len[4] = 2, 4, runs, g.groups * g.filters // block
    m.stride[1], m.stride[2], m.stride[3], m.stride[4] = (
        size * w_k, size * 2 * runs * w_k, size * 2 * w_k, size * block * w_k)
    m.box[1], m.box[2], m.box[3], m.box[4] = 2, 4, <int> runs, <int> (filters // block)
    m.step[2] = m.step[3] = m.step[4] = 1
    return (<const char*> &m)[:sizeof(m)]
