// The page: all campaigns of this server, which view the address asks for, and when to draw it. Knows no campaign.

import { html, render } from "#vendor/lit-html.js";
import * as api from "#views/api.js";
import { CampaignView } from "#views/campaign.js";
import { CreateView } from "#views/create.js";
import { count, onceAFrame, PHASES } from "#views/parts.js";

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
    const { rows, error } = this;
    return html`<main class="list" id="main">
      <h1>Campaigns</h1>
      ${error ? html`<p class="error" role="alert">${error}; trying again</p>` : ""}
      ${!rows ? (error ? "" : html`<p class="quiet" role="status">Loading…</p>`) : !rows.length ? html`
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

const NOWHERE = {
  close() {},
  title: () => "No such page",
  render: () => html`<main id="main"><h1>There is no such page</h1><p><a href="#/">All campaigns of this server</a></p></main>`,
};

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
root.replaceChildren(); // the word that stood there while this was loading
/** @type {{render: () => unknown, close: () => void, title: () => string}} */
let view;

const changed = onceAFrame(() => {
  document.title = `${view.title()} – semilocal`;
  render(html`
    <a class="skip" href="#main" @click=${(/** @type {Event} */ event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>Skip to the content</a>
    <header class="top"><a class="brand" href="#/">semilocal</a>
      <nav aria-label="Pages"><a href="#/">Campaigns</a><a href="#/new">New</a></nav></header>
    ${view.render()}`, root);
  document.querySelector("main")?.setAttribute("tabindex", "-1");
});

function open() {
  view?.close();
  const task = /^#\/campaign\/([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (task) view = new CampaignView(task, changed);
  else if (location.hash === "#/new") view = new CreateView(changed);
  else view = ["", "#/"].includes(location.hash) ? new ListView(changed) : NOWHERE;
  changed();
}

addEventListener("hashchange", open);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed); // legends are pictures
open();
