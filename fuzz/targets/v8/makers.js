// The functions that allocate the nodes, arrays and groups of a trace, in each tier of V8.
//
// Each tier has functions of its own. V8's compilers are off except in `compile`, so nothing else is
// compiled. The runtime makes strings in every tier, so they have no maker here.
"use strict";
const v8 = require("node:v8");

v8.setFlagsFromString("--allow-natives-syntax");

// One of V8's functions for tests, whose names begin with a percent sign.
function native(name, ...parameters) {
  return new Function(...parameters, `return %${name}(${parameters});`);
}

// By their numbers: the name, the compiler's flag, and the function that asks for compiled code.
const TIERS = [
  { name: "Ignition" },
  { name: "Sparkplug", flag: "sparkplug", ask: native("CompileBaseline", "maker") },
  { name: "Maglev", flag: "maglev", ask: native("OptimizeMaglevOnNextCall", "maker") },
  { name: "Turbofan", flag: "opt", ask: native("OptimizeFunctionOnNextCall", "maker") },
];
for (const tier of TIERS) tier.runs = native(`ActiveTierIs${tier.name}`, "maker");
const isMaglevEnabled = native("IsMaglevEnabled");
const prepare = native("PrepareFunctionForOptimization", "maker");
const ROUNDS = 16; // Far more than the feedback of a function needs.

// Functions of one text share their machine code, so the text names the tier. An empty array would
// have room for four. A group is put into a list of three, after all its members are allocated, since
// V8 folds only neighbours.
const makersIn = TIERS.map(({ name }) => new Function(`return { // in ${name}
  node: function node(number) { return { number, first: null, second: null }; },
  array: function array(length) { return new Array(length + 1); },
  groups: [
    function group1(list, a) {
      const one = { number: a, first: null, second: null };
      list[0] = one;
    },
    function group2(list, a, b) {
      const one = { number: a, first: null, second: null };
      const two = { number: b, first: null, second: null };
      list[0] = one; list[1] = two;
    },
    function group3(list, a, b, c) {
      const one = { number: a, first: null, second: null };
      const two = { number: b, first: null, second: null };
      const three = { number: c, first: null, second: null };
      list[0] = one; list[1] = two; list[2] = three;
    },
  ],
}`)());

function functionsIn(tier) {
  return Object.values(makersIn[tier]).flat();
}

// The numbers of the tiers that this V8 has: Maglev may be left out when Node is built.
function tiersThere() {
  v8.setFlagsFromString("--maglev");
  const hasMaglev = isMaglevEnabled();
  v8.setFlagsFromString("--no-maglev");
  return [...TIERS.keys()].filter((tier) => TIERS[tier].name !== "Maglev" || hasMaglev);
}

// Calls the makers, and writes each kind of value, since a new kind makes optimized code invalid.
function use({ node, array, groups }) {
  const list = new Array(3).fill(null);
  for (let round = 1; round <= ROUNDS; round++) {
    const someArray = array(round);
    for (const group of groups) group(list, round, round, round);
    for (const value of [node(0), array(0), `${round} `, null])
      for (const someNode of [node(round), ...list]) {
        someNode.first = someNode.second = someArray[0] = someArray[1] = value;
        someNode.number = round;
      }
  }
}

// Brings the makers of a tier into it.
function compile(tier) {
  const { flag, ask } = TIERS[tier], makers = makersIn[tier], functions = functionsIn(tier);
  if (flag) v8.setFlagsFromString(`--${flag}`);
  if (ask) functions.forEach((maker) => prepare(maker));
  use(makers);
  if (ask) functions.forEach((maker) => ask(maker));
  use(makers);
  if (flag) v8.setFlagsFromString(`--no-${flag}`);
}

// The makers that do not run in their tier, each in a sentence.
function unproved(tier) {
  const { name, runs } = TIERS[tier];
  return functionsIn(tier).filter((maker) => !runs(maker))
    .map((maker) => `${maker.name} did not run in ${name}`);
}

module.exports = { compile, makersIn, tiersThere, unproved };
