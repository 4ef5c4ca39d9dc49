(* The mutator of the target ocaml, in machine code or bytecode. Each trace has a copy of the first
   process, since nothing resets Memprof's generator. A message has twelve integers. The first one of
   a trace has the words of the minor heap, how many batches of Memprof's numbers to skip, and the
   tier. The others have an operation and its arguments. An answer has the number of its integers;
   the number of values, or -1 if the operation is impossible; the values; the minor collections of
   the trace; and for each block that was sampled meanwhile its words, how often it was sampled, and
   the line of this file that allocated it.

   Invariant: while sampling is on, only the requested blocks are allocated, since others would be
   sampled too. So everything is kept in arrays that exist already. Functions in C read and write
   integers of 64 bits, since bytecode boxes an int64. *)

type obj =
  | Null
  | Node of {
      mutable row : int;
      mutable low : int;  (* 32 bits of a number of 64. *)
      mutable high : int;
      mutable left : obj;
      mutable right : obj;
    }
  | Array of { mutable row : int }  (* The references follow. *)
  | Weakref of { mutable row : int; target : obj Weak.t }
  | Ephemeron of { mutable row : int; pair : Obj.Ephemeron.t }

(* Strings are none of these. They have the row in their first word. *)
let node_tag = 0
let array_tag = 1

external tag : obj -> int = "caml_obj_tag" [@@noalloc]
external block : int -> int -> obj = "caml_obj_block"
external items : obj -> obj array = "%identity"
external integers : obj -> int array = "%identity"
external bytes : obj -> Bytes.t = "%identity"
external of_bytes : Bytes.t -> obj = "%identity"
external get : Bytes.t -> int -> int = "gcfuzz_get" [@@noalloc]
external set : Bytes.t -> int -> int -> unit = "gcfuzz_set" [@@noalloc]
external line_of : Printexc.raw_backtrace -> int = "gcfuzz_line" [@@noalloc]
external collections : unit -> int = "gcfuzz_collections" [@@noalloc]
external make_room : int -> int -> bool -> unit = "gcfuzz_make_room"
external fill : unit -> unit = "gcfuzz_fill"
external next_trace : unit -> unit = "gcfuzz_next_trace"

let message_words = 12
let node_words = 6
let sampled_integers = 3
let young_words_max = 257

(* Each collection of the major heap marks these tables, so they are small. *)
let table_size = 4096
let asked = Bytes.create (8 * message_words)
let answer = Bytes.create (8 lsl 20)
let answered = ref 0
let roots = Array.make table_size Null
let root_count = ref 0
let queue = Array.make table_size Null
let queued = ref 0

(* Objects whose finaliser was called, and those that may be resurrected, with their numbers. *)
type finalised = { objects : obj array; numbers : int array; mutable size : int }

let make_finalised () =
  { objects = Array.make table_size Null; numbers = Array.make table_size 0; size = 0 }

let pending = make_finalised ()
let kept = make_finalised ()
let sampled_blocks = Array.make table_size 0
let sampled_count = ref 0

let number index = get asked index

let put number =
  set answer !answered number;
  incr answered

let count (sampled : Gc.Memprof.allocation) =
  let first = sampled_integers * !sampled_count in
  sampled_blocks.(first) <- sampled.size + 1;
  sampled_blocks.(first + 1) <- sampled.n_samples;
  sampled_blocks.(first + 2) <- line_of sampled.callstack;
  incr sampled_count;
  None

let tracker = { Gc.Memprof.null_tracker with alloc_minor = count; alloc_major = count }

(* That of the message. *)
let tier = match Sys.backend_type with Native -> 1 | Bytecode | Other _ -> 0
let is_on = ref false

let disable () =
  if !is_on then Gc.Memprof.stop ();
  is_on := false

let enable period_words =
  disable ();
  is_on := true;
  (* OCaml 5 returns the profile. *)
  let sampling_rate = 1. /. float_of_int period_words in
  ignore (Gc.Memprof.start ~sampling_rate ~callstack_size:1 tracker)

let keep found =
  roots.(!root_count) <- found;
  incr root_count

(* Keep a new block, and answer its words. *)
let keep_new made =
  keep made;
  put (Array.length (items made) + 1)

(* The field before the first reference. *)
let before found =
  let kind = tag found in
  if kind = array_tag then 0 else if kind = node_tag then 2 else raise Not_found

let has_references found = tag found <= array_tag

let row found =
  if tag found = Obj.string_tag then get (bytes found) 0
  else Array.unsafe_get (integers found) 0

let set_row found row =
  if tag found = Obj.string_tag then set (bytes found) 0 row
  else Array.unsafe_set (integers found) 0 row

(* A block that the runtime allocates, of these words with its header. *)
let make_runtime kind words =
  if words <= young_words_max then make_room words 1 true;
  (if kind = array_tag then keep_new (block array_tag (words - 1))
   else
     let made = of_bytes (Bytes.create (8 * (words - 2))) in
     set_row made 0;
     keep_new made);
  if words > young_words_max then make_room 0 1 true

(* The compiler allocates the nodes of a function together. Each has a line of its own, by which a
   sample names it. *)

let first_line = ref 0

let one () =
  first_line := __LINE__ + 1;
  let a = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  keep_new a

let two () =
  first_line := __LINE__ + 1;
  let a = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let b = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  keep_new a;
  keep_new b

let three () =
  first_line := __LINE__ + 1;
  let a = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let b = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let c = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  keep_new a;
  keep_new b;
  keep_new c

let four () =
  first_line := __LINE__ + 1;
  let a = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let b = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let c = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let d = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  keep_new a;
  keep_new b;
  keep_new c;
  keep_new d

let five () =
  first_line := __LINE__ + 1;
  let a = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let b = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let c = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let d = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  let e = Node { row = 0; low = 0; high = 0; left = Null; right = Null } in
  keep_new a;
  keep_new b;
  keep_new c;
  keep_new d;
  keep_new e

let makers = [| one; two; three; four; five |]

(* Make nodes with the numbers of the message, from the third integer on. *)
let make_nodes count =
  make_room (count * node_words) count false;
  makers.(count - 1) ();
  for index = 0 to count - 1 do
    match roots.(!root_count - count + index) with
    | Node node ->
        node.low <- number ((2 * index) + 2);
        node.high <- number ((2 * index) + 3)
    | _ -> raise Not_found
  done;
  put !first_line

(* A node's number, or a length: the lower 32 bits, then the others. *)
let put_number found =
  let kind = tag found in
  if kind = Obj.string_tag then put ((Bytes.length (bytes found) / 8) - 1)
  else if kind = array_tag then put (Array.length (items found) - 1)
  else put (if kind = node_tag then (integers found).(1) else 0);
  put (if kind = node_tag then (integers found).(2) else 0)

(* What strings contain: docs/protocol.md. It begins behind the word of the row. *)

let contents_at = 8
let number_bytes = 8
let string_count = ref 0

let byte_of number offset =
  if offset < number_bytes then (number lsr (8 * offset)) land 255
  else (((((number * 40503) + offset) land 65535) * 2654435761) land 0xffffffff) lsr 24

let fill_string found =
  let data = bytes found in
  incr string_count;
  for offset = 0 to Bytes.length data - contents_at - 1 do
    let byte = byte_of !string_count offset in
    Bytes.unsafe_set data (contents_at + offset) (Char.unsafe_chr byte)
  done

let sums_of_bytes =
  let rec shifted times sum =
    if times = 0 then sum
    else shifted (times - 1) ((sum lsr 1) lxor (if sum land 1 = 1 then 0xedb88320 else 0))
  in
  Array.init 256 (shifted 8)

(* The CRC-32 of what the string contains. *)
let sum found =
  let data = bytes found and sum = ref 0xffffffff in
  for at = contents_at to Bytes.length data - 1 do
    let byte = Char.code (Bytes.unsafe_get data at) in
    sum := Array.unsafe_get sums_of_bytes ((!sum lxor byte) land 255) lxor (!sum lsr 8)
  done;
  !sum lxor 0xffffffff

let visit found =
  if row found = 0 then begin
    queue.(!queued) <- found;
    incr queued;
    set_row found !queued
  end

(* A row for each object: the number of its integers, the kind, the number or length, and the
   references: the field and the row of each. *)
let put_row found =
  let at = !answered in
  put 0;
  put (match tag found with 0 -> 1 | 1 -> 3 | 2 -> 4 | 3 -> 5 | _ -> 2);
  put_number found;
  if has_references found then begin
    let first = before found + 1 in
    for field = first to Array.length (items found) - 1 do
      match Array.unsafe_get (items found) field with
      | Null -> ()
      | reference ->
          visit reference;
          put (field - first);
          put (row reference - 1)
    done
  end;
  set answer at (!answered - at - 1)

let put_sum found =
  if has_references found then
    for field = before found + 1 to Array.length (items found) - 1 do
      match Array.unsafe_get (items found) field with
      | Null -> ()
      | reference -> visit reference
    done
  else if tag found = Obj.string_tag then put (sum found)

(* Answer for each object to which the roots lead. *)
let walk answer_for =
  for root = 0 to !root_count - 1 do
    visit roots.(root)
  done;
  let next = ref 0 in
  while !next < !queued do
    answer_for queue.(!next);
    incr next
  done;
  while !queued > 0 do
    decr queued;
    set_row queue.(!queued) 0;
    queue.(!queued) <- Null
  done

let root index = if index < !root_count then roots.(index) else raise Not_found

let find found =
  let first = ref 0 in
  while roots.(!first) != found do
    incr first
  done;
  !first

let add queue number found =
  queue.objects.(queue.size) <- found;
  queue.numbers.(queue.size) <- number;
  queue.size <- queue.size + 1

let clear queue =
  Array.fill queue.objects 0 queue.size Null;
  queue.size <- 0

(* Empty the queue, answer its numbers, and keep the objects until the next time if asked. *)
let run_finalisers is_kept =
  clear kept;
  for index = 0 to pending.size - 1 do
    put pending.numbers.(index);
    if is_kept then add kept pending.numbers.(index) pending.objects.(index)
  done;
  clear pending

let resurrect number =
  let index = ref 0 in
  while !index < kept.size && kept.numbers.(!index) <> number do
    incr index
  done;
  if !index = kept.size then raise Not_found;
  keep kept.objects.(!index)

let allocate_weakref found =
  let target = Weak.create 1 in
  Weak.set target 0 (Some found);
  keep_new (Weakref { row = 0; target })

(* What Ephemeron.K1 is made of, whose own functions differ between OCaml 4.13 and 5. *)
let allocate_ephemeron key value =
  let pair = Obj.Ephemeron.create 1 in
  Obj.Ephemeron.set_key pair 0 (Obj.repr key);
  Obj.Ephemeron.set_data pair (Obj.repr value);
  keep_new (Ephemeron { row = 0; pair })

(* The value is unreachable for the last time, so there is nothing to keep. *)
let register_last number found = Gc.finalise_last (fun () -> add pending number Null) found

let perform () =
  match number 0 with
  | 0 ->
      make_room node_words 1 false;
      keep_new (Node { row = 0; low = number 1; high = number 2; left = Null; right = Null })
  | 1 ->
      make_runtime Obj.string_tag (number 1 + 3);
      fill_string roots.(!root_count - 1)
  | 2 -> make_runtime array_tag (number 1 + 2)
  | 3 ->
      let root = number 1 in
      Array.blit roots (root + 1) roots root (!root_count - root - 1);
      decr root_count;
      roots.(!root_count) <- Null
  | 4 -> (
      let found = root (number 1) in
      match (items found).(before found + 1 + number 2) with
      | Null -> put (-1)
      | reference ->
          keep reference;
          put (find reference))
  | 5 ->
      let found = root (number 1) in
      let value = if number 3 < 0 then Null else root (number 3) in
      (items found).(before found + 1 + number 2) <- value
  | 6 -> put_number (root (number 1))
  | 7 -> (
      match root (number 1) with
      | Node node ->
          node.low <- number 2;
          node.high <- number 3
      | _ -> raise Not_found)
  | 8 ->
      let source = items (root (number 1)) and dest = items (root (number 2)) in
      Array.blit source (number 3 + 1) dest (number 4 + 1) (number 5)
  | 9 ->
      fill ();
      Gc.minor ()
  | 10 ->
      fill ();
      Gc.full_major ()
  | 11 -> enable (number 1)
  | 12 -> disable ()
  | 13 -> walk put_row
  | 14 -> Unix._exit 0
  | 15 ->
      let finaliser = number 2 in
      Gc.finalise (fun found -> add pending finaliser found) (root (number 1))
  | 16 -> run_finalisers (number 1 = 1)
  | 17 -> resurrect (number 1)
  | 18 -> allocate_weakref (root (number 1))
  | 19 -> allocate_ephemeron (root (number 1)) (root (number 2))
  | 20 -> (
      match root (number 1) with
      | Weakref { target; _ } as weakref ->
          let found = Weak.get target 0 in
          if number 2 = 1 then keep (Option.value found ~default:weakref);
          put (Bool.to_int (Option.is_some found))
      | _ -> raise Not_found)
  | 21 -> (
      match root (number 1) with
      | Ephemeron { pair; _ } ->
          Option.iter (fun found -> put_number (Obj.obj found)) (Obj.Ephemeron.get_data pair)
      | _ -> raise Not_found)
  | 22 -> register_last (number 1) (root (!root_count - 1))
  | 23 -> walk put_sum
  | 24 -> make_nodes (number 1)
  | _ -> raise Not_found

let refuse () =
  answered := 2;
  set answer 1 (-1)

(* Memprof runs postponed callbacks between two turns of a loop. *)
let poll () =
  for _ = 1 to 2 do
    ()
  done

let receive () =
  if Unix.read Unix.stdin asked 0 (Bytes.length asked) < Bytes.length asked then Unix._exit 1

let () =
  next_trace ();
  receive ();
  if number 2 <> tier then failwith "the mutator was compiled for another tier";
  Gc.set { (Gc.get ()) with minor_heap_size = number 0 };
  (* Each start of Memprof draws a batch of numbers. *)
  for _ = 1 to number 1 do
    enable 1
  done;
  disable ();
  let before = collections () in
  while true do
    receive ();
    answered := 2;
    sampled_count := 0;
    (match perform () with
    | () -> set answer 1 (!answered - 2)
    | exception _ -> refuse ());
    (* A finaliser that is called here may find its table full. *)
    (try poll () with _ -> refuse ());
    put (collections () - before);
    for index = 0 to (sampled_integers * !sampled_count) - 1 do
      put sampled_blocks.(index)
    done;
    set answer 0 !answered;
    ignore (Unix.write Unix.stdout answer 0 (8 * !answered))
  done
