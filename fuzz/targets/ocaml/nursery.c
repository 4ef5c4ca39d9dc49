/* Access to OCaml's minor heap, which the language does not offer. */

#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <caml/memory.h>
#include <caml/minor_gc.h>

#define CALLBACK_WORDS 5

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
