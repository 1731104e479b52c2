// What is known about the region under the pointer. Knows words and a frame.

import { html } from "#vendor/lit-html.js";
import { OPEN } from "#map/cells.js";
import { corners, count, digits, people, sure } from "#views/format.js";

const MOST_PIECES = 8; // that a card has room for

/** The pieces between the lines of a region, and the estimated shares of its people. @param {import("#map/cells.js").Wall[]} walls @returns {[string, number][]} */
function piecesOf(walls) {
  const above = [1, ...walls.map((wall) => wall.above), 0];
  const names = walls.map((_, i) => (i ? `${i} to ${i + 1}` : "before 1"));
  return [...names, `after ${walls.length}`].map((name, i) => [name, Math.max(0, above[i] - above[i + 1])]);
}

/**
 * @param {import("#map/view.js").MapView} map @param {import("#map/camera.js").Domain} domain
 */
export function cellCard(map, domain) {
  const { frame, hovered: row } = map;
  if (row < 0 || row >= frame.size) return html`<section class="cell" aria-live="polite" aria-label="Region" hidden></section>`;
  const { crowd, low, high, area, depth, state, x0, y0, x1, y1 } = frame.row(row);
  const known = Number.isFinite(crowd);
  const exact = low === high;
  const walls = frame.walls(row);
  const label = frame.text(row, "label");
  const right = (x0 + x1) / 2 < map.camera.x;
  return html`<section class=${`cell ${right ? "right" : "left"}`} aria-live="polite" aria-label="Region">
    <h2>${state === OPEN ? "Open region" : "Region"}${label ? html`: ${label}` : ""}</h2>
    <dl>
      ${known ? html`<dt>${exact ? "members" : "estimated here"}</dt>
        <dd><strong>${count(crowd)}</strong> ${exact ? html`<small>announced: exact, public by design</small>` : html`<small>${sure(low, high)}</small>`}</dd>` : ""}
      ${known ? html`<dt>density</dt><dd>${digits(crowd / area)} per ${domain.unit}</dd>` : ""}
      <dt>area</dt><dd>${digits(area)}${domain.geographic ? " km²" : ""}</dd>
      <dt>${frame.rings(row) ? "box around it" : domain.geographic ? "where" : domain.names.join(", ")}</dt><dd>${corners({ x0, y0, x1, y1 }, domain)}</dd>
      <dt>largest cell</dt><dd>${people(depth, "halving")}</dd>
    </dl>
    ${walls.length ? html`<p class="quiet">What noisy answers say about the pieces between its lines, in the order of the numbers on the map:</p>
      <ul class="walls">${piecesOf(walls).slice(0, MOST_PIECES).map(([name, share]) => html`<li>${name}: <strong>${Math.round(100 * share)} %</strong></li>`)}
      ${walls.length >= MOST_PIECES ? html`<li>and ${walls.length + 1 - MOST_PIECES} more</li>` : ""}</ul>
      <p class="quiet">About, from ${people(walls.reduce((sum, { asked }) => sum + asked, 0), "answer")}.</p>` : ""}
    <p class="reason">${state === OPEN ? (known ? "Open: it may still be cut." : "The whole domain: nothing is known about its parts yet.") : frame.text(row, "reason")}</p>
  </section>`;
}
