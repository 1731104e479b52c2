// Colours of a map: a range that ignores extremes, a ramp whose lightness only goes one way, and the legend.
// Knows numbers, colours and templates. Knows no cells.

import { html } from "#vendor/lit-html.js";
import { niceStep } from "#map/camera.js";

/**
 * @typedef {{low: number, high: number, log: boolean, integer: boolean}} Scale
 * @typedef {"light" | "dark"} Theme
 */

const ANCHORS = {
  light: ["#fbf3cf", "#fdb777", "#ee605e", "#8c2981", "#231151"], // pictures have the same
  dark: ["#241a38", "#5b2373", "#b23a6e", "#f08a5d", "#fcf1bd"],
};

/** Sorted finite values. @param {ArrayLike<number>} values */
function sorted(values) {
  return Float64Array.from(values).filter(Number.isFinite).sort();
}

/**
 * The value below which a share of the others lies.
 * @param {ArrayLike<number>} ascending @param {number} share
 */
function quantile(ascending, share) {
  if (!ascending.length) return NaN;
  const place = share * (ascending.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, ascending.length - 1);
  return ascending[below] + (ascending[above] - ascending[below]) * (place - below);
}

/**
 * The range of colours for values: from their 2nd to their 98th percentile, on a log scale where they span a lot.
 * @param {ArrayLike<number>} values @param {{log?: boolean, integer?: boolean}} [options]
 * @returns {Scale}
 */
export function robustScale(values, { log = true, integer = false } = {}) {
  const all = sorted(values);
  const positive = all.filter((value) => value > 0);
  const used = log ? positive : all;
  if (!used.length) return { low: 0, high: 1, log: false, integer };
  let low = quantile(used, integer ? 0 : 0.02);
  let high = quantile(used, integer ? 1 : 0.98);
  if (integer) return { low, high: Math.max(high, low + 1), log: false, integer };
  if (low > 0 && high / low < 2) {
    const middle = Math.sqrt(low * high); // small differences get similar colours
    [low, high] = [middle / Math.SQRT2, middle * Math.SQRT2];
  }
  if (!(high > low)) high = low + 1;
  return { low, high, log: log && high / low > 4, integer };
}

/** Where a value is in the range: 0 to 1. @param {Scale} scale @param {number} value */
export function position(scale, value) {
  const { low, high, log } = scale;
  if (log && value <= 0) return 0;
  const at = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(1, Math.max(0, at));
}

/** Round numbers within the range, for a legend. @param {Scale} scale @param {number} [most] @returns {number[]} */
export function ticks(scale, most = 5) {
  const { low, high, log, integer } = scale;
  if (log) {
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
        for (const step of steps) {
          const value = step * 10 ** power;
          if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
        }
      }
      if (found.length <= most) return found;
      if (steps.length === 1) {
        const every = Math.ceil(found.length / most);
        return found.filter((_, index) => index % every === 0);
      }
    }
  }
  const step = niceStep((high - low) / most, integer);
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}

/** @param {string} hex @returns {[number, number, number]} */
function fromHex(hex) {
  const number = parseInt(hex.slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

/** @param {number} value */
const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
/** @param {number} value */
const gamma = (value) => (value <= 0.0031308 ? value * 12.92 : 1.055 * value ** (1 / 2.4) - 0.055);

/**
 * A ramp of 256 colours: the anchors joined in linear light. @param {Theme} theme
 * @returns {[number, number, number][]}
 */
export function ramp(theme) {
  const anchors = ANCHORS[theme].map(fromHex);
  return Array.from({ length: 256 }, (_, index) => {
    const place = (index / 255) * (anchors.length - 1);
    const below = Math.min(Math.floor(place), anchors.length - 2);
    const share = place - below;
    return /** @type {[number, number, number]} */ (
      anchors[below].map((value, channel) => {
        const other = anchors[below + 1][channel];
        return Math.round(255 * gamma(linear(value / 255) * (1 - share) + linear(other / 255) * share));
      })
    );
  });
}

/** A colour as a pixel: bytes red, green, blue, alpha. @param {[number, number, number]} rgb */
export function pixel([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

const TITLES = {
  density: "participants per ",
  crowd: "participants in a region",
  depth: "halvings of its largest cell",
  uncertainty: "width of the 95 % interval, % of the crowd",
};

const strips = new Map();

/** A picture of the ramp. @param {[number, number, number][]} ramp */
function strip(ramp) {
  const key = String(ramp[0]);
  if (!strips.has(key)) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [256, 1];
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    ramp.forEach((colour, index) => {
      context.fillStyle = `rgb(${colour.join(",")})`;
      context.fillRect(index, 0, 1, 1);
    });
    strips.set(key, canvas.toDataURL());
  }
  return strips.get(key);
}

/** @param {number} value */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))} M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))} k`;
  return size < 1e-5 ? value.toExponential(0) : String(Number(value.toPrecision(3)));
}

/**
 * @param {import("#map/view.js").MapView} view @param {string} unit what densities are counted per
 */
export function legend(view, unit) {
  const { scale, colour, ramp } = view;
  const marks = ticks(scale, 5).map((value) => ({ value, share: position(scale, value) }));
  return html`<figure class="legend">
    <figcaption>${TITLES[colour]}${colour === "density" ? unit : ""}</figcaption>
    <img src=${strip(ramp)} alt="" />
    <div class="labels">
      ${marks.map(({ value, share }) => html`<span .style=${`left:${100 * share}%`}>${short(value)}</span>`)}
    </div>
  </figure>`;
}
