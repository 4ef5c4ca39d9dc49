(* OCaml 5 discards samples that are due in the last 256 words of the minor heap. *)

let heap_words = 4096
let blocks = 100_000_000
let rate = 1e-3
let samples = ref 0

let count (sampled : Gc.Memprof.allocation) =
  samples := !samples + sampled.n_samples;
  None

let () =
  Gc.set { (Gc.get ()) with minor_heap_size = heap_words };
  let tracker = { Gc.Memprof.null_tracker with alloc_minor = count; alloc_major = count } in
  ignore (Gc.Memprof.start ~sampling_rate:rate ~callstack_size:0 tracker);
  for _ = 1 to blocks do
    (* With its header two words. *)
    ignore (Sys.opaque_identity (ref 0))
  done;
  Gc.Memprof.stop ();
  let fair = int_of_float (float_of_int (2 * blocks) *. rate) in
  Printf.printf "expected some %d samples, got %d\n" fair !samples;
  exit (if !samples < fair * 97 / 100 then 1 else 0)
