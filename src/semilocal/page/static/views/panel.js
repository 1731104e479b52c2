// A map with its tools: colour, zoom, legend, the region under the pointer, and a slider through the rounds.
// Knows a timeline. Knows no server: a campaign's page and a single file use the same panel.

import { html } from "#vendor/lit-html.js";
import { bounds } from "#map/camera.js";
import { OPEN, Timeline } from "#map/cells.js";
import { CellLayer } from "#map/layer.js";
import { MapView } from "#map/view.js";
import { corners, count, digits, sure } from "#views/parts.js";

const PAUSE = 700; // milliseconds that a round is shown
const AROUND_A_CITY = 0.25; // degrees to each side

/** A name as it is compared: small letters without accents. @param {string} name */
const plain = (name) => name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replaceAll(/[-_ ]+/g, " ").trim();

/** @param {CellLayer} layer @param {MapView} map @param {import("#map/camera.js").Domain} domain */
function cellCard({ frame, hovered, piece: place }, map, domain) {
  const row = frame.row(hovered), piece = frame.pieces[place];
  if (!row) return html`<section class="cell" aria-live="polite" aria-label="Region" hidden></section>`;
  const { crowd, half, area, state, x0, y0, x1, y1, label, rings } = row;
  const known = Number.isFinite(crowd);
  const right = (x0 + x1) / 2 < map.camera.x;
  return html`<section class=${`cell ${right ? "right" : "left"}`} aria-live="polite" aria-label="Region">
    <h2>${state === OPEN ? "Open region" : "Region"}${label ? html`: ${label}` : ""}</h2>
    <dl>
      ${known ? html`<dt>${half ? "estimated here" : "members"}</dt>
        <dd><strong>${count(crowd)}</strong> <small>${half ? sure(Math.max(crowd - half, 0), crowd + half) : "announced: exact"}</small></dd>` : ""}
      ${known ? html`<dt>density</dt><dd>${digits(crowd / area)} per ${domain.unit}</dd>` : ""}
      <dt>area</dt><dd>${digits(area)}${domain.geographic ? " km²" : ""}</dd>
      <dt>${rings ? "box around it" : domain.geographic ? "where" : domain.names.join(", ")}</dt><dd>${corners({ x0, y0, x1, y1 }, domain)}</dd>
    </dl>
    ${piece ? html`<p>In this part of it about <strong>${count(piece.people)}</strong> of them, as noisy answers say: ${digits(piece.people / piece.area)} per ${domain.unit}.</p>` : ""}
    <p class="reason">${state === OPEN ? (known ? "Open: it may still be cut." : "The whole domain: nothing is known about its parts yet.") : half ? "" : "Not cut further: no cut would likely show a large enough crowd on both sides."}</p>
  </section>`;
}

/** @param {MapView} map */
export const zoomButtons = (map) => html`<span class="group">
  <button type="button" aria-label="zoom in" @click=${() => map.zoom(1.5)}>+</button><button type="button" aria-label="zoom out" @click=${() => map.zoom(1 / 1.5)}>−</button>
  <button type="button" @click=${() => map.home()}>All</button></span>`;


export class MapPanel {
  /**
   * @param {import("#map/camera.js").Domain} domain @param {() => void} changed
   * @param {(area: import("#map/camera.js").Area | null) => void} [onSelect] what to do with an area, null if it is outside; without it none is drawn
   */
  constructor(domain, changed, onSelect) {
    this.domain = domain;
    this.changed = changed;
    this.askable = onSelect !== undefined;
    this.timeline = new Timeline(domain);
    this.shown = 0;
    this.following = true;
    this.playing = 0; // a timer
    this.missing = ""; // a place that was not found
    this.map = new MapView(domain, { onHover: changed, onSelect });
    this.layer = this.map.layer = new CellLayer();
    this.layer.show(this.timeline.frame(0));
  }

  /** Show the map after a round. @param {number} number */
  show(number) {
    this.shown = number;
    this.layer.show(this.timeline.frame(number));
    this.map.draw();
    this.changed();
  }

  /** Show the newest round, unless somebody looks at an earlier one. */
  follow() {
    if (this.following) this.show(this.timeline.last);
  }

  /** Show one round after the other, from the first if the last is shown; or stop. */
  play() {
    clearInterval(this.playing);
    if (this.playing) {
      this.playing = 0;
      this.changed();
      return;
    }
    if (this.shown >= this.timeline.last) this.show(0);
    this.playing = window.setInterval(() => {
      if (this.shown < this.timeline.last) this.show(this.shown + 1);
      this.following = this.shown === this.timeline.last;
      if (this.following) this.play();
    }, PAUSE);
    this.changed();
  }

  /** Names that can be looked for: named areas, then cities. @returns {Map<string, import("#map/camera.js").Rect>} */
  get places() {
    const found = new Map();
    const { x0, y0, x1, y1 } = bounds(this.domain);
    for (const [name, [west, south, east, north]] of Object.entries(this.domain.places ?? {})) found.set(name, { x0: west, y0: south, x1: east, y1: north });
    for (const [name, country, x, y] of this.map.ground?.cities ?? []) {
      const near = Math.min(AROUND_A_CITY, (x1 - x0) / 6, (y1 - y0) / 6);
      found.set(`${name}, ${country}`, { x0: x - near, y0: y - near, x1: x + near, y1: y + near });
    }
    return found;
  }

  /** Go to a place. @param {string} text */
  find(text) {
    const places = [...this.places], wanted = plain(text);
    const [, found] = places.find(([name]) => plain(name) === wanted) ?? places.find(([name]) => plain(name).startsWith(wanted)) ?? [];
    this.missing = found || !wanted ? "" : text;
    if (found && wanted) this.map.lookAt(found);
    this.changed();
  }

  /** @param {boolean} ready whether questions can be asked @param {boolean} [live] whether rounds are to come */
  render(ready, live = false) {
    const { map, layer, domain } = this;
    const { last } = this.timeline;
    const places = this.places;
    return html`
      <div class="toolbar" role="toolbar" aria-label="Map">
        ${zoomButtons(map)}
        ${this.askable ? html`<button class="toggle" aria-pressed=${map.asking} ?disabled=${!ready} @click=${() => {
          map.setAsking(!map.asking);
          this.changed();
        }}>Ask</button>` : ""}
        ${places.size ? html`<label class="find"><span class="hidden">find a place</span>
          <input type="search" list="places" placeholder="find a place" @change=${(/** @type {Event} */ event) => this.find(/** @type {HTMLInputElement} */ (event.target).value)} />
          <datalist id="places">${[...places.keys()].map((name) => html`<option value=${name}></option>`)}</datalist></label>` : ""}
      </div>
      ${this.missing ? html`<p class="quiet" role="status">No place on this map is called “${this.missing}”.</p>` : ""}
      <div class="over">${map.element}${cellCard(layer, map, domain)}</div>
      <div class="under">
        ${layer.legend(map.theme, domain.unit)}
        <div class="keys">${layer.frame.open ? html`<span class="key open"></span> open` : ""}</div>
        ${last > 1 ? html`<button @click=${() => this.play()}>${this.playing ? "Pause" : "Play"}</button>` : ""}
        ${last > 1 || live ? html`<label class="slider">after round <output>${this.shown}</output> of ${last}
          <input type="range" min="0" max=${last} .value=${String(this.shown)} ?disabled=${!last} @input=${(/** @type {Event} */ event) => {
            const number = Number(/** @type {HTMLInputElement} */ (event.target).value);
            this.following = number === last;
            this.show(number);
          }} /></label>` : ""}
        ${map.ground?.credit ? html`<small class="credit">${map.ground.credit}</small>` : ""}
      </div>`;
  }
}
