/* Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011), a generator that counts. */
#ifndef MIOPYX_KERNELS_PHILOX_H
#define MIOPYX_KERNELS_PHILOX_H
#define PHILOX_0 0xD2511F53u
#define PHILOX_1 0xCD9E8D57u
#define PHILOX_KEY_0 0x9E3779B9u
#define PHILOX_KEY_1 0xBB67AE85u
/* The four words of a counter, or of a vector U of counters; a, b, c, d: the counter's words, then the result's. */
#define PHILOX(U, a, b, c, d, seed)                                                        \
    do {                                                                                   \
        uint k0_ = (uint)(seed), k1_ = (uint)((seed) >> 32);                               \
        _Pragma("unroll") for (int round_ = 0; round_ < 10; round_++)                      \
        {                                                                                  \
            const U high0_ = mul_hi((U)PHILOX_0, a), low0_ = (a) * PHILOX_0;               \
            const U high1_ = mul_hi((U)PHILOX_1, c), low1_ = (c) * PHILOX_1;               \
            a = high1_ ^ b ^ k0_;                                                          \
            c = high0_ ^ d ^ k1_;                                                          \
            b = low1_;                                                                     \
            d = low0_;                                                                     \
            k0_ += PHILOX_KEY_0;                                                           \
            k1_ += PHILOX_KEY_1;                                                           \
        }                                                                                  \
    } while (0)
#endif
