// Take part: a device in this browser. Asks for position and consent, runs the device, and tells what was spent and
// revealed. What only a device that takes part needs is fetched when it does. Knows the page and the device.

import { html, render } from "#vendor/lit-html.js";
import { isPairTask, otherOrigin, readPairTask } from "#device/pair.js";
import { readPlan } from "#device/plan.js";
import { pinned, readTask } from "#device/task.js";
import { browserStore, Vault } from "#device/vault.js";
import { MapView } from "#map/view.js";
import * as api from "#views/api.js";
import { JoinForm } from "#views/joinform.js";
import { onceAFrame } from "#views/parts.js";

const MAP = "Map. Click where you are. Arrow keys move the map under the cross, plus and minus zoom, Enter takes the place under the cross.";

class JoinView {
  /** @param {string} name the task's id @param {() => void} changed */
  constructor(name, changed) {
    this.name = name;
    this.changed = changed;
    /** @type {any} */
    this.about = null;
    /** @type {JoinForm | null} */
    this.form = null;
    /** @type {MapView | null} */
    this.map = null;
    /** @type {Vault | null} */
    this.vault = null;
    /** @type {import("#device/summary.js").Summary | null} */
    this.end = null;
    /** @type {string[]} */
    this.log = [];
    this.running = false;
    this.error = "";
    this.elsewhere = ""; // where uploads are taken, if not here
    void this.attempt(() => this.open());
  }

  /** @param {() => Promise<void>} act */
  async attempt(act) {
    try {
      await act();
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.changed();
  }

  async open() {
    if (!isSecureContext) return;
    this.about = await api.json(`/tasks/${this.name}/overview`);
    const leader = this.about.operators?.[0].origin;
    if (leader && leader !== location.origin) {
      this.elsewhere = `${leader}/join/${this.name}`;
      return;
    }
    this.form = new JoinForm(await this.task(), this.about, () => this.edited());
    if (this.form.tree.axes <= 2) this.openMap();
    this.vault = await Vault.open(await browserStore());
    await this.resume();
  }

  /** What the campaign is, as every operator shows it. @returns {Promise<import("#views/joinform.js").Pinned>} */
  async task() {
    const data = pinned(await api.bytes(`/tasks/${this.name}`), this.name);
    if (!isPairTask(data)) return { pair: null, task: readTask(data), plan: readPlan(await api.bytes(`/tasks/${this.name}/plan`)) };
    const pair = readPairTask(data);
    pinned(await api.bytes(`${otherOrigin(pair, location.origin)}/tasks/${this.name}`), this.name);
    return { task: null, plan: null, pair };
  }

  /** Go on where an earlier visit stopped, or show how it ended. */
  async resume() {
    const { memberships, uploads } = /** @type {Vault} */ (this.vault).contents;
    const entry = memberships[this.name];
    if (entry && !entry.over) {
      this.note("This browser takes part already; it goes on with the same position.");
      await this.run(entry.position, entry.policy, entry.value);
    } else if (entry || uploads[this.name]?.receipt.length) {
      const { summarise } = await import("#device/summary.js");
      this.finish(summarise(/** @type {Vault} */ (this.vault).contents, this.name));
    }
  }

  openMap() {
    const { domain } = this.about;
    const map = new MapView(domain, { words: MAP, onClick: (x, y) => this.pick([x, y]) });
    this.map = map;
    map.numbered = false;
    if (domain.lower.length === 2) void api.json(`/tasks/${this.name}/coast`).then((ground) => map.setGround(ground)).catch(() => {});
  }

  /** @param {number[]} position */
  pick(position) {
    if (this.form && !this.running && !this.end) this.form.setPosition(position.slice(0, this.form.tree.axes));
  }

  /** Draw the position; at the end the cells of its region, apart where it answered about a line. */
  edited() {
    const { form, map, end } = this;
    if (form && map) {
      const [x, y = 0.5] = form.position ?? [];
      const edges = end?.region ? [end.region[0], ...end.cuts, end.region[1]].sort((a, b) => (a < b ? -1 : 1)) : [];
      const cells = edges.slice(1).flatMap((edge, i) => form.tree.intervalCells(edges[i], edge)).map((cell) => form.tree.corners(cell));
      const boxes = cells.map(({ lower, upper }) => ({ x0: lower[0], y0: lower[1] ?? 0, x1: upper[0], y1: upper[1] ?? 1 }));
      map.setMarks(end || !form.position ? boxes : [{ x0: x, y0: y, x1: x, y1: y }]);
    }
    this.changed();
  }

  /** @param {import("#device/summary.js").Summary} end */
  finish(end) {
    this.end = end;
    this.edited();
  }

  stopping = new AbortController();

  /** @param {number[]} position @param {import("#device/task.js").Policy} policy @param {number | null} [value] the person's own */
  async device(position, policy, value) {
    const form = /** @type {JoinForm} */ (this.form);
    const vault = /** @type {Vault} */ (this.vault);
    const notify = (/** @type {string} */ line) => this.note(line);
    const options = { token: form.token.trim(), notify, agreed: form.pinned.plan?.digest, value, words: this.about.participant ?? null };
    const { Channel } = await import("#device/channel.js");
    const connect = (/** @type {string} */ origin) => new Channel(origin, { signal: this.stopping.signal, notify });
    if (form.pinned.pair) {
      const { Uploader } = await import("#device/upload.js");
      return new Uploader(connect, location.origin, this.name, vault, position, policy, options);
    }
    const { Agent } = await import("#device/agent.js");
    return new Agent(connect(location.origin), this.name, vault, position, policy, options);
  }

  /** @param {number[]} position @param {import("#device/task.js").Policy} [pinned] of an earlier visit @param {number | null} [value] the person's own */
  async run(position, pinned, value) {
    this.running = true;
    this.error = "";
    this.changed();
    try {
      const vault = /** @type {Vault} */ (this.vault);
      const policy = pinned ?? /** @type {JoinForm} */ (this.form).policy;
      if (!pinned) await vault.save({ cap: policy.max_epsilon });
      this.finish(await (await this.device(position, policy, value)).run());
    } finally {
      this.running = false;
    }
  }

  /** @param {string} line */
  note(line) {
    if (this.log[this.log.length - 1] !== line) this.log = [...this.log.slice(-20), line];
    this.changed();
  }

  close() {
    this.stopping.abort();
    this.vault?.close();
  }

  render() {
    const { form } = this;
    return html`<main class="join" id="main" tabindex="-1">
      <h1>Take part${this.about ? html`: ${this.about.name}` : ""}</h1>
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      ${!isSecureContext ? html`<section class="card"><p>Browsers let a page keep a secret and draw good random numbers on https or on localhost only, and this address is neither.
        Ask the campaign's operator for its https address, or take part with <code>semilocal join</code>.</p></section>` : ""}
      ${this.elsewhere ? html`<section class="card"><p>Uploads are taken by the other operator: <a href=${this.elsewhere}>${this.elsewhere}</a>.</p></section>` : ""}
      <div class="columns"><div class="picture">${this.map?.element ?? ""}</div>
      <div class="facts">
        ${this.end ? html`<section class="card promise end" aria-labelledby="end"><h2 id="end">How it went</h2>${this.end.lines.map((line) => html`<p>${line}</p>`)}</section>`
          : this.running ? html`<section class="card running" aria-labelledby="runs"><h2 id="runs">Taking part</h2>
            <p>Keep this page open until the campaign ends. If you close it, come back in time: the device goes on with the same answers.</p></section>`
          : form && this.vault ? form.render(() => void this.attempt(() => this.run(form.position ?? [], undefined, form.value))) : ""}
        <section class="card" aria-live="polite" ?hidden=${!this.log.length || this.end !== null}>${this.log.map((line) => html`<p>${line}</p>`)}</section>
        <p class="quiet"><a href=${`/tasks/${this.name}/statement`}>The whole promise</a> · <a href=${`/#/campaign/${this.name}`}>The campaign</a></p>
      </div></div></main>`;
  }
}

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const name = /^\/join\/([0-9a-f]{64})$/.exec(location.pathname)?.[1] ?? "";
root.replaceChildren();

const changed = onceAFrame(() => {
  document.title = "Take part – semilocal";
  render(html`<header class="top"><a class="brand" href="/">semilocal</a></header>${view.render()}`, root);
});
const view = new JoinView(name, changed);
addEventListener("pagehide", () => view.close());
changed();
