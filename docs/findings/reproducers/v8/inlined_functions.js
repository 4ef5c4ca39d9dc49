// Inlined functions are missing from sample stacks: keeps what one function allocates, and prints which
// share of its bytes V8's sampling heap profiler reports there, and in its caller. Needs only Node.
"use strict";
const inspector = require("node:inspector");

const ARRAYS = 200000, WARM_UP_ARRAYS = 3000000, INTERVAL = 16384;
const kept = new Array(ARRAYS).fill(null);

function allocate(i) {
  kept[i % ARRAYS] = [i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i];
}

function caller(count) {
  for (let i = 0; i < count; i++) allocate(i);
}

caller(WARM_UP_ARRAYS);
const session = new inspector.Session();
session.connect();
session.post("HeapProfiler.startSampling", { samplingInterval: INTERVAL });
caller(ARRAYS);
const reported = { allocate: 0, caller: 0 };
session.post("HeapProfiler.stopSampling", (problem, { profile }) => {
  (function walk({ callFrame, selfSize, children }) {
    if (callFrame.functionName in reported) reported[callFrame.functionName] += selfSize;
    children.forEach(walk);
  })(profile.head);
});
const allocated = ARRAYS * (32 + 16 + 8 * 32);
for (const name of Object.keys(reported)) {
  const percent = Math.round(100 * reported[name] / allocated);
  const expected = name === "allocate" ? 100 : 0;
  console.log(`${name}(): expected ${expected} % of ${allocated} bytes, got ${percent} %`);
}
process.exit(reported.allocate < 0.5 * allocated ? 1 : 0);
