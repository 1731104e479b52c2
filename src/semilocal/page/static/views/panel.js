// A map with its tools: colour, zoom, legend, the region under the pointer, and a slider through the rounds.
// Knows a timeline. Knows no server: a campaign's page and a single file use the same panel.

import { html } from "#vendor/lit-html.js";
import { OPEN, Timeline } from "#map/cells.js";
import { legend } from "#map/colours.js";
import { MapView } from "#map/view.js";
import { corners, count, digits, people, save, sure } from "#views/parts.js";

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
        <dd><strong>${count(crowd)}</strong> ${exact ? html`<small>announced: exact</small>` : html`<small>${sure(low, high)}</small>`}</dd>` : ""}
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

const COLOURS = /** @type {const} */ (["density", "crowd", "depth", "uncertainty"]);

export class MapPanel {
  /**
   * @param {import("#map/camera.js").Domain} domain @param {"light" | "dark"} theme @param {() => void} changed
   * @param {(area: import("#map/camera.js").Area) => void} [onSelect] what to do with an area; without it none is drawn
   */
  constructor(domain, theme, changed, onSelect) {
    this.domain = domain;
    this.changed = changed;
    this.askable = onSelect !== undefined;
    this.timeline = new Timeline(domain);
    this.shown = 0;
    this.following = true;
    this.map = new MapView(domain, { theme, onHover: changed, onSelect });
    this.map.show(this.timeline.frame(0));
  }

  /** Show the map after a round. @param {number} number */
  show(number) {
    this.shown = number;
    this.map.show(this.timeline.frame(number));
    this.changed();
  }

  /** Show the newest round, unless somebody looks at an earlier one. */
  follow() {
    if (this.following) this.show(this.timeline.last);
  }

  /** A button that lets the pointer draw. @param {import("#map/view.js").Asking} what @param {string} word @param {boolean} ready */
  #toggle(what, word, ready) {
    const on = this.map.asking === what;
    return html`<button class="toggle" aria-pressed=${on} ?disabled=${!ready} @click=${() => {
      this.map.setAsking(on ? "" : what);
      this.changed();
    }}>${word}</button>`;
  }

  /** @param {boolean} ready whether questions can be asked @param {boolean} [live] whether rounds are to come */
  render(ready, live = false) {
    const { map, domain } = this;
    const { last } = this.timeline;
    return html`
      <div class="toolbar" role="toolbar" aria-label="Map">
        <label>colour <select @change=${(/** @type {Event} */ event) => {
          map.setColour(/** @type {any} */ (/** @type {HTMLSelectElement} */ (event.target).value));
          this.changed();
        }}>${COLOURS.filter((value) => value !== "uncertainty" || !map.frame.isExact).map((value) => html`<option value=${value} ?selected=${map.colour === value}>${value}</option>`)}</select></label>
        <span class="group">
          <button aria-label="zoom in" @click=${() => map.zoom(1.5)}>+</button><button aria-label="zoom out" @click=${() => map.zoom(1 / 1.5)}>−</button>
          <button @click=${() => map.home()}>All</button></span>
        ${this.askable ? html`<span class="group">${this.#toggle("rectangle", "Ask", ready)}${domain.lower.length === 2 ? this.#toggle("polygon", "Polygon", ready) : ""}</span>` : ""}
        <button @click=${() => void map.picture().then((blob) => save("map.png", blob))}>PNG</button>
      </div>
      ${map.asking === "polygon" ? html`<p class="quiet" role="status">Click the corners; click the first one again to close. By keys: space sets a corner at the cross, Backspace takes it back, Enter closes, Escape begins again.</p>` : ""}
      <div class="over">${map.element}${cellCard(map, domain)}</div>
      <div class="under">
        ${legend(map, domain.unit)}
        <div class="keys">${map.frame.count(OPEN) ? html`<span class="key open"></span> open` : ""}
          ${Array.from({ length: map.frame.size }).some((_, row) => map.frame.walls(row).length) ? html`<span class="key wall"></span> asked about, not cut` : ""}</div>
        ${last > 1 || live ? html`<label class="slider">after round <output>${this.shown}</output> of ${last}
          <input type="range" min="0" max=${last} .value=${String(this.shown)} ?disabled=${!last} @input=${(/** @type {Event} */ event) => {
            const number = Number(/** @type {HTMLInputElement} */ (event.target).value);
            this.following = number === last;
            this.show(number);
          }} /></label>` : ""}
      </div>`;
  }
}
