/* A sampler in Lua's allocation function, and the memory that Lua takes. */
#ifndef SAMPLER_H
#define SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern uint64_t live_bytes;     /* of all blocks */
extern uint64_t new_bytes;      /* of the blocks since the mutator's allocation began */
extern uint64_t failures_every; /* one block in so many fails at first; 0 if none does */
extern uint64_t blocks;         /* counted for these failures */
extern bool is_allocating;      /* whether the mutator allocates; only then blocks are counted */

/* Lua's allocation function. */
void *reallocate(void *unused, void *block, size_t old_bytes, size_t size_bytes);

void enable_sampling(uint64_t period);
void disable_sampling(bool report);
void pause_sampling(void);
void resume_sampling(void);

#endif
