// Colours of a map: a range that ignores extremes, a ramp whose lightness only goes one way, round numbers for a legend.
// Knows numbers and colours. Knows no cells.

import { niceStep } from "#map/camera.js";

/** @typedef {{low: number, high: number, log: boolean}} Scale */
/** @typedef {"light" | "dark"} Theme */

const ANCHORS = {
  light: ["#fbf3cf", "#fdb777", "#ee605e", "#8c2981", "#231151"], // pictures have the same
  dark: ["#241a38", "#5b2373", "#b23a6e", "#f08a5d", "#fcf1bd"],
};

/** The value below which a share of the others lies. @param {Float64Array} ascending @param {number} share */
function quantile(ascending, share) {
  const place = share * (ascending.length - 1), below = Math.floor(place);
  return ascending[below] + ((ascending[below + 1] ?? ascending[below]) - ascending[below]) * (place - below);
}

/** The range of colours for values: from the 2nd to the 98th percentile of those above 0, on a log scale where they span a lot. @param {number[]} values @returns {Scale} */
export function robustScale(values) {
  const used = Float64Array.from(values.filter((value) => value > 0 && value < Infinity)).sort();
  if (!used.length) return { low: 0, high: 1, log: false };
  const [low, high] = [quantile(used, 0.02), quantile(used, 0.98)];
  const middle = Math.sqrt(low * high); // small differences get similar colours
  if (high / low < 2) return { low: middle / Math.SQRT2, high: middle * Math.SQRT2, log: false };
  return { low, high, log: high / low > 4 };
}

/** Where a value is in the range: 0 to 1. @param {Scale} scale @param {number} value */
export function position(scale, value) {
  const { low, high, log } = scale;
  if (log && value <= 0) return 0;
  const at = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(1, Math.max(0, at));
}

/** Round numbers within the range, for a legend. @param {Scale} scale @param {number} [most] @returns {number[]} */
export function ticks({ low, high, log }, most = 5) {
  const inside = (/** @type {number} */ value) => value >= low * 0.999 && value <= high * 1.001;
  if (log) {
    const first = Math.floor(Math.log10(low));
    const powers = Array.from({ length: Math.floor(Math.log10(high)) - first + 1 }, (_, i) => 10 ** (first + i));
    const found = [[1, 2, 5], [1, 3], [1]].map((steps) => powers.flatMap((power) => steps.map((step) => step * power)).filter(inside));
    const fitting = found.find((values) => values.length <= most);
    return fitting ?? found[2].filter((_, index) => index % Math.ceil(found[2].length / most) === 0);
  }
  const step = niceStep((high - low) / most), first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: most + 2 }, (_, i) => (first + i) * step).filter(inside);
}

/** A colour in one number, as a picture's pixels hold it. @param {string} hex */
export function pixel(hex) {
  const number = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((number & 255) << 16) | (number & 0xff00) | (number >> 16)) >>> 0;
}

/** A ramp of 256 colours, as pixels: the anchors joined. @param {Theme} theme */
export function ramp(theme) {
  const anchors = ANCHORS[theme].map((hex) => [5, 3, 1].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Uint32Array.from({ length: 256 }, (_, index) => {
    const place = (index / 255) * (anchors.length - 1), below = Math.min(Math.floor(place), anchors.length - 2);
    const [blue, green, red] = anchors[below].map((value, channel) => Math.round(value + (anchors[below + 1][channel] - value) * (place - below)));
    return 0xff000000 + blue * 0x10000 + green * 0x100 + red;
  });
}

/** The same as a style. @param {Theme} theme */
export const strip = (theme) => `background: linear-gradient(to right, ${ANCHORS[theme].join()})`;

/** @param {number} value */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
  return size < 1e-5 ? value.toExponential(0) : String(Number(value.toPrecision(3)));
}
