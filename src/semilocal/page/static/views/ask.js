// Ask the map: rectangles, counts with intervals, a list with names, a file to save. A server answers, or the tree
// of counts in a file.

/** @import { Area, Rect } from "#map/camera.js" */
import { html } from "#vendor/lit-html.js";
import { bounds } from "#map/camera.js";
import * as api from "#views/api.js";
import { corners, count, digits, interval, save } from "#views/parts.js";

/**
 * @typedef {{name: string, area: Area, value: number, stderr: number, low: number, high: number}} Answer
 */

/** A box as the server takes it. @param {Rect} rect @param {import("#map/camera.js").Domain} domain */
export function boxOf(rect, domain) {
  return domain.lower.length === 1 ? [[rect.x0], [rect.x1]] : [[rect.x0, rect.y0], [rect.x1, rect.y1]];
}

/** @param {string} value */
const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

/** @param {Answer[]} answers @param {import("#map/camera.js").Domain} domain */
export function csvOf(answers, domain) {
  const [first, second = ""] = domain.names;
  const names = [`${first}_lower`, `${second}_lower`, `${first}_upper`, `${second}_upper`].filter((name) => !name.startsWith("_"));
  const head = ["name", ...names, "count", "stderr", "low", "high"].map(quoted).join(",");
  const lines = answers.map(({ name, area, value, stderr, low, high }) =>
    [quoted(name), ...boxOf(area, domain).flat(), value, stderr, low, high].join(","));
  return [head, ...lines, ""].join("\n");
}

/**
 * @typedef {{counts: {value: number, stderr: number, interval: number[]}[], note: string}} Found
 * @typedef {(area: Area) => Promise<Found>} Source what answers
 */

/** A campaign's server as a source. @param {string} task @param {import("#map/camera.js").Domain} domain @returns {Source} */
const serverOf = (task, domain) => (area) => api.json(`/tasks/${task}/counts`, { method: "POST", body: { boxes: [boxOf(area, domain)] } });

/** An interval as a bar on a scale from 0 to the largest end. @param {Answer} answer @param {number} most */
function bar({ value, low, high }, most) {
  const share = (/** @type {number} */ number) => (100 * number) / Math.max(most, 1);
  return html`<span class="bar" role="img" aria-label=${`${interval(low, high)}`}><span .style=${`left:${share(low)}%;width:${share(high - low)}%`}></span><i .style=${`left:${share(value)}%`}></i></span>`;
}

/** Questions to one map. */
export class Ask {
  /** @param {string} task of a server, empty in a file @param {import("#map/camera.js").Domain} domain @param {() => void} changed @param {Source} [source] */
  constructor(task, domain, changed, source = serverOf(task, domain)) {
    this.task = task;
    this.domain = domain;
    this.changed = changed;
    this.source = source;
    /** @type {Answer[]} */
    this.answers = [];
    this.total = 0; // people of the map, if they are known
    /** @type {(area: Area) => void} what a click on an answer's name does */
    this.show = () => {};
    this.fixed = false; // whether nothing more can be asked
    this.error = "";
    this.note = "";
  }

  /** @param {Area | null} area null: outside the domain @param {string} [name] */
  async ask(area, name) {
    const whole = bounds(this.domain);
    if (!area || area.x0 < whole.x0 || area.y0 < whole.y0 || area.x1 > whole.x1 || area.y1 > whole.y1) {
      this.error = `That is outside the domain of this map: ${corners(whole, this.domain)}.`;
      this.changed();
      return;
    }
    try {
      const answer = await this.source(area);
      const [{ value, stderr, interval: [low, high] }] = answer.counts;
      this.answers = [...this.answers, { name: name || "rectangle", area, value, stderr, low, high }];
      this.note = answer.note;
      this.error = "";
    } catch (error) {
      const { message, detail } = /** @type {import("#views/api.js").Refusal} */ (error);
      this.error = detail ?? message;
    }
    this.changed();
  }

  /** Count in a named place. @param {HTMLSelectElement} select */
  #pick(select) {
    const found = this.domain.places?.[select.value];
    if (!found) return;
    const [x0, y0, x1, y1] = found;
    void this.ask({ x0, y0, x1, y1 }, select.value);
    select.value = "";
  }

  /** @param {number} place */
  remove(place) {
    this.answers = this.answers.filter((_, index) => index !== place);
    this.changed();
  }

  /** @param {Event} event */
  submit(event) {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const [x0, y0, x1, y1] = ["x0", "y0", "x1", "y1"].map((name) => Number(form.get(name)));
    const flat = this.domain.lower.length === 1;
    if (!(x1 > x0) || (!flat && !(y1 > y0))) {
      this.error = "each upper end must be above its lower end";
      this.changed();
      return;
    }
    void this.ask({ x0, y0: flat ? 0 : y0, x1, y1: flat ? 1 : y1 }, String(form.get("name") ?? "").trim());
  }

  /** @param {boolean} ready whether the campaign has regions @param {boolean} first whether to show it at the top */
  card(ready, first) {
    const { domain, answers } = this;
    const flat = domain.lower.length === 1, labelled = Boolean(domain.labelled);
    const places = Object.keys(domain.places ?? {});
    const words = domain.geographic ? ["west", "south", "east", "north"] : [
      `${domain.names[0]} from`, `${domain.names[1] ?? ""} from`, `${domain.names[0]} to`, `${domain.names[1] ?? ""} to`];
    const fields = /** @type {[string, string, number][]} */ ([
      ["x0", words[0], domain.lower[0]], ["y0", words[1], domain.lower[1]], ["x1", words[2], domain.upper[0]],
      ["y1", words[3], domain.upper[1]]]).filter(([name]) => domain.lower.length > 1 || name.startsWith("x"));
    return html`<section class=${`card ask ${first ? "first" : ""}`} aria-labelledby="ask-title">
      <h2 id="ask-title">${this.fixed ? "What was asked" : "Ask the map"}</h2>
      ${this.fixed ? "" : domain.lower.length > 2 ? html`<p class="quiet">This page asks about one or two dimensions. The server takes boxes of ${domain.lower.length}: <code>POST /tasks/${this.task}/counts</code>.</p>` : ready ? html`
        <p class="quiet">Choose “Ask” above the map and drag ${labelled ? "over a part, or pick a label:" : flat ? "over a part, or type its ends:" : `a rectangle, ${places.length ? "pick a place, " : ""}or type corners:`}</p>
        ${places.length ? html`<label class="pick">${labelled ? domain.names[0] : "place"} <select @change=${(/** @type {Event} */ event) => this.#pick(/** @type {HTMLSelectElement} */ (event.target))}>
          <option value="">choose…</option>${places.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>` : ""}
        ${labelled ? "" : html`<form @submit=${(/** @type {Event} */ event) => this.submit(event)}>
          <label class="wide">name <input name="name" maxlength="80" autocomplete="off" /></label>
          ${fields.map(([name, word, value]) => html`<label>${word}
            <input name=${name} type="number" step="any" required value=${value} /></label>`)}
          <button class="wide">Count</button>
        </form>`}` : html`<p class="quiet">Counts can be asked when all regions are found.</p>`}
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      ${answers.length ? html`
        <div class="scroll"><table class="answers">
          <thead><tr><th>place</th><th>people</th><th><span class="hidden">remove</span></th></tr></thead>
          <tbody>${answers.map((answer, place) => html`<tr>
            <td><button class="plain name" title=${corners(answer.area, domain)} @click=${() => this.show(answer.area)}>${place + 1}. ${answer.name}</button></td>
            <td>${answer.low === answer.high ? "exactly" : "about"} <strong>${count(answer.value)}</strong>${this.total ? ` of ${count(this.total)} people` : Math.round(answer.value) === 1 ? " person" : " people"}${answer.low === answer.high ? "" : `, ${interval(answer.low, answer.high)}`}
              ${bar(answer, Math.max(...answers.map(({ high }) => high)))}</td>
            <td><button class="plain" aria-label=${`remove ${answer.name}`} @click=${() => this.remove(place)}>×</button></td></tr>`)}
          </tbody></table></div>
        <p class="note">About 19 of 20 such ranges hold the true number.</p>
        <p class="note">${this.note}</p>
        <p><button @click=${() => save("counts.csv", csvOf(answers, domain), "text/csv")}>CSV</button></p>` : ""}
    </section>`;
  }
}
