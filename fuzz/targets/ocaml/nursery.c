/* What the language does not offer: access to OCaml's minor heap, and equal processes. */

#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <caml/memory.h>
#include <caml/minor_gc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLBACK_WORDS 5
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
  return Val_long(Caml_state->stat_minor_collections);
}

/* Make room for a block of these words and its callback. A collection during a callback would not
   renew Memprof's distance, and a full table would cause a collection after the allocation. */
value gcfuzz_make_room(value words)
{
  intnat left = Caml_state->young_ptr - Caml_state->young_trigger - Long_val(words);
  struct caml_ref_table *table = Caml_state->ref_table;
  int is_full = table->base != NULL && table->limit - table->ptr < 2;
  if ((left >= 0 && left < CALLBACK_WORDS) || is_full)
    caml_minor_collection();
  return Val_unit;
}

/* Put a word into an empty minor heap, which OCaml would not collect. */
value gcfuzz_fill(value unit)
{
  if (Caml_state->young_ptr == Caml_state->young_alloc_end)
    Hd_hp(--Caml_state->young_ptr) = Make_header(0, 0, Caml_white);
  return Val_unit;
}
