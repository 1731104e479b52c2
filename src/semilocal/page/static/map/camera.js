// What part of the domain is seen: a point in the middle of the picture, and how many pixels a unit takes; lines, labels
// and the bar of kilometres around it. Lengths look alike in both directions: a degree of latitude is longer than one of
// longitude by 1 / cos(latitude). Knows numbers and words. Knows no cells and no browser.

/**
 * @typedef {{lower: number[], upper: number[], names: string[], geographic: boolean, unit: string,
 *   places?: Record<string, [number, number, number, number]>, labelled?: boolean}} Domain labelled: the places are all labels of a tree
 * @typedef {{x: number, y: number, scale: number, aspect: number, width: number, height: number}} Camera
 * @typedef {{x0: number, y0: number, x1: number, y1: number}} Rect
 * @typedef {Rect & {ring?: [number, number][]}} Area a rectangle, or the one around a polygon
 */

/** The area of a ring of corners. @param {[number, number][]} ring @returns {Area} */
export function areaOf(ring) {
  const [xs, ys] = [ring.map(([x]) => x), ring.map(([, y]) => y)];
  return { x0: Math.min(...xs), y0: Math.min(...ys), x1: Math.max(...xs), y1: Math.max(...ys), ring };
}

/** Corners of a ring x, y, x, y, … @param {number[]} ring @returns {[number, number][]} */
export const pairs = (ring) => Array.from({ length: ring.length / 2 }, (_, i) => [ring[2 * i], ring[2 * i + 1]]);

const CLOSEST = 1e6; // times the whole domain

/** The domain's corners; one dimension is a strip from 0 to 1. @param {Domain} domain @returns {Rect} */
export function bounds(domain) {
  const [x0, y0 = 0] = domain.lower;
  const [x1, y1 = 1] = domain.upper;
  return { x0, y0, x1, y1 };
}

/** Pixels of a unit of y over those of a unit of x. @param {Domain} domain @param {number} width @param {number} height */
function aspectOf(domain, width, height) {
  const { x0, y0, x1, y1 } = bounds(domain);
  if (domain.geographic) return 1 / Math.max(Math.cos((((y0 + y1) / 2) * Math.PI) / 180), 0.1);
  if (domain.lower.length === 1) return (((x1 - x0) / (y1 - y0)) * (height * 0.4)) / width;
  const ratio = (x1 - x0) / (y1 - y0); // axes in other units, such as years and metres, fill the picture
  return ratio > 20 || ratio < 0.05 ? (ratio * height) / width : 1;
}

/**
 * A camera that sees a part of the domain, or the whole, with a margin.
 * @param {Domain} domain @param {number} width @param {number} height @param {number} [margin] pixels @param {Rect} [part]
 * @returns {Camera}
 */
export function fit(domain, width, height, margin = 24, part = bounds(domain)) {
  const { x0, y0, x1, y1 } = part;
  const aspect = aspectOf(domain, width, height);
  const room = [Math.max(width - 2 * margin, 40), Math.max(height - 2 * margin, 40)];
  const scale = Math.min(room[0] / (x1 - x0), room[1] / ((y1 - y0) * aspect));
  return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, scale, aspect, width, height };
}

/** @param {Camera} camera @param {number} x @param {number} y @returns {[number, number]} */
export function toScreen(camera, x, y) {
  const { scale, aspect, width, height } = camera;
  return [(x - camera.x) * scale + width / 2, (camera.y - y) * scale * aspect + height / 2];
}

/** @param {Camera} camera @param {number} left @param {number} top @returns {[number, number]} */
export function toWorld(camera, left, top) {
  const { scale, aspect, width, height } = camera;
  return [camera.x + (left - width / 2) / scale, camera.y - (top - height / 2) / (scale * aspect)];
}

/** Move by pixels; the middle stays inside the domain. @param {Camera} camera @param {Domain} domain
 * @param {number} right @param {number} down @returns {Camera} */
export function pan(camera, domain, right, down) {
  return inside({ ...camera, x: camera.x - right / camera.scale, y: camera.y + down / (camera.scale * camera.aspect) }, domain);
}

/** Zoom around a pixel. @param {Camera} camera @param {Domain} domain @param {number} factor
 * @param {number} [left] @param {number} [top] @returns {Camera} */
export function zoom(camera, domain, factor, left = camera.width / 2, top = camera.height / 2) {
  const whole = fit(domain, camera.width, camera.height);
  const scale = Math.min(Math.max(camera.scale * factor, whole.scale * 0.8), whole.scale * CLOSEST);
  const [x, y] = toWorld(camera, left, top);
  const ratio = camera.scale / scale;
  return inside({ ...camera, scale, x: x + (camera.x - x) * ratio, y: y + (camera.y - y) * ratio }, domain);
}

/** The same view in a picture of another size. @param {Camera} camera @param {Domain} domain
 * @param {number} width @param {number} height @returns {Camera} */
export function resize(camera, domain, width, height) {
  const before = fit(domain, camera.width, camera.height);
  const after = fit(domain, width, height);
  return { ...after, x: camera.x, y: camera.y, scale: (after.scale * camera.scale) / before.scale };
}

/** @param {Camera} camera @param {Domain} domain @returns {Camera} */
function inside(camera, domain) {
  const { x0, y0, x1, y1 } = bounds(domain);
  return { ...camera, x: Math.min(Math.max(camera.x, x0), x1), y: Math.min(Math.max(camera.y, y0), y1) };
}

/** The part of the domain between two pixels, or null if there is none.
 * @param {Camera} camera @param {Domain} domain @param {[number, number]} from @param {[number, number]} to
 * @returns {Rect | null} */
export function selection(camera, domain, from, to) {
  const whole = bounds(domain);
  const [ax, ay] = toWorld(camera, ...from);
  const [bx, by] = toWorld(camera, ...to);
  const rect = {
    x0: Math.max(Math.min(ax, bx), whole.x0),
    y0: Math.max(Math.min(ay, by), whole.y0),
    x1: Math.min(Math.max(ax, bx), whole.x1),
    y1: Math.min(Math.max(ay, by), whole.y1),
  };
  return rect.x1 > rect.x0 && rect.y1 > rect.y0 ? rect : null;
}

const KM_PER_DEGREE = (6371.0088 * Math.PI) / 180;
const DEGREE_STEPS = [30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

/**
 * Where lines are drawn between two values, at most a given number.
 * @param {number} low @param {number} high @param {number} most @param {boolean} degrees @returns {{at: number[], step: number}}
 */
export function lines(low, high, most, degrees) {
  const rough = (high - low) / Math.max(most, 1);
  const fitting = DEGREE_STEPS.filter((step) => step >= rough);
  const step = degrees && fitting.length ? fitting[fitting.length - 1] : niceStep(rough);
  const at = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) at.push(index * step);
  return { at, step };
}

/** How many digits after the point a step needs. @param {number} step */
export function digits(step) {
  return Math.max(0, Math.min(12, Math.ceil(-Math.log10(step) - 1e-9)));
}

/** A coordinate in words. @param {number} value @param {number} axis @param {number} step @param {boolean} degrees */
export function label(value, axis, step, degrees) {
  const text = Math.abs(value).toFixed(digits(step));
  if (!degrees) return value < 0 && Number(text) !== 0 ? `−${text}` : text;
  if (Number(text) === 0) return "0°";
  const side = axis === 0 ? (value < 0 ? "W" : "E") : value < 0 ? "S" : "N";
  return `${text}° ${side}`;
}

/** A bar of a round length: how many kilometres, and how many pixels. @param {{y: number, scale: number}} camera @param {number} [most] pixels */
export function scaleBar(camera, most = 120) {
  const perUnit = KM_PER_DEGREE * Math.max(Math.cos((camera.y * Math.PI) / 180), 0.01);
  const longest = (most / camera.scale) * perUnit;
  const power = 10 ** Math.floor(Math.log10(longest));
  const length = ([5, 2].find((one) => one * power <= longest * 1.0001) ?? 1) * power;
  const text = length >= 1 ? `${Number(length.toPrecision(3))} km` : `${Number((length * 1000).toPrecision(3))} m`;
  return { length, pixels: (length / perUnit) * camera.scale, text };
}

/** The smallest of 1, 2, 5 times a power of ten that is not below. @param {number} rough */
export function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find((one) => one * power >= rough * 0.9999) ?? 10) * power;
}
