/* What the mutator must know of OCaml's minor heap, of which its language says nothing. */

#define CAML_INTERNALS
#define CAML_NAME_SPACE
#include <caml/memory.h>
#include <caml/minor_gc.h>

#define CALLBACK_WORDS 5

value gcfuzz_collections(value unit)
{
  return Val_long(Caml_state->stat_minor_collections);
}

/* Room for the callback of a block of so many words. While one runs a collection begins no distance
   of Memprof's; and a table that is full asks for a collection when the block is there already. */
value gcfuzz_make_room(value words)
{
  intnat left = Caml_state->young_ptr - Caml_state->young_trigger - Long_val(words);
  struct caml_ref_table *table = Caml_state->ref_table;
  int is_full = table->base != NULL && table->limit - table->ptr < 2;
  if ((left >= 0 && left < CALLBACK_WORDS) || is_full)
    caml_minor_collection();
  return Val_unit;
}

/* OCaml does not collect an empty minor heap: a word is put there, which no allocation made. */
value gcfuzz_fill(value unit)
{
  if (Caml_state->young_ptr == Caml_state->young_alloc_end)
    Hd_hp(--Caml_state->young_ptr) = Make_header(0, 0, Caml_white);
  return Val_unit;
}
