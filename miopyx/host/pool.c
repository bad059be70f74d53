#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#define RELAX() _mm_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void) 0)
#endif

/* A worker waits about 20 microseconds for the next task set before it goes to sleep: one convolution runs several, and
 * waking up costs more.  The caller waits longer: what it waits for is running. */
enum { SPINS = 400, LAST_SPINS = 10 * SPINS, MAX_THREADS = 1024 };

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_uint ticket; /* rises by one with each task set this worker takes part in */
    int id;
    pthread_t thread;
    cpu_set_t cores; /* where it may run; empty: anywhere */
} worker_t;

static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static worker_t *workers[MAX_THREADS];
static int worker_count;
static cpu_set_t usable; /* where the caller may run; empty: not known */

/* The task set that is running. */
static mx_task job_task;
static void *job_context;
static int64_t job_count;
static _Atomic int64_t job_next;
static atomic_int job_busy;
static pthread_mutex_t done_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

unsigned mx_default_arithmetic(void) {
#if defined(__x86_64__)
    unsigned state = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return state;
#elif defined(__aarch64__)
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    __asm__ volatile("msr fpcr, %0" : : "r"(UINT64_C(0)));
    return (unsigned) state;
#else
    return 0;
#endif
}

void mx_restore_arithmetic(unsigned state) {
#if defined(__x86_64__)
    _mm_setcsr(state);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t) state));
#else
    (void) state;
#endif
}

int mx_usable_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void take_tasks(int worker) {
    for (;;) {
        int64_t index = atomic_fetch_add_explicit(&job_next, 1, memory_order_relaxed);
        if (index >= job_count)
            return;
        job_task(job_context, index, worker);
    }
}

static void *serve(void *argument) {
    worker_t *self = argument;
    unsigned seen = 0;
    mx_default_arithmetic();
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load_explicit(&self->ticket, memory_order_acquire) == seen; i++)
            RELAX();
        if (atomic_load_explicit(&self->ticket, memory_order_acquire) == seen) {
            pthread_mutex_lock(&self->mutex);
            while (atomic_load_explicit(&self->ticket, memory_order_acquire) == seen)
                pthread_cond_wait(&self->wake, &self->mutex);
            pthread_mutex_unlock(&self->mutex);
        }
        seen++;
        take_tasks(self->id);
        if (atomic_fetch_sub_explicit(&job_busy, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&done_mutex);
            pthread_cond_signal(&done);
            pthread_mutex_unlock(&done_mutex);
        }
    }
    return NULL;
}

/* The child of a fork has none of the threads, and any lock may have been held: it starts over.  What the parent's
 * workers were known by is left behind, because a mutex in unknown state cannot be destroyed. */
static void start_over(void) {
    pthread_mutex_init(&owner, NULL);
    pthread_mutex_init(&done_mutex, NULL);
    pthread_cond_init(&done, NULL);
    worker_count = 0;
    atomic_store(&job_busy, 0);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, start_over);
}

static int add_worker(void) {
    worker_t *worker = malloc(sizeof *worker);
    pthread_attr_t attributes;
    sigset_t all, old;
    int failed;
    if (worker == NULL)
        return 0;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);
    atomic_init(&worker->ticket, 0);
    worker->id = worker_count + 1;
    CPU_ZERO(&worker->cores);
    /* Signals belong to the threads that Python knows. */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&worker->thread, &attributes, serve, worker);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        pthread_cond_destroy(&worker->wake);
        pthread_mutex_destroy(&worker->mutex);
        free(worker);
        return 0;
    }
    workers[worker_count++] = worker;
    return 1;
}

int mx_pool_acquire(int threads) {
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    if (threads <= 1)
        return 1;
    pthread_once(&once, watch_forks);
    if (pthread_mutex_trylock(&owner) != 0)
        return 1;
    while (worker_count < threads - 1 && add_worker())
        continue;
    if (worker_count < threads - 1)
        threads = worker_count + 1;
    if (threads == 1)
        pthread_mutex_unlock(&owner);
    else if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        CPU_ZERO(&usable);
    return threads;
}

void mx_pool_release(int width) {
    if (width > 1)
        pthread_mutex_unlock(&owner);
}

/* Keep the workers off the caller's core.  A system that wakes a thread may put it behind the one that woke it, where it
 * waits for milliseconds although another core is idle. */
static void make_room(int width) {
    cpu_set_t cores = usable;
    const int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE || CPU_COUNT(&cores) < width)
        return;
    CPU_CLR(core, &cores);
    for (int i = 0; i < width - 1; i++)
        if (!CPU_EQUAL(&cores, &workers[i]->cores) &&
            pthread_setaffinity_np(workers[i]->thread, sizeof cores, &cores) == 0)
            workers[i]->cores = cores;
}

void mx_pool_run(mx_task task, void *context, int64_t count, int width) {
    if (width > count)
        width = count > 1 ? (int) count : 1;
    if (width == 1) {
        for (int64_t i = 0; i < count; i++)
            task(context, i, 0);
        return;
    }
    make_room(width);
    job_task = task;
    job_context = context;
    job_count = count;
    atomic_store_explicit(&job_next, 0, memory_order_relaxed);
    atomic_store_explicit(&job_busy, width - 1, memory_order_release);
    for (int i = 0; i < width - 1; i++) {
        pthread_mutex_lock(&workers[i]->mutex);
        atomic_fetch_add_explicit(&workers[i]->ticket, 1, memory_order_release);
        pthread_mutex_unlock(&workers[i]->mutex);
        pthread_cond_signal(&workers[i]->wake);
    }
    take_tasks(0);
    for (int i = 0; i < LAST_SPINS && atomic_load_explicit(&job_busy, memory_order_acquire) != 0; i++)
        RELAX();
    if (atomic_load_explicit(&job_busy, memory_order_acquire) != 0) {
        pthread_mutex_lock(&done_mutex);
        while (atomic_load_explicit(&job_busy, memory_order_acquire) != 0)
            pthread_cond_wait(&done, &done_mutex);
        pthread_mutex_unlock(&done_mutex);
    }
}
