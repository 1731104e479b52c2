// Take part: a device in this browser. Asks for position and consent, runs the device, and tells what was spent and
// revealed. What only a device that takes part needs is fetched when it does. Knows the page and the device.

import { html, render } from "#vendor/lit-html.js";
import { isPairTask, otherOrigin, readPairTask } from "#device/pair.js";
import { readPlan } from "#device/plan.js";
import { pinned, readTask } from "#device/task.js";
import { browserStore, Vault } from "#device/vault.js";
import { toWorld } from "#map/camera.js";
import { PlainMap } from "#map/plain.js";
import * as api from "#views/api.js";
import { JoinForm } from "#views/joinform.js";
import { onceAFrame } from "#views/parts.js";

const CLICK = 5; // pixels that a pointer may slip in a click
const MAP = "Map. Click where you are. Arrow keys move the map under the cross, plus and minus zoom, Enter takes the place under the cross.";

class JoinView {
  /** @param {string} name the task's id @param {() => void} changed @param {() => "light" | "dark"} theme */
  constructor(name, changed, theme) {
    this.name = name;
    this.changed = changed;
    this.theme = theme;
    /** @type {any} */
    this.about = null;
    /** @type {JoinForm | null} */
    this.form = null;
    /** @type {PlainMap | null} */
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
      await this.finish(summarise(/** @type {Vault} */ (this.vault).contents, this.name));
    }
  }

  openMap() {
    const { domain } = this.about;
    const map = new PlainMap(domain, this.theme(), MAP);
    this.map = map;
    if (domain.lower.length === 2) void api.json(`/tasks/${this.name}/coast`).then((ground) => map.setGround(ground)).catch(() => {});
    /** @type {[number, number] | null} */
    let down = null;
    map.top.addEventListener("pointerdown", (event) => (down = [event.offsetX, event.offsetY]));
    map.top.addEventListener("pointerup", (event) => {
      if (down && Math.hypot(event.offsetX - down[0], event.offsetY - down[1]) < CLICK) this.pick(event.offsetX, event.offsetY);
    });
    map.top.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.pick(...map.middle);
    });
  }

  /** @param {number} left @param {number} top */
  pick(left, top) {
    if (!this.map || !this.form || this.running || this.end) return;
    this.form.setPosition(toWorld(this.map.camera, left, top).slice(0, this.form.tree.axes));
  }

  /** Draw the position and the cells around it; at the end its region, and the lines in it that it answered about. */
  edited() {
    const { form, map, end } = this;
    if (form && map) {
      const [x, y = 0.5] = form.position ?? [];
      const dot = form.position && !end ? [{ x0: x, y0: y, x1: x, y1: y }] : [];
      const cells = end ? [] : form.regions.slice(1).map(({ cell }) => {
        const { lower, upper } = form.tree.corners(cell);
        return { x0: lower[0], y0: lower[1] ?? 0, x1: upper[0], y1: upper[1] ?? 1 };
      });
      map.roomForNumber = end ? Infinity : 44; // so that the half inside does not cut it
      map.setMarks([...cells, ...(end?.region && this.shapes ? this.shapes.marksOf(form.tree, end.region, end.cuts) : []), ...dot]);
    }
    this.changed();
  }

  /** @param {import("#device/summary.js").Summary} end */
  async finish(end) {
    this.shapes = await import("#map/cells.js");
    this.end = end;
    this.edited();
  }

  stopping = new AbortController();

  /** @param {number[]} position @param {import("#device/task.js").Policy} policy @param {number | null} [value] the person's own */
  async device(position, policy, value) {
    const form = /** @type {JoinForm} */ (this.form);
    const vault = /** @type {Vault} */ (this.vault);
    const notify = (/** @type {string} */ line) => this.note(line);
    const options = { token: form.token.trim(), notify, allowBucket: form.allowBucket, agreed: form.pinned.plan?.digest, value, words: this.about.participant ?? null };
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
      await this.finish(await (await this.device(position, policy, value)).run());
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
      <h1>Take part${this.about ? html` in ${this.about.name}` : ""}</h1>
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
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => (dark.matches ? "dark" : "light");
const name = /^\/join\/([0-9a-f]{64})$/.exec(location.pathname)?.[1] ?? "";
root.replaceChildren();

const changed = onceAFrame(() => {
  document.title = "Take part – semilocal";
  render(html`<header class="top"><a class="brand" href="/">semilocal</a></header>${view.render()}`, root);
});
const view = new JoinView(name, changed, theme);
dark.addEventListener("change", () => view.map?.setTheme(theme()));
addEventListener("pagehide", () => view.close());
changed();
