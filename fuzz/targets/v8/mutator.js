// The target `v8`: the program that carries out a trace as a batch.
//
// While the sampler is on, only the objects of the trace are allocated: the trace is read before its
// start and answered after its end. V8 keeps the stack of each sample, and an action is called through
// functions that are the digits of its number. Invariant: only that profile shows what an action did.
// The place in V8's generator is found once, at the start of the process. After that the program counts
// numbers and reads no distance.
"use strict";
const fs = require("node:fs");
const inspector = require("node:inspector");

process.on("uncaughtException", (problem) => {
  console.error(`${problem.name}: ${problem.message} (${CONTRACT.version})`);
  process.exit(1);
});

const GENERATOR_SEED = 1n; // That of --random-seed.
const PLACE_BITS = 20n;
const PLACES_MAX = 1 << 11;
const PASSED_MAX = 1000;
const BASE_BITS = 5;
const DIGITS = 4;
const ACTIONS_MAX = 1 << (BASE_BITS * DIGITS);
const ROOTS_MAX = 1 << 16;
const PERIOD_MAX = 4096;
// The size of an object in which the distance ends that enabling draws. With the longest period the
// probability that it does not is exp(-31).
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
    "write_number", "copy_array", "enable_sampling", "disable_sampling",
  ],
  observes: ["value", "samples", "weights", "seed"],
  sampling: {
    period_bytes: { minimum: 8, maximum: PERIOD_MAX, multiple: 8 },
    crosses: "at",
    surplus: "dropped",
    samples_per_allocation: "one",
    disabling: ["drop"],
    distances: "v8",
    enabling: "reseeds",
    weights: "whole_objects",
  },
  settings: [
    { name: "numbers_passed", default: 0, range: { minimum: 0, maximum: PASSED_MAX } },
  ],
  fresh_process: true,
  batch: true,
  version: `Node ${process.version}, V8 ${process.versions.v8}`,
};

// The mutator. While the sampler is on, it allocates only the objects of actions.

const NODE = 0, STRING = 1, ARRAY = 2, FREE = 3, READ = 4, READ_NUMBER = 5, WRITE = 6,
  WRITE_NUMBER = 7, COPY = 8, ENABLE = 9, DISABLE = 10;
const ARGUMENTS = 5;
const roots = new Array(ROOTS_MAX).fill(null);
let rootCount = 0;
let sink = null;
// Equal strings are the same object, so that each has other first two characters.
const STRINGS = 1 << 16;
const characters = Buffer.alloc(2 * STRINGS + ANCHOR_BYTES);
for (let i = 0; i < STRINGS; i++) characters.writeUInt16LE(i, 2 * i);
let strings = 0;
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

function allocateString(length) {
  strings = (strings + 1) & (STRINGS - 1);
  return characters.latin1Slice(2 * strings, 2 * strings + length + 2);
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
  anchor();
}

function anchor() {
  sink = characters.latin1Slice(0, ANCHOR_BYTES);
  sink = null;
}

function disable() {
  if (!isOn) return;
  isOn = false;
  profiles.push(ask("stopSampling").profile);
}

// The samples of a profile in their order, each with its action and its kind: of the action, of the
// anchor, or of the start or end of a session.
function samplesOf({ head, samples }) {
  const origins = new Map();
  (function walk(node, number, depth, kind) {
    const name = node.callFrame.functionName;
    if (depth < DIGITS && name.startsWith("digit")) {
      number = (number << BASE_BITS) + Number(name.slice("digit".length));
      kind = ++depth === DIGITS ? "action" : null;
    } else if (name === "anchor") kind = "anchor";
    else if (kind === "action" && (name === "enable" || name === "disable")) kind = "session";
    origins.set(node.id, { kind, number });
    for (const child of node.children) walk(child, number, depth, kind);
  })(head, 0, 0, null);
  return samples.sort((a, b) => a.ordinal - b.ordinal)
    .map(({ nodeId, size }) => ({ ...origins.get(nodeId), bytes: size }));
}

// The place in V8's generator: xorshift128+, seeded with the last step of MurmurHash3.

const BITS = (1n << 64n) - 1n;

function mixed(hash) {
  for (const factor of [0xff51afd7ed558ccdn, 0xc4ceb9fe1a85ec53n])
    hash = ((hash ^ (hash >> 33n)) * factor) & BITS;
  return hash ^ (hash >> 33n);
}

const distances = []; // The seed's distances for a period of one byte.
{
  let first = mixed(GENERATOR_SEED), second = mixed(~first & BITS);
  for (let i = 0; i < PLACES_MAX; i++) {
    let mix = first ^ ((first << 23n) & BITS);
    mix ^= (mix >> 17n) ^ second ^ (second >> 26n);
    [first, second] = [second, mix];
    distances.push(-Math.log(Number(first >> 12n) / 2 ** 52));
  }
}

// The only place from which blocks of these sizes are sampled as they were.
function foundPlace(sizes, period, wasSampled) {
  const places = [];
  for (let start = 0; start < PLACES_MAX - sizes.length; start++) {
    let next = start;
    const draw = () => Math.max(8, Math.floor(distances[next++] * period));
    let left = draw();
    const isRight = sizes.every((bytes, index) => {
      const isSampled = left <= bytes;
      left = isSampled ? draw() : left - bytes;
      return isSampled === wasSampled[index];
    });
    if (isRight) places.push(start);
  }
  if (places.length !== 1) throw new Error(`V8's generator has ${places.length} possible places`);
  return places[0];
}

const TRIAL_PERIOD = 256, TRIAL_STRINGS = 200;

// Samples strings; returns the place of the distance that was drawn after the anchor.
function trial() {
  const sizes = Array.from({ length: TRIAL_STRINGS }, (_, i) => 24 + 8 * ((i * 37) % 40));
  run([[ENABLE, TRIAL_PERIOD], ...sizes.map((bytes) => [STRING, bytes - STRING_BYTES]), [DISABLE]]);
  const samples = samplesOf(profiles[0]);
  const before = samples.findIndex((each) => each.kind === "anchor");
  const ofActions = samples.filter((each) => each.kind === "action");
  const sampled = new Set(ofActions.map((each) => each.number));
  const wasSampled = sizes.map((_, index) => sampled.has(index + 1));
  return { before, all: samples.length, place: foundPlace(sizes, TRIAL_PERIOD, wasSampled) };
}

function run(actions) {
  actions.forEach((action, number) => {
    asked.fill(0, number * (1 + ARGUMENTS), (number + 1) * (1 + ARGUMENTS));
    asked.set(action, number * (1 + ARGUMENTS));
  });
  roots.fill(null, 0, rootCount);
  rootCount = 0;
  profiles = [];
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
    ...Array(11).fill([FREE, 0]),
  ];
  const round = Array(16).fill(trace).flat();
  for (let i = 0; i < 2; i++) run([...round, [ENABLE, PERIOD_MAX], ...trace, [DISABLE]]);
}

warmUp();
const [earlier, later] = [trial(), trial()];
// Enabling draws a distance for each of V8's spaces.
const spaces = later.place - later.before - earlier.all - (earlier.place - earlier.before);

// The protocol.

const NAMES = CONTRACT.actions;
const FIELDS = [
  ["number"], ["length"], ["length"], ["root"], ["root", "field"], ["root"],
  ["root", "field", "value"], ["root", "number"],
  ["source", "dest", "source_start", "dest_start", "length"], ["period_bytes"], [],
];
let drawn = later.place - later.before + later.all;
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
  run(actions);
  const weights = actions.map(() => []);
  const seeds = [];
  for (const profile of profiles) {
    const samples = samplesOf(profile);
    const before = samples.findIndex((each) => each.kind === "anchor");
    const place = BigInt(drawn + spaces + before);
    seeds[samples[before].number] = (GENERATOR_SEED << PLACE_BITS) + place;
    for (const { kind, number, bytes } of samples)
      if (kind === "action") weights[number].push(bytes);
    drawn += spaces + samples.length;
  }
  return actions.map(([kind], number) => {
    const fields = [];
    if (weights[number].length)
      fields.push(`"samples": ${weights[number].length}, "weights": [${weights[number].join(", ")}]`);
    if (kind === ENABLE) fields.push(`"seed": ${seeds[number]}`);
    if (kind === READ) fields.push(`"value": ${values[number] < 0 ? null : values[number]}`);
    if (kind === READ_NUMBER)
      fields.push(`"value": ${values[number] < 0 ? numbers[-1 - values[number]] : values[number]}`);
    return `{${fields.join(", ")}}`;
  });
}

// Draws numbers: V8 takes one for the identity of an object.
function passBy(count) {
  const identities = new WeakSet();
  for (let i = 0; i < count; i++) identities.add({});
  drawn += count;
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
  passBy(JSON.parse(line).config?.numbers_passed ?? 0);
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
