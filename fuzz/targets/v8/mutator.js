// The targets `v8` and `v8-finalizers`: the program that carries out actions.
//
// For `v8` it carries out each trace as a batch. While the sampler is on, only the objects of the trace
// are allocated: the trace is read before its start and answered after its end. Invariant: only the
// profiles show what an action did. No trace depends on those before it.
//
// For `v8-finalizers` it answers each action at once. V8 keeps an object to the end of the job that has
// registered or read it, and calls finalizers in jobs of their own. So a turn of the event loop precedes
// a collection, and another one follows. Invariant: between two turns no variable has an object, and
// nothing else refers to a dropped one.
"use strict";
const fs = require("node:fs");
const { compile, makersIn, tiersThere, unproved } = require("./makers.js");

process.on("uncaughtException", (problem) => {
  console.error(`${problem.name}: ${problem.message} (${VERSION})`);
  process.exit(1);
});

const VERSION = `Node ${process.version}, V8 ${process.versions.v8}`;
const HAS_FINALIZERS = "gc" in globalThis; // It is there with --expose-gc.
const IS_DOCUMENTED = process.env.GCFUZZ_AS_DOCUMENTED === "1";
const TIERS = HAS_FINALIZERS ? [0] : tiersThere();
const sampler = HAS_FINALIZERS ? undefined : require("./sampler.js");
const ACTIONS_MAX = sampler?.ACTIONS_MAX ?? 1;
const PLACE_BITS = 20n; // A reported seed ends with a number of numbers to skip.
const SAMPLER_SEED_MAX = 2 ** 32;
const ROOTS_MAX = HAS_FINALIZERS ? 1 << 10 : 1 << 16; // Each collection marks the table, which grows.
const PERIOD_MAX = 4096;
const COMPILED_MAX = 3; // What a trace finds out about its objects makes the first machine code invalid.
const STRING_BYTES = 18; // With two characters, since V8 does not allocate shorter strings.
const STRING_LENGTH_MAX = 100000;

// The actions of both targets, each with its operands.
const OPERANDS = {
  allocate_node: ["number"], allocate_string: ["length"], allocate_array: ["length"],
  allocate_weakref: ["root"], allocate_ephemeron: ["key", "value"], free: ["root"],
  read: ["root", "field"], read_number: ["root"], read_weakref: ["root", "keep"], read_ephemeron: ["root"],
  write: ["root", "field", "value"], write_number: ["root", "number"],
  copy_array: ["source", "dest", "source_start", "dest_start", "length"],
  enable_sampling: ["period_bytes"], disable_sampling: [], check_contents: [], collect_full: [],
  register_finalizer: ["root", "number"], unregister_finalizer: ["root"], run_finalizers: [],
  check_heap: [], allocate_group: ["members"],
};
const NAMES = Object.keys(OPERANDS);
const [
  NODE, STRING, ARRAY, WEAKREF, EPHEMERON, FREE, READ, READ_NUMBER, READ_WEAKREF, READ_EPHEMERON,
  WRITE, WRITE_NUMBER, COPY, ENABLE, DISABLE, CHECK, COLLECT, REGISTER, UNREGISTER, RUN, CHECK_HEAP,
  GROUP,
] = NAMES.keys();
const OF_SAMPLER = [STRING, ENABLE, DISABLE, CHECK, GROUP];
const OF_FINALIZERS = [
  WEAKREF, EPHEMERON, READ_WEAKREF, READ_EPHEMERON, COLLECT, REGISTER, UNREGISTER, RUN, CHECK_HEAP,
];
const FINALIZERS_CONTRACT = {
  nursery_bytes: 1024,
  layout: {
    kinds: {
      node: { type_index: 1, fixed_bytes: 64 },
      array: { type_index: 3, fixed_bytes: 64, item_bytes: 8 },
      weakref: { type_index: 4, fixed_bytes: 64 },
      ephemeron: { type_index: 5, fixed_bytes: 64 },
    },
    large_object_bytes: 1,
    word_bytes: 1,
    object_bytes_max: 1024,
  },
  actions: NAMES.filter((_, kind) => !OF_SAMPLER.includes(kind)),
  observes: ["minors", "value", "alive", "graph", "finalized"],
  weak_reads: "kept",
  finalizers: { within: 0, weak: "cleared_before", objects: "dead" },
  version: VERSION,
};
// From these tiers on, machine code allocates by itself, and folds neighbours. Maglev does since 14.1.
const INLINE = 2, FOLDED = Number.parseInt(process.versions.v8) >= 14 ? 2 : 3;
const KINDS = {
  node: { type_index: 1, fixed_bytes: 64 }, // With a memento: where it was allocated.
  string: { type_index: 2, fixed_bytes: STRING_BYTES, item_bytes: 1 },
  array: { type_index: 3, fixed_bytes: 56, item_bytes: 8 },
};
const COMPILED_KINDS = {
  ...KINDS,
  node: { type_index: 1, fixed_bytes: 48 },
  array: { ...KINDS.array, parts: [{ fixed_bytes: 24, item_bytes: 8 }, { fixed_bytes: 32 }] },
};

// What the target promises in a tier.
function contractIn(tier) {
  const kinds = tier < INLINE ? KINDS : COMPILED_KINDS, isFolded = tier >= FOLDED;
  return {
    nursery_bytes: 1 << 8,
    layout: {
      kinds,
      large_object_bytes: STRING_LENGTH_MAX + STRING_BYTES + 1,
      word_bytes: 8,
      object_bytes_max: STRING_LENGTH_MAX + STRING_BYTES,
      nonmovable: "ignored",
    },
    actions: NAMES.filter((_, kind) => !OF_FINALIZERS.includes(kind)),
    observes: [
      ...["value", "samples", "weights", "seed", "contents"],
      isFolded ? "samples_by_member" : "members",
    ],
    groups: {
      bytes_max: sampler.MEMBERS_MAX * kinds.node.fixed_bytes,
      members_max: sampler.MEMBERS_MAX,
      counted: isFolded ? "as_one" : "each",
      // V8 keeps a sample of a folded group while the first member lives.
      sampled: isFolded && !IS_DOCUMENTED ? "first" : "containing",
    },
    contents: "bytes",
    sampling: {
      period_bytes: { minimum: 8, maximum: PERIOD_MAX, multiple: 8 },
      crosses: "at",
      surplus: "dropped",
      samples_per_allocation: "one",
      disabling: ["drop"],
      // Since 14.6 another generator draws them.
      distances: process.versions.v8.startsWith("14.6.") ? "v8_14_6" : "v8",
      enabling: "reseeds",
      weights: "whole_objects",
    },
    settings: [
      { name: "sampler_seed", default: 0, range: { minimum: 0, maximum: SAMPLER_SEED_MAX } },
      { name: "tier", default: 0, range: { minimum: 0, maximum: TIERS.at(-1) }, choices: TIERS },
    ],
    tier_setting: "tier",
    batch: true,
    version: VERSION,
  };
}

// The mutator. While the sampler is on, it allocates only the objects of actions.

const OPERANDS_MAX = 5;
const roots = new Array(ROOTS_MAX).fill(null);
let rootCount = 0;
const asked = new Int32Array(ACTIONS_MAX * (1 + OPERANDS_MAX));
const values = new Int32Array(ACTIONS_MAX);
const NOTHING = -(2 ** 31); // The value of an empty field, and of an ephemeron whose value is gone.

// A weak reference, or an ephemeron, which has its value in a map.
class Weak {
  constructor(kind, target, map) {
    this.kind = kind;
    this.target = new WeakRef(target);
    this.map = map;
  }
}

function place(object) {
  roots[rootCount++] = object;
}

function dropRoots() {
  roots.fill(null, 0, rootCount);
  rootCount = 0;
}

function itemCount(object) {
  if (Array.isArray(object)) return object.length - 1;
  return typeof object === "string" || object instanceof Weak ? 0 : 2;
}

function itemOf(object, field) {
  const item = Array.isArray(object) ? object[field] : field === 0 ? object.first : object.second;
  return item === undefined ? null : item;
}

function setItem(object, field, item) {
  if (Array.isArray(object)) object[field] = item;
  else if (field === 0) object.first = item;
  else object.second = item;
}

// A length, or -1 - the index of the number of a node.
function numberOf(object) {
  if (Array.isArray(object)) return object.length - 1;
  if (typeof object === "string") return object.length - HEAD;
  return object instanceof Weak ? 0 : -1 - object.number;
}

function slotOf(object) {
  for (let slot = 0; slot < rootCount; slot++) if (roots[slot] === object) return slot;
  return -1;
}

// Copies upwards or downwards, so that source and destination may overlap.
function copy(source, destination, from, to, length) {
  if (from < to) for (let i = length - 1; i >= 0; i--) destination[to + i] = itemOf(source, from + i);
  else for (let i = 0; i < length; i++) destination[to + i] = itemOf(source, from + i);
}

// What strings contain: docs/protocol.md. Equal strings are the same object, so each has two other
// characters before its contents: its number. The contents are a part of a table of three periods,
// where the first bytes of the string are written, and replaced by those of the next period.

const HEAD = 2, NUMBER_BYTES = 8, PERIOD = 1 << 16, SHOWN = 16;
const table = Buffer.alloc(HEAD + 3 * PERIOD);
for (let at = 0; at < table.length; at++) table[at] = Math.imul(at - HEAD & PERIOD - 1, 2654435761) >>> 24;
const scratch = Buffer.alloc(HEAD + STRING_LENGTH_MAX);
let strings = 0;

function startOf(number) {
  return Math.imul(number, 40503) & PERIOD - 1;
}

function byteOf(number, offset) {
  return offset < 4 ? number >> 8 * offset & 255 : 0;
}

function allocateString(length) {
  strings++;
  const start = startOf(strings), first = start + HEAD;
  for (let i = 0; i < HEAD; i++) table[start + i] = byteOf(strings, i);
  for (let i = 0; i < NUMBER_BYTES; i++) table[first + i] = byteOf(strings, i);
  const string = table.latin1Slice(start, first + length);
  for (let i = start; i < first + NUMBER_BYTES; i++) table[i] = table[i + PERIOD];
  return string;
}

// The rows of the trace, one after the other: number, first wrong offset, how many bytes follow.
const found = new Int32Array(1 << 20);
let foundCount = 0;

// The objects of the present walk.
const queue = new Array(ROOTS_MAX).fill(null);
let queued = 0;

function compare(string) {
  const length = string.length - HEAD;
  scratch.latin1Write(string, 0);
  let number = 0, offset = 0;
  for (; offset < 4 && offset < length; offset++) number |= scratch[HEAD + offset] << 8 * offset;
  while (offset < length && offset < NUMBER_BYTES && scratch[HEAD + offset] === 0) offset++;
  const first = startOf(number) + HEAD;
  if (offset === NUMBER_BYTES)
    while (offset < length && scratch[HEAD + offset] === table[first + offset]) offset++;
  const shown = Math.min(length - offset, SHOWN);
  found[foundCount++] = number;
  found[foundCount++] = offset;
  found[foundCount++] = shown;
  for (let i = 0; i < shown; i++) found[foundCount++] = scratch[HEAD + offset + i];
}

function visit(object) {
  if (object === null) return;
  for (let at = 0; at < queued; at++) if (queue[at] === object) return;
  queue[queued++] = object;
}

// Compares the strings to which the roots lead.
function compareAll() {
  for (let slot = 0; slot < rootCount; slot++) visit(roots[slot]);
  for (let at = 0; at < queued; at++) {
    const object = queue[at], items = itemCount(object);
    if (typeof object === "string") compare(object);
    for (let field = 0; field < items; field++) visit(itemOf(object, field));
  }
  while (queued > 0) queue[--queued] = null;
}

let makers = makersIn[0]; // Those of the trace's tier.
const group = new Array(sampler?.MEMBERS_MAX ?? 0).fill(null); // Where they put the members of one.

function perform(number) {
  const at = number * (1 + OPERANDS_MAX);
  const a = asked[at + 1], b = asked[at + 2], c = asked[at + 3];
  switch (asked[at]) {
    case NODE: place(makers.node(a)); break;
    case STRING: place(allocateString(a)); break;
    case ARRAY: place(makers.array(a)); break;
    case FREE:
      rootCount--;
      for (let slot = a; slot < rootCount; slot++) roots[slot] = roots[slot + 1];
      roots[rootCount] = null;
      break;
    case READ: {
      const found = itemOf(roots[a], b);
      if (found !== null) place(found);
      values[number] = found === null ? NOTHING : slotOf(found);
      break;
    }
    case READ_NUMBER: values[number] = numberOf(roots[a]); break;
    case WRITE: setItem(roots[a], b, c < 0 ? null : roots[c]); break;
    case WRITE_NUMBER: roots[a].number = b; break;
    case COPY: copy(roots[a], roots[b], c, asked[at + 4], asked[at + 5]); break;
    case GROUP:
      makers.groups[a - 1](group, b, c, asked[at + 4]);
      sampler.keep(group, a);
      for (let member = 0; member < a; member++) {
        place(group[member]);
        group[member] = null;
      }
      break;
    case ENABLE: sampler.enable(a); break;
    case DISABLE: sampler.disable(); break;
    case CHECK:
      compareAll();
      values[number] = foundCount;
      break;
    case WEAKREF: place(new Weak(4, roots[a])); break;
    case EPHEMERON: place(new Weak(5, roots[a], new WeakMap([[roots[a], roots[b]]]))); break;
    case READ_WEAKREF: {
      const found = roots[a].target.deref();
      if (b) place(found ?? roots[a]);
      values[number] = found !== undefined;
      break;
    }
    case READ_EPHEMERON: {
      const value = roots[a].map.get(roots[a].target.deref());
      values[number] = value === undefined ? NOTHING : numberOf(value);
      break;
    }
    case REGISTER: registry.register(roots[a], { number: numbers[b], pending }, roots[a]); break;
    case UNREGISTER: registry.unregister(roots[a]); break;
  }
}

let problems = []; // Makers of the trace that left their tier.
const performAll = sampler?.performerOf(perform);

function run(seed, actions, end = actions.length) {
  sampler.begin(seed, actions.filter(([kind]) => kind === ENABLE).length);
  actions.forEach((action, number) => asked.set(action, number * (1 + OPERANDS_MAX)));
  dropRoots();
  strings = foundCount = 0;
  performAll(end);
  problems.push(...unproved(tier));
}

// Does everything several times, since V8 keeps feedback about functions in its heap.
function warmUp() {
  const trace = [
    [NODE, 1], [STRING, 3], [ARRAY, 4], [NODE, 2], [ARRAY, 0], [ARRAY, 40], [STRING, 500],
    [GROUP, 1, 1], [GROUP, 2, 1, 2], [GROUP, 3, 1, 2, 3], ...Array(6).fill([FREE, 7]),
    [WRITE, 0, 0, 1], [WRITE, 0, 1, 2], [WRITE, 0, 0, 0], [WRITE, 0, 0, -1], [WRITE, 2, 1, 0],
    [WRITE, 2, 2, 1], [WRITE, 2, 3, 2], [WRITE, 2, 0, -1], [WRITE, 3, 1, 3], [WRITE_NUMBER, 0, 7],
    [READ, 0, 0], [READ, 0, 1], [READ, 2, 0], [READ, 2, 1], [READ, 2, 2], [READ, 2, 3],
    [READ_NUMBER, 0], [READ_NUMBER, 1], [READ_NUMBER, 2], [READ, 5, 3],
    [COPY, 2, 5, 0, 1, 4], [COPY, 5, 5, 0, 2, 9], [COPY, 5, 5, 3, 1, 9], [COPY, 5, 2, 0, 0, 4],
    [CHECK], ...Array(11).fill([FREE, 0]), [CHECK],
  ];
  const round = Array(16).fill(trace).flat();
  for (let i = 0; i < 2; i++) answersToBatch([...round, [ENABLE, 8], ...trace, [DISABLE]]);
}

// The finalizers.

// Each trace has its own queue, since finalizers of earlier traces do nothing.
const registry = new FinalizationRegistry(({ number, pending }) => pending.push(number));
let pending = [];

function graph() {
  const rows = new Map();
  const rowOf = (object) => {
    if (!rows.has(object)) rows.set(object, rows.size);
    return rows.get(object);
  };
  for (let slot = 0; slot < rootCount; slot++) rowOf(roots[slot]);
  const graph = [];
  for (const object of rows.keys()) { // They grow meanwhile.
    const kind = Array.isArray(object) ? 3 : object instanceof Weak ? object.kind : 1;
    const row = [kind, textOf(numberOf(object))];
    for (let field = 0; field < itemCount(object); field++) {
      const item = itemOf(object, field);
      if (item !== null) row.push(field, rowOf(item));
    }
    graph.push(`[${row}]`);
  }
  return `[${graph}]`;
}

function turn() {
  return new Promise(setImmediate);
}

async function collect() {
  await turn();
  gc();
  await turn();
}

// The protocol.

let contract = FINALIZERS_CONTRACT;
let samplerSeed = 0n;
let tier = 0;
let trace = []; // Its actions, until all are carried out.
let numbers = []; // Those of the trace, as text, since a number may have any size.

// The index of the number in a part of a line.
function numberIn(part) {
  return numbers.push(/"number": *(-?\d+)/.exec(part)?.[1] ?? "0") - 1;
}

// An action in integers: instead of a number it has the number's index.
function translated(action, line) {
  if (!contract.actions.includes(action.do)) throw new Error(`${action.do} is not carried out`);
  if (action.members) {
    const members = line.slice(line.indexOf("[")).split("}", action.members.length);
    return [GROUP, members.length, ...members.map(numberIn)];
  }
  const operands = OPERANDS[action.do].map((name) => {
    if (name === "number") return numberIn(line);
    return action[name] ?? (name === "value" ? -1 : 0);
  });
  return [NAMES.indexOf(action.do), ...operands];
}

function textOf(value) {
  if (value === NOTHING) return "null";
  return value < 0 ? numbers[-1 - value] : `${value}`;
}

// The fields of an answer that the action alone decides, not the trace.
function fieldsOf(kind, number) {
  switch (kind) {
    case READ: case READ_NUMBER: case READ_EPHEMERON: return [`"value": ${textOf(values[number])}`];
    case READ_WEAKREF: return [`"alive": ${values[number] === 1}`];
    case COLLECT: return [`"minors": 1, "graph": ${graph()}`];
    case RUN: return [`"finalized": [${pending.splice(0)}]`];
    case CHECK_HEAP: return [`"graph": ${graph()}`];
    default: return [];
  }
}

// For each session, how many actions come before its end.
function sessionEnds(actions) {
  const ends = [];
  let isOn = false;
  [...actions, [DISABLE]].forEach(([kind], number) => {
    if (isOn && [ENABLE, DISABLE].includes(kind)) ends.push(number);
    if ([ENABLE, DISABLE].includes(kind)) isOn = kind === ENABLE;
  });
  return ends;
}

// The bytes of each action's samples, in order; for a group, a list for each of its members.
function sampledBytes(actions) {
  const bytes = actions.map(([kind, count]) =>
    kind === GROUP ? Array.from({ length: count }, () => []) : []);
  const isOfGroup = ({ number }) => actions[number][0] === GROUP;
  const ends = sessionEnds(actions);
  sampler.samples().forEach((samples, session) => {
    for (const sample of samples) if (!isOfGroup(sample)) bytes[sample.number].push(sample.bytes);
    if (!samples.some(isOfGroup)) return;
    const named = sampler.samplesByMember(() => {
      run(samplerSeed, actions, ends[session]);
      dropRoots();
    }, isOfGroup);
    for (const sample of named) bytes[sample.number][sample.place]?.push(sample.bytes);
  });
  return bytes;
}

// The fields of an answer with these samples.
function sampleFields(bytes) {
  return bytes.length ? [`"samples": ${bytes.length}, "weights": [${bytes.join(", ")}]`] : [];
}

// Those of a group's answer.
function groupFields(bytesByMember) {
  if (tier < FOLDED) return [`"members": [${bytesByMember.map((bytes) => `{${sampleFields(bytes)}}`)}]`];
  const counts = bytesByMember.map((bytes) => bytes.length);
  return [...sampleFields(bytesByMember.flat()), `"samples_by_member": [${counts}]`];
}

function answersToBatch(actions) {
  if (actions.length > ACTIONS_MAX) throw new Error(`a trace may have ${ACTIONS_MAX} actions`);
  problems = [];
  run(samplerSeed, actions);
  if (foundCount > found.length) throw new Error("a trace checks too many strings");
  let read = 0;
  function* rowsUntil(end) {
    while (read < end) {
      const [number, offset, shown] = found.subarray(read, read += 3);
      const bytes = found.subarray(read, read += shown);
      yield `[${[number >>> 0, ...(shown ? [offset, ...bytes] : [])]}]`;
    }
  }
  let seed = samplerSeed;
  const bytesOfAll = sampledBytes(actions), [problem] = problems;
  return bytesOfAll.map((bytes, number) => {
    const [kind] = actions[number], fields = fieldsOf(kind, number);
    fields.push(...(kind === GROUP ? groupFields(bytes) : sampleFields(bytes)));
    if (kind === ENABLE) fields.push(`"seed": ${seed++ << PLACE_BITS}`);
    if (kind === CHECK) fields.push(`"contents": [${[...rowsUntil(values[number])]}]`);
    if (problem && number === actions.length - 1) fields.push(`"error": "${problem}"`);
    return `{${fields.join(", ")}}`;
  });
}

async function answerTo(action, line) {
  try {
    asked.set(translated(action, line));
    perform(0);
    if (asked[0] === COLLECT) await collect();
    return `{${fieldsOf(asked[0], 0)}}`;
  } catch (problem) {
    return JSON.stringify({ error: `${problem.name}: ${problem.message}` });
  }
}

// Begins a trace with these settings.
function settle({ sampler_seed = 0, tier: chosen = 0 }) {
  samplerSeed = BigInt(sampler_seed);
  tier = chosen;
  makers = makersIn[tier];
  contract = contractIn(tier);
  for (let round = 0; round < COMPILED_MAX && unproved(tier).length; round++) {
    compile(tier);
    warmUp();
  }
}

async function answersTo(line) {
  if (line === "{}") return answersToBatch(trace);
  const action = JSON.parse(line);
  if (action.gcfuzz) {
    dropRoots();
    [trace, numbers, pending] = [[], [], []];
    if (!HAS_FINALIZERS) settle(action.config ?? {});
    return [JSON.stringify({ contract })];
  }
  if (HAS_FINALIZERS) return [await answerTo(action, line)];
  trace.push(translated(action, line));
  return [];
}

async function main() {
  let unread = "";
  const chunk = Buffer.alloc(1 << 16);
  for (let bytes; (bytes = fs.readSync(0, chunk)) > 0;) {
    unread += chunk.latin1Slice(0, bytes);
    const lines = unread.split("\n");
    unread = lines.pop();
    for (const line of lines) {
      const answers = await answersTo(line);
      if (answers.length) fs.writeSync(1, answers.join("\n") + "\n");
    }
  }
}

main();
