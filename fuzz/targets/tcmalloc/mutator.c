/* Calls inside a program that has TCMalloc in it, made for another process.
 *
 * This is preloaded into the program, whose main never runs. What to call comes on standard input,
 * as numbers of 64 bits: the thread that is to call, the function's address, two arguments. The
 * answer goes to standard output: the result, how many samples TCMalloc has told of since the last
 * answer, where its hook is, what the last of them weighs, and the thread's pointer to its static
 * storage. Function 0 is asked where malloc is.
 *
 * Nothing here allocates but what is called, and what begins a thread. Invariant: threads take
 * turns.
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
    uint64_t thread_pointer;
};

struct thread {
    int is_begun;
    sem_t asked, done;
};

/* TCMalloc's own, of tcmalloc/malloc_hook.h: what a hook for new samples is told. */
struct sampled_alloc {
    int64_t handle;
    uint64_t requested_bytes, requested_alignment, kind, allocated_bytes;
    double weight; /* In blocks of the requested bytes, and one. */
};

static struct call call;
static struct answer answer;
static struct thread threads[THREADS];

static void hear(const struct sampled_alloc *sample)
{
    answer.samples++;
    answer.weight_bytes = sample->weight * ((double)sample->requested_bytes + 1);
}

static void carry_out(void)
{
    uint64_t (*function)(uint64_t, uint64_t) = (uint64_t (*)(uint64_t, uint64_t))call.function;
    answer.samples = 0;
    answer.result = function ? function(call.first, call.second) : (uint64_t)malloc;
    answer.hook = (uint64_t)hear;
    answer.thread_pointer = (uint64_t)__builtin_thread_pointer();
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

/* Let a thread carry the call out, which is begun if it is new. */
static void hand_over(struct thread *thread)
{
    pthread_t begun;
    if (!thread->is_begun) {
        sem_init(&thread->asked, 0, 0);
        sem_init(&thread->done, 0, 0);
        if (pthread_create(&begun, NULL, take_turns, thread) != 0)
            _exit(2);
        thread->is_begun = 1;
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
            hand_over(&threads[call.thread]);
        if (write(1, &answer, sizeof answer) != sizeof answer)
            break;
    }
    _exit(0);
}

typedef int main_function(int, char **, char **);

/* What glibc calls to begin the program: its constructors run, its main does not. */
int __libc_start_main(main_function *main, int argc, char **argv, void *init, void *fini,
                      void *rtld_fini, void *stack_end)
{
    int (*start)(main_function *, int, char **, void *, void *, void *, void *) =
        dlsym(RTLD_NEXT, "__libc_start_main");
    (void)main;
    return start(serve, argc, argv, init, fini, rtld_fini, stack_end);
}
