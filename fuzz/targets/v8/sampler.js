// The sampling heap profiler: its sessions, and what their profiles show.
//
// V8 keeps the stack of each sample, and an action is called through functions that are the digits of
// its number. A sample names an object only by its life: the profile has it while that object lives.
"use strict";
const { reseed, setSeeds } = require("./generator.js");

const BASE_BITS = 5;
const DIGITS = 4;
const ACTIONS_MAX = 1 << (BASE_BITS * DIGITS);
const GROUPS_MAX = 1 << 12;
const MEMBERS_MAX = 3;
// With the longest period a distance is longer than that with probability exp(-31).
const ANCHOR = Buffer.alloc(130000, "anchor");

const session = new (require("node:inspector").Session)();
session.connect();

let sink = null;
let isOn = false;
let profiles = []; // One for each session of the trace.
let keepsMembers = false;
let groupCount = 0;
// For each place in a group, the members that are kept.
const members = Array.from({ length: MEMBERS_MAX }, () => new Array(GROUPS_MAX).fill(null));

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
    includeObjectsCollectedByMajorGC: !keepsMembers,
    includeObjectsCollectedByMinorGC: !keepsMembers,
  });
  isOn = true;
  reseed();
  anchor();
}

// An object in which the distance ends that enabling drew. The first one of the seed begins behind it.
function anchor() {
  sink = ANCHOR.latin1Slice();
  sink = null;
}

function disable() {
  if (!isOn) return;
  isOn = false;
  profiles.push(ask("stopSampling").profile);
}

// Performs the actions of a trace up to `end`.
function performerOf(perform) {
  const digits = Array.from({ length: 1 << BASE_BITS }, (_, digit) =>
    new Function("digits", "perform", `return function digit${digit}(number, left) {
      if (left === 0) perform(number);
      else digits[number >> ${BASE_BITS} * (left - 1) & ${(1 << BASE_BITS) - 1}](number, left - 1);
    }`));
  digits.forEach((make, digit) => { digits[digit] = make(digits, perform); });
  return function performAll(end) {
    for (let number = 0; number < end; number++)
      digits[number >> BASE_BITS * (DIGITS - 1)](number, DIGITS - 1);
  };
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
    .map(({ nodeId, ordinal, size }) => ({ number: origins.get(nodeId), ordinal, bytes: size }))
    .filter(({ number }) => number !== null && number !== undefined);
}

// A new trace; `enables` is how often it enables sampling.
function begin(seed, enables) {
  setSeeds(seed, enables);
  profiles = [];
}

// The samples of each session of the trace.
function samples() {
  disable();
  return profiles.map(samplesOf);
}

// Keeps the members of a group alive beyond their trace, if `samplesByMember` needs them.
function keep(group, count) {
  if (!keepsMembers) return;
  if (groupCount === GROUPS_MAX) throw new Error(`a trace may allocate ${GROUPS_MAX} groups`);
  for (let place = 0; place < count; place++) members[place][groupCount] = group[place];
  groupCount++;
}

// What a member refers to would outlive it.
function clearFields(nodes) {
  for (let at = 0; at < groupCount; at++) {
    const node = nodes[at];
    if (node !== null) node.first = node.second = null;
  }
}

// The samples of groups in a session, each with the place of the member that it names: reading a
// profile collects, and those are gone whose members have died. `run` carries out the trace again up to
// the session's end, and drops all roots.
function samplesByMember(run, isOfGroup) {
  const readSamples = (method) => samplesOf(ask(method).profile).filter(isOfGroup);
  keepsMembers = true;
  run();
  keepsMembers = isOn = false;
  members.forEach(clearFields);
  const named = [];
  let alive = readSamples("getSamplingProfile");
  members.forEach((nodes, place) => {
    nodes.fill(null, 0, groupCount);
    const isLast = place === MEMBERS_MAX - 1;
    if (!alive.length && !isLast) return;
    const left = readSamples(isLast ? "stopSampling" : "getSamplingProfile");
    const isLeft = new Set(left.map(({ ordinal }) => ordinal));
    for (const sample of alive) if (!isLeft.has(sample.ordinal)) named.push({ ...sample, place });
    alive = left;
  });
  groupCount = 0;
  return named;
}

module.exports = {
  ACTIONS_MAX, MEMBERS_MAX, begin, disable, enable, keep, performerOf, samples, samplesByMember,
};
