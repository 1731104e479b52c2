// Create a campaign: a few numbers, then the promise in words, then the question whether to create it. What the server
// refuses stands beside the field that it is about.

import { html } from "#vendor/lit-html.js";
import { tokenForm } from "#views/admin.js";
import * as api from "#views/api.js";
import { DomainMap } from "#views/domain.js";
import { promiseCard } from "#views/parts.js";

/**
 * @typedef {"nobody" | "two-servers"} Trust
 * @typedef {{name: string, words: string, kind?: "text" | "number", value?: string, help: string, only?: Trust, free?: boolean, whole?: boolean, more?: boolean}} Field
 *   free: may be empty; more: folded away
 */

/** @type {Field[]} */
const FIELDS = [
  { name: "name", words: "name", kind: "text", help: "for people" },
  { name: "bounds", words: "public domain", kind: "text", value: "california", help: "draw it on the map, or a place such as california, or x0,y0,x1,y1" },
  { name: "epsilon", words: "epsilon", value: "1", help: "smaller protects more; the promise says between what" },
  { name: "k", words: "k, the crowd", value: "20", help: "participants in a region when it is drawn", only: "nobody", whole: true },
  { name: "capacity", words: "participants", help: "it begins (two servers: uploads end) when this many have joined; may be empty", free: true, whole: true },
  { name: "peer_key", words: "the helper's signing key", kind: "text", help: "64 hex digits, as its operator told you in person", only: "two-servers" },
  { name: "delta", words: "delta of the crowd", value: "1e-6", help: "chance per participant that the crowd is smaller", only: "nobody", more: true },
  { name: "resolution", words: "shortest side of a region (min_side)", help: "every region holds a cell at least this wide: km on a map; empty for 0.01 km", free: true, only: "nobody", more: true },
  { name: "resolution", words: "narrowest cell", help: "no cell gets narrower: km on a map; empty for the finest", free: true, only: "two-servers", more: true },
  { name: "window", words: "seconds of a round", value: "3600", help: "late reports do not count", only: "nobody", whole: true, more: true },
  { name: "own", words: "people's own value", kind: "text", help: "a number whose mean is asked for beside the place, such as fare; may be empty", free: true, more: true },
  { name: "own_low", words: "its smallest", help: "public: from what the value means, not from the data", free: true, more: true },
  { name: "own_high", words: "its largest", help: "public, too", free: true, more: true },
  { name: "own_epsilon", words: "epsilon of the value", help: "on top of epsilon", free: true, only: "nobody", more: true },
];

export class CreateView {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.domain = new DomainMap(changed, (text) => this.#drawn(text));
    this.error = "";
    this.field = ""; // that the error is about
    /** @type {Trust} */
    this.trust = "nobody";
    this.enrolment = "tokens";
    /** @type {Map<Field, string>} */
    this.typed = new Map(); // also into fields that are not shown now
    /** @type {{form: object, path: string, promise: {plain: string, sentence: string, text: string, trust: string}, warnings: string[]} | null} */
    this.draft = null;
  }

  close() {}

  title() {
    return "New campaign";
  }

  /** A domain was drawn on the map. @param {string} text */
  #drawn(text) {
    const input = /** @type {HTMLInputElement} */ (document.querySelector('.fields [name="bounds"]'));
    input.value = text;
    this.#edited(/** @type {HTMLFormElement} */ (input.form));
  }

  /** @param {HTMLFormElement} form */
  #edited(form) {
    const data = new FormData(form);
    for (const field of this.#fields) this.typed.set(field, String(data.get(field.name) ?? ""));
    this.trust = /** @type {Trust} */ (data.get("trust"));
    this.enrolment = String(data.get("enrolment"));
    this.draft = null;
    this.error = this.field = "";
    this.changed();
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    /** @type {Record<string, unknown>} */
    const body = { enrolment: this.enrolment, trust: this.trust };
    for (const { name, kind } of this.#fields) {
      const value = String(data.get(name) ?? "").trim();
      if (value) body[name] = kind === "text" ? value : Number(value);
    }
    await this.#try(async () => {
      this.draft = await api.json("/drafts", { method: "POST", body, admin: true });
    });
  }

  async #create() {
    if (!this.draft || !confirm("Create this campaign? Its promise and domain cannot be changed afterwards.")) return;
    const { form, path } = this.draft;
    await this.#try(async () => {
      const { task } = await api.json(path, { method: "POST", body: form, admin: true });
      location.hash = `#/campaign/${task}`;
    });
  }

  /** @param {() => Promise<void>} work */
  async #try(work) {
    try {
      await work();
      this.error = this.field = "";
    } catch (error) {
      const { message, field = "", detail } = /** @type {import("#views/api.js").Refusal} */ (error);
      const known = this.#fields.some(({ name }) => name === field) || field === "trust";
      [this.field, this.error] = known ? [field, detail ?? message] : ["", message];
      if (message.startsWith("no valid key")) api.forgetToken();
    }
    this.changed();
    if (this.field) requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(`.fields [name="${this.field}"]`))?.focus());
  }

  get #fields() {
    return FIELDS.filter(({ only }) => !only || only === this.trust);
  }

  /** What the server refused about a field. @param {string} name */
  #refusal(name) {
    return this.field === name ? html`<small class="error" id=${`error-${name}`} role="alert">${this.error}</small>` : "";
  }

  /** @param {Field} field */
  #input(field) {
    const { name, words, kind = "number", help, free = false, whole = false } = field;
    const value = this.typed.get(field) ?? field.value ?? "";
    const wrong = this.field === name;
    return html`<label>${words}
      <input name=${name} type=${kind} min=${whole ? 0 : ""} step=${whole ? 1 : "any"} value=${value} ?required=${!free} autocomplete="off" aria-invalid=${wrong}
        aria-describedby=${`help-${name}${wrong ? ` error-${name}` : ""}`} />
      <small id=${`help-${name}`}>${help}</small>${this.#refusal(name)}</label>`;
  }

  /** Inputs of the fields that are shown, each in its own place: what was typed stays with its field. @param {boolean} more */
  #inputs(more) {
    return FIELDS.filter((field) => Boolean(field.more) === more).map((field) => (this.#fields.includes(field) ? this.#input(field) : ""));
  }

  #form() {
    const [name, bounds, ...others] = this.#inputs(false);
    this.domain.show(this.typed.get(FIELDS[1]) ?? FIELDS[1].value ?? "");
    return html`<form class="fields" @submit=${(/** @type {Event} */ event) => void this.#submit(event)} @input=${(/** @type {Event} */ event) => this.#edited(/** @type {HTMLFormElement} */ (event.currentTarget))}>
      <label class="wide">whom participants trust <select name="trust" aria-invalid=${this.field === "trust"}>
        <option value="nobody">nobody: rounds on this server</option><option value="two-servers">two servers (experimental)</option></select>
        ${this.#refusal("trust")}</label>
      ${name}${bounds}${this.domain.render(this.changed)}${others}
      <label>who may enrol <select name="enrolment"><option value="tokens">holders of a token</option><option value="open">anybody (tests only)</option></select></label>
      <details class="wide" ?open=${FIELDS.some((field) => field.more && field.name === this.field)}><summary>More</summary><div class="fields">${this.#inputs(true)}</div></details>
      <button class="wide">Show the promise</button>
    </form>`;
  }

  /** What devices with default limits would refuse. @param {string[]} warnings */
  #objections(warnings) {
    return warnings.length ? html`<section class="card" role="status"><h2>What devices would object to</h2>${warnings.map((words) => html`<p>${words}</p>`)}</section>` : "";
  }

  /** The promise, once it is made. */
  #beside() {
    const { draft } = this;
    if (!draft) return html`<p class="card quiet">What is promised to participants stands here before anything is created.</p>`;
    return html`${promiseCard(draft.promise)}${this.#objections(draft.warnings)}<p><button @click=${() => void this.#create()}>Create the campaign</button></p>`;
  }

  render() {
    return html`<main class="create" id="main">
      <h1>New campaign</h1>
      ${this.error && !this.field ? html`<p class="error" role="alert">${this.error}</p>` : ""}
      ${!api.hasToken() ? tokenForm(this.changed) : html`<div class="columns">
        ${this.#form()}<div class="facts">${this.#beside()}</div></div>`}
    </main>`;
  }
}
