/* What libcuda_stub.c makes a tensor map of, and nvidia_emulator.c copies by. */
#ifndef TENSOR_MAP_H
#define TENSOR_MAP_H
#include <stdint.h>
#define TENSOR_MAP_MARK 0x7e50120a9ull

typedef struct {
    uint64_t address, len[5], stride[5]; /* bytes */
    uint32_t box[5], step[5];
    int32_t lower[3], upper[3], rank, im2col, bytes; /* of an element; 4: floats, rounded to TF32 */
} tensor_map;

/* A kernel's argument of 128 bytes. */
typedef struct {
    uint64_t mark;
    const tensor_map *map;
    uint64_t more[14];
} tensor_map_argument;
#endif
