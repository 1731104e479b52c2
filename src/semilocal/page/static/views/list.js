// All campaigns of this server. Knows the list that everybody may read.

import { html } from "#vendor/lit-html.js";
import * as api from "#views/api.js";
import { PHASES, count } from "#views/format.js";

/** @typedef {{task: string, name: string, phase: keyof typeof PHASES, enrolled: number, fault: string | null}} Row */

export class ListView {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Row[] | null} */
    this.rows = null;
    this.error = "";
    this.timer = setInterval(() => void this.load(), 5000);
    void this.load();
  }

  async load() {
    try {
      this.rows = await api.json("/tasks");
      this.error = "";
    } catch (error) {
      this.error = /** @type {Error} */ (error).message;
    }
    this.changed();
  }

  close() {
    clearInterval(this.timer);
  }

  title() {
    return "Campaigns";
  }

  render() {
    const { rows } = this;
    return html`<main class="list" id="main">
      <h1>Campaigns</h1>
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      ${rows === null ? html`<p class="quiet">Loading…</p>` : rows.length === 0 ? html`
        <p>There is no campaign yet. <a href="#/new">Create one</a>, or use <code>semilocal campaign create</code>.</p>` : html`
        <ul class="campaigns">${[...rows].reverse().map((row) => html`<li>
          <a href=${`#/campaign/${row.task}`}>
            <span class="name">${row.name}</span>
            <span class=${`phase ${row.phase}`}>${PHASES[row.phase] ?? row.phase}</span>
            <span class="quiet">${count(row.enrolled)} enrolled</span>
            <code>${row.task.slice(0, 12)}</code>
            ${row.fault ? html`<span class="error">${row.fault}</span>` : ""}
          </a></li>`)}</ul>`}
      <p class="quiet">Everything on this page but the administrator's actions is public.</p>
    </main>`;
  }
}
