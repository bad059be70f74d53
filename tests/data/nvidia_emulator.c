/* One kernel's launch on a CPU, work-item by work-item: included by what tests/nvidia_emulator.py writes.

   Each work-item is a fiber with a stack of its own.  Instructions of a warp (mma.sync, ldmatrix, shfl), of a warpgroup
   (wgmma) and barriers suspend a fiber until all whom they concern have come to the same instruction; the last one
   computes.  Groups run one after the other, in order, on the thread that launches; those of a cluster, and all along
   the first axis of a cooperative launch, take turns, each with its own local memory in place.

   What is as on the device: which bytes go where.  What is not: times, sums (in double, rounded once an instruction; of
   8 bits with 14 bits, as nv_wgmma_bytes says), and the order of what is asynchronous: wgmma computes when it is issued,
   and what it read must be the same when it is waited for, once others have gone on; cp.async copies as late as it may,
   when it is waited for.  Local memory is NaN before each group.  Each access is looked at: outside local memory, outside what
   `mapped` knows, or at no multiple, it ends the launch with a message, as does a warp that does not come together, or a
   group in which nobody can go on. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_ITEMS = 1024, WARP = 32, WARPGROUP = 128, STACK = 1 << 18, COPIES = 4096, BARRIERS = 16, WGMMA_ROUNDS = 12,
       ALL_LOCAL = 1 << 18 };

typedef uint64_t cell; /* of an operand of an instruction */
typedef struct { uint64_t from; uint32_t to; int bytes, read, group; } copy;
typedef struct { int arrived, size; const char *what; uint64_t turn; cell *operands[WARPGROUP]; } meeting;
/* What wgmma of a warpgroup has read from local memory and nobody has waited for. */
typedef struct { const char *at; uint32_t bits; int size, group; } part;
typedef struct { part *parts; int count, room, groups; } unread;
typedef struct {
    void *stack, *sp;
    const uint64_t *waits; /* suspended while this is `turn` */
    uint64_t turn;
    const char *at;
    int id, done, copies, groups;
    copy queue[COPIES];
} item;

typedef struct {
    item *items;
    char *stacks, *local; /* local memory while other groups run */
    meeting warps[MOST_ITEMS / WARP], warpgroups[MOST_ITEMS / WARPGROUP], barriers[BARRIERS];
    unread wgmmas[MOST_ITEMS / WARPGROUP];
    int left;
} group;

static item *self;
static group *groups, *active;
static int count, together;
static size_t grid[3], block[3], group_id[3];
static meeting cluster;
static uint64_t progress;
static void *scheduler_sp;
static int failed;
static char *message;
static size_t message_size;
static int (*mapped)(uint64_t address, size_t bytes);
static void (*kernel)(void **arguments);
static void **kernel_arguments;

/* A program's local memory, of all its kernels; none where it has none. */
#define WEAK __attribute__((weak, visibility("hidden")))
extern char __start_nv_local[] WEAK, __stop_nv_local[] WEAK;

/* Saves what a call keeps, and goes on with another stack. */
void nv_switch(void **from, void *to);
__asm__(".text\n.type nv_switch,@function\nnv_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size nv_switch,.-nv_switch\n");

static void leave(void) { nv_switch(&self->sp, scheduler_sp); }

/* Ends the launch: no fiber is gone on with. */
__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    size_t used = snprintf(message, message_size, "group %zu,%zu,%zu, work-item %d: ", group_id[0], group_id[1],
                           group_id[2], self->id);
    va_list args;
    va_start(args, format);
    if (used < message_size)
        vsnprintf(message + used, message_size - used, format, args);
    va_end(args);
    failed = 1;
    leave();
    abort();
}

static void suspend(const uint64_t *until, const char *at)
{
    self->waits = until, self->turn = *until, self->at = at;
    leave();
}

/* Comes together with `size` others; the last one to come is told so, and calls `go_on` when it has computed. */
static int meet(meeting *m, int size, int place, const char *what, cell *operands)
{
    if (m->arrived && (m->what != what || m->size != size))
        fail("%s, while others of its warp are at %s", what, m->what);
    m->what = what, m->size = size;
    m->operands[place] = operands;
    progress++;
    if (++m->arrived == size)
        return 1;
    suspend(&m->turn, what);
    return 0;
}
static void go_on(meeting *m) { m->arrived = 0, m->turn++; }
static meeting *of_warp(void) { return &active->warps[self->id / WARP]; }
static int lanes(void) { int left = count - self->id / WARP * WARP; return left < WARP ? left : WARP; }

/* Of local memory an address has the lower 32 bits, in wgmma's descriptors the lower 18. */
static char *local_at(uint32_t address, size_t bytes)
{
    const uint32_t offset = address - (uint32_t)(uintptr_t)__start_nv_local;
    if (offset + bytes > (size_t)(__stop_nv_local - __start_nv_local))
        fail("%zu bytes at %d of %td bytes of local memory", bytes, (int)offset, __stop_nv_local - __start_nv_local);
    if (offset % (bytes < 16 ? bytes : 16))
        fail("%zu bytes of local memory at %u", bytes, offset);
    return __start_nv_local + offset;
}
static char *global_at(uint64_t address, size_t bytes, const char *what)
{
    if (address % (bytes < 16 ? bytes : 16))
        fail("%s: %zu bytes at an address that is no multiple", what, bytes);
    if (mapped && !mapped(address, bytes))
        fail("%s: %zu bytes at %#llx, which no buffer has", what, bytes, (unsigned long long)address);
    return (char *)address;
}

/* cp.async */
static void copy_now(copy *c)
{
    char *to = local_at(c->to, c->bytes);
    if (c->read)
        memcpy(to, global_at(c->from, c->read, "cp.async"), c->read);
    memset(to + c->read, 0, c->bytes - c->read);
}
static void nv_copy(uint32_t to, uint64_t from, int bytes, uint32_t read)
{
    if (self->copies == COPIES)
        fail("more copies under way than there is room for");
    if (read > (uint32_t)bytes)
        fail("cp.async of %d bytes of %u", bytes, read);
    self->queue[self->copies++] = (copy) {from, to, bytes, (int)read, self->groups};
}
static void nv_copies_up_to(int group)
{
    int i = 0;
    while (i < self->copies && self->queue[i].group < group)
        copy_now(&self->queue[i++]);
    memmove(self->queue, self->queue + i, (self->copies - i) * sizeof *self->queue);
    self->copies -= i;
}
static void nv_commit(void) { self->groups++; }
static void nv_wait_group(int left) { nv_copies_up_to(self->groups - left); }

/* mbarrier: arrivals, and bytes of bulk copies that are still to come. */
typedef struct { uint32_t expected : 12, left : 12, phase : 1, begun : 7; int32_t bytes; } mbarrier;
enum { BEGUN = 0x55 };
_Static_assert(sizeof(mbarrier) == 8, "");
static void nv_mbarrier_init(uint32_t at, uint32_t expected)
{
    *(mbarrier *)local_at(at, 8) = (mbarrier) {expected, expected, 0, BEGUN, 0};
}
static mbarrier *mbarrier_at(uint32_t at)
{
    mbarrier *b = (mbarrier *)local_at(at, 8);
    if (b->begun != BEGUN)
        fail("a barrier that was not begun, at %td", (char *)b - __start_nv_local);
    return b;
}
static void complete(mbarrier *b)
{
    if (!b->left && !b->bytes)
        b->left = b->expected, b->phase ^= 1;
    progress++;
}
static void nv_mbarrier_arrive(uint32_t at)
{
    mbarrier *b = mbarrier_at(at);
    if (!b->left)
        fail("more arrivals than a barrier expects");
    b->left--;
    complete(b);
}
static void nv_mbarrier_arrive_copied(uint32_t at)
{
    nv_copies_up_to(self->groups + 1);
    nv_mbarrier_arrive(at);
}
static void nv_mbarrier_expect(uint32_t at, uint32_t bytes) { mbarrier_at(at)->bytes += bytes; }

/* Addresses of a cluster's local memory: bit 31, the group, 18 bits of offset. */
static uint32_t nv_mapa(uint32_t at, uint32_t rank)
{
    const uint32_t offset = local_at(at, 1) - __start_nv_local;
    if ((int)rank >= together)
        fail("mapa: group %u of a cluster of %d", rank, together);
    return 1u << 31 | rank << 18 | offset;
}
static char *cluster_at(uint32_t address, size_t bytes)
{
    group *of = &groups[address >> 18 & 0x1fff];
    const uint32_t offset = address & 0x3ffff;
    if (!(address >> 31) || (int)(of - groups) >= together
        || offset + bytes > (size_t)(__stop_nv_local - __start_nv_local) || offset % bytes)
        fail("%zu bytes of a cluster's local memory at %#x", bytes, address);
    if (!of->left)
        fail("local memory of group %td, which has ended", of - groups);
    return (of == active ? __start_nv_local : of->local) + offset;
}
static void nv_store_async(uint32_t at, const uint32_t *words, uint32_t barrier_at)
{
    mbarrier *b = (mbarrier *)cluster_at(barrier_at, 8);
    if (b->begun != BEGUN)
        fail("st.async: a barrier that was not begun");
    memcpy(cluster_at(at, 16), words, 16);
    b->bytes -= 16;
    complete(b);
}
static void nv_cluster_barrier(void)
{
    progress++;
    if (++cluster.arrived == count * together)
        go_on(&cluster);
    else
        suspend(&cluster.turn, "barrier.cluster");
}
/* Read again and again until another group has written. */
static uint32_t nv_acquire(uint64_t at)
{
    self->at = "ld.acquire", self->waits = NULL;
    leave();
    return *(uint32_t *)global_at(at, 4, "ld.acquire");
}
static uint32_t nv_mbarrier_try(uint32_t at, uint32_t parity)
{
    if (mbarrier_at(at)->phase != parity % 2)
        return 1;
    self->at = "mbarrier.try_wait", self->waits = NULL;
    leave();
    return mbarrier_at(at)->phase != parity % 2;
}
static void nv_copy_bulk(uint32_t to, uint64_t from, uint32_t bytes, uint32_t barrier_at)
{
    if (bytes % 16)
        fail("cp.async.bulk of %u bytes", bytes);
    memcpy(local_at(to, bytes), global_at(from, bytes, "cp.async.bulk"), bytes);
    mbarrier *b = mbarrier_at(barrier_at);
    b->bytes -= bytes;
    complete(b);
}

/* Copies by tensor maps, as libcuda_stub.c makes them: rows of 128 bytes, swizzled; floats are rounded to TF32. */
#include "tensor_map.h"
static uint64_t nv_parameter(int number) { return (uint64_t)kernel_arguments[number]; }
static void nv_copy_box(uint32_t to, uint64_t map_at, const int32_t *place, const int32_t *apart, uint32_t barrier_at,
                        int im2col, int rank)
{
    const tensor_map *m = ((const tensor_map_argument *)map_at)->map;
    int32_t at[5], low, high;
    uint32_t rows = 1;
    if (((const tensor_map_argument *)map_at)->mark != TENSOR_MAP_MARK)
        fail("cp.async.bulk.tensor: no map");
    if (m->im2col != im2col || m->rank != rank || to % 1024)
        fail("cp.async.bulk.tensor: a map of rank %d for one of %d, to %#x", m->rank, rank, to);
    for (int axis = 1; axis < (im2col ? 2 : rank); axis++)
        rows *= m->box[axis];
    memcpy(at, place, sizeof at);
    for (int axis = 1; im2col && axis < rank - 1; axis++)
        if (at[axis] < m->lower[axis - 1] || at[axis] >= (int32_t)m->len[axis] + m->upper[axis - 1] || apart[axis - 1] < 0
            || apart[axis - 1] >= (rank == 4 ? 256 : 32))
            fail("cp.async.bulk.tensor: begins at %d of axis %d, %d apart", at[axis], axis, apart[axis - 1]);
    for (uint32_t row = 0; row < rows; row++) {
        uint64_t from = m->address;
        int inside = 1;
        for (int axis = 1; axis < rank; axis++) {
            const int64_t i = at[axis] + (im2col && axis < rank - 1 ? apart[axis - 1] : 0);
            inside &= i >= 0 && i < (int64_t)m->len[axis];
            from += i * m->stride[axis];
        }
        for (int i = 0; i < (int)m->box[0]; i++) {
            uint32_t target = to + row * 128 + i * m->bytes, bits = 0;
            const int64_t column = (int64_t)at[0] + i;
            target ^= (target >> 7 & 7) << 4;
            if (inside && column >= 0 && column < (int64_t)m->len[0])
                memcpy(&bits, global_at(from + m->bytes * column, m->bytes, "cp.async.bulk.tensor"), m->bytes);
            if (m->bytes == 4) /* halves to even */
                bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
            memcpy(local_at(target, m->bytes), &bits, m->bytes);
        }
        /* The next row: of a box, or the next pixel. */
        for (int axis = 1; axis < rank; axis++) {
            if (im2col && axis == rank - 1) {
                at[axis]++;
                break;
            }
            low = im2col ? m->lower[axis - 1] : place[axis];
            high = im2col ? (int32_t)m->len[axis] + m->upper[axis - 1] : place[axis] + (int32_t)m->box[axis];
            at[axis] += im2col ? m->step[axis] : 1;
            if (at[axis] < high)
                break;
            at[axis] = low;
        }
    }
    mbarrier *b = mbarrier_at(barrier_at);
    b->bytes -= rows * 128;
    complete(b);
}

/* Barriers */
static void nv_named_barrier(uint32_t which, int size, const char *what)
{
    if (which >= BARRIERS)
        fail("barrier %u", which);
    meeting *m = &active->barriers[which];
    if (m->arrived && m->size != size)
        fail("barrier %u of %d work-items, while others take it for %d", which, size, m->size);
    m->size = size;
    progress++;
    if (++m->arrived == size)
        go_on(m);
    else
        suspend(&m->turn, what);
}
static void nv_warp_barrier(void)
{
    static const char what[] = "bar.warp.sync";
    meeting *m = of_warp();
    if (meet(m, lanes(), self->id % WARP, what, NULL))
        go_on(m);
}

/* Numbers */
static float half_of(uint16_t bits) { _Float16 h; memcpy(&h, &bits, 2); return h; }
static uint16_t half_from(float value)
{
    const _Float16 h = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
}
static float float_of(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
static uint32_t bits_of(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }
static float bfloat_of(uint16_t bits) { return float_of((uint32_t)bits << 16); }
static uint16_t bfloat_from(float value)
{
    const uint32_t bits = bits_of(value);
    return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static float tf32_of(uint32_t bits) { return float_of(bits & 0xffffe000u); }
static uint32_t tf32_from(float value) /* halves away from zero */
{
    const uint32_t bits = bits_of(value);
    return value != value ? 0x7fffffff : (bits & 0x7fffffff) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000u;
}
static float nv_exp_2(float x) { return x < -126 ? 0 : __builtin_exp2f(x); } /* none without a leading one */
#define F32(c) (*(float *)&(c))
#define U32(c) (*(uint32_t *)&(c))
#define U16(c) (*(uint16_t *)&(c))
#define U64(c) (c)
enum { HALF, BFLOAT, TF32, INT8, E4M3, E5M2 };
/* OCP's 8 bits.  What is too large becomes the largest number, infinity too. */
static double byte_of(uint8_t bits, int type)
{
    const int fraction = type == E4M3 ? 3 : 2, bias = type == E4M3 ? 7 : 15, size = bits & 0x7f;
    const int exponent = size >> fraction;
    double value = size & ((1 << fraction) - 1);
    if (size > (type == E4M3 ? 0x7e : 0x7c))
        return __builtin_nan("");
    if (type == E5M2 && size == 0x7c)
        value = __builtin_inf();
    else
        value = exponent ? __builtin_ldexp(value + (1 << fraction), exponent - bias - fraction)
                         : __builtin_ldexp(value, 1 - bias - fraction);
    return bits & 0x80 ? -value : value;
}
static uint8_t byte_from(float value, int type)
{
    const int top = type == E4M3 ? 0x7e : 0x7b;
    const uint8_t sign = bits_of(value) >> 31 << 7;
    const double size = __builtin_fabs(value);
    int low = 0;
    if (value != value)
        return 0x7f;
    while (low < top && byte_of(low + 1, type) <= size)
        low++;
    if (low < top) {
        const double down = size - byte_of(low, type), up = byte_of(low + 1, type) - size;
        low += up < down || (up == down && low & 1);
    }
    return low | sign;
}
static uint32_t nv_halves_of_bytes(uint16_t two, int type) /* each byte is a half exactly */
{
    return half_from(byte_of(two & 0xff, type)) | (uint32_t)half_from(byte_of(two >> 8, type)) << 16;
}
static float of_two(uint32_t word, int upper, int type)
{
    const uint16_t bits = word >> 16 * upper;
    return type == HALF ? half_of(bits) : bfloat_of(bits);
}
static uint32_t nv_set_of_two(uint32_t a, uint32_t b, int type, int nan)
{
    uint32_t result = 0;
    for (int i = 0; i < 2; i++) {
        const float x = of_two(a, i, type), y = of_two(b, i, type);
        if (nan ? x != x || y != y : x > y)
            result |= 0xffffu << 16 * i;
    }
    return result;
}
/* A number is more than NaN, and +0 more than -0. */
static float nv_relu(float value) { return value <= 0 ? 0 : value; } /* NaN stays one */
static uint32_t nv_max_of_two(uint32_t a, uint32_t b, int type)
{
    uint32_t result = 0;
    for (int i = 0; i < 2; i++) {
        const float x = of_two(a, i, type), y = of_two(b, i, type);
        const uint32_t first = a >> 16 * i & 0xffff, second = b >> 16 * i & 0xffff;
        result |= (x != x ? (y != y ? 0x7fff : second) : y != y || x > y || (x == y && second >> 15) ? first : second)
                  << 16 * i;
    }
    return result;
}
static uint32_t nv_prmt(uint32_t a, uint32_t b, uint32_t which)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t nibble = which >> 4 * i & 15;
        uint32_t byte = both >> 8 * (nibble & 7) & 255;
        if (nibble & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

/* Of a warp.  An operand's cell i is b[i]; results come first. */
static void nv_ldmatrix(cell *b, int to, int address, int transposed)
{
    static const char what[] = "ldmatrix";
    meeting *m = of_warp();
    uint16_t matrix[4][8][8];
    if (!meet(m, WARP, self->id % WARP, what, b))
        return;
    for (int i = 0; i < 32; i++)
        memcpy(matrix[i / 8][i % 8], local_at(U32(m->operands[i][address]), 16), 16);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int r = lane / 4, c = lane % 4 * 2;
            const uint32_t low = transposed ? matrix[i][c][r] : matrix[i][r][c];
            const uint32_t high = transposed ? matrix[i][c + 1][r] : matrix[i][r][c + 1];
            U32(m->operands[lane][to + i]) = low | high << 16;
        }
    go_on(m);
}
static void nv_movmatrix(cell *b, int to, int from)
{
    static const char what[] = "movmatrix";
    meeting *m = of_warp();
    uint16_t matrix[8][8];
    if (!meet(m, WARP, self->id % WARP, what, b))
        return;
    for (int lane = 0; lane < 32; lane++) {
        matrix[lane / 4][lane % 4 * 2] = U32(m->operands[lane][from]) & 0xffff;
        matrix[lane / 4][lane % 4 * 2 + 1] = U32(m->operands[lane][from]) >> 16;
    }
    for (int lane = 0; lane < 32; lane++) {
        const int row = lane % 4 * 2, column = lane / 4;
        U32(m->operands[lane][to]) = matrix[row][column] | (uint32_t)matrix[row + 1][column] << 16;
    }
    go_on(m);
}
static void nv_shuffle(cell *b, int to, int from, int with, int butterfly)
{
    static const char *const what[] = {"shfl.idx", "shfl.bfly"};
    meeting *m = of_warp();
    uint32_t values[32];
    if (!meet(m, WARP, self->id % WARP, what[butterfly], b))
        return;
    for (int lane = 0; lane < 32; lane++)
        values[lane] = U32(m->operands[lane][from]);
    for (int lane = 0; lane < 32; lane++) {
        const uint32_t other = U32(m->operands[lane][with]);
        U32(m->operands[lane][to]) = values[(butterfly ? lane ^ other : other) & 31];
    }
    go_on(m);
}
static void nv_redux_max(cell *b, int to, int from)
{
    static const char what[] = "redux.max";
    meeting *m = of_warp();
    uint32_t most = 0;
    if (!meet(m, WARP, self->id % WARP, what, b))
        return;
    for (int lane = 0; lane < 32; lane++)
        if (U32(m->operands[lane][from]) > most)
            most = U32(m->operands[lane][from]);
    for (int lane = 0; lane < 32; lane++)
        U32(m->operands[lane][to]) = most;
    go_on(m);
}

/* d[4] += a[4] b[2] of 16 x 8 numbers, 32 bytes deep: words of `each` numbers. */
static void nv_mma(cell *b, int d, int a, int from_b, int c, int zero, int type)
{
    static const char *const what[] = {"mma.f16", "mma.bf16", "mma.tf32", "mma.s8"};
    meeting *m = of_warp();
    double left[16][32], right[8][32];
    const int each = type == INT8 ? 4 : type == TF32 ? 1 : 2, depth = 8 * each;
    if (!meet(m, WARP, self->id % WARP, what[type], b))
        return;
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 6; i++) {
            const uint32_t word = U32(m->operands[lane][i < 4 ? a + i : from_b + i - 4]);
            double *to = i < 4 ? &left[lane / 4 + i % 2 * 8][(lane % 4 + i / 2 * 4) * each]
                               : &right[lane / 4][(lane % 4 + (i - 4) * 4) * each];
            switch (type) {
            case HALF: to[0] = half_of(word & 0xffff), to[1] = half_of(word >> 16); break;
            case BFLOAT: to[0] = bfloat_of(word & 0xffff), to[1] = bfloat_of(word >> 16); break;
            case TF32: to[0] = tf32_of(word); break;
            default:
                for (int j = 0; j < 4; j++)
                    to[j] = (int8_t)(word >> 8 * j);
            }
        }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            cell *at = &m->operands[lane][d + i];
            cell *before = &m->operands[lane][c + i];
            double sum = zero ? 0 : type == INT8 ? *(int32_t *)before : F32(*before);
            for (int j = 0; j < depth; j++)
                sum += left[row][j] * right[column][j];
            if (type == INT8)
                *(int32_t *)at = (int32_t)sum;
            else
                F32(*at) = (float)sum;
        }
    go_on(m);
}

/* Element (r, k) of a matrix of wgmma.  With the swizzles of 128, 64 and 32 bytes rows have as many, of r, or with the
   first transposed of k; without one 8 rows of r have 16 bytes each, `leading` bytes further the next k, `stride` bytes
   the next r. */
static char *wgmma_element(uint64_t matrix, int transposed, int r, int k, int size)
{
    const uint32_t start = (matrix & 0x3fff) << 4, leading = (matrix >> 16 & 0x3fff) << 4;
    const uint32_t stride = (matrix >> 32 & 0x3fff) << 4, mode = matrix >> 62;
    const uint32_t row = mode ? 256 >> mode : 16;
    const uint32_t in_row = row / size, in_chunk = 16 / size, begin = (uint32_t)(uintptr_t)__start_nv_local;
    uint32_t at;
    if ((matrix >> 49 & 7) || (transposed && mode != 1))
        fail("wgmma: a matrix that is not known here: %#llx", (unsigned long long)matrix);
    if (mode == 0)
        at = start + r / 8 * stride + r % 8 * 16 + k / in_chunk * leading + k % in_chunk * size;
    else if (transposed)
        at = start + r / in_row * leading + k / 8 * stride + k % 8 * 128 + r % in_row * size;
    else
        at = start + r / 8 * stride + r % 8 * row + k * size;
    if (mode)
        at ^= (at >> 7 & (row / 16 - 1)) << 4;
    return local_at(begin + ((at - begin) & (ALL_LOCAL - 1)), size);
}
/* The element's bits, of `size` bytes; they are to stay until they are waited for. */
static uint32_t wgmma_read(uint64_t matrix, int transposed, int r, int k, int size)
{
    unread *u = &active->wgmmas[self->id / WARPGROUP];
    const char *at = wgmma_element(matrix, transposed, r, k, size);
    uint32_t bits = 0;
    memcpy(&bits, at, size);
    if (u->count == u->room) {
        u->room = u->room ? 2 * u->room : 4096;
        u->parts = realloc(u->parts, u->room * sizeof *u->parts);
    }
    u->parts[u->count++] = (part) {at, bits, size, u->groups};
    return bits;
}
static void nv_wgmma_commit(void)
{
    static const char what[] = "wgmma.commit_group";
    meeting *m = &active->warpgroups[self->id / WARPGROUP];
    if (meet(m, WARPGROUP, self->id % WARPGROUP, what, NULL))
        active->wgmmas[self->id / WARPGROUP].groups++, go_on(m);
}
static void nv_wgmma_wait(int left)
{
    static const char what[] = "wgmma.wait_group";
    meeting *m = &active->warpgroups[self->id / WARPGROUP];
    unread *u = &active->wgmmas[self->id / WARPGROUP];
    for (int i = 0; i < WGMMA_ROUNDS && u->count; i++) {
        self->at = what, self->waits = NULL;
        leave();
    }
    if (!meet(m, WARPGROUP, self->id % WARPGROUP, what, NULL))
        return;
    int kept = 0;
    for (part *p = u->parts; p < u->parts + u->count; p++)
        if (p->group >= u->groups - left)
            u->parts[kept++] = *p;
        else if (memcmp(p->at, &p->bits, p->size))
            fail("wgmma: what it reads at %td of local memory changes before it is waited for", p->at - __start_nv_local);
    u->count = kept;
    go_on(m);
}
/* d (64 x n floats, in cells 0 to n / 2 - 1 of the work-items of a warpgroup) = or += left right, of `depth`. */
static double wgmma_left[64][16], wgmma_right[16][256];
static void wgmma_products(meeting *m, int n, int keep, int depth)
{
    for (int r = 0; r < 64; r++)
        for (int c0 = 0; c0 < n; c0 += 8) {
            double sums[8] = {0};
            for (int k = 0; k < depth; k++)
                for (int c = 0; c < 8; c++)
                    sums[c] += wgmma_left[r][k] * wgmma_right[k][c0 + c];
            for (int c = 0; c < 8; c++) {
                cell *at = &m->operands[r / 16 * 32 + r % 8 * 4 + c / 2][c0 / 2 + r % 16 / 8 * 2 + c % 2];
                F32(*at) = (float)((keep ? F32(*at) : 0) + sums[c]);
            }
        }
}
/* Of a float what is below TF32 is cut. */
static double wgmma_number(uint64_t matrix, int transposed, int r, int k, int type)
{
    const uint32_t bits = wgmma_read(matrix, transposed, r, k, type == TF32 ? 4 : 2);
    return type == TF32 ? tf32_of(bits) : type == HALF ? half_of(bits) : bfloat_of(bits);
}
/* Then come matrices a and b. */
static void nv_wgmma(cell *b, int n, int keep, int transposed_a, int transposed_b, int type)
{
    static const char what[] = "wgmma";
    meeting *m = &active->warpgroups[self->id / WARPGROUP];
    if (!meet(m, WARPGROUP, self->id % WARPGROUP, what, b))
        return;
    const uint64_t of_a = m->operands[0][n / 2], of_b = m->operands[0][n / 2 + 1];
    for (int i = 1; i < WARPGROUP; i++)
        if (m->operands[i][n / 2] != of_a || m->operands[i][n / 2 + 1] != of_b)
            fail("wgmma: work-items of a warpgroup name different matrices");
    const int depth = type == TF32 ? 8 : 16;
    for (int k = 0; k < depth; k++) {
        for (int r = 0; r < 64; r++)
            wgmma_left[r][k] = wgmma_number(of_a, transposed_a, r, k, type);
        for (int c = 0; c < n; c++)
            wgmma_right[k][c] = wgmma_number(of_b, transposed_b, c, k, type);
    }
    wgmma_products(m, n, keep, depth);
    go_on(m);
}
/* Likewise of a in registers, words of two numbers as mma.sync has them, and of matrix b. */
static void nv_wgmma_registers(cell *b, int n, int keep, int transposed_b, int type)
{
    static const char what[] = "wgmma of registers";
    meeting *m = &active->warpgroups[self->id / WARPGROUP];
    if (!meet(m, WARPGROUP, self->id % WARPGROUP, what, b))
        return;
    const uint64_t of_b = m->operands[0][n / 2 + 4];
    for (int i = 0; i < WARPGROUP; i++) {
        if (m->operands[i][n / 2 + 4] != of_b)
            fail("wgmma: work-items of a warpgroup name different matrices");
        for (int j = 0; j < 8; j++) {
            const uint16_t bits = U32(m->operands[i][n / 2 + j / 2]) >> j % 2 * 16;
            wgmma_left[i / 32 * 16 + i % 32 / 4 + j / 2 % 2 * 8][i % 4 * 2 + j % 2 + j / 4 * 8] =
                type == HALF ? half_of(bits) : bfloat_of(bits);
        }
    }
    for (int k = 0; k < 16; k++)
        for (int c = 0; c < n; c++)
            wgmma_right[k][c] = wgmma_number(of_b, transposed_b, c, k, type);
    wgmma_products(m, n, keep, 16);
    go_on(m);
}
/* Then come four numbers of a, and matrix b.  What is below TF32 in either is cut. */
static void nv_wgmma_tf32(cell *b, int n, int keep)
{
    static const char what[] = "wgmma.tf32";
    meeting *m = &active->warpgroups[self->id / WARPGROUP];
    if (!meet(m, WARPGROUP, self->id % WARPGROUP, what, b))
        return;
    const uint64_t of_b = m->operands[0][n / 2 + 4];
    for (int i = 0; i < WARPGROUP; i++) {
        if (m->operands[i][n / 2 + 4] != of_b)
            fail("wgmma: work-items of a warpgroup name different matrices");
        for (int j = 0; j < 4; j++)
            wgmma_left[i / 32 * 16 + i % 32 / 4 + j % 2 * 8][i % 4 + j / 2 * 4] =
                tf32_of(U32(m->operands[i][n / 2 + j]));
    }
    for (int k = 0; k < 8; k++)
        for (int c = 0; c < n; c++)
            wgmma_right[k][c] = wgmma_number(of_b, 0, c, k, TF32);
    wgmma_products(m, n, keep, 8);
    go_on(m);
}

/* Likewise of 8 bits, 32 deep, untransposed.  What is published of Hopper: products and what was in d before are shifted
   to the largest exponent among them, a product's being the sum of its factors', and cut off 13 bits behind it; so is
   what their sum has behind its own first 14 bits. */
enum { KEPT = 13, NONE = -10000 };
static int exponent_of(double value)
{
    int e;
    __builtin_frexp(value, &e);
    return value == 0 ? NONE : e - 1;
}
static double cut_off(double value, int exponent)
{
    return __builtin_ldexp(__builtin_trunc(__builtin_ldexp(value, KEPT - exponent)), exponent - KEPT);
}
static void nv_wgmma_bytes(cell *b, int n, int keep, int type_a, int type_b)
{
    static const char what[] = "wgmma of bytes";
    meeting *m = &active->warpgroups[self->id / WARPGROUP];
    static double left[64][32], right[256][32], value[2][256];
    static int left_exponent[64][32], right_exponent[256][32], exponent[2][256];
    if (!meet(m, WARPGROUP, self->id % WARPGROUP, what, b))
        return;
    const uint64_t of_a = m->operands[0][n / 2], of_b = m->operands[0][n / 2 + 1];
    for (int i = 1; i < WARPGROUP; i++)
        if (m->operands[i][n / 2] != of_a || m->operands[i][n / 2 + 1] != of_b)
            fail("wgmma: work-items of a warpgroup name different matrices");
    for (int i = 0; i < 256; i++) {
        value[0][i] = byte_of(i, type_a), exponent[0][i] = exponent_of(value[0][i]);
        value[1][i] = byte_of(i, type_b), exponent[1][i] = exponent_of(value[1][i]);
    }
    for (int k = 0; k < 32; k++) {
        for (int r = 0; r < 64; r++) {
            const uint8_t bits = wgmma_read(of_a, 0, r, k, 1);
            left[r][k] = value[0][bits], left_exponent[r][k] = exponent[0][bits];
        }
        for (int c = 0; c < n; c++) {
            const uint8_t bits = wgmma_read(of_b, 0, c, k, 1);
            right[c][k] = value[1][bits], right_exponent[c][k] = exponent[1][bits];
        }
    }
    for (int r = 0; r < 64; r++)
        for (int c = 0; c < n; c++) {
            cell *at = &m->operands[r / 16 * 32 + r % 8 * 4 + c % 8 / 2][c / 8 * 4 + r % 16 / 8 * 2 + c % 2];
            const double before = keep ? F32(*at) : 0;
            int most = exponent_of(before);
            double sum = before;
            for (int k = 0; k < 32; k++) {
                sum += left[r][k] * right[c][k];
                const int e = left_exponent[r][k] + right_exponent[c][k];
                most = e > most ? e : most;
            }
            if (sum - sum == 0 && most > NONE / 2) {
                /* Whole numbers below 2^22: their sum is exact. */
                const double scale = __builtin_ldexp(1, KEPT - most);
                int64_t whole = (int64_t)(before * scale);
                for (int k = 0; k < 32; k++)
                    whole += (int64_t)(left[r][k] * right[c][k] * scale);
                sum = __builtin_ldexp((double)whole, most - KEPT);
                sum = whole ? cut_off(sum, exponent_of(sum)) : 0;
            }
            F32(*at) = (float)sum;
        }
    go_on(m);
}

/* Global memory */
static void nv_load(cell *to, uint64_t from, int words, int bytes, const char *what)
{
    const char *at = global_at(from, (size_t)words * bytes, what);
    for (int i = 0; i < words; i++) {
        to[i] = 0;
        memcpy(&to[i], at + i * bytes, bytes);
    }
}

/* Loads and stores of OpenCL C: of a vector's `bytes`, the index-th from an address on. */
void nv_access_1(char *from, size_t index, size_t bytes, size_t align)
{
    const uint64_t at = (uint64_t)from + index * bytes;
    if (at % align)
        fail("%zu bytes at an address that is no multiple of %zu", bytes, align);
    if (mapped && !mapped(at, bytes))
        fail("%zu bytes at %#llx, which no buffer has", bytes, (unsigned long long)at);
}
void nv_access_3(char *from, size_t index, size_t bytes, size_t align)
{
    const char *at = from + index * bytes;
    if (at < __start_nv_local || at + bytes > __stop_nv_local)
        fail("%zu bytes at %td of local memory", bytes, at - __start_nv_local);
    if ((uintptr_t)at % align)
        fail("%zu bytes of local memory at an address that is no multiple of %zu", bytes, align);
}

/* OpenCL C's functions of work-items */
size_t nv_get_local_id(unsigned d) { return d ? 0 : self->id; }
size_t nv_get_group_id(unsigned d) { return d < 3 ? group_id[d] : 0; }
size_t nv_get_local_size(unsigned d) { return d < 3 ? block[d] : 1; }
size_t nv_get_num_groups(unsigned d) { return d < 3 ? grid[d] : 1; }
size_t nv_get_global_size(unsigned d) { return d < 3 ? grid[d] * block[d] : 1; }
size_t nv_get_global_id(unsigned d) { return d < 3 ? group_id[d] * block[d] + (d ? 0 : self->id) : 0; }
void nv_barrier(unsigned flags) { (void)flags; nv_named_barrier(0, count, "barrier"); }

static void begin(void)
{
    kernel(kernel_arguments);
    self->done = 1, progress++;
    leave();
    abort();
}

static void prepare(item *it, int id)
{
    void **sp = (void **)((char *)it->stack + STACK - 64);
    *--sp = NULL; /* where `begin` would return to: a call leaves the stack at 8 beside a multiple of 16 */
    *--sp = (void *)begin;
    sp -= 6;
    memset(sp, 0, 6 * sizeof *sp);
    it->sp = sp, it->id = id, it->done = 0, it->waits = NULL, it->copies = it->groups = 0, it->at = "its beginning";
}

/* Makes another group's local memory the one in place. */
static void activate(group *next)
{
    const size_t bytes = __stop_nv_local - __start_nv_local;
    if (next != active && bytes) {
        if (active)
            memcpy(active->local, __start_nv_local, bytes);
        memcpy(__start_nv_local, next->local, bytes);
    }
    active = next, group_id[0] = group_id[0] / together * together + (next - groups);
}

/* Lets each work-item of a group go on as far as it can; returns whether any did. */
static int go_round(group *g)
{
    const uint64_t before = progress;
    activate(g);
    g->left = 0;
    for (int i = 0; i < count; i++) {
        self = &g->items[i];
        if (self->done)
            continue;
        g->left++;
        if (self->waits && *self->waits == self->turn)
            continue;
        self->waits = NULL;
        nv_switch(&scheduler_sp, self->sp);
        if (failed)
            return 0;
    }
    return progress != before;
}

static void run_groups(void)
{
    int left = together, idle = 0;
    memset(&cluster, 0, sizeof cluster);
    active = NULL;
    for (group *g = groups; g < groups + together; g++) {
        memset(g->warps, 0, sizeof g->warps), memset(g->warpgroups, 0, sizeof g->warpgroups);
        memset(g->barriers, 0, sizeof g->barriers);
        for (int i = 0; i < MOST_ITEMS / WARPGROUP; i++)
            g->wgmmas[i].count = g->wgmmas[i].groups = 0;
        if (g->local)
            memset(g->local, 0xff, __stop_nv_local - __start_nv_local);
        for (int i = 0; i < count; i++)
            prepare(&g->items[i], i);
        g->left = count;
    }
    while (left) {
        int moved = 0;
        left = 0;
        for (group *g = groups; g < groups + together; g++) {
            int again = g->left > 0;
            while (again) {
                again = go_round(g), moved |= again;
                if (failed)
                    return;
            }
            left += g->left > 0;
        }
        idle = moved ? 0 : idle + 1;
        for (group *g = groups; left && idle > 1000 && g < groups + together; g++)
            for (int i = 0; i < count; i++)
                if (!g->items[i].done) {
                    activate(g);
                    snprintf(message, message_size, "group %zu,%zu,%zu: %d of %d work-items cannot go on; %d is at %s",
                             group_id[0], group_id[1], group_id[2], g->left, count, i, g->items[i].at);
                    failed = 1;
                    return;
                }
    }
}

typedef struct { const char *name; void (*run)(void **); } entry;
static const entry entries[];

static int begin_group(group *g)
{
    const size_t bytes = __stop_nv_local - __start_nv_local;
    g->items = calloc(count, sizeof *g->items);
    g->local = bytes ? malloc(bytes) : NULL;
    g->stacks = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
    if (!g->items || (bytes && !g->local) || g->stacks == MAP_FAILED)
        return 1;
    for (int i = 0; i < count; i++) {
        g->items[i].stack = g->stacks + (size_t)i * STACK;
        mprotect(g->items[i].stack, 4096, PROT_NONE);
    }
    return 0;
}

/* Returns 0, or 1 with a message.  `at_once` groups along the first axis run together. */
__attribute__((visibility("default"))) int mx_emulate(
    const char *name, const unsigned *sizes, const unsigned *size, void **arguments,
    int (*is_mapped)(uint64_t, size_t), char *said, size_t said_size, int at_once)
{
    message = said, message_size = said_size, mapped = is_mapped, kernel_arguments = arguments, kernel = NULL;
    for (const entry *e = entries; e->name; e++)
        if (!strcmp(e->name, name))
            kernel = e->run;
    count = size[0], together = at_once;
    if (!kernel || size[1] != 1 || size[2] != 1 || count > MOST_ITEMS || at_once < 1 || sizes[0] % at_once) {
        snprintf(message, message_size, "%s with %u,%u,%u work-items, %d groups at once", name, size[0], size[1], size[2],
                 at_once);
        return 1;
    }
    for (int i = 0; i < 3; i++)
        grid[i] = sizes[i], block[i] = size[i];
    groups = calloc(together, sizeof *groups);
    failed = !groups;
    for (int i = 0; i < together && !failed; i++)
        failed = begin_group(&groups[i]);
    if (failed)
        snprintf(message, message_size, "no memory");
    for (group_id[2] = 0; group_id[2] < grid[2]; group_id[2]++)
        for (group_id[1] = 0; group_id[1] < grid[1]; group_id[1]++)
            for (size_t first = 0; first < grid[0] && !failed; first += together) {
                group_id[0] = first;
                run_groups();
            }
    for (int i = 0; groups && i < together; i++) {
        if (groups[i].stacks && groups[i].stacks != MAP_FAILED)
            munmap(groups[i].stacks, (size_t)count * STACK);
        free(groups[i].items);
        free(groups[i].local);
        for (int j = 0; j < MOST_ITEMS / WARPGROUP; j++)
            free(groups[i].wgmmas[j].parts);
    }
    free(groups);
    return failed;
}
