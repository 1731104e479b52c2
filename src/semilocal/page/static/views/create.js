// Create a campaign: a few numbers, then the promise in words, then the question whether to create it.

import { html } from "#vendor/lit-html.js";
import * as api from "#views/api.js";
import { confirmed, tokenForm } from "#views/admin.js";
import { promiseCard } from "#views/promise.js";

const FIELDS = /** @type {const} */ ([
  ["name", "name", "text", "", "for people"],
  ["bounds", "public domain", "text", "california", "a place such as california, or x0,y0,x1,y1"],
  ["epsilon", "epsilon of one report", "number", "1", "smaller protects more"],
  ["k", "k, the crowd", "number", "50", "participants published in a region"],
  ["delta", "delta of the crowd", "number", "1e-6", "chance per participant that the crowd is smaller"],
  ["capacity", "participants", "number", "", "round 1 opens when so many are enrolled; may be empty"],
  ["window", "seconds of a round", "number", "3600", "late reports do not count"],
]);

export class CreateView {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.error = "";
    /** @type {{form: object, promise: {sentence: string, text: string, trust: string}} | null} */
    this.draft = null;
  }

  close() {}

  title() {
    return "New campaign";
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    /** @type {Record<string, unknown>} */
    const body = { enrolment: data.get("enrolment") };
    for (const [name, , kind] of FIELDS) {
      const value = String(data.get(name) ?? "").trim();
      if (value) body[name] = kind === "number" ? Number(value) : value;
    }
    await this.#try(async () => {
      this.draft = await api.json("/drafts", { method: "POST", body, admin: true });
    });
  }

  async #create() {
    if (!this.draft || !(await confirmed("Create this campaign? Its promise and domain cannot be changed afterwards.", "Create"))) return;
    const { form } = this.draft;
    await this.#try(async () => {
      const { task } = await api.json("/tasks", { method: "POST", body: form, admin: true });
      location.hash = `#/campaign/${task}`;
    });
  }

  /** @param {() => Promise<void>} work */
  async #try(work) {
    try {
      await work();
      this.error = "";
    } catch (error) {
      this.error = /** @type {Error} */ (error).message;
      if (this.error.startsWith("no valid key")) api.setToken("");
    }
    this.changed();
  }

  render() {
    return html`<main class="create" id="main">
      <h1>New campaign</h1>
      ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      ${!api.hasToken() ? tokenForm(this.changed) : html`
        <form class="fields" @submit=${(/** @type {Event} */ event) => void this.#submit(event)} @input=${() => { this.draft = null; this.changed(); }}>
          ${FIELDS.map(([name, words, kind, value, help]) => html`<label>${words}
            <input name=${name} type=${kind} step="any" value=${value} ?required=${name !== "capacity"} autocomplete="off" aria-describedby=${`help-${name}`} />
            <small id=${`help-${name}`}>${help}</small></label>`)}
          <label>who may enrol <select name="enrolment"><option value="tokens">holders of a token</option><option value="open">anybody (tests only)</option></select></label>
          <button>Show the promise</button>
        </form>
        ${this.draft ? html`${promiseCard(this.draft.promise)}<button @click=${() => void this.#create()}>Create the campaign</button>` : ""}`}
    </main>`;
  }
}
