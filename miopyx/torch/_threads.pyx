"""Keeps PyTorch's idle threads off the cores while a kernel of ours runs.

After a parallel region the threads of libgomp spin for some milliseconds, in case that another one follows
(GOMP_SPINCOUNT in its manual).  What an OpenCL runtime starts meanwhile shares the cores with them, and one of its
threads that lost its core at the wrong time delays the whole kernel by a time slice.  So our call runs inside a region
of PyTorch's own libgomp: the calling thread does the work, the others sleep until it is done, and are back at their
spinning for PyTorch's next operator.
"""

from os import fsdecode

from cpython.ref cimport Py_DECREF, Py_INCREF
from posix.dlfcn cimport RTLD_LAZY, dlclose, dlopen, dlsym

from miopyx.values._guard cimport load_pointer, store_pointer

cdef extern from "<dlfcn.h>":
    const int RTLD_NOLOAD

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()
    int pthread_equal(pthread_t a, pthread_t b)
    int pthread_mutex_init(pthread_mutex_t* mutex, void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* mutex)
    int pthread_mutex_lock(pthread_mutex_t* mutex)
    int pthread_mutex_unlock(pthread_mutex_t* mutex)
    int pthread_cond_init(pthread_cond_t* condition, void* attributes)
    int pthread_cond_destroy(pthread_cond_t* condition)
    int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex)
    int pthread_cond_broadcast(pthread_cond_t* condition)

ctypedef void (*body_t)(void* data) noexcept nogil
ctypedef void (*parallel_t)(body_t body, void* data, unsigned threads, unsigned flags) noexcept nogil

cdef struct region_t:
    pthread_t caller
    pthread_mutex_t mutex
    pthread_cond_t condition
    bint done
    void* function         # borrowed from the caller, who waits
    void* argument
    void* result           # owned, as is the error; one of them is NULL
    void* error

cdef void* _parallel = NULL  # GOMP_parallel of the libgomp that PyTorch loaded


def find():
    """Look for PyTorch's libgomp among what is loaded; return its path, None if PyTorch's threads are others."""
    cdef void* library
    cdef void* function
    paths = set()
    try:
        with open("/proc/self/maps", "rb") as lines:  # names may be any bytes
            paths = {line.split(None, 5)[5].strip() for line in lines if b"libgomp" in line}
    except OSError:  # no Linux
        pass
    # Others may have brought a copy of their own.
    for path in sorted(paths, key=lambda path: (b"torch" not in path, path)):
        library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)
        if library != NULL:
            function = dlsym(library, "GOMP_parallel")
            dlclose(library)
            if function != NULL:
                store_pointer(_parallel, function)
                return fsdecode(path)
    return None


def forget():
    """Call without a region from now on."""
    store_pointer(_parallel, NULL)


cdef void _work(region_t* region) noexcept:
    try:
        result = (<object> region.function)(<object> region.argument)
        Py_INCREF(result)
        region.result = <void*> result
    except BaseException as e:  # an interrupt is the caller's, too
        Py_INCREF(e)
        region.error = <void*> e


cdef void _body(void* data) noexcept nogil:
    cdef region_t* region = <region_t*> data
    if pthread_equal(pthread_self(), region.caller):
        with gil:
            _work(region)
        pthread_mutex_lock(&region.mutex)
        region.done = True
        pthread_cond_broadcast(&region.condition)
        pthread_mutex_unlock(&region.mutex)
    else:
        pthread_mutex_lock(&region.mutex)
        while not region.done:
            pthread_cond_wait(&region.condition, &region.mutex)
        pthread_mutex_unlock(&region.mutex)


cdef object call(object function, object argument):
    """Call a function with an argument while PyTorch's other threads sleep."""
    cdef region_t region
    cdef parallel_t parallel = <parallel_t> load_pointer(_parallel)  # another thread may say `forget`
    if parallel == NULL:
        return function(argument)
    region.caller, region.done = pthread_self(), False
    region.function, region.argument = <void*> function, <void*> argument
    region.result = region.error = NULL
    pthread_mutex_init(&region.mutex, NULL)
    pthread_cond_init(&region.condition, NULL)
    parallel(_body, &region, 0, 0)  # as many threads as PyTorch's own regions have
    pthread_cond_destroy(&region.condition)
    pthread_mutex_destroy(&region.mutex)
    if region.error != NULL:
        error = <object> region.error
        Py_DECREF(error)
        raise error
    result = <object> region.result
    Py_DECREF(result)
    return result


def called(function, argument):
    """`call`, for Python."""
    return call(function, argument)
