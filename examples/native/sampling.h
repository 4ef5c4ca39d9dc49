/* Sampling every n-th allocated byte, inside the nursery's own limit check.
 *
 * No count of allocated bytes is kept, but the address at which they would reach the period:
 *
 *     nursery_start  nursery_free             sample_point          nursery_top
 *     |    objects    |<- bytes until sample ->|                     |
 *                                           == nursery_limit
 *
 * Invariants, while sampling is on:
 *
 *     sample_point - nursery_free == bytes until the next sample
 *     nursery_limit == min(sample_point, nursery_top)
 *
 * A sample is due when an object's end lies beyond the sample point, and an object is sampled as
 * often as it passes one. (Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage
 * Collected Virtual Machine, sections 3.2 to 3.5.)
 */
#ifndef SAMPLING_H
#define SAMPLING_H

#include "collector.h"

#ifndef WITHOUT_SAMPLING

typedef struct {
    uint64_t period_bytes; /* 0: sampling is off, and the sample point has no meaning */
    uint64_t paused_period_bytes;
    uintptr_t sample_point;
    object_list pending; /* sampled, and no minor collection has said yet whether they survive */
} sampler;

extern sampler sampling;

void sampling_start(void);
void sampling_stop(void);
void sampling_enable(uint64_t period_bytes);
void sampling_disable(void);
void sampling_pause(void);
void sampling_resume(void);
void sampling_after_fork(void);

/* The fast path must stop where the nursery ends, and at the sample point. */
void sampling_set_limit(void);

/* Take a sample for each sample point before `end`; how many. */
size_t sampling_pass(uintptr_t end);

/* An object outside the nursery moves the sample point instead of nursery_free. */
void sampling_allocated_outside(object *obj, size_t size_bytes);

/* Remember an object that was sampled `count` times, for the next report. */
void sampling_record(object *obj, size_t count);

/* Say what became of the pending samples: survivors are known, and no dead object is freed yet. */
void sampling_report(void);

/* nursery_free has moved from there without any allocation. */
void sampling_nursery_moved(uintptr_t nursery_free_before);

#else /* the collector without sampling, to compare its cost */

static inline void sampling_set_limit(void) { gc.nursery_limit = gc.nursery_top; }
static inline void sampling_start(void) { sampling_set_limit(); }
static inline void sampling_stop(void) {}
static inline size_t sampling_pass(uintptr_t end) { (void)end; return 0; }
static inline void sampling_allocated_outside(object *obj, size_t bytes) { (void)obj; (void)bytes; }
static inline void sampling_record(object *obj, size_t count) { (void)obj; (void)count; }
static inline void sampling_report(void) {}
static inline void sampling_nursery_moved(uintptr_t before) { (void)before; sampling_set_limit(); }

#endif
#endif
