// What the views share: numbers and times as people read them, the promise in the server's words, files to save, and when
// to draw.

import { html } from "#vendor/lit-html.js";
import { label } from "#map/camera.js";

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined || Number.isNaN(value) ? "not known" : whole.format(value);
}

/** A number with its word. @param {number} value @param {string} [word] */
export function people(value, word = "participant") {
  return `${count(value)} ${word}${Math.round(value) === 1 ? "" : "s"}`;
}

/** Three digits that matter. @param {number} value */
export function digits(value) {
  if (!Number.isFinite(value)) return "not known";
  const size = Math.abs(value);
  if (size >= 1000) return whole.format(value);
  return size !== 0 && size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** @param {number} seconds */
export function duration(seconds) {
  const left = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(left / 3600), Math.floor(left / 60) % 60];
  if (left >= 86400) return `${Math.floor(left / 86400)} d ${Math.floor(left / 3600) % 24} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${left % 60} s` : `${left} s`;
}

/** @param {number} low @param {number} high */
const isExact = (low, high) => high - low < 1e-6;

/** @param {number} low @param {number} high */
export function interval(low, high) {
  if (isExact(low, high)) return `exactly ${count(low)}`;
  return Math.round(low) === Math.round(high) ? `about ${count(low)}` : `${count(low)} to ${count(high)}`;
}

/** An interval, and how sure it is: what is exact is certain. @param {number} low @param {number} high */
export function sure(low, high) {
  return isExact(low, high) ? interval(low, high) : `${interval(low, high)}, 95 %`;
}

/** A rectangle in words. @param {import("#map/camera.js").Rect} rect @param {import("#map/camera.js").Domain} domain */
export function corners(rect, domain) {
  const step = 10 ** -Math.max(0, Math.min(8, Math.ceil(2 - Math.log10(rect.x1 - rect.x0))));
  const text = (/** @type {number} */ value, /** @type {number} */ axis) => label(value, axis, step, domain.geographic);
  const across = `${text(rect.x0, 0)} to ${text(rect.x1, 0)}`;
  return domain.lower.length === 1 ? across : `${across}, ${text(rect.y0, 1)} to ${text(rect.y1, 1)}`;
}

export const PHASES = {
  enrolling: "enrolling",
  collecting: "finding regions",
  releasing: "collecting values",
  finished: "finished",
  cancelled: "cancelled",
  confirming: "waits for both operators",
  open: "open for uploads",
  closing: "closing",
  levels: "counting",
  done: "finished",
};

/**
 * @param {() => void} draw
 * @returns {() => void} asks for a drawing before the next frame
 */
export function onceAFrame(draw) {
  let scheduled = false;
  return () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      draw();
    });
  };
}

/**
 * @param {{plain: string, sentence: string, text: string, trust: string, simulated?: boolean}} promise
 * @param {string} [publicByDesign]
 */
export function promiseCard(promise, publicByDesign = "") {
  return html`<section class="card promise" aria-labelledby="promise-title">
    <h2 id="promise-title">What is promised</h2>
    <p>${promise.plain}</p>
    <p class="formula">${promise.sentence}</p>
    ${publicByDesign ? html`<p class="public">${publicByDesign}</p>` : ""}
    <details>
      <summary>The whole statement</summary>
      ${promise.text.split("\n").map((line) => html`<p>${line}</p>`)}
    </details>
  </section>`;
}

/** Offer a file to save. @param {string} name @param {Blob | string} content @param {string} [type] */
export function save(name, content, type = "text/plain") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
