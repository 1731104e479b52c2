// The crowd test and the verdicts (spec/protocol.md, sections 9 and 10): what follows for a cell from its responders,
// its tally, the TRIMs on its path, the visitors expected in it and the doubt about them. Knows no participants and no
// positions.

import { ServerViolation } from "#device/errors.js";
import { WORD } from "#device/exact.js";
import { epsilonOf } from "#device/noise.js";
import { forWidth, laplaceNoise, responseWeights, variance } from "#device/randomizer.js";

/** @typedef {import("#device/noise.js").Fields} Randomizer */
/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {{trims: number, visitors: number, doubt: number}} Path TRIMs so far, the visitors expected in the cell, and the variance of their number */
/** @typedef {{kept: number[], trimmed: boolean, visitors: number[], doubt: number[]}} Verdict the children that go on, whether that is a TRIM, the visitors then expected in each of them, and the doubt about these */

const QUANTILE = 1.6448536269514722; // one-sided 95 %
const VISITOR_QUANTILE = 3.090232306167813; // one-sided 99.9 %
const GUARD = 1 - 1e-6; // takes up the errors of a computation in doubles
const SMALLEST = 1e-60; // of the largest mass; what lies beyond is far below any delta

/** @param {bigint} weight out of 2^64 */
const chance = (weight) => Number(weight) / Number(WORD);

/**
 * The masses of a binomial that are not negligible, and the chance of at least each: outward from the largest one.
 * @param {number} size @param {number} p @param {number} rest 1 - p, without the rounding of the subtraction
 */
function binomial(size, p, rest) {
  const mode = Math.min(size, Math.floor((size + 1) * p));
  const [below, above] = [/** @type {number[]} */ ([]), [1]];
  for (let y = mode, mass = 1; y < size; y++) {
    mass *= ((size - y) / (y + 1)) * (p / rest);
    if (mass < SMALLEST) break;
    above.push(mass);
  }
  for (let y = mode, mass = 1; y > 0; y--) {
    mass *= (y / (size - y + 1)) * (rest / p);
    if (mass < SMALLEST) break;
    below.push(mass);
  }
  const masses = Float64Array.from([...below.reverse(), ...above]);
  const tails = new Float64Array(masses.length + 1);
  for (let i = masses.length - 1; i >= 0; i--) tails[i] = tails[i + 1] + masses[i];
  const total = tails[0];
  const first = mode - below.length;
  return { first, masses: masses.map((mass) => mass / total), tails: tails.map((tail) => tail / total) };
}

/**
 * An upper bound, tight to 10^-8, of P(Bin(k - 1, p) + Bin(n - k + 1, p0) >= count).
 * @param {number} epsilon @param {number} fanout @param {number} n @param {number} k @param {number} count
 */
function tail(epsilon, fanout, n, k, count) {
  const { true: own, other } = responseWeights(epsilon, fanout);
  const members = binomial(k - 1, chance(own), chance(WORD - own));
  const others = binomial(n - k + 1, chance(other), chance(WORD - other));
  let sum = 0;
  members.masses.forEach((mass, i) => {
    const needed = count - (members.first + i) - others.first;
    sum += mass * others.tails[Math.min(Math.max(needed, 0), others.tails.length - 1)];
  });
  return sum * (1 + 1e-9) + 1e-45;
}

/** ln of the larger of the two moment functions of the noise at x. @param {number} epsilon @param {number} x */
function logMoment(epsilon, x) {
  const { edge, weights } = laplaceNoise(epsilon);
  const excess = [1, -1].map((sign) => {
    let [sum, lost] = [0, 0]; // compensated: the terms nearly cancel
    weights.forEach((weight, i) => {
      const term = chance(weight) * Math.expm1(sign * x * (i - edge));
      const next = sum + term;
      lost += Math.abs(sum) >= Math.abs(term) ? sum - next + term : term - next + sum;
      sum = next;
    });
    return sum + lost;
  });
  return Math.log1p(Math.max(...excess));
}

const GRID = [
  ...Array.from({ length: 1000 }, (_, i) => 1e-5 * (0.9 / 1e-5) ** (i / 999)),
  ...Array.from({ length: 200 }, (_, i) => 1 - 1e-6 * (0.1 / 1e-6) ** (i / 199)),
].sort((a, b) => a - b);

/** Chernoff's margin; it falls and then grows along the grid. @param {number} epsilon @param {number} n @param {number} delta */
function margin(epsilon, n, delta) {
  const at = (/** @type {number} */ place) => {
    const x = (epsilon / 2) * GRID[place];
    return (n * logMoment(epsilon, x) + Math.log(1 / delta)) / x;
  };
  let [low, high] = [0, GRID.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) <= at(middle + 1)) high = middle;
    else low = middle + 1;
  }
  return at(low);
}

/**
 * Whether a child with this tally surely has k of the n responders.
 * @param {Randomizer} randomizer @param {number} n @param {number} k @param {number} delta @param {number} count
 */
export function passes(randomizer, n, k, delta, count) {
  if (n < k) return false;
  const epsilon = epsilonOf(randomizer);
  if (randomizer.kind === "randomized-response") return count <= n && tail(epsilon, randomizer.fanout, n, k, count) <= delta * GUARD;
  return count >= Math.ceil(k - 1 + margin(epsilon, n, delta));
}

/** A sum from the first number to the last: all clients must get the same bits. @param {number[]} numbers */
const inOrder = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** The estimated responders in each child. @param {Randomizer} randomizer @param {number} n @param {number[]} tally */
function estimatesOf(randomizer, n, tally) {
  if (randomizer.kind !== "randomized-response" || tally.length === 1) return tally;
  const weights = responseWeights(epsilonOf(randomizer), tally.length);
  const [p, p0] = [chance(weights.true), chance(weights.other)];
  return tally.map((count) => (count - n * p0) / (p - p0));
}

/**
 * Whether the failing children together are surely at most a share tau.
 * @param {Randomizer} randomizer of the cell's width @param {number} tau @param {number} n @param {number[]} estimates @param {number[]} failing
 */
function isSparse(randomizer, tau, n, estimates, failing) {
  const total = inOrder(failing.map((child) => estimates[child]));
  return total + QUANTILE * Math.sqrt(n * variance(randomizer, tau, failing.length)) <= tau * n;
}

/** The chance that one crowd test errs. @param {Task} task */
function deltaTest({ delta, max_trims, randomizer }) {
  const children = max_trims && randomizer.fanout > 2 ? randomizer.fanout : 1;
  return delta / ((1 + max_trims) * children);
}

/**
 * Visitors in each child before the verdict, and their variance.
 * @param {number[]} weights of the children @param {Path} path
 */
function present(weights, { visitors, doubt }) {
  const whole = inOrder(weights);
  return weights.map((weight) => {
    const [own, share] = [(visitors * weight) / whole, weight / whole];
    return { own, spread: doubt * share * share + own * (1 - share) };
  });
}

/**
 * Visitors in each child after a verdict and their variance, and how many of them come by it; of kept children only.
 * @param {number[]} weights @param {Path} path @param {number[]} kept @param {number[]} estimates @param {number} noise variance of the number of people in the others
 */
function visitorsAfter(weights, path, kept, estimates, noise) {
  const room = inOrder(kept.map((child) => weights[child]));
  const here = present(weights, path);
  const others = (/** @type {number[]} */ numbers) => inOrder(numbers.filter((_, child) => !kept.includes(child)));
  const moved = Math.max(others(here.map(({ own }) => own)), others(estimates)); // visitors of a trimmed child are moved once more
  return here.map(({ own, spread }, child) => {
    const [come, part] = [(moved * weights[child]) / room, weights[child] / room];
    return { visitors: own + come, doubt: spread + (part * part * noise + come * (1 - part)), come };
  });
}

/** Variance of the number of people in all children but these; 0 if all are kept. @param {Randomizer} randomizer @param {number} tau @param {number} n @param {number[]} kept */
const noiseOfOthers = (randomizer, tau, n, kept) => (kept.length === randomizer.fanout ? 0 : n * variance(randomizer, tau, randomizer.fanout - kept.length));

/**
 * What follows for a cell.
 * @param {Task} task @param {bigint} cell @param {number} n responders @param {number[]} tally @param {Path} path
 * @returns {Verdict}
 */
export function verdict(task, cell, n, tally, path) {
  const { kept, trimmed } = judged(task, cell, n, tally, path);
  if (task.rule !== "trim") return { kept, trimmed, visitors: kept.map(() => 0), doubt: kept.map(() => 0) };
  const randomizer = forWidth(task.randomizer, tally.length);
  const noise = noiseOfOthers(randomizer, task.tau, n, kept);
  const after = visitorsAfter(task.tree.childWeights(cell), path, kept, estimatesOf(randomizer, n, tally), noise);
  return { kept, trimmed, visitors: kept.map((child) => after[child].visitors), doubt: kept.map((child) => after[child].doubt) };
}

/**
 * The children that go on, and whether that is a TRIM.
 * @param {Task} task @param {bigint} cell @param {number} n @param {number[]} tally @param {Path} path
 * @returns {{kept: number[], trimmed: boolean}}
 */
function judged(task, cell, n, tally, path) {
  if (task.randomizer.kind === "paper-laplace") throw new ServerViolation("simulation-only", "the task's noise is in floats, for simulation only");
  if (!task.tree.hasLongEnoughChildren(cell, task.min_side)) return { kept: [], trimmed: false };
  if (tally.length === 1) return { kept: [0], trimmed: false }; // everybody is in the only child
  const randomizer = forWidth(task.randomizer, tally.length);
  const liars = task.tolerate_liars;
  const delta = deltaTest(task);
  const children = [...tally.keys()];
  const [limit, tau] = [task.max_visitors, task.tau];
  const weights = task.tree.childWeights(cell);
  const estimates = estimatesOf(randomizer, n, tally);
  const crowds = limit === 1 ? children.map(() => task.k) : crowdsNeeded(task.k, limit, present(weights, path), n * variance(randomizer, tau, 1));
  const kept = children.filter((child) => passes(randomizer, n - liars, crowds[child], delta, tally[child] - liars));
  if (task.rule === "each" || kept.length === tally.length) return { kept, trimmed: false };
  const failing = children.filter((child) => !kept.includes(child));
  const after = visitorsAfter(weights, path, kept, estimates, noiseOfOthers(randomizer, tau, n, kept));
  const isCrowded = (/** @type {number} */ child) => {
    const { visitors, doubt, come } = after[child];
    return visitors + VISITOR_QUANTILE * Math.sqrt(doubt) > limit * (estimates[child] + come);
  };
  const crowded = limit < 1 && kept.some(isCrowded);
  const trimmed = task.rule === "trim" && kept.length > 0 && path.trims < task.max_trims && isSparse(randomizer, tau, n, estimates, failing) && !crowded;
  return trimmed ? { kept, trimmed } : { kept: [], trimmed: false };
}

/**
 * How many people the tally of each child has to prove, liars aside.
 * @param {number} k @param {number} limit @param {{own: number, spread: number}[]} here visitors in each child, and their variance @param {number} noise of a tally
 */
function crowdsNeeded(k, limit, here, noise) {
  return here.map(({ own, spread }) => {
    const doubt = Math.sqrt(noise + spread / limit / limit) - Math.sqrt(noise);
    return Math.max(k, Math.ceil(own / limit + VISITOR_QUANTILE * doubt));
  });
}
