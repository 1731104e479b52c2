// What needs the admin token: the token itself, starting and cancelling a campaign, tokens for participants, and how
// many have reported in the open round. Every action asks before it is done.

import { html } from "#vendor/lit-html.js";
import * as api from "#views/api.js";
import { isOver } from "#views/campaign.js";
import { people, save } from "#views/parts.js";

let refusal = ""; // of the token that was typed last

/** The field for the token. The server is asked at once, and a wrong token stays where it was typed. @param {() => void} changed */
export function tokenForm(changed) {
  return html`<form class="token" @submit=${async (/** @type {Event} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    refusal = await api.useToken(String(new FormData(form).get("token") ?? "").trim());
    changed();
  }}>
    <label>admin token <input name="token" type="password" required autocomplete="off" aria-invalid=${refusal !== ""} aria-describedby="about-token" /></label>
    <button>Use</button>
    <p class=${refusal ? "error" : "quiet"} id="about-token" role="status">${refusal || "The server printed it at its first start. Kept in this tab until it is closed or reloaded, and sent to this server only."}</p>
  </form>`;
}

/** The administrator's part of a campaign. */
export class Admin {
  /** @param {string} task @param {() => void} changed */
  constructor(task, changed) {
    this.task = task;
    this.changed = changed;
    this.error = "";
    /** @type {string[]} */
    this.tokens = [];
    /** @type {{received: number, expected: number | null, needed: number | null, refused: Record<string, number>} | null} */
    this.progress = null;
    this.timer = setInterval(() => void this.look(), 2000);
  }

  close() {
    clearInterval(this.timer);
  }

  async look() {
    if (!api.hasToken()) return;
    try {
      this.progress = await api.json(`/tasks/${this.task}/progress`, { admin: true });
      this.error = "";
    } catch (error) {
      this.#failed(error);
    }
    this.changed();
  }

  /** @param {unknown} error */
  #failed(error) {
    this.error = /** @type {Error} */ (error).message;
    if (!this.error.startsWith("no valid key")) return;
    api.forgetToken();
    this.progress = null;
  }

  /** @param {string} action @param {string} question */
  async #act(action, question) {
    if (!confirm(question)) return;
    try {
      await api.json(`/tasks/${this.task}/${action}`, { method: "POST", admin: true });
      this.error = "";
    } catch (error) {
      this.#failed(error);
    }
    await this.look();
  }

  /** @param {Event} event */
  async #makeTokens(event) {
    event.preventDefault();
    const number = Number(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("count"));
    if (!confirm(`Make ${people(number, "one-time token")}, shown once?`)) return;
    try {
      this.tokens = (await api.json(`/tasks/${this.task}/tokens`, { method: "POST", admin: true, body: { count: number } })).tokens;
      this.error = "";
    } catch (error) {
      this.#failed(error);
    }
    this.changed();
  }

  /** @param {string} phase @param {string} enrolment @param {boolean} [confirmed] of two servers: by this operator */
  card(phase, enrolment, confirmed = true) {
    const over = isOver(phase);
    const enrolling = phase === "enrolling" || phase === "open";
    return html`<section class="card admin" aria-labelledby="admin-title">
      <h2 id="admin-title">Administrator</h2>
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      ${!api.hasToken() ? html`<details><summary>Start, close, make tokens</summary>${tokenForm(() => void this.look())}</details>` : html`
        <p class="buttons">
          ${confirmed ? "" : html`<button @click=${() => this.#act("confirm", "Confirm this task for your server? Read what is promised first.")}>Confirm</button>`}
          ${phase === "enrolling" ? html`<button @click=${() => this.#act("start", "End enrolment and open round 1?")}>Start</button>` : ""}
          ${phase === "open" ? html`<button @click=${() => this.#act("start", "End uploads and count?")}>End uploads</button>` : ""}
          ${over ? html`<span class="quiet">There is nothing left to do.</span>` : html`
            <button class="danger" @click=${() => this.#act("close", "Cancel this campaign? Closed rounds stay public; it cannot be resumed.")}>Cancel the campaign</button>`}
          <button class="plain" @click=${() => { api.forgetToken(); this.progress = null; this.changed(); }}>Forget the token</button>
        </p>
        ${enrolling && enrolment === "tokens" ? html`<form @submit=${(/** @type {Event} */ event) => void this.#makeTokens(event)}>
          <label>tokens <input name="count" type="number" min="1" max="10000" value="10" required /></label><button>Make</button></form>` : ""}
        ${this.tokens.length ? html`<p class="buttons"><span>${people(this.tokens.length, "token")}, shown once.</span>
          <button @click=${() => save("tokens.txt", `${this.tokens.join("\n")}\n`)}>Save</button>
          <button class="plain" @click=${() => { this.tokens = []; this.changed(); }}>Done</button></p>` : ""}`}
    </section>`;
  }
}
