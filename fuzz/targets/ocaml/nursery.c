/* What the language does not offer: access to OCaml's minor heap, equal processes, and integers of
   64 bits that no tier boxes. */

#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <caml/backtrace_prim.h>
#include <caml/domain.h>
#include <caml/major_gc.h>
#include <caml/memory.h>
#include <caml/minor_gc.h>
#include <caml/signals.h>
#include <caml/version.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if OCAML_VERSION >= 50000
#define COLLECTIONS atomic_load(&caml_minor_collections_count)
#define REFERENCES (&Caml_state->minor_tables->major_ref)
/* OCaml 5 collects before a postponed callback if fewer words are left. (caml_poll_gc_work) */
#define POSTPONED_WORDS Max_young_whsize
#define LINE loc_start_lnum
#else
#define COLLECTIONS Caml_state->stat_minor_collections
#define REFERENCES (Caml_state->ref_table)
#define POSTPONED_WORDS 0
#define LINE loc_lnum
#endif

#define STACK_WORDS 2
#define CALLBACK_WORDS (5 + STACK_WORDS)
#define END_OF_INPUT 1

/* End with the parent, also with one that ended before this was asked for. */
static void end_with(pid_t parent)
{
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(END_OF_INPUT);
}

/* Return in a new child. When it ends with 0, return in the next one: all start from one heap. */
value gcfuzz_next_trace(value unit)
{
  pid_t parent = getpid();
  for (;;) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      end_with(parent);
#if OCAML_VERSION >= 50000
      /* The runtime's lock belongs to the parent's thread, and the first collection would abort. */
      caml_atfork_hook();
#endif
      return Val_unit;
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
      raise(WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
      exit(WEXITSTATUS(status) == END_OF_INPUT ? 0 : WEXITSTATUS(status));
  }
}

value gcfuzz_collections(value unit)
{
  return Val_long(COLLECTIONS);
}

/* Do what is due when the minor heap is used, or, in OCaml 5, half of it: that is a slice of the
   major collection. */
static void collect_early(void)
{
#if OCAML_VERSION >= 50000
  if (Caml_state->young_trigger > Caml_state->young_start) {
    Caml_state->young_trigger = Caml_state->young_start;
    caml_request_major_slice(0);
    caml_handle_gc_interrupt();
    return;
  }
#endif
  caml_minor_collection();
}

/* Make room for these words, which that many blocks have, and for a callback of each. A collection
   during a callback would not renew Memprof's distance, one before a postponed callback would come
   after the block, and so would one because of a full table, or of the stack of the callback. */
value gcfuzz_make_room(value words, value blocks, value is_postponed)
{
  intnat left = Caml_state->young_ptr - Caml_state->young_trigger - Long_val(words);
  intnat needed = CALLBACK_WORDS * Long_val(blocks);
  struct caml_ref_table *table = REFERENCES;
  if (Bool_val(is_postponed))
    needed += POSTPONED_WORDS;
  if (table->base != NULL && table->limit - table->ptr < 2)
    caml_minor_collection();
  else if (left >= 0 && left < needed)
    collect_early();
#if OCAML_VERSION < 50000
  /* The stack of a postponed callback lies outside the minor heap. */
  if (Bool_val(is_postponed) && caml_allocated_words + STACK_WORDS > Caml_state->minor_heap_wsz) {
    caml_request_major_slice();
    caml_gc_dispatch();
  }
#endif
  return Val_unit;
}

/* Put a word into an empty minor heap, which OCaml 4 would not collect. */
value gcfuzz_fill(value unit)
{
#if OCAML_VERSION < 50000
  if (Caml_state->young_ptr == Caml_state->young_alloc_end)
    Hd_hp(--Caml_state->young_ptr) = Make_header(0, 0, Caml_white);
#endif
  return Val_unit;
}

value gcfuzz_get(value bytes, value index)
{
  return Val_long(((int64_t *)Bytes_val(bytes))[Long_val(index)]);
}

value gcfuzz_set(value bytes, value index, value number)
{
  ((int64_t *)Bytes_val(bytes))[Long_val(index)] = Long_val(number);
  return Val_unit;
}

/* The line of a stack's first call, or 0. */
value gcfuzz_line(value stack)
{
  struct caml_loc_info place = {0};
  if (Wosize_val(stack) > 0)
    caml_debuginfo_location(caml_debuginfo_extract(Backtrace_slot_val(Field(stack, 0))), &place);
  return Val_long(place.loc_valid ? place.LINE : 0);
}
