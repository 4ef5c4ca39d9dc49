// The target `v8-finalizers`: FinalizationRegistry, WeakRef and WeakMap, behind gcfuzz's protocol.
//
// V8 keeps an object to the end of the job that has registered or read it, and calls finalizers in
// jobs of their own. So a turn of the event loop precedes a collection, and another one follows.
// Invariant: between two turns no variable has an object, and nothing else refers to a dropped one.
"use strict";
const fs = require("node:fs");

const CONTRACT = {
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
  actions: [
    "allocate_node", "allocate_array", "allocate_weakref", "allocate_ephemeron", "free", "read",
    "read_number", "read_weakref", "read_ephemeron", "write", "write_number", "copy_array",
    "collect_full", "register_finalizer", "unregister_finalizer", "run_finalizers", "check_heap",
  ],
  observes: ["minors", "value", "alive", "graph", "finalized"],
  finalizers: { within: 0, weak: "cleared_before", objects: "dead" },
  version: `Node ${process.version}, V8 ${process.versions.v8}`,
};
const NODE = 1, ARRAY = 3, WEAKREF = 4, EPHEMERON = 5;

let roots = [];
let pending = [];
let trace = 0; // Finalizers of earlier traces do nothing.
const registry = new FinalizationRegistry(({ number, of }) => {
  if (of === trace) pending.push(number);
});

// A number stays as it was written, since it may have any size.
function allocate(kind, number, refs = []) {
  roots.push({ kind, number, refs });
  return roots.at(-1);
}

function copy({ source, dest, source_start = 0, dest_start = 0, length }) {
  const items = roots[source].refs.slice(source_start, source_start + length);
  items.forEach((item, index) => { roots[dest].refs[dest_start + index] = item; });
}

function walk() {
  const queue = [...new Set(roots)];
  const rows = new Map(queue.map((obj, row) => [obj, row]));
  const graph = [];
  for (const obj of queue) { // It grows meanwhile.
    const row = [obj.kind, obj.number];
    obj.refs.forEach((ref, field) => {
      if (ref === null) return;
      if (!rows.has(ref)) {
        rows.set(ref, queue.length);
        queue.push(ref);
      }
      row.push(field, rows.get(ref));
    });
    graph.push(`[${row}]`);
  }
  return `[${graph}]`;
}

// Carries out an action; returns the field of its answer, as text.
function carryOut(action, number) {
  const { root = 0, field = 0 } = action;
  switch (action.do) {
    case "allocate_node": allocate(NODE, number, [null, null]); return "";
    case "allocate_array":
      allocate(ARRAY, action.length ?? 0, new Array(action.length ?? 0).fill(null));
      return "";
    case "allocate_weakref": {
      const target = new WeakRef(roots[root]);
      allocate(WEAKREF, 0).target = target;
      return "";
    }
    case "allocate_ephemeron": {
      const key = roots[action.key ?? 0], value = roots[action.value ?? 0];
      Object.assign(allocate(EPHEMERON, 0), {
        key: new WeakRef(key), values: new WeakMap([[key, value]]),
      });
      return "";
    }
    case "free": roots.splice(root, 1); return "";
    case "read": {
      const found = roots[root].refs[field];
      if (found === null) return "";
      roots.push(found);
      return `"value": ${roots.indexOf(found)}`;
    }
    case "read_number": return `"value": ${roots[root].number}`;
    case "read_weakref": return `"alive": ${roots[root].target.deref() !== undefined}`;
    case "read_ephemeron": {
      const value = roots[root].values.get(roots[root].key.deref());
      return value === undefined ? "" : `"value": ${value.number}`;
    }
    case "write": roots[root].refs[field] = roots[action.value ?? -1] ?? null; return "";
    case "write_number": roots[root].number = number; return "";
    case "copy_array": copy(action); return "";
    case "register_finalizer":
      registry.register(roots[root], { number, of: trace }, roots[root]);
      return "";
    case "unregister_finalizer": registry.unregister(roots[root]); return "";
    case "run_finalizers": {
      const finalized = pending;
      pending = [];
      return `"finalized": [${finalized}]`;
    }
    case "check_heap": return `"graph": ${walk()}`;
    default: throw new Error(`${action.do} is not carried out`);
  }
}

function turn() {
  return new Promise(setImmediate);
}

async function collect() {
  await turn();
  gc();
  await turn();
  return `"minors": 1, "graph": ${walk()}`;
}

async function answerTo(line) {
  const action = JSON.parse(line);
  if (action.gcfuzz) {
    roots = [];
    pending = [];
    trace++;
    return JSON.stringify({ contract: CONTRACT });
  }
  const number = /"number": *(-?\d+)/.exec(line)?.[1] ?? "0";
  try {
    return `{${action.do === "collect_full" ? await collect() : carryOut(action, number)}}`;
  } catch (problem) {
    return JSON.stringify({ error: `${problem.name}: ${problem.message}` });
  }
}

async function main() {
  let unread = "";
  const chunk = Buffer.alloc(1 << 16);
  for (let bytes; (bytes = fs.readSync(0, chunk)) > 0;) {
    unread += chunk.latin1Slice(0, bytes);
    const lines = unread.split("\n");
    unread = lines.pop();
    for (const line of lines) fs.writeSync(1, `${await answerTo(line)}\n`);
  }
}

main();
