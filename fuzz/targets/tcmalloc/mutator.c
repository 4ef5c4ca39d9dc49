/* Makes calls for another process inside a program that contains TCMalloc.
 *
 * This is preloaded into the program, whose main never runs. A call comes on standard input as
 * numbers of 64 bits: the thread, the function's address, two arguments. The answer goes to standard
 * output: the result, the number of samples of this call, the address of the hook, the weight of the
 * last sample, the thread's pointer to its static storage, and the address of add_up. Function 0
 * returns malloc's address.
 *
 * Only the called functions and the start of a thread allocate. Invariant: threads take turns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 64 };

struct call {
    uint64_t thread, function, first, second;
};

struct answer {
    uint64_t result, samples, hook;
    double weight_bytes;
    uint64_t thread_pointer, add_up;
};

struct thread {
    int is_started;
    sem_t asked, done;
};

/* TCMalloc's argument of a hook for new samples: tcmalloc/malloc_hook.h. */
struct sampled_alloc {
    int64_t handle;
    uint64_t requested_bytes, requested_alignment, kind, allocated_bytes;
    double weight; /* In blocks of one byte more than requested. */
};

/* The start of a sample of a profile, in blocks like it: tcmalloc/malloc_extension.h. */
struct profile_sample {
    int64_t bytes, blocks;
};

struct sums {
    int64_t blocks, bytes;
};

/* A profile, whose class in C++ has virtual functions: tcmalloc/internal_malloc_extension.h. */
struct profile {
    const struct {
        void (*destroy)(struct profile *);
        void (*delete)(struct profile *);
        void (*iterate)(const struct profile *, void *, void (*)(void *, const struct profile_sample *));
    } *functions;
};

static struct call call;
static struct answer answer;
static struct thread threads[THREADS];

static void count(const struct sampled_alloc *sample)
{
    answer.samples++;
    answer.weight_bytes = sample->weight * ((double)sample->requested_bytes + 1);
}

static void add(void *sums, const struct profile_sample *sample)
{
    ((struct sums *)sums)->blocks += sample->blocks;
    ((struct sums *)sums)->bytes += sample->bytes;
}

/* The address of the sums of a profile of the living blocks, which `snapshot` takes. */
static uint64_t add_up(uint64_t snapshot, uint64_t kind)
{
    static struct sums sums;
    struct profile *profile = ((struct profile *(*)(uint64_t))snapshot)(kind);
    sums = (struct sums){0, 0};
    profile->functions->iterate(profile, &sums, add);
    profile->functions->delete(profile);
    return (uint64_t)&sums;
}

static void carry_out(void)
{
    uint64_t (*function)(uint64_t, uint64_t) = (uint64_t (*)(uint64_t, uint64_t))call.function;
    answer.samples = 0;
    answer.result = function ? function(call.first, call.second) : (uint64_t)malloc;
    answer.hook = (uint64_t)count;
    answer.thread_pointer = (uint64_t)__builtin_thread_pointer();
    answer.add_up = (uint64_t)add_up;
}

static void *take_turns(void *mine)
{
    struct thread *thread = mine;
    for (;;) {
        sem_wait(&thread->asked);
        carry_out();
        sem_post(&thread->done);
    }
    return NULL;
}

/* Have a thread carry out the call; a new one is started. */
static void run_in(struct thread *thread)
{
    pthread_t handle;
    if (!thread->is_started) {
        sem_init(&thread->asked, 0, 0);
        sem_init(&thread->done, 0, 0);
        if (pthread_create(&handle, NULL, take_turns, thread) != 0)
            _exit(2);
        thread->is_started = 1;
    }
    sem_post(&thread->asked);
    while (sem_wait(&thread->done) != 0)
        ;
}

static int serve(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv, (void)environment;
    while (read(0, &call, sizeof call) == sizeof call && call.thread < THREADS) {
        if (call.thread == 0)
            carry_out();
        else
            run_in(&threads[call.thread]);
        if (write(1, &answer, sizeof answer) != sizeof answer)
            break;
    }
    _exit(0);
}

typedef int main_function(int, char **, char **);

/* glibc calls this to start the program: its constructors run, its main does not. */
int __libc_start_main(main_function *main, int argc, char **argv, void *init, void *fini,
                      void *rtld_fini, void *stack_end)
{
    int (*start)(main_function *, int, char **, void *, void *, void *, void *) =
        dlsym(RTLD_NEXT, "__libc_start_main");
    (void)main;
    return start(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
