// What is known about the cell under the pointer. Knows words and a frame.

import { html } from "#vendor/lit-html.js";
import { OPEN, TRIMMED } from "#map/cells.js";
import { corners, count, digits, sure } from "#views/format.js";

/**
 * @param {import("#map/view.js").MapView} map @param {import("#map/camera.js").Domain} domain
 */
export function cellCard(map, domain) {
  const { frame, hovered: row } = map;
  if (row < 0 || row >= frame.size) return html`<section class="cell" aria-live="polite" aria-label="Cell" hidden></section>`;
  const { crowd, low, high, area, depth, state, x0, y0, x1, y1 } = frame.row(row);
  const known = Number.isFinite(crowd);
  const kind = state === OPEN ? "Open cell" : state === TRIMMED ? "Trimmed part" : "Region";
  const exact = low === high;
  const inside = frame.inside.get(frame.text(row, "cell"));
  const label = frame.text(row, "label");
  const right = (x0 + x1) / 2 < map.camera.x;
  return html`<section class=${`cell ${right ? "right" : "left"}`} aria-live="polite" aria-label="Cell">
    <h2>${kind}${label ? html`: ${label}` : ""}</h2>
    <dl>
      ${known ? html`<dt>${exact ? "published here" : "estimated here"}</dt>
        <dd><strong>${count(crowd)}</strong> ${exact ? html`<small>exact, public by design</small>` : html`<small>${sure(low, high)}</small>`}</dd>` : ""}
      ${inside ? html`<dt>estimated inside</dt><dd><strong>${count(inside.value)}</strong> <small>${sure(...inside.interval)}</small></dd>` : ""}
      ${known && state !== TRIMMED ? html`<dt>density</dt><dd>${digits(crowd / area)} per ${domain.unit}</dd>` : ""}
      <dt>area</dt><dd>${digits(area)}${domain.geographic ? " km²" : ""}</dd>
      <dt>${frame.rings(row) ? "box around it" : domain.geographic ? "where" : domain.names.join(", ")}</dt><dd>${corners({ x0, y0, x1, y1 }, domain)}</dd>
      <dt>splits</dt><dd>${depth}</dd>
    </dl>
    <p class="reason">${state === OPEN ? (known ? "Open: the next round asks about its parts." : "The whole domain: nothing is known about its parts yet.") : frame.text(row, "reason")}</p>
  </section>`;
}
