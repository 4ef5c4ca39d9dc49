/* The owner of the sample point and of the reports. See sampling.h for its invariants. */
#include "sampling.h"

#include <stdlib.h>

#include "bugs.h"

sampler sampling;

void sampling_set_limit(void)
{
    bool is_inside = sampling.period_bytes && sampling.sample_point < gc.nursery_top;
    gc.nursery_limit = is_inside ? sampling.sample_point : gc.nursery_top;
}

/* What BUG_DISABLE_BEFORE_ENABLE restores. */
static uintptr_t top_before_sampling;

void sampling_start(void)
{
    sampling.period_bytes = sampling.paused_period_bytes = 0;
    sampling.pending.count = 0;
    top_before_sampling = gc.nursery_start;
    sampling_set_limit();
}

void sampling_stop(void)
{
    free(sampling.pending.items);
    sampling = (sampler){0};
}

/* The count starts anew, also if sampling was on. Pending samples stay pending. */
void sampling_enable(uint64_t period_bytes)
{
    sampling.period_bytes = period_bytes;
    sampling.paused_period_bytes = 0;
    sampling.sample_point = gc.nursery_free + period_bytes;
    top_before_sampling = gc.nursery_top;
    sampling_set_limit();
}

/* Pending samples are dropped. Harmless if sampling was off. */
void sampling_disable(void)
{
    sampling.period_bytes = sampling.paused_period_bytes = 0;
    sampling.pending.count = 0;
    sampling_set_limit();
    if (BUG_DISABLE_BEFORE_ENABLE)
        gc.nursery_limit = top_before_sampling;
}

/* The same, but the period is kept for resuming. */
void sampling_pause(void)
{
    uint64_t paused = sampling.period_bytes ? sampling.period_bytes : sampling.paused_period_bytes;
    sampling_disable();
    sampling.paused_period_bytes = BUG_RESTART_LOSES_PERIOD ? 0 : paused;
}

void sampling_resume(void)
{
    if (sampling.paused_period_bytes)
        sampling_enable(sampling.paused_period_bytes);
}

/* A forked process is not sampled, and the samples that are pending are its parent's. */
void sampling_after_fork(void)
{
    size_t pending = sampling.pending.count;
    sampling_disable();
    if (BUG_FORK_KEEPS_YOUNG_SAMPLES)
        sampling.pending.count = pending;
}

size_t sampling_pass(uintptr_t end)
{
    size_t count = 0;
    while (sampling.period_bytes && sampling.sample_point < end) {
        gc.events.sampled();
        sampling.sample_point += sampling.period_bytes;
        count++;
        if (BUG_ONE_SAMPLE_PER_OBJECT)
            break;
    }
    if (count || !BUG_STALE_LIMIT_AFTER_LARGE)
        sampling_set_limit();
    return count;
}

void sampling_allocated_outside(object *obj, size_t size_bytes)
{
    if (sampling.period_bytes) {
        sampling.sample_point -= size_bytes;
        sampling_record(obj, sampling_pass(gc.nursery_free));
    }
}

void sampling_record(object *obj, size_t count)
{
    while (count--)
        gc_append(&sampling.pending, obj);
}

static bool has_survived(object *obj)
{
    if (BUG_NONYOUNG_REPORTED_DEAD && obj->flags & FLAG_OUTSIDE)
        return false;
    return gc_minor_survivor(obj) != NULL;
}

void sampling_report(void)
{
    if (sampling.pending.count == 0)
        return;
    gc.events.report_begins();
    for (size_t i = 0; i < sampling.pending.count; i++)
        gc.events.reported(sampling.pending.items[i], has_survived(sampling.pending.items[i]));
    sampling.pending.count = 0;
}

void sampling_nursery_moved(uintptr_t nursery_free_before)
{
    sampling.sample_point -= nursery_free_before - gc.nursery_free;
    sampling_set_limit();
}
