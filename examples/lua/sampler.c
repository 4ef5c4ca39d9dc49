/* A sampler in Lua's allocation function, as one would write it. It counts the bytes of each block
 * that an allocation of the mutator takes, and carries the rest of a period over.
 */
#include "sampler.h"

#include <stdlib.h>

#include "gcfuzz_adapter.h"

uint64_t live_bytes, new_bytes, failures_every, blocks;
bool is_allocating;
static uint64_t period_bytes, counted_bytes, kept_period_bytes;

static void count(uint64_t size_bytes)
{
    new_bytes += size_bytes;
    if (period_bytes == 0)
        return;
    counted_bytes += size_bytes;
    for (; counted_bytes > period_bytes; counted_bytes -= period_bytes)
        gcfuzz_sampled();
}

static bool fails_at_first(void)
{
    static bool has_failed;
    if (has_failed || failures_every == 0)
        return has_failed = false;
    return has_failed = ++blocks % failures_every == 0;
}

/* Lua passes the type of a new object as its old size. */
void *reallocate(void *unused, void *block, size_t old_bytes, size_t size_bytes)
{
    (void)unused;
    if (block == NULL)
        old_bytes = 0;
    if (size_bytes == 0) {
        free(block);
        live_bytes -= old_bytes;
        return NULL;
    }
    bool is_counted = is_allocating && block == NULL;
    if (is_counted && fails_at_first())
        return NULL;
    void *changed = realloc(block, size_bytes);
    if (changed == NULL)
        return NULL;
    live_bytes += size_bytes - old_bytes;
    if (is_counted)
        count(size_bytes);
    return changed;
}

void enable_sampling(uint64_t period)
{
    period_bytes = period;
    counted_bytes = kept_period_bytes = 0;
}

void disable_sampling(bool report)
{
    (void)report; /* the contract promises dropping only */
    period_bytes = kept_period_bytes = 0;
}

void pause_sampling(void)
{
    if (period_bytes)
        kept_period_bytes = period_bytes;
    period_bytes = 0;
}

void resume_sampling(void)
{
    if (kept_period_bytes)
        enable_sampling(kept_period_bytes);
}
