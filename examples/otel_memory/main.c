/* The sampler of this folder behind gcfuzz's protocol (docs/protocol.md).
 *
 * Each thread of the contract is a process: the second and third are forked children of the first.
 * A process has its own sampler, and a profiler that keeps the weights of its living blocks. Lines
 * have the spelling of gcfuzz, so that `strstr` is enough to read them.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "otel_memory.h"

enum { PROCESSES = 3, BLOCKS_MAX = 1 << 14, DEFAULT_SEED = 1 };

static const char ACTIONS[] =
    "[\"malloc\", \"free\", \"enable_sampling\", \"disable_sampling\", \"read_profile\"]";

/* ---- The profiler, which gets the probes ---- */

typedef struct {
    void *ptr;
    size_t size;
    uint64_t weighted_bytes;
} sample;

static sample living[BLOCKS_MAX];
static size_t living_count;
static uint64_t samples, last_weight; /* of the present action */

static void alloc_probe(void *ptr, size_t size, uint64_t weighted_bytes)
{
    samples++;
    last_weight = weighted_bytes;
    if (living_count < BLOCKS_MAX)
        living[living_count++] = (sample){ptr, size, weighted_bytes};
}

static void free_probe(void *ptr)
{
    for (size_t i = 0; i < living_count; i++)
        if (living[i].ptr == ptr) {
            living[i] = living[--living_count];
            return;
        }
}

/* ---- One process ---- */

typedef struct {
    enum { MALLOC, FREE, ENABLE, DISABLE, PROFILE } does;
    uint64_t number; /* the size, the period, or the block */
} request;

typedef struct {
    uint64_t block, samples, weight;
    double objects, bytes;
} answer;

static answer carry_out(request asked)
{
    answer result = {0};
    samples = last_weight = 0;
    switch (asked.does) {
    case MALLOC:
        result.block = (uintptr_t)otel_malloc(asked.number);
        break;
    case FREE:
        otel_free((void *)(uintptr_t)asked.number);
        break;
    case ENABLE:
        otel_enable(asked.number);
        break;
    case DISABLE:
        otel_disable();
        break;
    case PROFILE:
        for (size_t i = 0; i < living_count; i++) {
            result.objects += (double)living[i].weighted_bytes / (double)living[i].size;
            result.bytes += (double)living[i].weighted_bytes;
        }
    }
    result.samples = samples;
    result.weight = last_weight;
    return result;
}

/* ---- All processes ---- */

static int children[PROCESSES]; /* a socket to each, from the second on */
static size_t child_count;

static void serve_parent(int parent)
{
    request asked;
    while (read(parent, &asked, sizeof asked) == sizeof asked) {
        answer result = carry_out(asked);
        if (write(parent, &result, sizeof result) != sizeof result)
            break;
    }
    _exit(0);
}

static void fork_child(size_t number)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        abort();
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        close(ends[0]);
        otel_forked(number);
        serve_parent(ends[1]);
    }
    close(ends[1]);
    children[number] = ends[0];
    child_count++;
}

static void end_children(void)
{
    for (; child_count; child_count--)
        close(children[child_count]);
    while (wait(NULL) > 0)
        continue;
}

static answer ask(size_t process, request asked)
{
    answer result;
    if (process == 0)
        return carry_out(asked);
    if (write(children[process], &asked, sizeof asked) != sizeof asked ||
        read(children[process], &result, sizeof result) != sizeof result)
        exit(EXIT_FAILURE);
    return result;
}

static answer ask_all(request asked)
{
    answer sum = {0};
    for (size_t process = 0; process < PROCESSES; process++) {
        answer each = ask(process, asked);
        sum.objects += each.objects;
        sum.bytes += each.bytes;
    }
    return sum;
}

/* ---- Lines ---- */

typedef struct {
    size_t process;
    uint64_t block;
} root;

static root roots[BLOCKS_MAX];
static size_t root_count;

/* The number behind a key, or the other one if the line has no such key. */
static uint64_t number_of(const char *line, const char *key, uint64_t otherwise)
{
    const char *found = strstr(line, key);
    return found ? strtoull(found + strlen(key), NULL, 10) : otherwise;
}

static void start(uint64_t seed)
{
    end_children();
    while (root_count)
        if (roots[--root_count].process == 0)
            free((void *)(uintptr_t)roots[root_count].block);
    living_count = 0;
    otel_start(seed, (otel_probes){alloc_probe, free_probe});
    for (size_t number = 1; number < PROCESSES; number++)
        fork_child(number);
    printf("{\"contract\": {\"nursery_bytes\": 0, \"layout\": {\"kinds\": {\"block\": "
           "{\"type_index\": 1, \"fixed_bytes\": 0, \"item_bytes\": 1}}, \"large_object_bytes\": "
           "1, \"word_bytes\": 1, \"object_bytes_max\": 65536}, \"actions\": %s, \"observes\": "
           "[\"samples\", \"size\", \"weights\", \"profile\"], ", ACTIONS);
    printf("\"sampling\": {\"period_bytes\": {\"minimum\": 1, \"maximum\": 1048576}, \"crosses\": "
           "\"at\", \"surplus\": \"dropped\", \"samples_per_allocation\": \"one\", \"disabling\": "
           "[\"drop\"], \"distances\": \"geometric\", \"weights\": \"passed\", \"estimates\": "
           "\"weight\", \"seeds\": [%" PRIu64, seed);
    for (uint64_t number = 1; number < PROCESSES; number++)
        printf(", %" PRIu64, seed + (number << 32));
    printf("]}, \"settings\": [{\"name\": \"seed\", \"default\": %d, \"range\": {\"minimum\": 0, "
           "\"maximum\": 4294967295}}]}}\n", DEFAULT_SEED);
}

static void allocate(size_t process, uint64_t size)
{
    answer result = ask(process, (request){MALLOC, size});
    if (result.block == 0 || root_count == BLOCKS_MAX) {
        puts("{\"error\": \"MemoryError: there is no block\"}");
        return;
    }
    roots[root_count++] = (root){process, result.block};
    printf("{\"size\": %" PRIu64, size);
    if (result.samples)
        printf(", \"samples\": %" PRIu64 ", \"weights\": [%" PRIu64 "]", result.samples,
               result.weight);
    puts("}");
}

static void free_root(size_t slot)
{
    if (slot >= root_count) {
        puts("{\"error\": \"IndexError: there is no such root\"}");
        return;
    }
    ask(roots[slot].process, (request){FREE, roots[slot].block});
    root_count--;
    memmove(roots + slot, roots + slot + 1, (root_count - slot) * sizeof *roots);
    puts("{}");
}

static void perform(const char *line)
{
    size_t process = number_of(line, "\"thread\": ", 0);
    if (process >= PROCESSES)
        puts("{\"error\": \"ValueError: there is no such thread\"}");
    else if (strstr(line, "\"malloc\""))
        allocate(process, number_of(line, "\"size_bytes\": ", 0));
    else if (strstr(line, "\"free\""))
        free_root(number_of(line, "\"root\": ", 0));
    else if (strstr(line, "\"enable_sampling\"")) {
        ask_all((request){ENABLE, number_of(line, "\"period_bytes\": ", 0)});
        puts("{}");
    } else if (strstr(line, "\"disable_sampling\"")) {
        ask_all((request){DISABLE, 0});
        puts("{}");
    } else if (strstr(line, "\"read_profile\"")) {
        answer sum = ask_all((request){PROFILE, 0});
        printf("{\"profile\": [%.0f, %.0f]}\n", round(sum.objects), sum.bytes);
    } else
        puts("{\"error\": \"ValueError: this action is unknown\"}");
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        if (strstr(line, "\"gcfuzz\": "))
            start(number_of(line, "\"seed\": ", DEFAULT_SEED));
        else
            perform(line);
        fflush(stdout);
    }
    end_children();
    free(line);
    return 0;
}
