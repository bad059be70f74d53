/* FOR_COUNTS(DO) is DO(1) DO(2) ... DO(N_VECTORS): functions, or cases of a switch, for each number of vectors. */
#if N_VECTORS == 1
#define FOR_COUNTS(DO) DO(1)
#elif N_VECTORS == 2
#define FOR_COUNTS(DO) DO(1) DO(2)
#elif N_VECTORS == 3
#define FOR_COUNTS(DO) DO(1) DO(2) DO(3)
#elif N_VECTORS == 4
#define FOR_COUNTS(DO) DO(1) DO(2) DO(3) DO(4)
#elif N_VECTORS == 5
#define FOR_COUNTS(DO) DO(1) DO(2) DO(3) DO(4) DO(5)
#elif N_VECTORS == 6
#define FOR_COUNTS(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
#else
#error "N_VECTORS must be 1 to 6"
#endif
