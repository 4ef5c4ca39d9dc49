// The target `v8`: the program that carries out traces, each as a batch.
//
// While the sampler is on, only the objects of the trace are allocated: the trace is read before its
// start and answered after its end. V8 keeps the stack of each sample, and an action is called through
// functions that are the digits of its number. Invariant: only that profile shows what an action did.
// V8's generator is found in memory once, at the start of the process. After that the program only
// writes the trace's seed there, so that no trace depends on those before it.
"use strict";
const fs = require("node:fs");
const inspector = require("node:inspector");

process.on("uncaughtException", (problem) => {
  console.error(`${problem.name}: ${problem.message} (${CONTRACT.version})`);
  process.exit(1);
});

const FIRST_SEED = 1n; // That of --random-seed.
const PLACE_BITS = 20n; // A reported seed ends with a number of numbers to skip.
const SAMPLER_SEED_MAX = 2 ** 32;
const PLACES_MAX = 1 << 11;
const ENABLES_MAX = 1 << 12;
const BASE_BITS = 5;
const DIGITS = 4;
const ACTIONS_MAX = 1 << (BASE_BITS * DIGITS);
const ROOTS_MAX = 1 << 16;
const PERIOD_MAX = 4096;
// With the longest period a distance is longer than that with probability exp(-31).
const ANCHOR_BYTES = 130000;
const STRING_BYTES = 18; // With two characters, since V8 does not allocate shorter strings.
const STRING_LENGTH_MAX = 100000;
const CONTRACT = {
  nursery_bytes: 1 << 8,
  layout: {
    kinds: {
      node: { type_index: 1, fixed_bytes: 64 },
      string: { type_index: 2, fixed_bytes: STRING_BYTES, item_bytes: 1 },
      array: { type_index: 3, fixed_bytes: 56, item_bytes: 8 },
    },
    large_object_bytes: STRING_LENGTH_MAX + STRING_BYTES + 1,
    word_bytes: 8,
    object_bytes_max: STRING_LENGTH_MAX + STRING_BYTES,
    nonmovable: "ignored",
  },
  actions: [
    "allocate_node", "allocate_string", "allocate_array", "free", "read", "read_number", "write",
    "write_number", "copy_array", "enable_sampling", "disable_sampling", "check_contents",
  ],
  observes: ["value", "samples", "weights", "seed", "contents"],
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
  ],
  batch: true,
  version: `Node ${process.version}, V8 ${process.versions.v8}`,
};

// The mutator. While the sampler is on, it allocates only the objects of actions.

const NODE = 0, STRING = 1, ARRAY = 2, FREE = 3, READ = 4, READ_NUMBER = 5, WRITE = 6,
  WRITE_NUMBER = 7, COPY = 8, ENABLE = 9, DISABLE = 10, CHECK = 11;
const ARGUMENTS = 5;
const roots = new Array(ROOTS_MAX).fill(null);
let rootCount = 0;
let sink = null;
const asked = new Int32Array(ACTIONS_MAX * (1 + ARGUMENTS));
const values = new Int32Array(ACTIONS_MAX);

function place(object) {
  roots[rootCount++] = object;
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

// Compares the strings that a walk from the roots finds; returns how many there are.
function compareAll() {
  let compared = 0;
  for (let slot = 0; slot < rootCount; slot++) visit(roots[slot]);
  for (let at = 0; at < queued; at++) {
    const object = queue[at];
    if (typeof object === "string") {
      compare(object);
      compared++;
    } else {
      const fields = Array.isArray(object) ? object.length - 1 : 2;
      for (let field = 0; field < fields; field++) visit(itemOf(object, field));
    }
  }
  while (queued > 0) queue[--queued] = null;
  return compared;
}

function allocateArray(length) {
  return new Array(length + 1); // An empty array would have room for four.
}

function perform(number) {
  const at = number * (1 + ARGUMENTS);
  const a = asked[at + 1], b = asked[at + 2], c = asked[at + 3];
  switch (asked[at]) {
    case NODE: place({ number: a, first: null, second: null }); break;
    case STRING: place(allocateString(a)); break;
    case ARRAY: place(allocateArray(a)); break;
    case FREE:
      rootCount--;
      for (let slot = a; slot < rootCount; slot++) roots[slot] = roots[slot + 1];
      roots[rootCount] = null;
      break;
    case READ: {
      const found = itemOf(roots[a], b);
      if (found !== null) place(found);
      values[number] = found === null ? -1 : slotOf(found);
      break;
    }
    case READ_NUMBER: {
      const object = roots[a];
      if (Array.isArray(object)) values[number] = object.length - 1;
      else if (typeof object === "string") values[number] = object.length - 2;
      else values[number] = -1 - object.number; // The index of its number.
      break;
    }
    case WRITE: setItem(roots[a], b, c < 0 ? null : roots[c]); break;
    case WRITE_NUMBER: roots[a].number = b; break;
    case COPY: copy(roots[a], roots[b], c, asked[at + 4], asked[at + 5]); break;
    case ENABLE: enable(a); break;
    case DISABLE: disable(); break;
    case CHECK: values[number] = compareAll(); break;
  }
}

// The digits of an action's number, the highest first.
const digits = Array.from({ length: 1 << BASE_BITS }, (_, digit) =>
  new Function("digits", "perform", `return function digit${digit}(number, left) {
    if (left === 0) perform(number);
    else digits[number >> ${BASE_BITS} * (left - 1) & ${(1 << BASE_BITS) - 1}](number, left - 1);
  }`));
digits.forEach((make, digit) => { digits[digit] = make(digits, perform); });

function performAll(count) {
  for (let number = 0; number < count; number++)
    digits[number >> BASE_BITS * (DIGITS - 1)](number, DIGITS - 1);
}

// The sampler.

const session = new inspector.Session();
session.connect();
let profiles = []; // One for each session of the sampler.
let isOn = false;

function ask(method, parameters) {
  let answer = null;
  session.post(`HeapProfiler.${method}`, parameters, (problem, result) => {
    if (problem) throw new Error(`${method}: ${problem.message}`);
    answer = result;
  });
  return answer;
}

function enable(period) {
  disable();
  ask("startSampling", {
    samplingInterval: period,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  isOn = true;
  reseed();
  anchor();
}

// An object in which the distance ends that enabling drew. The first one of the seed begins behind it.
function anchor() {
  sink = table.latin1Slice(0, ANCHOR_BYTES);
  sink = null;
}

function disable() {
  if (!isOn) return;
  isOn = false;
  profiles.push(ask("stopSampling").profile);
}

// The samples of a profile in their order, each with the number of its action, or with null if it is
// of the start or end of a session.
function samplesOf({ head, samples }) {
  const origins = new Map();
  (function walk(node, number, depth) {
    const name = node.callFrame.functionName;
    if (depth < DIGITS && name.startsWith("digit")) {
      number = (number << BASE_BITS) + Number(name.slice("digit".length));
      depth++;
    } else if (name === "enable" || name === "disable") number = null;
    origins.set(node.id, depth === DIGITS ? number : null);
    for (const child of node.children) walk(child, number, depth);
  })(head, 0, 0);
  return samples.sort((a, b) => a.ordinal - b.ordinal)
    .map(({ nodeId, size }) => ({ number: origins.get(nodeId), bytes: size }));
}

// V8's generator: xorshift128+, seeded with the last step of MurmurHash3.

const BITS = (1n << 64n) - 1n;

function mixed(hash) {
  for (const factor of [0xff51afd7ed558ccdn, 0xc4ceb9fe1a85ec53n])
    hash = ((hash ^ (hash >> 33n)) * factor) & BITS;
  return hash ^ (hash >> 33n);
}

function stateOf(seed) {
  const first = mixed(seed);
  return [first, mixed(~first & BITS)];
}

// The places of generators with the first seed: the address of the state, and the numbers drawn.
function generators(memory) {
  const places = new Map();
  let [first, second] = stateOf(FIRST_SEED);
  for (let drawn = 0; drawn < PLACES_MAX; drawn++) {
    places.set(first, { second, drawn });
    const mix = first ^ ((first << 23n) & BITS);
    [first, second] = [second, mix ^ (mix >> 17n) ^ second ^ (second >> 26n)];
  }
  const found = new Map();
  const heap = fs.readFileSync("/proc/self/maps", "latin1").split("\n")
    .find((line) => line.endsWith("[heap]"));
  const [start, end] = heap.split(" ")[0].split("-").map((address) => parseInt(address, 16));
  const copy = Buffer.alloc(end - start);
  const bytes = fs.readSync(memory, copy, 0, copy.length, start);
  const seed = Buffer.alloc(8); // It precedes the state.
  seed.writeBigUInt64LE(FIRST_SEED);
  for (let at = copy.indexOf(seed); at >= 0 && at + 24 <= bytes; at = copy.indexOf(seed, at + 1)) {
    const place = places.get(copy.readBigUInt64LE(at + 8));
    if (place && place.second === copy.readBigUInt64LE(at + 16)) found.set(start + at + 8, place.drawn);
  }
  return found;
}

// The address of the generator that gives an object its identity, which takes one number.
function foundGenerator(memory) {
  new WeakSet().add({});
  const before = generators(memory);
  new WeakSet().add({});
  const after = generators(memory);
  const moved = [...before.keys()].filter((at) => after.get(at) === before.get(at) + 1);
  if (moved.length !== 1) throw new Error(`V8's generator has ${moved.length} possible places`);
  return moved[0];
}

const memory = fs.openSync("/proc/self/mem", "r+");
const generator = foundGenerator(memory);
const STATE_BYTES = 16;
const states = Buffer.alloc(STATE_BYTES * ENABLES_MAX); // One for each time the trace enables.
let enables = 0;

function setSeeds(seed, count) {
  if (count > ENABLES_MAX) throw new Error(`a trace may enable sampling ${ENABLES_MAX} times`);
  for (let number = 0; number < count; number++)
    stateOf(seed + BigInt(number)).forEach((word, index) =>
      states.writeBigUInt64LE(word, STATE_BYTES * number + 8 * index));
}

function reseed() {
  fs.writeSync(memory, states, STATE_BYTES * enables++, STATE_BYTES, generator);
}

function run(seed, actions) {
  setSeeds(seed, actions.filter(([kind]) => kind === ENABLE).length);
  actions.forEach((action, number) => {
    asked.fill(0, number * (1 + ARGUMENTS), (number + 1) * (1 + ARGUMENTS));
    asked.set(action, number * (1 + ARGUMENTS));
  });
  roots.fill(null, 0, rootCount);
  rootCount = strings = foundCount = 0;
  profiles = [];
  enables = 0;
  performAll(actions.length);
  disable();
}

// Does everything several times, since V8 keeps feedback about functions in its heap.
function warmUp() {
  const trace = [
    [NODE, 1], [STRING, 3], [ARRAY, 4], [NODE, 2], [ARRAY, 0], [ARRAY, 40], [STRING, 500],
    [WRITE, 0, 0, 1], [WRITE, 0, 1, 2], [WRITE, 0, 0, 0], [WRITE, 0, 0, -1], [WRITE, 2, 1, 0],
    [WRITE, 2, 2, 1], [WRITE, 2, 3, 2], [WRITE, 2, 0, -1], [WRITE, 3, 1, 3], [WRITE_NUMBER, 0, 7],
    [READ, 0, 0], [READ, 0, 1], [READ, 2, 0], [READ, 2, 1], [READ, 2, 2], [READ, 2, 3],
    [READ_NUMBER, 0], [READ_NUMBER, 1], [READ_NUMBER, 2], [READ, 5, 3],
    [COPY, 2, 5, 0, 1, 4], [COPY, 5, 5, 0, 2, 9], [COPY, 5, 5, 3, 1, 9], [COPY, 5, 2, 0, 0, 4],
    [CHECK], ...Array(11).fill([FREE, 0]), [CHECK],
  ];
  const round = Array(16).fill(trace).flat();
  for (let i = 0; i < 2; i++) run(FIRST_SEED, [...round, [ENABLE, PERIOD_MAX], ...trace, [DISABLE]]);
}

warmUp();

// The protocol.

const NAMES = CONTRACT.actions;
const FIELDS = [
  ["number"], ["length"], ["length"], ["root"], ["root", "field"], ["root"],
  ["root", "field", "value"], ["root", "number"],
  ["source", "dest", "source_start", "dest_start", "length"], ["period_bytes"], [], [],
];
let samplerSeed = 0n;
let numbers = [];

// An action in numbers: a node has the index of its number, which may have any size.
function translated(line) {
  const action = JSON.parse(line);
  const kind = NAMES.indexOf(action.do);
  if (kind < 0) throw new Error(`${action.do} is not carried out`);
  const operands = FIELDS[kind].map((name) => action[name] ?? (name === "value" ? -1 : 0));
  if (kind === NODE || kind === WRITE_NUMBER) {
    operands[operands.length - 1] = numbers.length;
    numbers.push(/"number": *(-?\d+)/.exec(line)?.[1] ?? "0");
  }
  return [kind, ...operands];
}

function answersTo(lines) {
  numbers = [];
  if (lines.length > ACTIONS_MAX) throw new Error(`a trace may have ${ACTIONS_MAX} actions`);
  const actions = lines.map(translated);
  run(samplerSeed, actions);
  if (foundCount > found.length) throw new Error("a trace checks too many strings");
  let read = 0;
  const rows = (count) => Array.from({ length: count }, () => {
    const [number, offset, shown] = found.subarray(read, read += 3);
    const bytes = found.subarray(read, read += shown);
    return `[${[number >>> 0, ...(shown ? [offset, ...bytes] : [])]}]`;
  });
  const weights = actions.map(() => []);
  for (const profile of profiles)
    for (const { number, bytes } of samplesOf(profile))
      if (number !== null) weights[number].push(bytes);
  let seed = samplerSeed;
  return actions.map(([kind], number) => {
    const fields = [];
    if (weights[number].length)
      fields.push(`"samples": ${weights[number].length}, "weights": [${weights[number].join(", ")}]`);
    if (kind === ENABLE) fields.push(`"seed": ${seed++ << PLACE_BITS}`);
    if (kind === READ) fields.push(`"value": ${values[number] < 0 ? null : values[number]}`);
    if (kind === READ_NUMBER)
      fields.push(`"value": ${values[number] < 0 ? numbers[-1 - values[number]] : values[number]}`);
    if (kind === CHECK) fields.push(`"contents": [${rows(values[number])}]`);
    return `{${fields.join(", ")}}`;
  });
}

let trace = [];

function answer(line) {
  if (line === "{}") {
    const answers = answersTo(trace);
    trace = [];
    return answers;
  }
  if (!JSON.parse(line).gcfuzz) {
    trace.push(line);
    return [];
  }
  trace = [];
  samplerSeed = BigInt(JSON.parse(line).config?.sampler_seed ?? 0);
  return [JSON.stringify({ contract: CONTRACT })];
}

let unread = "";
const chunk = Buffer.alloc(1 << 16);
for (let bytes; (bytes = fs.readSync(0, chunk)) > 0;) {
  unread += chunk.latin1Slice(0, bytes);
  const lines = unread.split("\n");
  unread = lines.pop();
  for (const answers of lines.map(answer)) {
    if (answers.length) fs.writeSync(1, answers.join("\n") + "\n");
  }
}
