"""The graph API of miopen.h: descriptors with attributes, operation graphs, engines, execution plans.

Names and argument order are the header's; output pointers became return values and failures exceptions.  A descriptor
is data: `_SCHEMA` says which attributes each kind has.  What runs a graph is found in `patterns`.
"""

from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle, as_handle
from miopyx.problem._descriptors cimport TensorDescriptor
from miopyx.values._args cimport to_double, to_flag, to_int64, to_member
from miopyx.values._guard cimport load_flag, mx_guard, mx_guard_lock, mx_guard_unlock, store_flag

import numpy as np

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError, NotInitializedError, UnsupportedOpError

# Counts of elements.
cdef enum:
    ONE = 1
    SOME = -1              # 1 or more
    ANY = -2               # 0 or more

cdef str _KIND = "miopenBackendDescriptorType_t", _ATTRIBUTE = "miopenBackendAttributeName_t"
cdef str _TYPE = "miopenBackendAttributeType_t"
# Types of elements that are members of an enumeration.
cdef dict _ENUMS = {
    "DATA_TYPE": "miopenDataType_t", "CONVOLUTION_MODE": "miopenConvolutionMode_t",
    "HEUR_MODE": "miopenBackendHeurMode_t",
    "NAN_PROPOGATION": "miopenNanPropagation_t", "POINTWISE_MODE": "miopenPointwiseMode_t",
    "REDUCTION_OPERATOR_TYPE": "miopenReduceTensorOp_t", "RNG_DISTRIBUTION": "miopenRngDistribution_t",
}


def _tensor(prefix, *names):
    return {f"{prefix}_{name}": ("BACKEND_DESCRIPTOR", ONE, "TENSOR") for name in names}


def _convolution(prefix, *names):
    return {f"{prefix}_CONV_DESC": ("BACKEND_DESCRIPTOR", ONE, "CONVOLUTION"), **_tensor(prefix, *names),
            f"{prefix}_ALPHA": ("REAL", ONE, 1.0), f"{prefix}_BETA": ("REAL", ONE, 0.0)}


# Of each kind its attributes: type, count, and what stands there: None, a kind of descriptor, or a default.  A default
# makes it optional, and so does `OPTIONAL`; what is `DERIVED` can be asked for alone.
cdef str OPTIONAL = "optional", DERIVED = "derived"
cdef dict _SCHEMA = {
    "TENSOR": {
        "TENSOR_UNIQUE_ID": ("INT64", ONE, None), "TENSOR_DATA_TYPE": ("DATA_TYPE", ONE, None),
        "TENSOR_DIMENSIONS": ("INT64", SOME, None), "TENSOR_STRIDES": ("INT64", SOME, None),
        "TENSOR_IS_VIRTUAL": ("BOOLEAN", ONE, False), "TENSOR_BYTE_ALIGNMENT": ("INT64", ONE, OPTIONAL),
    },
    "CONVOLUTION": {
        "CONVOLUTION_COMP_TYPE": ("DATA_TYPE", ONE, None), "CONVOLUTION_CONV_MODE": ("CONVOLUTION_MODE", ONE, None),
        "CONVOLUTION_SPATIAL_DIMS": ("INT64", ONE, None), "CONVOLUTION_DILATIONS": ("INT64", SOME, None),
        "CONVOLUTION_FILTER_STRIDES": ("INT64", SOME, None), "CONVOLUTION_PRE_PADDINGS": ("INT64", SOME, None),
        "CONVOLUTION_POST_PADDINGS": ("INT64", SOME, None),
    },
    "OPERATION_CONVOLUTION_FORWARD": _convolution("OPERATION_CONVOLUTION_FORWARD", "X", "W", "Y"),
    "OPERATION_CONVOLUTION_BACKWARD_DATA": _convolution("OPERATION_CONVOLUTION_BWD_DATA", "DX", "W", "DY"),
    "OPERATION_CONVOLUTION_BACKWARD_FILTER": _convolution("OPERATION_CONVOLUTION_BWD_FILTER", "X", "DW", "DY"),
    "POINTWISE": {
        "POINTWISE_MODE": ("POINTWISE_MODE", ONE, None), "POINTWISE_MATH_PREC": ("DATA_TYPE", ONE, None),
        "POINTWISE_NAN_PROPAGATION": ("NAN_PROPOGATION", ONE, 0), "POINTWISE_RELU_LOWER_CLIP": ("REAL", ONE, 0.0),
        "POINTWISE_RELU_UPPER_CLIP": ("REAL", ONE, float("inf")), "POINTWISE_RELU_LOWER_CLIP_SLOPE": ("REAL", ONE, 0.0),
        "POINTWISE_ELU_ALPHA": ("REAL", ONE, 1.0), "POINTWISE_SOFTPLUS_BETA": ("REAL", ONE, 1.0),
        "POINTWISE_SWISH_BETA": ("REAL", ONE, 1.0), "POINTWISE_AXIS": ("INT64", ONE, -1),
    },
    "OPERATION_POINTWISE": {
        "OPERATION_POINTWISE_PW_DESCRIPTOR": ("BACKEND_DESCRIPTOR", ONE, "POINTWISE"),
        **{name: (*of[:2], (OPTIONAL, "TENSOR")) for name, of in _tensor(
            "OPERATION_POINTWISE", "XDESC", "BDESC", "TDESC", "YDESC", "DXDESC", "DYDESC").items()},
        "OPERATION_POINTWISE_ALPHA1": ("REAL", ONE, 1.0), "OPERATION_POINTWISE_ALPHA2": ("REAL", ONE, 1.0),
    },
    "MATMUL": {"MATMUL_COMP_TYPE": ("DATA_TYPE", ONE, None)},
    "OPERATION_MATMUL": {
        **_tensor("OPERATION_MATMUL", "ADESC", "BDESC", "CDESC"),
        "OPERATION_MATMUL_DESC": ("BACKEND_DESCRIPTOR", ONE, "MATMUL"),
        "OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT": ("INT64", ONE, 1),
        **{name: (*of[:2], (OPTIONAL, "TENSOR")) for name, of in _tensor(
            "OPERATION_MATMUL", "GEMM_M_OVERRIDE_DESC", "GEMM_N_OVERRIDE_DESC", "GEMM_K_OVERRIDE_DESC").items()},
    },
    "REDUCTION": {"REDUCTION_OPERATOR": ("REDUCTION_OPERATOR_TYPE", ONE, None),
                  "REDUCTION_COMP_TYPE": ("DATA_TYPE", ONE, None)},
    "OPERATION_REDUCTION": {"OPERATION_REDUCTION_DESC": ("BACKEND_DESCRIPTOR", ONE, "REDUCTION"),
                            **_tensor("OPERATION_REDUCTION", "XDESC", "YDESC")},
    "OPERATION_RESHAPE": _tensor("OPERATION_RESHAPE", "XDESC", "YDESC"),
    "RNG": {
        "RNG_DISTRIBUTION": ("RNG_DISTRIBUTION", ONE, enums.MIOPEN_RNG_DISTRIBUTION_BERNOULLI),
        "RNG_NORMAL_DIST_MEAN": ("DOUBLE", ONE, 0.0),
        "RNG_NORMAL_DIST_STANDARD_DEVIATION": ("DOUBLE", ONE, 1.0), "RNG_UNIFORM_DIST_MAXIMUM": ("DOUBLE", ONE, 1.0),
        "RNG_UNIFORM_DIST_MINIMUM": ("DOUBLE", ONE, 0.0), "RNG_BERNOULLI_DIST_PROBABILITY": ("DOUBLE", ONE, 0.5),
    },
    "OPERATION_RNG": {"OPERATION_RNG_DESC": ("BACKEND_DESCRIPTOR", ONE, "RNG"),
                      **_tensor("OPERATION_RNG", "YDESC", "SEED", "OFFSET_DESC")},
    "OPERATIONGRAPH": {
        "OPERATIONGRAPH_HANDLE": ("HANDLE", ONE, None), "OPERATIONGRAPH_OPS": ("BACKEND_DESCRIPTOR", SOME, "OPERATION"),
        "OPERATIONGRAPH_ENGINE_GLOBAL_COUNT": ("INT64", ONE, DERIVED),
    },
    "ENGINE": {
        "ENGINE_OPERATION_GRAPH": ("BACKEND_DESCRIPTOR", ONE, "OPERATIONGRAPH"), "ENGINE_GLOBAL_INDEX": ("INT64", ONE,
                                                                                                         None),
        "ENGINE_SM_COUNT_TARGET": ("INT32", ONE, OPTIONAL), "ENGINE_KNOB_INFO": ("BACKEND_DESCRIPTOR", ANY, DERIVED),
        "ENGINE_NUMERICAL_NOTE": ("NUMERICAL_NOTE", ANY, DERIVED), "ENGINE_LAYOUT_INFO": ("BACKEND_DESCRIPTOR", ANY,
                                                                                          DERIVED),
        "ENGINE_BEHAVIOR_NOTE": ("BEHAVIOR_NOTE", ANY, DERIVED),
    },
    "ENGINECFG": {
        "ENGINECFG_ENGINE": ("BACKEND_DESCRIPTOR", ONE, "ENGINE"),
        "ENGINECFG_KNOB_CHOICES": ("BACKEND_DESCRIPTOR", ANY, (OPTIONAL, "KNOB_CHOICE")),
        "ENGINECFG_INTERMEDIATE_INFO": ("BACKEND_DESCRIPTOR", ANY, DERIVED),
    },
    "ENGINEHEUR": {
        "ENGINEHEUR_OPERATION_GRAPH": ("BACKEND_DESCRIPTOR", ONE, "OPERATIONGRAPH"),
        "ENGINEHEUR_MODE": ("HEUR_MODE", ONE, None), "ENGINEHEUR_SM_COUNT_TARGET": ("INT32", ONE, OPTIONAL),
        "ENGINEHEUR_RESULTS": ("BACKEND_DESCRIPTOR", ANY, DERIVED),
    },
    "EXECUTION_PLAN": {
        "EXECUTION_PLAN_HANDLE": ("HANDLE", ONE, OPTIONAL),
        "EXECUTION_PLAN_ENGINE_CONFIG": ("BACKEND_DESCRIPTOR", ONE, "ENGINECFG"),
        "EXECUTION_PLAN_WORKSPACE_SIZE": ("INT64", ONE, DERIVED),
        "EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS": ("INT64", ANY, DERIVED),
        "EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS": ("INT64", ANY, OPTIONAL),
    },
    "VARIANT_PACK": {
        "VARIANT_PACK_UNIQUE_IDS": ("INT64", ANY, None), "VARIANT_PACK_DATA_POINTERS": ("VOID_PTR", ANY, None),
        "VARIANT_PACK_WORKSPACE": ("VOID_PTR", ONE, OPTIONAL),
    },
}


cdef str _word(str enum, object given, str parameter):
    """A member's name without its prefix."""
    cdef int number = to_member(given, enum, parameter)
    try:
        name = getattr(enums, enum)(number).name
    except ValueError:
        raise BadParmError("unknown", parameter, given, f"a {enum}") from None
    return name.removeprefix({_KIND: "MIOPEN_BACKEND_", _ATTRIBUTE: "MIOPEN_ATTR_", _TYPE: "MIOPEN_TYPE_"}[enum])


cdef class BackendDescriptor:
    """BackendDescriptor()\n--\n\n\
    A descriptor of the graph API (miopenBackendDescriptor_t), which miopenBackendCreateDescriptor makes."""

    cdef readonly str kind             # without MIOPEN_BACKEND_ and _DESCRIPTOR, "OPERATION_MATMUL"
    cdef readonly bint finalized
    cdef readonly bint destroyed
    cdef dict values                   # lists of elements by attributes' names
    cdef BackendDescriptor taken       # itself and all that it uses, as they were when it was finalised
    cdef object made                   # a tensor's or convolution's descriptor; engines of a graph; what a plan runs

    def __init__(self):
        raise TypeError("descriptors of the graph API are made by miopenBackendCreateDescriptor")

    def __reduce__(self):
        raise TypeError("a descriptor of the graph API is not copied: make another")

    def __repr__(self):
        return f"<BackendDescriptor {self.kind.lower()}{', finalized' if self.finalized else ''}>"

    def value(self, str name, int64_t i=0):
        """Element i of an attribute, by its name without the prefix; its default where it was not set."""
        if name not in _SCHEMA[self.kind]:
            raise BadParmError(f"no attribute of {self.kind.lower()}", "attributeName", f"MIOPEN_ATTR_{name}",
                               ", ".join(f"MIOPEN_ATTR_{one}" for one in _SCHEMA[self.kind]))
        its = self.values.get(name)
        if its is not None:
            return its[i] if i < len(its) else None
        rest = _SCHEMA[self.kind][name][2]
        return None if rest is None or isinstance(rest, (str, tuple)) else rest

    def all_values(self, str name):
        """All elements of an attribute."""
        return list(self.values.get(name, ()))

    @property
    def uid(self):
        """A tensor's unique id."""
        _require_tensor(self)
        return self.value("TENSOR_UNIQUE_ID")

    @property
    def virtual(self):
        """Whether a tensor has no memory of the caller's."""
        _require_tensor(self)
        return self.value("TENSOR_IS_VIRTUAL")

    @property
    def desc(self):
        """A tensor's TensorDescriptor."""
        _require_tensor(self)
        return self.made


cdef int _require_tensor(BackendDescriptor d) except -1:
    if d.kind != "TENSOR":
        raise BadParmError("another kind of descriptor", "descriptor", d, "MIOPEN_BACKEND_TENSOR_DESCRIPTOR")
    if not d.finalized:
        raise NotInitializedError("not finalised yet", "descriptor", d, "miopenBackendFinalize before")
    return 0


cdef BackendDescriptor _alive(object given, str parameter):
    if not isinstance(given, BackendDescriptor):
        raise BadParmError("not a descriptor of the graph API", parameter, given, "a BackendDescriptor")
    if (<BackendDescriptor> given).destroyed:
        raise BadParmError(f"{parameter} was destroyed", parameter, given, "a live BackendDescriptor")
    return <BackendDescriptor> given


cdef BackendDescriptor _finalized(object given, str kind, str parameter):
    """A live and finalised descriptor of a kind, or of those that begin so."""
    return _of_kind(_alive(given, parameter), kind, parameter)


cdef BackendDescriptor _of_kind(BackendDescriptor d, str kind, str parameter):
    if d.kind != kind and not (kind == "OPERATION" and d.kind.startswith("OPERATION_")):
        raise BadParmError("another kind of descriptor", parameter, d, f"MIOPEN_BACKEND_{kind}..._DESCRIPTOR")
    if not d.finalized:
        raise BadParmError("not finalised yet", parameter, d, "miopenBackendFinalize before")
    return d


cdef tuple _schema_of(BackendDescriptor d, str name, str attribute_type):
    """What an attribute is; its type must be the one that was given."""
    attributes = _SCHEMA[d.kind]
    if name not in attributes:
        raise BadParmError(f"no attribute of {d.kind.lower()}", "attributeName", f"MIOPEN_ATTR_{name}",
                           ", ".join(f"MIOPEN_ATTR_{one}" for one in attributes))
    of = attributes[name]
    if attribute_type != of[0] and not (of[0] == "REAL" and attribute_type in ("FLOAT", "DOUBLE")):
        raise BadParmError(f"type of MIOPEN_ATTR_{name}", "attributeType", f"MIOPEN_TYPE_{attribute_type}",
                           "MIOPEN_TYPE_FLOAT or MIOPEN_TYPE_DOUBLE" if of[0] == "REAL" else f"MIOPEN_TYPE_{of[0]}")
    return of


cdef object _element(object given, str kind, object rest, str parameter):
    """An element of an attribute, checked."""
    if kind == "INT64" or kind == "INT32":
        return to_int64(given, parameter)
    if kind == "BOOLEAN":
        return bool(to_flag(given, parameter))
    if kind == "REAL" or kind == "DOUBLE":
        return to_double(given, parameter)
    if kind == "HANDLE":
        return as_handle(given)
    if kind == "BACKEND_DESCRIPTOR":
        return _finalized(given, rest[1] if isinstance(rest, tuple) else rest, parameter)
    if kind in _ENUMS:
        number = to_member(given, _ENUMS[kind], parameter)
        try:
            return getattr(enums, _ENUMS[kind])(number)
        except ValueError:
            raise BadParmError("unknown", parameter, given, f"a {_ENUMS[kind]}") from None
    return given  # memory: whoever runs the graph looks at it


def miopenBackendCreateDescriptor(descriptorType):
    """Return a new descriptor of the graph API, without attributes.

    Parameters
    ----------
    descriptorType : miopenBackendDescriptorType_t

    Raises
    ------
    BadParmError
        For what is no such type.
    MIOpenNotImplementedError
        For a type that MIOpen's graphs do not use either: concat, norms, resample, signal, statistics, knobs, layouts.
    """
    return _made(BackendDescriptor.__new__(BackendDescriptor), descriptorType)


cdef BackendDescriptor _made(BackendDescriptor d, object descriptor_type):
    kind = _word(_KIND, descriptor_type, "descriptorType").removesuffix("_DESCRIPTOR")
    if kind not in _SCHEMA:
        raise MIOpenNotImplementedError("descriptors of this type", "descriptorType", descriptor_type,
                                        ", ".join(kind.lower() for kind in _SCHEMA))
    d.kind, d.values, d.finalized, d.made, d.taken = kind, {}, False, None, None
    return d


def miopenBackendInitialize(descriptor, descriptorType, sizeInBytes):
    """Make a descriptor one of another type, without attributes; a Python object has no size to be short of.

    Parameters
    ----------
    descriptor : BackendDescriptor
    descriptorType : miopenBackendDescriptorType_t
    sizeInBytes : int
        At least 0.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For what is no live descriptor, an unknown type or a negative size; the descriptor stays as it was.
    """
    cdef BackendDescriptor d = _alive(descriptor, "descriptor")
    if to_int64(sizeInBytes, "sizeInBytes") < 0:
        raise BadParmError("negative size", "sizeInBytes", sizeInBytes, ">= 0")
    _made(d, descriptorType)


def miopenBackendSetAttribute(descriptor, attributeName, attributeType, elementCount, arrayOfElements):
    """Set an attribute of a descriptor that is not finalised.

    Parameters
    ----------
    descriptor : BackendDescriptor
    attributeName : miopenBackendAttributeName_t
        One that the descriptor's type has.
    attributeType : miopenBackendAttributeType_t
        The attribute's; real numbers are FLOAT or DOUBLE.
    elementCount : int
        How many of `arrayOfElements` count.
    arrayOfElements : sequence, or a single element
        Numbers, members of enumerations, handles, finalised descriptors, memory of the handle's device.

    Raises
    ------
    NotInitializedError
        Where the descriptor is finalised.
    BadParmError
        For an attribute, type or count that is not the descriptor's, or elements that do not fit; nothing was set then.
    """
    cdef BackendDescriptor d = _alive(descriptor, "descriptor")
    cdef str name = _word(_ATTRIBUTE, attributeName, "attributeName")
    cdef str attribute_type = _word(_TYPE, attributeType, "attributeType")
    cdef int64_t count = to_int64(elementCount, "elementCount")
    if d.finalized:
        raise NotInitializedError("a finalised descriptor is not set any more", "descriptor", d,
                                  "miopenBackendInitialize before")
    kind, wanted, rest = _schema_of(d, name, attribute_type)
    if rest == DERIVED:
        raise BadParmError("an attribute that can only be asked for", "attributeName", f"MIOPEN_ATTR_{name}", "another")
    if kind != "VOID_PTR" and isinstance(arrayOfElements, np.ndarray):
        arrayOfElements = arrayOfElements.ravel().tolist()
    given = list(arrayOfElements) if isinstance(arrayOfElements, (list, tuple)) else [arrayOfElements]
    if count != len(given) and (count < 0 or count > len(given)):
        raise BadParmError("not a number of the elements", "elementCount", count, f"0 to {len(given)}")
    if (wanted == ONE and count != 1) or (wanted == SOME and count < 1):
        raise BadParmError(f"elements of MIOPEN_ATTR_{name}", "elementCount", count, "1" if wanted == ONE else ">= 1")
    if d.kind == "OPERATIONGRAPH" and name == "OPERATIONGRAPH_OPS" and len({id(one) for one in given[:count]}) != count:
        raise BadParmError("an operation is given twice", "arrayOfElements", count, "each operation once")
    d.values[name] = [_element(one, kind, rest, "arrayOfElements") for one in given[:count]]


def miopenBackendFinalize(descriptor):
    """Check a descriptor's attributes, and let it be used.

    An operation graph looks for what can run it: its engines.

    Parameters
    ----------
    descriptor : BackendDescriptor

    Raises
    ------
    NotInitializedError
        Where it is finalised already.
    BadParmError
        Where an attribute is missing or does not fit the others.
    MIOpenNotImplementedError
        For a graph that nothing runs, and an execution plan that no solver can prepare.
    """
    cdef BackendDescriptor d = _alive(descriptor, "descriptor")
    if load_flag(d.finalized):
        raise NotInitializedError("finalised already", "descriptor", d, "once")
    for name, (_, _, rest) in _SCHEMA[d.kind].items():
        needed = rest is None or (isinstance(rest, str) and rest not in (OPTIONAL, DERIVED))
        if needed and name not in d.values:
            raise BadParmError("an attribute is missing", "descriptor", f"MIOPEN_ATTR_{name}",
                               "one set by miopenBackendSetAttribute")
    taken, made = _taken(d), None
    finish = _FINISH.get(d.kind)
    if finish is not None:
        taken.made = finish(taken)
        # A caller may set the descriptor that a tensor lends.
        made = finish(taken) if d.kind == "TENSOR" else taken.made
    mx_guard_lock(&_guard)
    already = d.finalized
    if not already:
        d.made, d.taken = made, taken
        store_flag(d.finalized, True)
    mx_guard_unlock(&_guard)
    if already:  # by another thread, meanwhile
        raise NotInitializedError("finalised already", "descriptor", d, "once")


cdef mx_guard _guard  # of what finalising sets


cdef BackendDescriptor _taken(BackendDescriptor d):
    """A descriptor as it is now: what it uses may be initialised anew later, or may have been meanwhile."""
    cdef BackendDescriptor taken = _copied(d)
    cdef BackendDescriptor used
    for name, its in d.values.items():
        kind, _, rest = _SCHEMA[d.kind][name]
        if kind == "BACKEND_DESCRIPTOR":
            parts = []
            for used in its:
                _of_kind(used, rest[1] if isinstance(rest, tuple) else rest, f"MIOPEN_ATTR_{name}")
                parts.append(used.taken)
            taken.values[name] = parts
    return taken


def _finish_tensor(d):
    lens, strides = d.all_values("TENSOR_DIMENSIONS"), d.all_values("TENSOR_STRIDES")
    return TensorDescriptor(d.value("TENSOR_DATA_TYPE"), lens, strides)


def _finish_convolution(d):
    spatial = d.value("CONVOLUTION_SPATIAL_DIMS")
    for name in ("DILATIONS", "FILTER_STRIDES", "PRE_PADDINGS", "POST_PADDINGS"):
        its = d.all_values(f"CONVOLUTION_{name}")
        if len(its) != spatial:
            raise BadParmError("not one number a spatial axis", f"MIOPEN_ATTR_CONVOLUTION_{name}", its, spatial)
    return None


def _finish_rng(d):
    probability = d.value("RNG_BERNOULLI_DIST_PROBABILITY")
    if d.value("RNG_DISTRIBUTION") == enums.MIOPEN_RNG_DISTRIBUTION_BERNOULLI and not 0 <= probability < 1:
        raise BadParmError("not a probability", "MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY", probability,
                           "0 <= probability < 1")


def _finish_operation(d):
    from . import patterns

    return patterns.require_fit(d)


def _finish_graph(d):
    from . import patterns

    return patterns.engines(d)


def _finish_engine(d):
    cdef BackendDescriptor graph = d.value("ENGINE_OPERATION_GRAPH")
    index = d.value("ENGINE_GLOBAL_INDEX")
    if index < 0 or index >= len(graph.made):
        raise BadParmError("no such engine", "MIOPEN_ATTR_ENGINE_GLOBAL_INDEX", index, f"0 ... {len(graph.made) - 1}")
    return graph.made[index]


def _finish_config(d):
    if d.all_values("ENGINECFG_KNOB_CHOICES"):
        raise UnsupportedOpError("engines have no knobs", "MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES",
                                 d.all_values("ENGINECFG_KNOB_CHOICES"), "none")
    cdef BackendDescriptor engine = d.value("ENGINECFG_ENGINE")
    return engine.made


def _finish_plan(d):
    cdef BackendDescriptor config = d.value("EXECUTION_PLAN_ENGINE_CONFIG")
    cdef BackendDescriptor engine = config.value("ENGINECFG_ENGINE")
    handle = d.value("EXECUTION_PLAN_HANDLE")
    if handle is None:
        handle = engine.value("ENGINE_OPERATION_GRAPH").value("OPERATIONGRAPH_HANDLE")
    return config.made.prepare(handle)


def _finish_pack(d):
    ids, memory = d.all_values("VARIANT_PACK_UNIQUE_IDS"), d.all_values("VARIANT_PACK_DATA_POINTERS")
    if len(ids) != len(memory):
        raise BadParmError("not a pointer for each id", "MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS", len(memory), len(ids))
    if len(set(ids)) != len(ids):
        raise BadParmError("an id is given twice", "MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS", ids, "each id once")
    return dict(zip(ids, memory, strict=True))


cdef dict _FINISH = {
    **dict.fromkeys([kind for kind in _SCHEMA if kind.startswith("OPERATION_")], _finish_operation),
    "TENSOR": _finish_tensor, "CONVOLUTION": _finish_convolution, "RNG": _finish_rng,
    "OPERATIONGRAPH": _finish_graph, "ENGINE": _finish_engine, "ENGINECFG": _finish_config,
    "EXECUTION_PLAN": _finish_plan, "VARIANT_PACK": _finish_pack,
}


def miopenBackendGetAttribute(descriptor, attributeName, attributeType, requestedElementCount):
    """Return how many elements an attribute of a finalised descriptor has, and the first of them.

    Parameters
    ----------
    descriptor : BackendDescriptor
    attributeName : miopenBackendAttributeName_t
    attributeType : miopenBackendAttributeType_t
    requestedElementCount : int
        How many elements to return at most.

    Returns
    -------
    (int, list)
        Descriptors are new objects for MIOPEN_ATTR_ENGINEHEUR_RESULTS, else those that were set.

    Raises
    ------
    NotInitializedError
        Where the descriptor is not finalised.
    BadParmError
        For an attribute or type that is not the descriptor's, or a negative count.
    """
    cdef BackendDescriptor d = _alive(descriptor, "descriptor")
    cdef str name = _word(_ATTRIBUTE, attributeName, "attributeName")
    cdef str attribute_type = _word(_TYPE, attributeType, "attributeType")
    cdef int64_t count = to_int64(requestedElementCount, "requestedElementCount")
    if not d.finalized:
        raise NotInitializedError("not finalised yet", "descriptor", d, "miopenBackendFinalize before")
    _, wanted, rest = _schema_of(d, name, attribute_type)
    if count < 0:
        raise BadParmError("negative count", "requestedElementCount", count, ">= 0")
    if name == "OPERATIONGRAPH_ENGINE_GLOBAL_COUNT":
        its = [len(d.made)]
    elif name == "EXECUTION_PLAN_WORKSPACE_SIZE":
        its = [d.made.workspace]
    elif name == "ENGINEHEUR_RESULTS":
        its = _results(d)
    elif rest == DERIVED:
        its = []
    elif name in d.values or wanted != ONE:
        its = d.all_values(name)
    else:
        value = d.value(name)
        its = [] if value is None else [value]
    return len(its), its[:count]


cdef list _results(BackendDescriptor heuristics):
    """A configuration of each engine, the best first."""
    cdef BackendDescriptor graph = heuristics.taken.value("ENGINEHEUR_OPERATION_GRAPH")
    cdef BackendDescriptor engine, config
    cdef list found = []
    for i in range(len(graph.made)):
        engine = _made(BackendDescriptor.__new__(BackendDescriptor), "MIOPEN_BACKEND_ENGINE_DESCRIPTOR")
        engine.values = {"ENGINE_OPERATION_GRAPH": heuristics.values["ENGINEHEUR_OPERATION_GRAPH"],
                         "ENGINE_GLOBAL_INDEX": [i]}
        engine.made, engine.finalized, engine.taken = graph.made[i], True, _copied(engine)
        engine.taken.values["ENGINE_OPERATION_GRAPH"], engine.taken.made = [graph], engine.made
        config = _made(BackendDescriptor.__new__(BackendDescriptor), "MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR")
        config.values, config.made, config.finalized = {"ENGINECFG_ENGINE": [engine]}, engine.made, True
        config.taken = _copied(config)
        config.taken.values["ENGINECFG_ENGINE"], config.taken.made = [engine.taken], engine.made
        found.append(config)
    return found


cdef BackendDescriptor _copied(BackendDescriptor d):
    cdef BackendDescriptor copy = BackendDescriptor.__new__(BackendDescriptor)
    copy.kind, copy.values, copy.finalized = d.kind, dict(d.values), True
    return copy


def miopenBackendExecute(handle, executionPlan, variantPack):
    """Run a graph on the memory of a variant pack.

    Parameters
    ----------
    handle : Handle
        That of the plan.
    executionPlan : BackendDescriptor
        Finalised.
    variantPack : BackendDescriptor
        Finalised, with memory for each tensor of the graph that is not virtual.  The workspace is not used: plans
        have one of the handle's.

    Raises
    ------
    BadParmError
        For another handle, descriptors that are not finalised, or memory that is missing, does not fit or has an id
        that the graph does not; nothing was run then.
    """
    cdef Handle h = as_handle(handle)
    cdef BackendDescriptor plan = _finalized(executionPlan, "EXECUTION_PLAN", "executionPlan")
    cdef BackendDescriptor pack = _finalized(variantPack, "VARIANT_PACK", "variantPack")
    if plan.made.handle is not h:
        raise BadParmError("another handle than the plan's", "handle", h, plan.made.handle)
    plan.made.run(pack.made)


def miopenBackendDestroyDescriptor(descriptor):
    """End a descriptor of the graph API; what was made of it goes on.

    Parameters
    ----------
    descriptor : BackendDescriptor

    Raises
    ------
    BadParmError
        For anything else, and what was destroyed already.
    """
    _alive(descriptor, "descriptor").destroyed = True


__all__ = ["BackendDescriptor", *(_name for _name in globals()
                                  if _name.startswith("miopen") and not _name.endswith("_t"))]
