"""Batch normalisation for other API modules."""

from ._operation cimport Signature

# What a function takes and how its problems are made; flags are BN_... of problem/_batchnorm, which also has the slots
# and the places of a call's numbers.  `descriptors` name x, y, scale, bias, mean and variance, backward x, dy, dx, scale,
# bias, mean and variance, after an activation's where its name begins with "activ"; `buffers` are names and slots.
cdef Signature batchnorm_signature(int what, tuple descriptors, dict buffers, tuple numbers=*, int optional=*)
