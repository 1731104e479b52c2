// A map of the world on which the domain of a new campaign is drawn. Knows boxes of degrees. Knows no campaign.

import { html } from "#vendor/lit-html.js";
import { MapView } from "#map/view.js";
import * as api from "#views/api.js";
import { zoomButtons } from "#views/panel.js";

/** @import { Area, Rect } from "#map/camera.js" */

/** Corners in as many digits as show the box to a hundredth of its width. @param {Rect} box */
function textOf({ x0, y0, x1, y1 }) {
  const digits = Math.max(0, Math.ceil(2 - Math.log10(x1 - x0)));
  return [x0, y0, x1, y1].map((end) => Number(end.toFixed(digits))).join(",");
}

export class DomainMap {
  /** @param {() => void} changed @param {(text: string) => void} take what to do with a box that was drawn */
  constructor(changed, take) {
    this.text = "";
    // Without the map the field still takes names and numbers.
    void api.json("/world").then(({ domain, ground }) => {
      this.places = domain.places;
      this.map = new MapView(domain, { onSelect: (area) => area && take(textOf(area)) });
      this.map.numbered = false;
      this.map.setGround(ground);
      this.#mark();
      changed();
    }).catch(() => {});
  }

  /** Mark the box that the field names. @param {string} text */
  show(text) {
    if (text === this.text) return;
    this.text = text;
    this.#mark();
  }

  #mark() {
    const ends = this.places?.[this.text.trim().toLowerCase()] ?? this.text.split(",").map(Number);
    const [x0, y0, x1, y1] = ends;
    const box = ends.length === 4 && x0 < x1 && y0 < y1 ? { x0, y0, x1, y1 } : null;
    this.map?.setMarks(box ? [box] : []);
    if (box) this.map?.lookAt({ x0: x0 - (x1 - x0) / 2, y0: y0 - (y1 - y0) / 2, x1: x1 + (x1 - x0) / 2, y1: y1 + (y1 - y0) / 2 });
  }

  /** @param {() => void} changed */
  render(changed) {
    const { map } = this;
    if (!map) return "";
    return html`<div class="wide domain"><div class="toolbar" role="toolbar" aria-label="Map of the domain">
      <button type="button" aria-pressed=${map.asking} @click=${() => {
        map.setAsking(!map.asking);
        changed();
      }}>Draw</button>${zoomButtons(map)}</div>${map.element}</div>`;
  }
}
