// What is different about a task of two servers: both operators, uploads instead of rounds, one map at the end.
// Knows words. Knows no server.

import { html } from "#vendor/lit-html.js";
import { Timeline } from "#map/cells.js";
import { Admin } from "#views/admin.js";
import * as api from "#views/api.js";
import { Ask } from "#views/ask.js";
import { MapPanel } from "#views/panel.js";
import { count, duration, PHASES, promiseCard } from "#views/parts.js";

/**
 * @typedef {{phase: string, received: number, accepted: number | null, refused: number, waits_for: string | null,
 *   level: string | null, progress: number | null, deadline: number | null, now: number, fault: string | null}} PairState
 */

/** Whether nothing will change any more. @param {string} phase */
export function isOver(phase) {
  return ["finished", "cancelled", "done"].includes(phase);
}

/** @param {PairState} state @param {number} now in the server's seconds */
export function pairStatus(state, now) {
  const open = state.phase === "open";
  return html`<section class="card status" aria-labelledby="status-title">
    <h2 id="status-title">Where it stands</h2>
    <dl>
      <dt>uploads</dt><dd><strong>${count(state.received)}</strong></dd>
      ${state.accepted !== null ? html`<dt>taken into account</dt><dd><strong>${count(state.accepted)}</strong></dd>` : ""}
      ${state.refused ? html`<dt>refused</dt><dd>${count(state.refused)} <small>the helper could not read them</small></dd>` : ""}
      ${open && state.deadline !== null ? html`<dt>time left</dt><dd>${duration(state.deadline - now)}</dd>` : ""}
      ${state.phase === "levels" && state.progress !== null ? html`<dt>this level</dt><dd><progress max="1" value=${state.progress} aria-label="progress of this level"></progress></dd>` : ""}
      ${state.waits_for && !isOver(state.phase) ? html`<dt>waits for</dt><dd>${state.waits_for}</dd>` : ""}
    </dl>
    ${state.fault ? html`<p class="error">${state.fault}</p>` : ""}
  </section>`;
}

/** @param {{operators: {role: string, name: string, origin: string, key: string}[], notes: string[], role: string}} about */
export function operatorsCard(about) {
  return html`<section class="card operators" aria-labelledby="operators-title">
    <h2 id="operators-title">Two operators</h2>
    ${about.notes.map((note) => html`<p class="public">${note}</p>`)}
    <dl>${about.operators.map((one) => html`<dt>${one.role}${one.role === about.role ? " (this server)" : ""}</dt>
      <dd><strong>${one.name}</strong><br /><small>${one.origin}<br />key ${one.key.slice(0, 16)}…</small></dd>`)}</dl>
  </section>`;
}

/**
 * @typedef {{phase: keyof typeof PHASES, round: number, closed: number, enrolled: number, deadline: number | null, now: number, fault: string | null}} State
 */

const AT_ONCE = 8; // requests for rounds
const LOOK = 1000; // milliseconds between two looks at where it stands
const AGAIN = 3000; // milliseconds until a server that does not answer is asked again

export class CampaignView {
  /** @param {string} task @param {() => void} changed */
  constructor(task, changed) {
    this.task = task;
    this.changed = changed;
    /** @type {any} */
    this.about = null;
    /** @type {State | null} */
    this.state = null;
    /** @type {any} */
    this.results = null;
    this.error = "";
    this.lost = false;
    this.loading = false;
    this.offset = 0;
    this.admin = new Admin(task, changed);
    this.clock = setInterval(changed, 1000);
    void this.#open();
  }

  async #open() {
    try {
      this.about = await api.json(`/tasks/${this.task}/overview`);
    } catch (error) {
      const { message, detail } = /** @type {import("#views/api.js").Refusal} */ (error);
      this.error = detail ? message : `${message}; trying again`;
      if (!detail && !this.closed) setTimeout(() => void this.#open(), AGAIN);
      this.changed();
      return;
    }
    if (this.closed) return;
    this.error = "";
    const { domain } = this.about;
    /** @type {Ask} */
    this.ask = new Ask(this.task, domain, () => {
      this.panel?.map.setMarks(this.ask?.answers.map((one) => one.area) ?? []);
      this.changed();
    });
    if (domain.lower.length <= 2) {
      this.panel = new MapPanel(domain, this.changed, (area) => void this.ask?.ask(area));
      if (domain.lower.length === 2) void api.json(`/tasks/${this.task}/coast`).then((ground) => this.panel?.map.setGround(ground)).catch(() => {});
    }
    this.timeline = this.panel?.timeline ?? new Timeline(domain);
    void this.#watch();
    this.changed();
  }

  /** Ask where it stands, again and again until it is over. */
  async #watch() {
    for (let over = false; !over && !this.closed;) {
      try {
        const state = await api.json(`/tasks/${this.task}/state`);
        // The map of two servers is round 1, and comes at the end.
        this.state = this.#pair ? { ...state, round: 1, closed: state.phase === "done" ? 1 : 0, enrolled: state.received } : state;
        this.offset = state.now - Date.now() / 1000;
        this.lost = false;
        over = isOver(state.phase);
        void this.#follow();
      } catch {
        this.lost = true;
      }
      this.changed();
      if (!over) await new Promise((done) => setTimeout(done, LOOK));
    }
  }

  /** Fetch the rounds that have closed since. */
  async #follow() {
    if (this.loading || !this.timeline || !this.state) return;
    this.loading = true;
    try {
      while (this.timeline.rounds.length < this.state.closed) {
        const first = this.timeline.rounds.length + 1;
        const numbers = Array.from({ length: Math.min(AT_ONCE, this.state.closed - first + 1) }, (_, place) => first + place);
        const documents = await Promise.all(numbers.map((number) => api.json(`/tasks/${this.task}/rounds/${number}/cells`)));
        if (this.closed) return;
        for (const document of documents) this.timeline.add(document);
        this.panel?.follow();
      }
      if (this.#pair) this.results ??= this.timeline.rounds[0];
      else if (this.state.phase === "finished") this.results ??= await api.json(`/tasks/${this.task}/results`);
      this.error = "";
    } catch (error) {
      this.error = /** @type {Error} */ (error).message;
    } finally {
      this.loading = false;
      this.changed();
    }
  }

  close() {
    this.closed = true;
    clearInterval(this.clock);
    this.admin.close();
  }

  title() {
    return this.about?.name ?? "Campaign";
  }

  get #pair() {
    return this.about.trust === "two-servers";
  }

  get #ready() {
    return ["finished", "releasing", "done"].includes(this.state?.phase ?? "");
  }

  render() {
    const { about, state } = this;
    if (!about) return html`<main id="main"><h1>Campaign</h1><p class=${this.error ? "error" : "quiet"} role="status">${this.error || "Loading…"}</p>
      ${this.error ? html`<p><a href="#/">All campaigns of this server</a></p>` : ""}</main>`;
    return html`<main class="campaign" id="main">
      <header class="title">
        <h1>${about.name}</h1>
        ${state ? html`<span class=${`phase ${state.phase}`}>${PHASES[state.phase] ?? state.phase}</span>` : ""}
        ${state && ["enrolling", "collecting", "open"].includes(state.phase) ? html`<a class="button" href=${`/join/${this.task}`}>Take part</a>` : ""}
        ${this.lost && !isOver(state?.phase ?? "") ? html`<span class="error" role="status">connection lost, trying again</span>` : ""}
      </header>
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      <div class="columns">
        <div class="picture">${this.panel ? this.panel.render(this.#ready, !this.#pair) : html`<p class="card">${about.domain.lower.length} dimensions have no map; the numbers are on the right.</p>`}</div>
        <div class="facts">
          ${!state ? "" : this.#pair ? pairStatus(/** @type {any} */ (state), Date.now() / 1000 + this.offset) : this.#status(state)}
          ${this.#pair ? operatorsCard(about) : ""}
          ${promiseCard(this.results?.privacy ?? about.promise, about.public)}
          ${this.ask?.card(this.#ready, Boolean(this.panel?.map.asking))}
          ${state ? this.admin.card(state.phase, about.enrolment, /** @type {any} */ (state).confirmed) : ""}
          ${this.#files(state)}
        </div>
      </div>
    </main>`;
  }

  /** @param {State} state */
  #status(state) {
    const { progress } = this.admin;
    const left = state.deadline === null ? null : state.deadline - (Date.now() / 1000 + this.offset);
    const open = state.phase === "collecting" || state.phase === "releasing";
    const latest = this.timeline?.rounds.at(-1);
    const expected = latest ? (latest.expected ?? state.enrolled) : null;
    return html`<section class="card status" aria-labelledby="status-title">
      <h2 id="status-title">Where it stands</h2>
      <dl>
        <dt>enrolled</dt><dd><strong>${count(state.enrolled)}</strong>${this.about.capacity ? html` <small>of ${count(this.about.capacity)}</small>` : ""}</dd>
        ${open ? html`<dt>open round</dt><dd><strong>${state.round}</strong></dd>` : html`<dt>closed rounds</dt><dd><strong>${state.closed}</strong></dd>`}
        ${left !== null && (open || state.phase === "enrolling") ? html`<dt>time left</dt><dd>${duration(left)}</dd>` : ""}
        ${open && progress ? html`<dt>received now</dt><dd><strong>${count(progress.received)}</strong> <small>of ${count(progress.expected)}, ${count(Math.max(0, (progress.expected ?? 0) - progress.received))} missing</small></dd>` : ""}
        ${progress && Object.keys(progress.refused).length ? html`<dt>refused</dt><dd>${Object.entries(progress.refused).map(([token, number]) => html`<div>${count(number)} <small>${token.replaceAll("-", " ")}</small></div>`)}</dd>` : ""}
        ${latest ? html`<dt>last closed round</dt><dd><strong>${count(latest.received)}</strong> <small>of ${count(expected)} answered, ${count(Math.max(0, (expected ?? 0) - (latest.received ?? 0)))} missing</small></dd>` : ""}
        ${this.panel && this.timeline?.last ? html`<dt>regions shown</dt><dd>${count(this.panel.layer.frame.size)}</dd>` : ""}
      </dl>
      ${state.fault ? html`<p class="error">${state.fault}</p>` : ""}
      ${open && !progress ? html`<p class="quiet">How many have answered the open round is not public: it would tell when reports come in.</p>` : ""}
    </section>`;
  }

  /** What a finished campaign has to download, and its means. @param {State | null} state */
  #files(state) {
    if (!["done", "finished"].includes(state?.phase ?? "")) return "";
    const link = (/** @type {string} */ route, /** @type {string} */ word, /** @type {string} */ name) => html`<a class="button" href=${`/tasks/${this.task}/${route}`} download=${name}>${word}</a>`;
    const means = (this.results?.releases ?? []).filter((/** @type {any} */ one) => one.kind === "mean" && one.mean !== null);
    return html`<section class="card results"><h2>Results</h2>
      ${means.map((/** @type {any} */ one) => html`<p>mean of ${one.function}: <strong>${one.mean.toPrecision(5)}</strong>
        <small>${one.interval.map((/** @type {number} */ end) => end.toPrecision(5)).join(" to ")}, 95 %; epsilon = ${one.epsilon}, delta = 0 between ${one.adjacency}</small></p>`)}
      <p class="buttons">${this.#pair ? link("transcript", "Transcript", "transcript.slt") : link("results", "JSON", "results.json")}
        ${this.about.domain.lower.length === 2 ? html`${link("regions.geojson", "GeoJSON", "regions.geojson")} ${link("regions.parquet", "GeoParquet", "regions.parquet")}` : ""}
        ${link("statement", "Statement", "statement.txt")}</p></section>`;
  }
}
