"""Batch normalisation for other API modules."""

from ._operation cimport Signature

# What a function takes and how its problems are made; flags are BN_... of problem/_batchnorm, which also has the slots
# and the places of a call's numbers.  `descriptors` name those of x, y, scale, bias, mean and variance, backward of x,
# dy, dx, scale, bias, mean and variance; before them, where its name begins with "activ", an activation's.  `buffers`
# are names and slots.
cdef Signature batchnorm_signature(int what, tuple descriptors, dict buffers, tuple numbers=*, int optional=*)
