/* Philox 4x32-10 (Salmon et al., SC 2011), as kernels/include/philox.h has it. */
#ifndef MIOPYX_PHILOX_H
#define MIOPYX_PHILOX_H
#include <stdint.h>

/* One counter's four words. */
static inline void mx_philox(uint64_t counter, uint64_t masks, uint64_t seed, uint32_t *words) {
    uint32_t a = (uint32_t) counter, b = (uint32_t) (counter >> 32), c = (uint32_t) masks;
    uint32_t d = (uint32_t) (masks >> 32), k0 = (uint32_t) seed, k1 = (uint32_t) (seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t) a * 0xD2511F53u, p1 = (uint64_t) c * 0xCD9E8D57u;
        a = (uint32_t) (p1 >> 32) ^ b ^ k0;
        c = (uint32_t) (p0 >> 32) ^ d ^ k1;
        b = (uint32_t) p1;
        d = (uint32_t) p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

/* The number of a mask, which no other call takes: states that threads share count each. */
static inline uint64_t mx_take_mask(uint64_t *states, int evolves) {
    return evolves ? __atomic_fetch_add(states + 1, 1, __ATOMIC_SEQ_CST)
                   : __atomic_load_n(states + 1, __ATOMIC_ACQUIRE);
}

/* Let all places say what the first one does.  Where another thread has counted meanwhile, once more: whoever
   counts later writes later, and the last one finds it as it was. */
static inline void mx_tell_places(uint64_t *states, int places) {
    uint64_t count;
    do {
        count = __atomic_load_n(states + 1, __ATOMIC_SEQ_CST);
        for (int place = 1; place < places; place++)
            __atomic_store_n(states + 2 * place + 1, count, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    } while (__atomic_load_n(states + 1, __ATOMIC_SEQ_CST) != count);
}

#endif
