// Allocates strings of different sizes, as files and messages have, and prints which share of their
// bytes V8's sampling heap profiler reports with its default interval of 32 KiB. Needs only Node.
"use strict";
const inspector = require("node:inspector");

const STRINGS = 500, HEADER_BYTES = 16, WORD_BYTES = 8;
const characters = Buffer.alloc(1 << 16, "x");
let sink = null;
const allocated = { shorter: 0, longer: 0 };
const reported = { shorter: 0, longer: 0 };

function allocate(name, bytes) {
  allocated[name] += bytes;
  sink = characters.latin1Slice(0, bytes - HEADER_BYTES);
}

function shorter() {
  for (let i = 0; i < STRINGS; i++) allocate("shorter", 32000 + WORD_BYTES * i);
}

function longer() {
  for (let i = 0; i < STRINGS; i++) allocate("longer", 36008 + WORD_BYTES * i);
}

const session = new inspector.Session();
session.connect();
session.post("HeapProfiler.startSampling", {
  samplingInterval: 32768,
  includeObjectsCollectedByMajorGC: true,
  includeObjectsCollectedByMinorGC: true,
});
shorter();
longer();
session.post("HeapProfiler.stopSampling", (problem, { profile }) => {
  (function walk({ callFrame, selfSize, children }, caller) {
    if (callFrame.functionName in reported) caller = callFrame.functionName;
    if (caller) reported[caller] += selfSize;
    children.forEach((child) => walk(child, caller));
  })(profile.head, null);
});
const [first, second] = Object.keys(reported).map((name) => {
  const share = Math.round(100 * reported[name] / allocated[name]);
  console.log(`${name} strings: ${allocated[name]} bytes allocated, ${share} % of that reported`);
  return share;
});
process.exit(first > 1.4 * second ? 1 : 0);
