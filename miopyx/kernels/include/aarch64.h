/* vload and vstore for AArch64.  PoCL's are compiled for another processor than kernels are, and LLVM inlines among equals
 * alone: each is a call, for which a loop of products stores all its sums and loads them again. */
#define MX_VECTORS_IN(space, T, n)                                                                               \
    static inline T##n __attribute__((overloadable)) mx_vload##n(const size_t i, space const T *p)              \
    {                                                                                                            \
        return *(space const mx_loose_##T##n *)(p + n * i);                                                      \
    }
#define MX_VECTORS_OUT(space, T, n)                                                                              \
    static inline void __attribute__((overloadable)) mx_vstore##n(const T##n v, const size_t i, space T *p)     \
    {                                                                                                            \
        *(space mx_loose_##T##n *)(p + n * i) = v;                                                               \
    }
#define MX_VECTORS_OF(T, n)            \
    MX_VECTORS_IN(__global, T, n)      \
    MX_VECTORS_IN(__local, T, n)       \
    MX_VECTORS_IN(__private, T, n)     \
    MX_VECTORS_IN(__constant, T, n)    \
    MX_VECTORS_OUT(__global, T, n)     \
    MX_VECTORS_OUT(__local, T, n)      \
    MX_VECTORS_OUT(__private, T, n)
#define MX_VECTORS(T)    \
    MX_VECTORS_OF(T, 2)  \
    MX_VECTORS_OF(T, 4)  \
    MX_VECTORS_OF(T, 8)  \
    MX_VECTORS_OF(T, 16)
MX_VECTORS(char)
MX_VECTORS(uchar)
MX_VECTORS(short)
MX_VECTORS(ushort)
MX_VECTORS(int)
MX_VECTORS(uint)
MX_VECTORS(long)
MX_VECTORS(ulong)
MX_VECTORS(float)
#ifdef cl_khr_fp64
MX_VECTORS(double)
#endif
#undef vload /* what names are joined from */
#undef vstore
#undef vload2
#undef vload4
#undef vload8
#undef vload16
#undef vstore2
#undef vstore4
#undef vstore8
#undef vstore16
#define vload2 mx_vload2
#define vload4 mx_vload4
#define vload8 mx_vload8
#define vload16 mx_vload16
#define vstore2 mx_vstore2
#define vstore4 mx_vstore4
#define vstore8 mx_vstore8
#define vstore16 mx_vstore16
