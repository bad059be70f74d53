/* A pretended libcuda.so.1: it has memory and modules, but runs no kernel, unless the PTX of a module names a library
   that does (`nvidia_emulator.py`).

   Every call is written to the file that STUB_LOG names, a line each.  STUB_FAIL=NAME:N:CODE lets the Nth
   call of a function fail; `stub_fail` does the same in the process.  STUB_DEVICES says how many devices there
   are.  A launch is right only where its context is current and its function and stream are of that context. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensor_map.h"

#define API __attribute__((visibility("default")))
enum { INVALID = 1, NO_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_CONTEXT = 201,
       BAD_HANDLE = 400, NOT_FOUND = 500 };
enum { CONTEXT = 0xc0de, MODULE, FUNCTION, STREAM, EVENT, MOST = 4096 };

typedef struct { int kind, device; char name[128]; int sizes[64], count; void *owner; char *ptx; int capturing;
                 void *library; } thing;
typedef struct { uint64_t start; size_t size; int device; } range;

static thing contexts[8];
static range ranges[MOST];
static int ranges_used;
static int initialized, pid;
static __thread thing *stack[16];
static __thread int depth;
static long live[8]; /* modules, events, ranges, pushed contexts, retained contexts */
static char fail_name[64];
static int fail_at, fail_code;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

API void stub_fail(const char *name, int nth, int code) {
    snprintf(fail_name, sizeof fail_name, "%s", name);
    fail_at = nth;
    fail_code = code;
}
API long stub_live(int what) { return what == 3 ? depth : live[what]; }
API void *stub_stream(int device) {
    thing *s = calloc(1, sizeof *s);
    s->kind = STREAM, s->device = device;
    return s;
}
API void stub_capture(void *stream, int on) { ((thing *) stream)->capturing = on; }
API int stub_make_current(int device) {
    contexts[device].kind = CONTEXT, contexts[device].device = device;
    stack[0] = &contexts[device];
    return depth = 1;
}

static int note(const char *name, const char *format, ...) {
    const char *path = getenv("STUB_LOG"), *fail = getenv("STUB_FAIL");
    int code = 0;
    pthread_mutex_lock(&lock);
    if (fail && !*fail_name) {
        sscanf(fail, "%63[^:]:%d:%d", fail_name, &fail_at, &fail_code);
        unsetenv("STUB_FAIL");
    }
    if (*fail_name && !strcmp(name, fail_name) && --fail_at == 0) code = fail_code, *fail_name = 0;
    if (path) {
        FILE *file = fopen(path, "a");
        va_list args;
        va_start(args, format);
        fprintf(file, "%s ", name);
        vfprintf(file, format, args);
        fprintf(file, code ? " -> %d\n" : "\n", code);
        va_end(args);
        fclose(file);
    }
    pthread_mutex_unlock(&lock);
    if (!code && strcmp(name, "cuInit") && (!initialized || pid != getpid())) code = NOT_INITIALIZED;
    return code;
}
#define NOTE(...) do { int note_ = note(__func__, __VA_ARGS__); if (note_) return note_; } while (0)
#define NEED(what, code) do { if (!(what)) return code; } while (0)

static thing *now(void) { return depth ? stack[depth - 1] : NULL; }
static int device_of(thing *stream) { return (uintptr_t) stream <= 2 ? (now() ? now()->device : -1) : stream->device; }
static range *find(uint64_t address) {
    for (int i = 0; i < ranges_used; i++)
        if (ranges[i].size && ranges[i].start <= address && address < ranges[i].start + ranges[i].size) return &ranges[i];
    return NULL;
}

API int cuInit(unsigned flags) {
    if (initialized && pid != getpid()) return NOT_INITIALIZED;
    NOTE("%u", flags);
    initialized = 1, pid = getpid();
    return 0;
}
API int cuGetErrorName(int code, const char **name) {
    static const struct { int code; const char *name; } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {100, "CUDA_ERROR_NO_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {218, "CUDA_ERROR_INVALID_PTX"},
        {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) return *name = names[i].name, 0;
    return INVALID;
}
API int cuDriverGetVersion(int *version) { NOTE(""); return *version = 13000, 0; }
API int cuDeviceGetCount(int *count) {
    NOTE("");
    const char *text = getenv("STUB_DEVICES");
    *count = text ? atoi(text) : 2;
    return 0;
}
API int cuDeviceGet(int *device, int ordinal) { NOTE("%d", ordinal); NEED(ordinal < 8, BAD_DEVICE); return *device = ordinal, 0; }
API int cuDeviceGetName(char *name, int size, int device) { NOTE("%d", device); return snprintf(name, size, "NVIDIA Stub"), 0; }
API int cuDeviceTotalMem_v2(size_t *bytes, int device) { NOTE("%d", device); return *bytes = (size_t) 140 << 30, 0; }
API int cuDeviceGetUuid(unsigned char *uuid, int device) { NOTE("%d", device); return memset(uuid, 0x10 + device, 16), 0; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const int known[][2] = {{1, 1024}, {8, 49152}, {16, 132}, {33, 4}, {34, 0}, {50, 0}, {75, 9}, {76, 0}};
    NOTE("%d %d", attribute, device);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i][0] == attribute) return *value = attribute == 16 && getenv("STUB_UNITS") ? atoi(getenv("STUB_UNITS")) : known[i][1], 0;
    return INVALID;
}
API int cuDevicePrimaryCtxRetain(void **context, int device) {
    NOTE("%d", device);
    contexts[device].kind = CONTEXT, contexts[device].device = device;
    live[4]++;
    return *context = &contexts[device], 0;
}
API int cuCtxGetCurrent(void **context) {
    int code = note(__func__, "");
    return code ? code : (*context = now(), 0);
}
API int cuCtxPushCurrent_v2(void *context) {
    NOTE("%d", context ? ((thing *) context)->device : -1);
    NEED(context && ((thing *) context)->kind == CONTEXT && depth < 16, BAD_CONTEXT);
    stack[depth++] = context;
    return 0;
}
API int cuCtxPopCurrent_v2(void **context) { NOTE(""); NEED(depth, BAD_CONTEXT); return *context = stack[--depth], 0; }
API int cuCtxGetDevice(int *device) { NOTE(""); NEED(now(), BAD_CONTEXT); return *device = now()->device, 0; }
API int cuStreamGetCtx(thing *stream, void **context) {
    NOTE("");
    if ((uintptr_t) stream <= 2) {
        NEED(now(), BAD_CONTEXT);
        return *context = now(), 0;
    }
    NEED(stream->kind == STREAM, BAD_HANDLE);
    contexts[stream->device].kind = CONTEXT, contexts[stream->device].device = stream->device;
    return *context = &contexts[stream->device], 0;
}
API int cuStreamSynchronize(thing *stream) { NOTE("%d", device_of(stream)); NEED(now(), BAD_CONTEXT); return 0; }
API int cuStreamWaitEvent(thing *stream, thing *event, unsigned flags) {
    NOTE("%#lx", (unsigned long) stream);
    NEED(event->kind == EVENT, BAD_HANDLE);
    return flags ? INVALID : 0;
}
API int cuStreamIsCapturing(thing *stream, int *status) {
    NOTE("");
    return *status = (uintptr_t) stream > 2 && stream->capturing, 0;
}
API int cuStreamQuery(thing *stream) {
    NOTE("");
    return (uintptr_t) stream > 2 && stream->capturing ? INVALID : 0;
}
API int cuThreadExchangeStreamCaptureMode(int *mode) {
    static _Thread_local int now;
    NOTE("");
    int before = now;
    return now = *mode, *mode = before, 0;
}
API int cuEventCreate(void **event, unsigned flags) {
    NOTE("%u", flags);
    NEED(now(), BAD_CONTEXT);
    thing *e = calloc(1, sizeof *e);
    e->kind = EVENT, e->device = now()->device, live[1]++;
    return *event = e, 0;
}
API int cuEventRecord(thing *event, thing *stream) { NOTE("%#lx", (unsigned long) stream); NEED(event->kind == EVENT, BAD_HANDLE); return 0; }
API int cuEventSynchronize(thing *event) { NOTE(""); NEED(event->kind == EVENT, BAD_HANDLE); return 0; }
API int cuEventElapsedTime(float *ms, thing *a, thing *b) {
    NOTE("");
    NEED(a->kind == EVENT && b->kind == EVENT, BAD_HANDLE);
    return *ms = 0.25f, 0;
}
API int cuEventDestroy_v2(thing *event) {
    NOTE("");
    NEED(event->kind == EVENT, BAD_HANDLE);
    event->kind = 0, live[1]--;
    free(event);
    return 0;
}
/* With STUB_AGAINST=end or =begin memory lies against a page that faults, there; at any address, as a user's may. */
static size_t whole_pages(size_t size) {
    size_t page = sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}
static void *allocate(size_t size) {
    const char *against = getenv("STUB_AGAINST");
    if (!against) return aligned_alloc(512, (size + 511) / 512 * 512);
    size_t page = sysconf(_SC_PAGESIZE), inside = whole_pages(size);
    char *pages = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, inside, PROT_READ | PROT_WRITE)) return NULL;
    return pages + page + (*against == 'e' ? inside - size : 0);
}
static void release(uint64_t address, size_t size) {
    if (!getenv("STUB_AGAINST")) return free((void *) address);
    size_t page = sysconf(_SC_PAGESIZE);
    munmap((void *) (address / page * page - page), whole_pages(size) + 2 * page);
}
API int cuMemAlloc_v2(uint64_t *address, size_t size) {
    NOTE("%zu", size);
    NEED(now(), BAD_CONTEXT);
    NEED(size < (size_t) 1 << 40, NO_MEMORY);
    for (int i = 0; i < MOST; i++)
        if (!ranges[i].size) {
            void *memory = allocate(size);
            NEED(memory, NO_MEMORY);
            memset(memory, 0xa5, size);
            ranges[i] = (range) {(uint64_t) memory, size, now()->device};
            if (i >= ranges_used) ranges_used = i + 1;
            live[2]++;
            return *address = (uint64_t) memory, 0;
        }
    return NO_MEMORY;
}
API int cuMemFree_v2(uint64_t address) {
    NOTE("");
    NEED(now(), BAD_CONTEXT);
    range *r = find(address);
    NEED(r && r->start == address, INVALID);
    release(address, r->size);
    r->size = 0, live[2]--;
    return 0;
}
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t size, thing *stream) {
    NOTE("%d %zu %#lx", value, size, (unsigned long) stream);
    range *r = find(to);
    NEED(r && to + size <= r->start + r->size, INVALID);
    return memset((void *) to, value, size), 0;
}
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, thing *stream) {
    NOTE("%zu %#lx", size, (unsigned long) stream);
    range *r = find(to);
    NEED(r && to + size <= r->start + r->size, INVALID);
    return memcpy((void *) to, from, size), 0;
}
API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, thing *stream) {
    NOTE("%zu %#lx", size, (unsigned long) stream);
    range *r = find(from);
    NEED(r && from + size <= r->start + r->size, INVALID);
    return memcpy(to, (void *) from, size), 0;
}
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, thing *stream) {
    NOTE("%zu %#lx", size, (unsigned long) stream);
    range *r = find(from), *s = find(to);
    NEED(r && from + size <= r->start + r->size, INVALID);
    NEED(s && to + size <= s->start + s->size, INVALID);
    return memcpy((void *) to, (void *) from, size), 0;
}
API int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    int code = note(__func__, "%u", count);
    if (code == 218)
        for (unsigned i = 0; i < count; i++)
            if (options[i] == 5) strcpy(values[i], "line 7: the stub does not like this");
    NEED(!code, code);
    NEED(now(), BAD_CONTEXT);
    NEED(!strstr(image, "%envreg"), 218);
    thing *m = calloc(1, sizeof *m);
    m->kind = MODULE, m->device = now()->device, m->ptx = strdup(image), live[0]++;
    static const char MARK[] = "//emulated by ";
    char *mark = strstr(m->ptx, MARK), path[1024];
    if (mark) {
        sscanf(mark + sizeof MARK - 1, "%1023s", path);
        m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!m->library) fprintf(stderr, "%s\n", dlerror());
        NEED(m->library, 218);
    }
    return *module = m, 0;
}
API int cuModuleUnload(thing *module) {
    NOTE("");
    NEED(module->kind == MODULE && now() && now()->device == module->device, BAD_HANDLE);
    module->kind = 0, live[0]--;
    if (module->library) dlclose(module->library);
    free(module->ptx);
    free(module);
    return 0;
}
/* The sizes of a kernel's parameters, read anew and in another way than miopyx reads them. */
API int cuModuleGetFunction(void **function, thing *module, const char *name) {
    char head[160], *at;
    NOTE("%s", name);
    snprintf(head, sizeof head, ".entry %s(", name);
    NEED(module->kind == MODULE && (at = strstr(module->ptx, head)), NOT_FOUND);
    thing *f = calloc(1, sizeof *f);
    f->kind = FUNCTION, f->device = module->device, f->owner = module;
    snprintf(f->name, sizeof f->name, "%s", name);
    char *end = strchr(at, ')');
    for (at = strstr(at, ".param"); at && at < end; at = strstr(at + 1, ".param")) {
        char *stop = strpbrk(at, ",)"), *type = NULL, *dot = at + 6;
        while ((dot = memchr(dot, '.', stop - dot))) {
            if (strchr("usbf", dot[1]) && dot[2] >= '0' && dot[2] <= '9' && !type) type = dot;
            dot++;
        }
        char *many = memchr(at, '[', stop - at);
        f->sizes[f->count++] = atoi(type + 2) / 8 * (many ? atoi(many + 1) : 1);
    }
    return *function = f, 0;
}
API int cuFuncGetAttribute(int *value, int attribute, thing *function) {
    NOTE("%d", attribute);
    NEED(function->kind == FUNCTION, BAD_HANDLE);
    return *value = 768, 0;
}
static int mapped(uint64_t address, size_t bytes) {
    static range *last[4];
    static unsigned next;
    for (int i = 0; i < 4; i++)
        if (last[i] && address >= last[i]->start && address + bytes <= last[i]->start + last[i]->size) return 1;
    range *r = find(address);
    last[next++ % 4] = r;
    return r && address + bytes <= r->start + r->size;
}
static __thread int together; /* groups along the first axis that run at once */
static int emulate(thing *f, const unsigned *groups, const unsigned *size, void **arguments) {
    int (*run)(const char *, const unsigned *, const unsigned *, void **, int (*)(uint64_t, size_t), char *, size_t, int);
    char said[512];
    *(void **) &run = dlsym(((thing *) f->owner)->library, "mx_emulate");
    pthread_mutex_lock(&lock);
    int wrong = !run || run(f->name, groups, size, arguments, mapped, said, sizeof said, together ? together : 1);
    pthread_mutex_unlock(&lock);
    if (wrong) fprintf(stderr, "%s: %s\n", f->name, run ? said : "no emulator");
    return wrong ? 719 : 0;
}
API int cuLaunchKernel(thing *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, thing *stream, void **arguments, void **extra) {
    static char text[65536];
    size_t used = 0;
    for (int i = 0; i < f->count && getenv("STUB_LOG"); i++) {
        used += snprintf(text + used, sizeof text - used, "%s", i ? "," : "");
        for (int j = 0; j < f->sizes[i]; j++)
            used += snprintf(text + used, sizeof text - used, "%02x", ((unsigned char *) arguments[i])[j]);
    }
    NOTE("%s %u,%u,%u %u,%u,%u %u %#lx %s", f->name, gx, gy, gz, bx, by, bz, shared, (unsigned long) stream, text);
    NEED(now() && f->kind == FUNCTION && f->device == now()->device && device_of(stream) == f->device, BAD_HANDLE);
    NEED(gx && gy && gz && bx && by && bz && bx * by * bz <= 1024 && gy <= 65535 && gz <= 65535 && !extra, INVALID);
    if (((thing *) f->owner)->library)
        return emulate(f, (unsigned[3]) {gx, gy, gz}, (unsigned[3]) {bx, by, bz}, arguments);
    return 0;
}
/* CUlaunchConfig and CUlaunchAttribute: a cluster must divide the grid. */
typedef struct { int id; char pad[4]; unsigned value[16]; } launch_attribute;
typedef struct { unsigned grid[3], block[3], shared; thing *stream; launch_attribute *attributes; unsigned count; } launch_config;
API int cuLaunchKernelEx(const launch_config *c, thing *f, void **arguments, void **extra) {
    NOTE("%u %d %u", c->count, c->attributes->id, c->attributes->value[0]);
    NEED(c->count == 1 && (c->attributes->id == 2 || c->attributes->id == 4 || c->attributes->id == 6), INVALID);
    if (c->attributes->id == 4)
        NEED(c->attributes->value[0] && c->grid[0] % c->attributes->value[0] == 0, INVALID);
    together = c->attributes->id == 4 ? c->attributes->value[0] : c->attributes->id == 2 ? c->grid[0] : 0;
    int code = cuLaunchKernel(f, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared,
                              c->stream, arguments, extra);
    return together = 0, code;
}
API int cuOccupancyMaxActiveClusters(int *clusters, thing *f, const launch_config *c) {
    const char *text = getenv("STUB_CLUSTERS");
    NOTE("%u %d %u", c->count, c->attributes->id, c->attributes->value[0]);
    NEED(f->kind == FUNCTION && c->count == 1 && c->attributes->id == 4 && c->block[0], INVALID);
    return *clusters = text ? atoi(text) : 8, 0;
}
API int cuFuncSetAttribute(thing *function, int attribute, int value) {
    NOTE("%d %d", attribute, value);
    NEED(function->kind == FUNCTION, BAD_HANDLE);
    return attribute == 14 ? 0 : INVALID;
}
/* Of 16 bits or TF32, with the limits that CUDA's manual states for no interleaving and a swizzle of 128 bytes. */
static int make_map(tensor_map_argument *made, int type, uint32_t rank, void *address, const uint64_t *len,
                    const uint64_t *stride, const uint32_t *box, const int *lower, const int *upper, const uint32_t *step,
                    int interleave, int swizzle) {
    const int most = rank == 4 ? 128 : 16, bytes = type == 11 ? 4 : 2;
    tensor_map *m = calloc(1, sizeof *m); /* as long as the process: maps are copied freely */
    NEED((uintptr_t) made % 64 == 0 && (type == 1 || type == 11) && (uintptr_t) address % 16 == 0 && interleave == 0, INVALID);
    NEED(rank >= (lower ? 4 : 2) && rank <= 5 && box[0] * bytes == (swizzle == 3 ? 128 : swizzle == 2 ? 64 : 0), INVALID);
    m->address = (uintptr_t) address, m->rank = rank, m->bytes = bytes, m->im2col = lower != NULL;
    for (uint32_t i = 0; i < rank; i++) {
        NEED(len[i] && len[i] <= 1ull << 32 && step[i] && step[i] <= 8, INVALID);
        m->len[i] = len[i], m->step[i] = step[i];
        if (i < (lower ? 2 : rank)) {
            NEED(box[i] && box[i] <= (lower ? 1024 : 256), INVALID);
            m->box[i] = box[i];
        }
        if (i) {
            NEED(stride[i - 1] % 16 == 0 && stride[i - 1] < 1ull << 40, INVALID);
            m->stride[i] = stride[i - 1];
        }
        if (lower && i && i < rank - 1) {
            NEED(lower[i - 1] >= -most && lower[i - 1] < most && upper[i - 1] >= -most && upper[i - 1] < most, INVALID);
            m->lower[i - 1] = lower[i - 1], m->upper[i - 1] = upper[i - 1];
        }
    }
    made->mark = TENSOR_MAP_MARK, made->map = m;
    return 0;
}
API int cuTensorMapEncodeTiled(void *made, int type, uint32_t rank, void *address, const uint64_t *len,
                               const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                               int swizzle, int promotion, int fill) {
    NOTE("%p", address);
    NEED(now(), BAD_CONTEXT);
    (void) promotion, (void) fill;
    return make_map(made, type, rank, address, len, stride, box, NULL, NULL, step, interleave, swizzle);
}
API int cuTensorMapEncodeIm2col(void *made, int type, uint32_t rank, void *address, const uint64_t *len,
                                const uint64_t *stride, const int *lower, const int *upper, uint32_t channels,
                                uint32_t pixels, const uint32_t *step, int interleave, int swizzle, int promotion, int fill) {
    const uint32_t box[2] = {channels, pixels};
    NOTE("%p", address);
    NEED(now(), BAD_CONTEXT);
    (void) promotion, (void) fill;
    return make_map(made, type, rank, address, len, stride, box, lower, upper, step, interleave, swizzle);
}
API int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t address) {
    range *r = find(address);
    NOTE("%u", count);
    for (unsigned i = 0; i < count; i++) switch (attributes[i]) {
        case 1: *(void **) values[i] = r ? &contexts[r->device] : NULL; break;
        case 2: *(unsigned *) values[i] = r ? 2 : 0; break;
        case 8: *(unsigned *) values[i] = 0; break;
        case 9: *(int *) values[i] = r ? r->device : -2; break;
        case 11: *(uint64_t *) values[i] = r ? r->start : 0; break;
        case 12: *(size_t *) values[i] = r ? r->size : 0; break;
        default: return INVALID;
    }
    return 0;
}
