// Folded allocations live and die with their first object: keeps one object of each pair that
// TurboFan allocates together, and prints which share of its bytes V8's sampling heap profiler
// reports. Needs only Node, with --allow-natives-syntax to compile at once.
"use strict";
const inspector = require("node:inspector");

const PAIRS = 100000, WARM_UP_PAIRS = 1000, INTERVAL = 16384;
const SMALL_BYTES = 32, LARGE_BYTES = 32 + 16 + 8 * 32;
let small = null, large = null;

// One allocation in optimized code: an object of 32 bytes, then an array with 32 elements.
function pair(i) {
  small = { first: i };
  large = [i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i];
}

function allocate(count, keep) {
  for (let i = 0; i < count; i++) {
    pair(i);
    keep(i);
  }
}

const kept = new Array(PAIRS).fill(null);
const keepFirst = (i) => { kept[i % PAIRS] = small; };
const keepSecond = (i) => { kept[i % PAIRS] = large; };
const session = new inspector.Session();
session.connect();

function share(name, keep, bytes) {
  session.post("HeapProfiler.startSampling", { samplingInterval: INTERVAL });
  allocate(PAIRS, keep);
  let reported = 0;
  session.post("HeapProfiler.stopSampling", (problem, { profile }) => {
    (function walk(node) {
      reported += node.selfSize;
      node.children.forEach(walk);
    })(profile.head);
  });
  const percent = Math.round(100 * reported / (bytes * PAIRS));
  console.log(`${name} objects: ${bytes * PAIRS} bytes alive, ${percent} % of that reported`);
  return percent;
}

%NeverOptimizeFunction(allocate);
%NeverOptimizeFunction(keepFirst);
%NeverOptimizeFunction(keepSecond);
%PrepareFunctionForOptimization(pair);
allocate(WARM_UP_PAIRS, keepFirst);
%OptimizeFunctionOnNextCall(pair);
const first = share("first", keepFirst, SMALL_BYTES);
const second = share("second", keepSecond, LARGE_BYTES);
process.exit(first > 150 || second < 50 ? 1 : 0);
