// Answers without a server: a file carries the tree of counts with its errors (page/single.py makes it), and this walks it as
// release/walk.py and release/answers.py do. People lie evenly in the parts of a leaf. Knows numbers and areas. Knows no browser.

/** @import { Domain, Rect } from "#map/camera.js" */
import { bounds } from "#map/camera.js";
import { REGION } from "#map/cells.js";

/**
 * @typedef {{children: number[], people: number[], plain: number[] | null, regions: boolean, clumped: number[], lean: number, total: number,
 *   top: {rest: number[], error: number[]}, weight: number[], error: number[], halves?: string,
 *   xs: number[], ys: number[], parts: number[][], owner: number[], share: number[]}} Packed
 *   rows level by level, the root first; tenths of people, by leaf along the order; weight and error of the first of two children, by the
 *   order of their parents; clumped by depth; boxes of all parts as places in xs and ys, or which half of its parent every first child is
 */

const RADIUS = 6371.0088; // km
const AWAY = 1.959963984540054; // standard errors: 95 %

/** Share of a box inside a rectangle. @param {Rect} area @param {number[]} box x0, y0, x1, y1 */
function shareOf({ x0, y0, x1, y1 }, [left, low, right, high]) {
  const across = Math.min(x1, right) - Math.max(x0, left), up = Math.min(y1, high) - Math.max(y0, low);
  return across > 0 && up > 0 ? (across / (right - left)) * (up / (high - low)) : 0;
}

/** Mean of a normal law that is cut off at zero. @param {number} middle not negative @param {number} error */
function meanAboveZero(middle, error) {
  if (!(error > 0) || middle > 38 * error) return middle;
  const away = middle / error;
  return middle + (error * Math.exp(-0.5 * away * away)) / (Math.sqrt(2 * Math.PI) * below(away));
}

/** Chance of a standard normal number below a value that is not negative; by its series and its continued fraction. @param {number} value */
function below(value) {
  const density = Math.exp(-0.5 * value * value) / Math.sqrt(2 * Math.PI);
  if (value < 3) {
    let [term, sum] = [value, value];
    for (let odd = 3; term > 1e-16; odd += 2) sum += term *= (value * value) / odd;
    return 0.5 + density * sum;
  }
  let rest = 0;
  for (let k = 60; k > 0; k--) rest = k / (value + rest);
  return 1 - density / (value + rest);
}

/** The tree of counts in a file, ready for questions. */
export class CountTree {
  /** @param {Packed} packed @param {Domain} domain */
  constructor(packed, domain) {
    const { children, people, plain, clumped, lean, top, weight, error } = packed;
    this.packed = packed;
    const rows = children.length;
    this.first = new Int32Array(rows);
    this.depth = new Int32Array(rows);
    const noise = new Float64Array(rows);
    const errors = top.error.reduce((sum, one) => sum + one, 0);
    for (let row = 0, next = 1, family = 0; row < rows; row++) {
      this.first[row] = next;
      for (let child = 0; child < children[row]; child++) this.depth[next + child] = this.depth[row] + 1;
      if (row && children[row]) {
        noise[next] = weight[family] ** 2 * noise[row] + error[family];
        noise[next + 1] = (1 - weight[family]) ** 2 * noise[row] + error[family];
        family++;
      } else if (!row) {
        top.error.forEach((own, i) => (noise[1 + i] = (1 - top.rest[i]) ** 2 * own + top.rest[i] ** 2 * (errors - own)));
      }
      next += children[row];
    }
    /** @type {number[]} along the order */
    this.leaves = [];
    const waiting = [0];
    for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
      if (!children[row]) this.leaves.push(row);
      for (let child = children[row] - 1; child >= 0; child--) waiting.push(this.first[row] + child);
    }
    this.people = people.map((tenths) => tenths / 10);
    this.plain = plain ? plain.map((tenths) => tenths / 10) : this.people;
    this.noise = this.leaves.map((row) => noise[row]);
    const clumps = this.people.map((value, leaf) => clumped[this.depth[this.leaves[leaf]]] * Math.max(this.#square(leaf) - value, 0));
    this.even = this.people.map((value, leaf) => value + clumps[leaf]);
    this.clumps = clumps.map((value) => 2 * Math.sqrt(lean * value));
    /** @type {number[][]} x0, y0, x1, y1 of every part, or of every leaf */
    this.boxes = packed.halves ? this.#halved(packed.halves, domain) : packed.parts[0].map((_, part) => packed.parts.map((column, side) => (side % 2 ? packed.ys : packed.xs)[column[part]]));
    this.whole = new Float64Array(this.leaves.length); // rounded shares do not add up to 1
    this.boxes.forEach((_, part) => (this.whole[this.#owner(part)] += this.#share(part)));
  }

  /** Expected square of a leaf's people: who is there meets that of a normal law cut off at zero. @param {number} leaf */
  #square(leaf) {
    const [value, noise, middle] = [this.people[leaf], this.noise[leaf], Math.max(this.plain[leaf], 0)];
    if (this.packed.regions) return value * value + noise;
    return value * Math.max(value, noise ? middle + noise / meanAboveZero(middle, Math.sqrt(noise)) : middle);
  }

  /** @param {number} part */
  #owner(part) {
    return this.packed.halves ? part : this.packed.owner[part];
  }

  /** @param {number} part */
  #share(part) {
    return this.packed.halves ? 1 : this.packed.share[part];
  }

  /** Boxes of the leaves. @param {string} halves @param {Domain} domain */
  #halved(halves, domain) {
    const { x0, y0, x1, y1 } = bounds(domain);
    const boxes = [[x0, y0, x1, y1]];
    let family = 0;
    this.packed.children.forEach((children, row) => {
      if (!children) return;
      const digit = Number(halves[family++]);
      const axis = digit >> 1, middle = (boxes[row][axis] + boxes[row][axis + 2]) / 2;
      for (const upper of [digit % 2, 1 - (digit % 2)]) {
        const half = [...boxes[row]];
        half[upper ? axis : axis + 2] = middle;
        boxes.push(half);
      }
    });
    return this.leaves.map((row) => boxes[row]);
  }

  /** The leaves as rows of a map, where these are boxes. @param {Domain} domain @returns {import("#map/cells.js").Rows} */
  rows(domain) {
    const [x0, y0, x1, y1] = [0, 1, 2, 3].map((side) => this.boxes.map((box) => box[side]));
    const sine = (/** @type {number} */ degrees) => Math.sin((degrees * Math.PI) / 180);
    const area = this.boxes.map(([west, south, east, north]) => (domain.geographic ? (RADIUS ** 2 * Math.PI * (east - west) * (sine(north) - sine(south))) / 180 : (east - west) * (north - south)));
    return { x0, y0, x1, y1, area, state: area.map(() => REGION), crowd: this.people, half: this.noise.map((one) => AWAY * Math.sqrt(one)) };
  }

  /** How many people are in a rectangle, with the standard error and the interval of 95 %.
   * @param {Rect} area @returns {{value: number, stderr: number, interval: [number, number]}} */
  answer(area) {
    const { children, regions, top, weight, error, total } = this.packed;
    const taken = new Float64Array(this.leaves.length);
    this.boxes.forEach((box, part) => (taken[this.#owner(part)] += this.#share(part) * shareOf(area, box)));
    const share = new Float64Array(children.length);
    const met = new Float64Array(children.length); // people of the children of the root, if the area meets them
    let [value, plain, even, clumps, variance] = [0, 0, 0, 0, 0];
    this.leaves.forEach((row, leaf) => {
      const part = taken[leaf] / this.whole[leaf] > 1 - 1e-9 ? 1 : taken[leaf] / this.whole[leaf];
      const left = part * (1 - part);
      share[row] = part;
      met[row] = this.people[leaf];
      value += part * this.people[leaf];
      plain += part * this.plain[leaf];
      even += this.even[leaf] * left;
      clumps += this.clumps[leaf] * left;
    });
    const touched = share.map((one) => (one > 0 ? 1 : 0));
    let family = weight.length;
    for (let row = children.length - 1; row > 0; row--) {
      if (!children[row]) continue;
      const [one, two] = [this.first[row], this.first[row] + 1];
      family--;
      variance += error[family] * (share[one] - share[two]) ** 2;
      share[row] = share[two] + weight[family] * (share[one] - share[two]);
      touched[row] = Math.max(touched[one], touched[two]);
      met[row] = met[one] + met[two];
    }
    const mean = top.rest.reduce((sum, one, i) => sum + one * share[1 + i], 0);
    variance += top.error.reduce((sum, one, i) => sum + one * (share[1 + i] - mean) ** 2, 0);
    const most = regions ? Math.min(total, top.rest.reduce((sum, _, i) => sum + touched[1 + i] * met[1 + i], 0)) : total;
    if (regions && !variance && !even) plain = value;
    const stderr = Math.sqrt(even + clumps ** 2 + variance);
    return { value, stderr, interval: intervalOf(value, plain, stderr, regions ? 0 : variance, most) };
  }
}

/** A quantile of a gamma law by the cube of a normal one. @param {number} mean @param {number} scale @param {number} away */
function skewed(mean, scale, away) {
  const part = scale / (9 * mean);
  return mean * Math.max(1 - part + away * Math.sqrt(part), 0) ** 3;
}

/** @param {number} value @param {number} plain @param {number} stderr @param {number} noise @param {number} most @returns {[number, number]} */
function intervalOf(value, plain, stderr, noise, most) {
  if (!stderr && value === plain) return [Math.round(value), Math.round(value)];
  const middle = Math.max((plain + value) / 2, value);
  const expected = Math.max(noise ? meanAboveZero(middle, Math.sqrt(noise)) : middle, 1e-100 * stderr);
  const [seen, scale, noisy] = [stderr ** 2 / expected, Math.max(stderr ** 2 - noise, 0) / expected, AWAY * Math.sqrt(noise)];
  const [below, above] = [expected - skewed(expected, scale, -AWAY), Math.max(skewed(expected + scale, scale, AWAY) - expected - scale, 0)];
  const low = Math.min(Math.max(plain - Math.hypot(noisy, below), 0), most);
  const high = Math.min(Math.max(stderr ? plain + seen + Math.hypot(noisy, above) : plain, 0), most);
  return [Math.min(Math.round(low), Math.floor(value)), Math.max(Math.round(high), Math.ceil(value))];
}
