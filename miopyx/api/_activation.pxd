"""Activations for other API modules."""

from miopyx.engine._plan cimport Plan
from miopyx.problem._activation cimport ActivationDescriptor

# alpha, beta and gamma, one after the other.
cdef int write_activation(ActivationDescriptor activ, double* numbers) noexcept
# Let a plan keep an activation's numbers, from number `first` of its calls on; they belong to what it was made from.
cdef Plan with_activation(object activ, Plan plan, int first)
