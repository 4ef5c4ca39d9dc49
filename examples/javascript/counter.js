// A sampling counter, and nothing else: no heap, no collector.
//
// It speaks gcfuzz's protocol (docs/protocol.md), so that the rule by which it samples is checked
// allocation by allocation. Every byte counts; whenever more than `period_bytes` have been counted,
// one sample is taken and that many bytes are forgotten. With `--off-by-one` it has the mistake that
// such counters tend to have: it compares with >=.
//
// A counter in any language has three parts: a contract, which says what is promised; actions, which
// the counter carries out, and your sampler will in its place; lines, each of which gets one answer.
// `gcfuzz schema` prints a JSON Schema of the lines.

"use strict";

const readline = require("node:readline");

const OFF_BY_ONE = process.argv.includes("--off-by-one");

const CONTRACT = {
  nursery_bytes: 1024, // There is none; sizes around this are interesting all the same.
  layout: {
    kinds: { string: { type_index: 1, fixed_bytes: 16, item_bytes: 1 } },
    large_object_bytes: 65537,
    word_bytes: 1,
    object_bytes_max: 65536,
  },
  sampling: { period_bytes: { minimum: 1, maximum: 1048576 }, disabling: ["drop"] },
  actions: ["allocate_string", "free", "enable_sampling", "disable_sampling"],
  observes: ["samples", "size"],
};
const { fixed_bytes, item_bytes } = CONTRACT.layout.kinds.string;

let periodBytes = 0; // 0 while sampling is off.
let countedBytes = 0; // Since the last sample.

function isDue() {
  return OFF_BY_ONE ? countedBytes >= periodBytes : countedBytes > periodBytes;
}

function allocate(size) {
  let samples = 0;
  if (periodBytes > 0) {
    countedBytes += size;
    for (; isDue(); samples++) countedBytes -= periodBytes;
  }
  return { samples, size };
}

function sample(everyBytes) {
  periodBytes = everyBytes;
  countedBytes = 0;
  return {};
}

const ACTIONS = {
  allocate_string: ({ length }) => allocate(fixed_bytes + item_bytes * length),
  free: () => ({}),
  enable_sampling: ({ period_bytes }) => sample(period_bytes),
  disable_sampling: () => sample(0),
};

function answer(line) {
  const message = JSON.parse(line);
  if ("gcfuzz" in message) {
    sample(0);
    return { contract: CONTRACT };
  }
  return ACTIONS[message.do](message);
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let reply;
  try {
    reply = answer(line);
  } catch (problem) {
    reply = { error: `${problem.name}: ${problem.message}` };
  }
  process.stdout.write(JSON.stringify(reply) + "\n");
});
