// Requests to one server, tried until they are answered with the same bytes each time (spec/http.md, section 2). Only what
// the server itself says is an answer; everything else comes from something on the way, and is tried again. When it
// retries and how long it waits depends on the server's answers and on jitter alone. Knows no secrets and no positions.

import { sha256 } from "#vendor/noble-hashes.js";
import { check, hex, InvalidInput, ServerViolation, Unreachable } from "#device/base.js";

/** @typedef {{status: number, body: Uint8Array, token: string, detail: string, wait: number}} Answer status 0: not reached */
/** @typedef {{task: string, phase: string, round: number, closed: number, poll_after: number}} Status */
/**
 * @typedef {object} Options
 * @property {typeof fetch} [fetch]
 * @property {(milliseconds: number) => Promise<void>} [sleep]
 * @property {() => number} [now] milliseconds
 * @property {() => number} [jitter] in [0, 1); must know nothing of positions
 * @property {number} [patience] milliseconds without a usable answer after which it gives up
 * @property {AbortSignal} [signal] ends what is in flight
 * @property {(line: string) => void} [notify]
 */

export const MSGPACK = "application/msgpack";
const JSON_TYPE = "application/json";
export const SPREAD = 1000; // milliseconds that an answer is late at most, as with semilocal join
const PROBLEM = "application/problem+json";
const TRY_AGAIN = [408, 425, 429, 500, 502, 503, 504];
const NOT_YET = ["not-open-yet", "not-closed-yet"];
const [FIRST, LONGEST, LONGEST_WAIT, LONGEST_POLL, TIMEOUT] = [250, 60_000, 300_000, 25, 60_000];
const NOTHING = new Uint8Array(0);

const drawn = () => crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;

export class Channel {
  /** @param {string} server without a path of a task @param {Options} [options] */
  constructor(server, options = {}) {
    this.server = server.replace(/\/$/, "");
    this.fetch = options.fetch ?? ((...given) => fetch(...given));
    this.sleep = options.sleep ?? ((milliseconds) => new Promise((resolve) => void setTimeout(resolve, milliseconds)));
    this.now = options.now ?? (() => performance.now());
    this.jitter = options.jitter ?? drawn;
    this.patience = options.patience ?? 3_600_000;
    this.signal = options.signal;
    this.notify = options.notify ?? (() => {});
  }

  /**
   * Send a request until it is answered. `accepts` says whether a good answer's body is one; without it, content must be
   * acknowledged by its digest.
   * @param {string} method @param {string} path
   * @param {{content?: Uint8Array, headers?: Record<string, string>, type?: string, accepts?: (body: Uint8Array) => unknown}} [request]
   * @returns {Promise<Answer>}
   */
  async send(method, path, { content, headers = {}, type = JSON_TYPE, accepts } = {}) {
    const began = this.now();
    for (let failures = 0; ; failures++) {
      const answer = await this.once(method, path, content, headers, type, accepts ?? (content ? acknowledges(content) : () => {}));
      if (answer.status && !TRY_AGAIN.includes(answer.status) && !(content && NOT_YET.includes(answer.token))) return answer;
      const pause = answer.wait + Math.min(LONGEST, FIRST * 2 ** Math.min(failures, 60)) * this.jitter();
      if (this.now() + pause - began > this.patience) {
        throw new Unreachable(`${this.server} gave no usable answer (${answer.token}); come back later, this device knows where to continue`);
      }
      if (!answer.status || answer.status >= 500) this.notify(`The server does not answer (${answer.token}); trying again.`);
      await this.pause(pause);
    }
  }

  /** @param {number} milliseconds */
  async pause(milliseconds) {
    await this.sleep(milliseconds);
    this.signal?.throwIfAborted();
  }

  /**
   * @param {string} method @param {string} path @param {Uint8Array | undefined} content @param {Record<string, string>} headers
   * @param {string} type @param {(body: Uint8Array) => unknown} accepts @returns {Promise<Answer>}
   */
  async once(method, path, content, headers, type, accepts) {
    const limit = AbortSignal.timeout(TIMEOUT);
    let response, body;
    try {
      response = await this.fetch(this.server + path, {
        method, headers, body: content && new Uint8Array(content), redirect: "error", credentials: "omit", referrerPolicy: "no-referrer",
        signal: this.signal ? AbortSignal.any([this.signal, limit]) : limit,
      });
      body = new Uint8Array(await response.arrayBuffer());
    } catch (error) {
      this.signal?.throwIfAborted();
      return { status: 0, body: NOTHING, token: String(error instanceof Error ? error.message : error), detail: "", wait: 0 };
    }
    const { status } = response;
    const media = (response.headers.get("content-type") ?? "").split(";")[0].trim();
    const after = response.headers.get("retry-after") ?? "";
    const wait = /^[0-9]+$/.test(after) ? Math.min(Number(after) * 1000, LONGEST_WAIT) : 0;
    const problem = status >= 400 && media === PROBLEM ? readProblem(body, status) : null;
    if (problem) return { status, body: NOTHING, wait, ...problem };
    if ((status === 200 || status === 201) && media === type) {
      try {
        accepts(body);
        return { status, body, token: "", detail: "", wait: 0 };
      } catch (error) {
        if (!(error instanceof InvalidInput || error instanceof SyntaxError)) throw error;
      }
    }
    return { status: 0, body: NOTHING, token: `status ${status} with ${media || "no media type"}, which is not an answer of this server`, detail: "", wait };
  }

  /**
   * A public message that never changes; null if it does not exist yet.
   * @template T @param {string} path @param {(data: Uint8Array) => T} read @returns {Promise<T | null>}
   */
  async message(path, read) {
    const answer = await this.send("GET", path, { type: MSGPACK });
    if (NOT_YET.includes(answer.token)) {
      await this.pause(answer.wait + FIRST * this.jitter());
      return null;
    }
    if (answer.status !== 200) throw new ServerViolation(answer.token, answer.detail || `GET ${path} failed`);
    try {
      return read(answer.body);
    } catch (error) {
      if (error instanceof InvalidInput) throw new ServerViolation("malformed", `${path}: ${error.message}`);
      throw error;
    }
  }

  /** Where a task is; with `after`, answered as soon as more rounds than that are closed. @param {string} task @param {number} [after] @returns {Promise<Status>} */
  async status(task, after) {
    const path = `/tasks/${task}/state${after === undefined ? "" : `?after=${after}&wait=${LONGEST_POLL}`}`;
    const answer = await this.send("GET", path, { accepts: readStatus });
    if (answer.status !== 200) throw new ServerViolation(answer.token, answer.detail || `GET ${path} failed`);
    const status = readStatus(answer.body);
    if (status.task !== task) throw new ServerViolation("other-task", "the server sent the state of another task");
    return status;
  }

  /**
   * Ask until the server says so; `after` undefined waits for whatever closes next.
   * @param {string} task @param {(status: Status) => boolean} done @param {number} [after] @returns {Promise<Status>}
   */
  async until(task, done, after) {
    let status = await this.status(task);
    while (!done(status)) {
      const began = this.now();
      const next = await this.status(task, after ?? status.closed);
      if (!done(next) && this.now() - began < 1000) {
        const seconds = next.closed > status.closed ? 0.1 : Math.min(Math.max(next.poll_after, 0.1), LONGEST_WAIT / 1000);
        await this.pause(1000 * seconds * (1 + 0.5 * this.jitter()));
      }
      status = next;
    }
    return status;
  }
}

/** @param {Uint8Array} body */
export const readJson = (body) => JSON.parse(new TextDecoder("utf-8", { fatal: false }).decode(body));

/** @param {Uint8Array} body @returns {Status} */
function readStatus(body) {
  const status = readJson(body);
  const whole = (/** @type {unknown} */ value) => Number.isSafeInteger(value);
  check(status && typeof status.task === "string" && typeof status.phase === "string" && whole(status.round) && whole(status.closed) && typeof status.poll_after === "number", "not the state of a task");
  return status;
}

/** @param {Uint8Array} body @param {number} status */
function readProblem(body, status) {
  try {
    const { type, token, status: stated, detail } = readJson(body);
    const ours = token && type === `urn:semilocal:problem:${token}` && stated === status;
    return ours ? { token: String(token), detail: String(detail ?? "") } : null;
  } catch {
    return null;
  }
}

/** Refuse an answer that is for other content. @param {Uint8Array} content */
const acknowledges = (content) => (/** @type {Uint8Array} */ body) => check(readJson(body)?.digest === hex(sha256(content)), "the digest of something else");
