"""A learned model: predicted times of solvers, by gradient-boosted trees over a cost table's.

A cost table's times are sums of what a solver counts; trees learn by how much the logarithm is off, from the problem's
lengths, the device and the counts.  A model is one file, `<family>.model` or `<runtime>-<kind>.model` (`nv-sm90`,
`pocl-cpu`), which `miopyx train` makes from measurements: lines of text, then the nodes, then a CRC-32 of all before (4
bytes, little-endian)::

    miopyx model 2
    device nv-sm90_132, driver 580.159.04, kernels 0_1_0_cc857e15, 2345 problems
    margin 0.25
    card 495 3700 NVIDIA H200                    a GPU that was fitted: its clock and bandwidth, as probes measure them
    low 0 0 ...                                  of a problem's numbers on those that were fitted
    high 9 12 ...
    cost NvPairsWrw 32 0.032 361 launch=3.92 ...  as in a cost table
    trees NvPairsWrw 0.02 40 1180                 the error of the logarithm, trees, nodes of all
    starts CpuWinogradF4Wrw 0.05 40 560           of its configurations: what a gain must exceed, trees, nodes of all
    end

A node is a float and the number that is compared (left: at most the float), a byte; a leaf has no number (255), and its
float is added.  The left child is the next node, the right one follows when all of the left one's are told.  There are
the bytes of all nodes, then the floats of comparisons, then those of leaves: their first bytes, their second ones, and
so on, since the first ones are mostly 0.  In memory a node says how many nodes further its right child is.  The trees
of configurations see the problem and the parameters, and predict the logarithm of the time as a multiple of the default
one's.  A model is unsure of a problem that lies outside of what was fitted or has a solver that it does not know, and
where the two best are closer than `margin` times their errors.  Then the next one of the device is asked: the family's
come before the kind's, and of a name the user's folder of databases before the system's.
"""

from libc.math cimport exp, log, log1p, log2, sqrt
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from miopyx._core cimport Device, Offer
from miopyx.problem._descriptors cimport type_size
from miopyx.solvers.conv._base cimport MOST_TERMS, ConvOffer, is_channels_last, is_packed, spatial_size
from miopyx.values._integers cimport up
from miopyx.values._types cimport MX_AXES, mx_conv_problem, mx_tensor
from ._costs cimport CostTable

from itertools import product
from math import isfinite
from struct import iter_unpack, pack

from ._costs import line_of
from miopyx.database import paths, tables
from miopyx.errors import InvalidValueError
from miopyx.solvers import registry

KIND, VERSION = "model", 2
LIMIT = tables.MOST_BYTES
_NAMED = 2  # reasons or solvers that a doubt names, not counts

# Of a problem: logarithms to base 2 of lengths and products, what is left of tiles or padded to them, and the device.
OF_PROBLEM_NAMES = (
    "n", "c", "k", "x_pixels", "y_pixels", "taps", "r", "s", "x_width", "y_width", "groups", "pads", "strides",
    "dilations", "products", "rows", "depth", "x_bytes", "y_bytes", "w_bytes", "products_per_byte", "rows_left",
    "k_left", "c_left", "k_padded", "c_padded", "x_padded_2", "x_padded_4", "y_padded_2", "y_padded_4", "y_tiles",
    "bits", "channels_last", "deepest", "vector_bytes", "compute_units", "clock", "bandwidth")
_LOGARITHMS = frozenset((
    "n", "c", "k", "x_pixels", "y_pixels", "taps", "groups", "products", "rows", "depth", "x_bytes", "y_bytes",
    "w_bytes", "products_per_byte", "y_tiles", "compute_units", "clock", "bandwidth"))
NAMES = OF_PROBLEM_NAMES + ("predicted", "index") + tuple([f"term {i}" for i in range(MOST_TERMS)])
cdef enum:
    CLOCK = OF_PROBLEM - 2
    BANDWIDTH = OF_PROBLEM - 1
    PREDICTED = OF_PROBLEM             # the logarithm of the cost table's time
    INDEX = OF_PROBLEM + 1             # of the throughput index
    TERMS = OF_PROBLEM + 2
    LEAF = 0xFFFF
    LEAF_BYTE = 0xFF

assert len(OF_PROBLEM_NAMES) == OF_PROBLEM and len(NAMES) <= MOST_NUMBERS


def _named(list names, str between):
    more = [] if len(names) <= _NAMED else [f"{len(names) - _NAMED} more"]
    return between.join(names[:_NAMED] + more)


cdef inline float _log(double value) noexcept nogil:
    return <float> log2(value if value > 1 else 1)


cdef void _of_problem(Device dev, const mx_conv_problem* p, float* number) noexcept:
    """What OF_PROBLEM_NAMES says; single precision, as trees compare it."""
    cdef double size = type_size(<int> p.w.type), groups = p.groups
    cdef double n = p.x.len[0], c = p.w.len[1], k = p.w.len[0] / groups, taps = spatial_size(&p.w)
    cdef double xs = spatial_size(&p.x), ys = spatial_size(&p.y)
    cdef double products = n * ys * c * k * taps * groups
    cdef double x = n * c * groups * xs, y = n * k * groups * ys, w = groups * k * c * taps
    number[0], number[1], number[2] = _log(n), _log(c), _log(k)
    number[3], number[4], number[5] = _log(xs), _log(ys), _log(taps)
    number[6], number[7] = p.w.len[3], p.w.len[4]
    number[8], number[9] = p.x.len[4], p.y.len[4]
    number[10], number[11] = _log(groups), p.pad[0] + p.pad[1] + p.pad[2]
    number[12], number[13] = p.step[0] * p.step[1] * p.step[2], p.dilation[0] * p.dilation[1] * p.dilation[2]
    number[14], number[15], number[16] = _log(products), _log(n * ys), _log(c * taps)
    number[17], number[18], number[19] = _log(x * size), _log(y * size), _log(w * size)
    number[20] = number[14] - _log((x + y + w) * size)
    number[21] = <float> ((<int64_t> (n * ys) % 128) / 128.0)
    number[22], number[23] = p.w.len[0] % 64, p.w.len[1] % 32
    number[24], number[25] = <float> (up(<int64_t> k, 16) / k), <float> (up(<int64_t> c, 16) / c)
    number[26], number[27] = _padded(&p.x, 2), _padded(&p.x, 4)
    number[28], number[29] = _padded(&p.y, 2), _padded(&p.y, 4)
    number[30] = _log(n * ys * number[29] / 16)
    number[31] = 8 * size
    # 2 is neither.
    number[32] = 0 if is_packed(&p.x) and is_packed(&p.y) else 1 if (
        is_channels_last(&p.x) or p.x.len[1] == 1) and (is_channels_last(&p.y) or p.y.len[1] == 1) else 2
    number[33] = max(p.x.len[2], p.y.len[2], p.w.len[2])  # a volume is no image, whatever its filter
    number[34] = dev.vector_bytes
    number[35] = _log(dev.compute_units)
    number[CLOCK], number[BANDWIDTH] = _log(dev.clock), _log(dev.bandwidth)


cdef float _padded(const mx_tensor* t, int64_t tile) noexcept nogil:
    """How many times as large as an image its tiles are together."""
    cdef double more = 1
    cdef int axis
    for axis in range(3, MX_AXES):
        if t.len[axis] > 1:
            more *= <double> up(t.len[axis], tile) / t.len[axis]
    return <float> more


cdef void _of_solver(Offer offer, double predicted, const double* terms, float* number) noexcept:
    """The numbers behind a problem's: the table's time, the index, and what the solver counts."""
    cdef int i
    number[PREDICTED], number[INDEX] = <float> log(predicted), <float> log1p(offer.index if offer.index > 0 else 0)
    for i in range(MOST_TERMS):
        number[TERMS + i] = <float> log1p(terms[i])


cdef bint _of_config(tuple config, tuple usual, float* number) except -1:
    """Append parameters, and what they are of the default ones, in logarithms; False for what has too many."""
    cdef Py_ssize_t i
    if len(config) > MOST_PARAMETERS or len(config) != len(usual):
        return False
    for i in range(MOST_PARAMETERS):
        number[OF_PROBLEM + i] = number[OF_PROBLEM + MOST_PARAMETERS + i] = 0
    for i in range(len(config)):
        number[OF_PROBLEM + i] = _log(<double> config[i])
        number[OF_PROBLEM + MOST_PARAMETERS + i] = _log(<double> config[i]) - _log(<double> usual[i])
    return True


def config_numbers(tuple config not None, tuple usual not None):
    """Return what trees see of a configuration beside the problem; None for one with too many parameters."""
    cdef float[MOST_NUMBERS] found
    if not _of_config(config, usual, found):
        return None
    return [found[OF_PROBLEM + i] for i in range(2 * MOST_PARAMETERS)]


def numbers(Offer offer not None):
    """Return what trees see of an offer's problem and device; of the solver they see its `terms`, too."""
    cdef float[OF_PROBLEM] found
    if not isinstance(offer, ConvOffer):
        return None
    _of_problem(offer.device, (<ConvOffer> offer).p, found)
    return [found[i] for i in range(OF_PROBLEM)]


cdef class Trees:
    """What corrects the logarithm of a solver's predicted time."""

    cdef double value(self, const float* numbers) noexcept nogil:
        cdef double total = 0
        cdef const node_t* node
        cdef Py_ssize_t i
        for i in range(self.roots.shape[0]):
            node = self.nodes + self.roots[i]
            while node.number != LEAF:
                node += 1 if numbers[node.number] <= node.value else node.right
            total += node.value
        return total


cdef class Model:
    """Predicted times of a device family's solvers.

    Parameters
    ----------
    data : bytes
        A file's, see above.
    path : str

    Raises
    ------
    ValueError
        For data that is no model, has another version or was changed.
    """

    def __init__(self, bytes data not None, str path not None=""):
        from zlib import crc32

        cdef Py_ssize_t start, seal = max(0, len(data) - 4)
        tables.require_kind(data, KIND, VERSION)
        if len(data) > LIMIT:
            raise ValueError(f"more than {LIMIT} bytes")
        if data[seal:] != pack("<I", crc32(data[:seal])):
            raise ValueError("its checksum is another")
        text, end, _ = data.partition(b"\nend\n")
        if not end:
            raise ValueError("no end of its text")
        start = len(text) + len(end)
        self.path, self.trees, self.starts = path, {}, {}
        lines = text.decode().split("\n")
        if len(lines) < 2:
            raise ValueError("it does not say where its times come from")
        self.about = lines[1]
        self._set(lines[2:], _unpacked(data[start:seal]))

    cdef int _set(self, list lines, bytes nodes) except -1:
        cdef Trees trees
        cdef Py_ssize_t done = 0, i
        costs = []
        self.data, self.margin, self.cards = nodes, -1, {}
        bounds = {}
        for line in lines:
            word, *rest = line.split(" ")
            if word == "margin":
                (margin,) = rest
                self.margin = _number(margin)
            elif word == "card":
                clock, bandwidth, name = line[5:].split(" ", 2)
                self.cards[name] = _number(clock), _number(bandwidth)
            elif word in ("low", "high"):
                bounds[word] = [_number(value) for value in rest]
            elif word == "cost":
                costs.append(line_of(rest))
            elif word in ("trees", "starts"):
                name, error, count, size = rest
                trees = Trees()
                trees.error = _number(error)
                done = self._plant(trees, _count(count), done, done + _count(size))
                trees.solver = registry.BY_NAME.get(name)
                if trees.solver is not None:
                    (self.trees if word == "trees" else self.starts)[trees.solver.id] = trees
            else:
                raise ValueError(f"an unknown line {word[:20]!r}")
        if self.margin < 0 or [len(bounds.get(word, ())) for word in ("low", "high")] != [OF_PROBLEM] * 2:
            raise ValueError("no margin, or not as many bounds as numbers")
        if done * <Py_ssize_t> sizeof(node_t) != len(nodes):
            raise ValueError("another number of nodes")
        for i in range(OF_PROBLEM):
            self.low[i], self.high[i] = bounds["low"][i], bounds["high"][i]
        self.table = CostTable(costs, self.about, self.path)
        return 0

    cdef Py_ssize_t _plant(self, Trees trees, int count, Py_ssize_t first, Py_ssize_t last) except -1:
        """Find the roots of trees that lie in nodes [first, last), and see that every way ends at a leaf of its tree.

        In this order of nodes a tree ends with the leaf that closes its last open child.
        """
        cdef const node_t* nodes
        cdef Py_ssize_t i = first, j, root, open
        if not 0 <= count <= last - first or last > len(self.data) // <Py_ssize_t> sizeof(node_t):
            raise ValueError("another number of nodes")
        trees.nodes = <node_t*> <char*> self.data
        nodes = trees.nodes
        trees.roots = memoryview(bytearray(4 * max(1, count))).cast("I")[:count]
        for tree in range(count):
            root, open = i, 1
            while open:
                if i >= last:
                    raise ValueError("a tree that does not end")
                if nodes[i].number == LEAF:
                    if not isfinite(nodes[i].value):
                        raise ValueError("a leaf that is no number")
                    open -= 1
                elif nodes[i].number >= TERMS + MOST_TERMS or nodes[i].value != nodes[i].value:
                    raise ValueError("a comparison with nothing")
                else:
                    open += 1
                i += 1
            trees.roots[tree] = <uint32_t> root
            for j in range(root, i):
                # Forward and within the tree: so every way ends.
                if nodes[j].number != LEAF and not 2 <= nodes[j].right < i - j:
                    raise ValueError("a right child that is none")
        if i != last:
            raise ValueError("another number of nodes")
        return last

    cdef int times(self, list offers, list found) except -1:
        """Append the microseconds of some offers of one problem, -1 for last resorts; 0 where the model is unsure."""
        cdef float[MOST_NUMBERS] numbers
        cdef double[MOST_TERMS] terms
        cdef Offer offer
        cdef Trees trees
        cdef double time, best = -1, second = -1, best_error = 0, second_error = 0, error
        cdef bint first = True
        for offer in offers:
            if offer.solver.last_resort:
                found.append(-1.0)
                continue
            time = self.table.time_of(offer, terms)
            if time <= 0:
                return 0
            if first:
                first = False
                self._set_numbers(<ConvOffer> offer, numbers)
                if not self._knows(numbers):
                    return 0
            trees = self.trees.get(offer.solver.id)
            if trees is not None:
                _of_solver(offer, time, terms, numbers)
                time *= exp(trees.value(numbers))
            error = self.error_of(trees, offer)
            found.append(time)
            if best < 0 or time < best:
                second, second_error, best, best_error = best, best_error, time, error
            elif second < 0 or time < second:
                second, second_error = time, error
        error = sqrt(best_error * best_error + second_error * second_error)
        return 0 if second > 0 and log(second / best) < self.margin * error else 1

    cdef int _set_numbers(self, ConvOffer offer, float* number) except -1:
        """A card that was fitted is as fast as it was then, also where no probe ran, as under CUDA."""
        _of_problem(offer.device, offer.p, number)
        card = self.cards.get(offer.device.info.device_name)
        if card is not None:
            number[CLOCK], number[BANDWIDTH] = _log(card[0]), _log(card[1])
        return 0

    def doubt(self, list offers not None):
        """Return in words why the model is unsure of some offers of one problem, None where it is not."""
        cdef float[MOST_NUMBERS] numbers
        cdef Offer offer
        cdef int i
        timed = [offer for offer in offers if not offer.solver.last_resort]
        if not timed or self.predict(offers) is not None:
            return None
        unknown = [offer.solver.name for offer in timed if self.table.time(offer) <= 0]
        if unknown:
            return f"no times of {_named(unknown, ', ')}"
        self._set_numbers(<ConvOffer> timed[0], numbers)
        outside = []
        for i in range(OF_PROBLEM):
            if not self.low[i] <= numbers[i] <= self.high[i]:
                least, value, most = [
                    2.0 ** min(number, 99) if OF_PROBLEM_NAMES[i] in _LOGARITHMS else number
                    for number in (self.low[i], numbers[i], self.high[i])]
                outside.append(f"{OF_PROBLEM_NAMES[i]} is {value:.4g}, {least:.4g} to {most:.4g} were fitted")
        return _named(outside, "; ") or "its two best are as good as one another"

    cdef bint _knows(self, const float* number) noexcept nogil:
        """Whether a problem lies within those that were fitted."""
        cdef int i
        for i in range(OF_PROBLEM):
            if not self.low[i] <= number[i] <= self.high[i]:
                return False
        return True

    cpdef tuple start(self, ConvOffer offer):
        """The configuration that should be the fastest, None where that is the default one or nobody knows."""
        cdef Trees trees = self.starts.get(offer.solver.id)
        cdef float[MOST_NUMBERS] numbers
        cdef tuple usual, config, best = None
        cdef double gain, most
        if trees is None:
            return None
        memset(numbers, 0, sizeof(numbers))
        self._set_numbers(offer, numbers)
        usual = offer.default_config()
        if not self._knows(numbers) or not _of_config(usual, usual, numbers):
            return None
        gain = trees.value(numbers)
        most = trees.error
        for config in product(*[values for _, values in offer.parameters()]):
            if offer.accepts(config):
                _of_config(config, usual, numbers)
                if gain - trees.value(numbers) > most:
                    best, most = config, gain - trees.value(numbers)
        return best

    cdef double error_of(self, Trees trees, Offer offer) except? -2:
        return self.table.spread_of(offer) if trees is None else trees.error

    def error(self, Offer offer not None):
        """Return how far predictions were off, as the spread of the times' logarithm; None where nothing is known."""
        error = self.error_of(self.trees.get(offer.solver.id), offer)
        return None if error < 0 else error

    def predict(self, list offers not None):
        """Return the microseconds of some offers of one problem, -1 for last resorts; None where it is unsure."""
        cdef list found = []
        for offer in offers:
            <Offer?> offer
        return found if self.times(offers, found) else None


cdef int _count(str text) except -1:
    value = int(text)
    if not 0 <= value <= LIMIT:
        raise ValueError(f"{text[:20]!r} is no number of trees or nodes")
    return value


cdef double _number(str text) except? -1:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:20]!r} is no number")
    return value


def file_names(info):
    """Return the names of a device's files: the family's, its runtime's and kind's."""
    return [f"{tables.family(info)}.{KIND}", f"{info.runtime}-{info.kind}.{KIND}"]


def read(path):
    """Read a model.

    Raises
    ------
    OSError
    InvalidValueError
        For a file that is none, has another version or was changed.
    """
    try:
        return Model(tables.content(path), str(path))
    except ValueError as e:
        raise InvalidValueError(f"no model: {e}", "path", str(path), f"a file of version {VERSION}") from None


def sealed(about, lines, nodes):
    """Return a file's bytes: where its times come from, its lines of text and its nodes, as `packed` takes them."""
    from zlib import crc32

    text = "\n".join([f"miopyx {KIND} {VERSION}", about, *lines, "end\n"])
    body = text.encode() + packed(nodes)
    return body + pack("<I", crc32(body))


def packed(nodes):
    """Return a file's form of nodes of memory: structs of a float and two numbers of 16 bits."""
    found = [*iter_unpack("<fHH", nodes)]
    leaves = b"".join([pack("<f", value) for value, number, _ in found if number == LEAF])
    return b"".join([bytes([LEAF_BYTE if number == LEAF else number for _, number, _ in found]),
                     *[pack("<f", value) for value, number, _ in found if number != LEAF],
                     *[leaves[i::4] for i in range(4)]])


cdef bytes _unpacked(bytes data):
    """The reverse of `packed`; trees that do not end are found later, when it is known how many there are."""
    cdef Py_ssize_t count = len(data) // 5, leaves, inner, i, j, right, leaf = 0, comparison
    cdef const unsigned char* byte = data
    cdef unsigned char* to
    if 5 * count != len(data):
        raise ValueError("another number of nodes")
    leaves = data.count(LEAF_BYTE, 0, count)
    inner, comparison = count - leaves, count
    cdef bytearray found = bytearray(count * <Py_ssize_t> sizeof(node_t))
    cdef node_t* nodes = <node_t*> <char*> found
    for i in range(count):
        to = <unsigned char*> &nodes[i].value
        if byte[i] == LEAF_BYTE:
            nodes[i].number = LEAF
            for j in range(4):
                to[j] = byte[count + 4 * inner + j * leaves + leaf]
            leaf += 1
        else:
            nodes[i].number = byte[i]
            for j in range(4):
                to[j] = byte[comparison + j]
            comparison += 4
    # From the last node on: how many nodes its subtree has.
    sizes = memoryview(bytearray(4 * max(1, count))).cast("I")
    cdef uint32_t[::1] size = sizes
    for i in range(count - 1, -1, -1):
        size[i] = 1
        if nodes[i].number != LEAF:
            right = i + 1 + size[i + 1] if i + 1 < count else count
            if right >= count or right - i > LEAF:
                raise ValueError("a tree that does not end")
            nodes[i].right = <unsigned short> (right - i)
            size[i] = 1 + size[i + 1] + size[right]
    return bytes(found)


cdef dict _models = {}


cdef tuple models_of(Device device):
    """The models that a device has, the first to be asked before the others; read once a process."""
    cdef str name = device.info.name
    found = _models.get(name)
    if found is None:
        folders = [folder for folder in (paths.user_folder(), paths.system_folder()) if folder is not None]
        files = [folder / file for file in file_names(device.info) for folder in folders]
        found = _models[name] = tuple(tables.readable(files, KIND, read))
    return found


def all_of(Device device not None):
    """Return the models that a device has, the first to be asked before the others."""
    return models_of(device)


def of(Device device not None):
    """Return the model that a device asks first, None where there is none that can be read."""
    return next(iter(models_of(device)), None)


def start(Offer offer not None):
    """Return the configuration of an offer that is predicted to be the fastest, by the first model with such trees.

    None where that is the default one, and where there is no such model or it does not know.
    """
    cdef Model model
    if isinstance(offer, ConvOffer):
        for model in models_of(offer.device):
            if offer.solver.id in model.starts:
                return model.start(<ConvOffer> offer)
    return None


def forget():
    """Let the next `of` look again."""
    _models.clear()
