// V8's generator in the memory of this process: xorshift128+, seeded with the last step of MurmurHash3.
//
// It is found once. After that the program only writes there, so that no trace depends on those before.
"use strict";
const fs = require("node:fs");

const FIRST_SEED = 1n; // That of --random-seed.
const PLACES_MAX = 1 << 11;
const ENABLES_MAX = 1 << 12;

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
  enables = 0;
  if (count > ENABLES_MAX) throw new Error(`a trace may enable sampling ${ENABLES_MAX} times`);
  for (let number = 0; number < count; number++)
    stateOf(seed + BigInt(number)).forEach((word, index) =>
      states.writeBigUInt64LE(word, STATE_BYTES * number + 8 * index));
}

function reseed() {
  fs.writeSync(memory, states, STATE_BYTES * enables++, STATE_BYTES, generator);
}

module.exports = { reseed, setSeeds };
