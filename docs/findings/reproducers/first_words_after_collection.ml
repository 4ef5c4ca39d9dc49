(* At a low rate the first words after a minor collection are never sampled. *)

let turns = 10_000_000
let rate = 1e-7
let samples = ref 0

let count (sampled : Gc.Memprof.allocation) =
  samples := !samples + sampled.n_samples;
  None

let () =
  let tracker = { Gc.Memprof.null_tracker with alloc_minor = count; alloc_major = count } in
  Gc.Memprof.start ~sampling_rate:rate ~callstack_size:0 tracker;
  for _ = 1 to turns do
    (* With its header 33 words. *)
    ignore (Sys.opaque_identity (Bytes.create 255));
    Gc.minor ()
  done;
  Gc.Memprof.stop ();
  let fair = int_of_float (float_of_int (33 * turns) *. rate) in
  Printf.printf "expected some %d samples, got %d\n" fair !samples;
  exit (if !samples < fair / 2 then 1 else 0)
