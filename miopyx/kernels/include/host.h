/* For headers with structs that the host fills and kernels take by value.  The host's C compiler and OpenCL's read the
 * same lines; so a member has a type with one layout in both: int, unsigned int, or one of the names below.
 * Not long (32 bits on some hosts), no pointers, no vectors, no bool.
 */
#ifndef MIOPYX_HOST_H
#define MIOPYX_HOST_H
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef long mx_int64;
typedef ulong mx_uint64;
#else
#include <stdint.h>
typedef int64_t mx_int64;
typedef uint64_t mx_uint64;
_Static_assert(sizeof(int) == 4 && sizeof(mx_int64) == 8, "int has 32 bits in OpenCL C");
#endif
#endif
