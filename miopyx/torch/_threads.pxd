cdef object call(object function, object argument)
