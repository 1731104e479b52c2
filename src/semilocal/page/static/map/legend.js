// The legend of a map: a strip of colours with round numbers. Knows templates and scales. Knows no cells.

import { html } from "#vendor/lit-html.js";
import { position, ticks } from "#map/scale.js";

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
