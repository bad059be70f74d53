/* Declares a function that has barriers.  Drivers that inline what they like go wrong there: Mesa's llvmpipe (25.0) ends
 * the process at a barrier of a function that it calls, and PoCL's threads share the local memory of such a one.
 */
#define GROUP_INLINE static inline __attribute__((always_inline))
