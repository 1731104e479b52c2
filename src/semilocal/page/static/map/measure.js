// Lines and labels around a map: a graticule in degrees or plain axes, and a bar of kilometres.
// Knows numbers and words. Knows no cells and no browser.

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

/**
 * A bar of a round length: how many kilometres (or units), and how many pixels.
 * @param {{y: number, scale: number}} camera @param {boolean} geographic @param {number} [most] pixels
 */
export function scaleBar(camera, geographic, most = 120) {
  const perUnit = geographic ? KM_PER_DEGREE * Math.max(Math.cos((camera.y * Math.PI) / 180), 0.01) : 1;
  const longest = (most / camera.scale) * perUnit;
  const power = 10 ** Math.floor(Math.log10(longest));
  const length = ([5, 2, 1].find((one) => one * power <= longest * 1.0001) ?? 1) * power;
  const pixels = (length / perUnit) * camera.scale;
  const metres = length * 1000;
  const text = !geographic ? shorter(length) : length >= 1 ? `${shorter(length)} km` : `${shorter(metres)} m`;
  return { length, pixels, text };
}

/** A round number without noise. @param {number} value */
function shorter(value) {
  return String(Number(value.toPrecision(3)));
}

/** The smallest of 1, 2, 5 times a power of ten that is not below. @param {number} rough @param {boolean} [integer] */
export function niceStep(rough, integer = false) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough * 0.9999) ?? 10;
  return integer ? Math.max(1, Math.round(step * power)) : step * power;
}
