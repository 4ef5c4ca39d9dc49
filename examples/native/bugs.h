/* Bugs that real collectors and samplers have had, each to be compiled in by `make BUG=NAME`.
 *
 * All are off unless the compiler is told otherwise. They are plain constants, so that the code of
 * every bug is compiled, and checked, in every build.
 */
#ifndef BUGS_H
#define BUGS_H

/* An object larger than the period is sampled once. (A simplification in the listings 4 and 5 of
 * Jung and Bolz-Tereick, Low Overhead Allocation Sampling in a Garbage Collected Virtual Machine.)
 */
#ifndef BUG_ONE_SAMPLE_PER_OBJECT
#define BUG_ONE_SAMPLE_PER_OBJECT 0
#endif

/* Disabling sampling restores a nursery top that only enabling saves. (The same, section 3.7.) */
#ifndef BUG_DISABLE_BEFORE_ENABLE
#define BUG_DISABLE_BEFORE_ENABLE 0
#endif

/* A large object moves the sample point, and the limit stays where it was unless it is sampled.
 * (PyPy's sampling fork, external_malloc.) */
#ifndef BUG_STALE_LIMIT_AFTER_LARGE
#define BUG_STALE_LIMIT_AFTER_LARGE 0
#endif

/* A sampled object outside the nursery is reported dead while it is alive. (The same.) */
#ifndef BUG_NONYOUNG_REPORTED_DEAD
#define BUG_NONYOUNG_REPORTED_DEAD 0
#endif

/* A forked child still reports the samples of its parent. (The same, after_fork.) */
#ifndef BUG_FORK_KEEPS_YOUNG_SAMPLES
#define BUG_FORK_KEEPS_YOUNG_SAMPLES 0
#endif

/* Pausing clears the period that resuming needs. (The same, rvmprof.) */
#ifndef BUG_RESTART_LOSES_PERIOD
#define BUG_RESTART_LOSES_PERIOD 0
#endif

/* An old object is not remembered again once a minor collection has visited it. (Every
 * generational collector, once.) */
#ifndef BUG_FORGOTTEN_REMEMBERED_ENTRY
#define BUG_FORGOTTEN_REMEMBERED_ENTRY 0
#endif

/* Copying between arrays passes the write barrier by. (After PyPy issue 4925.) */
#ifndef BUG_ARRAYCOPY_SKIPS_BARRIER
#define BUG_ARRAYCOPY_SKIPS_BARRIER 0
#endif

/* Of a string that moves, only the first characters are copied. */
#ifndef BUG_MOVE_CUTS_STRING
#define BUG_MOVE_CUTS_STRING 0
#endif

/* A loop reads an item before it asks whether there is one: one word past the end, of which nothing
 * comes. No answer is ever wrong; only a sanitizer sees it. */
#ifndef BUG_LOOKS_PAST_THE_END
#define BUG_LOOKS_PAST_THE_END 0
#endif

#endif
