/* A sampler of allocations that keeps the contract of OpenTelemetry's otel_memory probes.
 *
 * A probe fires for each sampled block: alloc(ptr, size, weighted_bytes), and free(ptr) when that
 * block is freed. The expected sum of all weighted_bytes is the number of allocated bytes.
 * (opentelemetry-ebpf-profiler, design document 00003.)
 *
 * Every requested byte is sampled with the probability 1 / period, and at most one of a block. The
 * weight is the period, and the bytes behind the sampled one, which have no chance any more.
 */
#ifndef OTEL_MEMORY_H
#define OTEL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* The probes. In production these are USDTs. */
typedef struct {
    void (*alloc)(void *ptr, size_t size, uint64_t weighted_bytes);
    void (*free)(void *ptr);
} otel_probes;

void otel_start(uint64_t seed, otel_probes probes);

/* Call this in a forked child. `number` tells it from its parent and from its siblings. */
void otel_forked(uint64_t number);

void otel_enable(uint64_t period_bytes); /* from 1 up */
void otel_disable(void);

void *otel_malloc(size_t size);
void otel_free(void *ptr);

#endif
