// What a device keeps: its secret, what its tasks may cost and have cost, and where it is in each. It is one value that a
// store replaces in one step, so a crash leaves the state before or after, never a mix. Losses are exact: integers of units
// of 2^-1074. Knows no requests.

import { BudgetExceeded, check, equal, exactUnits, hex, InvalidInput, unitsToNumber } from "#device/base.js";
import { checkSecret, SECRET_BYTES } from "#device/keys.js";

const WORDS = "epsilon (delta = 0, each as its promise says)";

/** The exact sum of losses. @param {number[]} parts */
export const exactSum = (parts) => parts.reduce((sum, part) => sum + exactUnits(part), 0n);

/** What may still be reserved; null for no cap. @param {Contents} contents */
function leftOf({ cap, ledger }) {
  if (cap === null) return null;
  return Object.values(ledger).reduce((left, line) => left - (line.settled ? line.spent : line.reserved), exactUnits(cap));
}

/** The ledger with the worst case of a task. @param {Contents} contents @param {string} task @param {bigint} worst */
export function reserve(contents, task, worst) {
  check(!(task in contents.ledger), "this task is in the ledger; a task is joined only once");
  const left = leftOf(contents);
  if (left !== null && worst > left) throw new BudgetExceeded(`this task may cost ${unitsToNumber(worst)} of ${WORDS}; your cap on all tasks leaves ${unitsToNumber(left)}`);
  return { ...contents.ledger, [task]: { reserved: worst, spent: 0n, settled: false } };
}

/** The ledger with what a task has cost so far; it may fall, because a region that is cut has fewer answers inside. @param {Contents} contents @param {string} task @param {bigint} total */
export function spend(contents, task, total) {
  const line = contents.ledger[task];
  check(line && !line.settled, "nothing is reserved for this task, or it is settled");
  if (total > line.reserved) throw new BudgetExceeded(`epsilon ${unitsToNumber(total)} is more than was reserved when the task was joined; nothing more is sent`);
  return { ...contents.ledger, [task]: { ...line, spent: total } };
}

/** The ledger with a task that is over: what was reserved and not spent is free again. @param {Contents} contents @param {string} task */
export function settle(contents, task) {
  return { ...contents.ledger, [task]: { ...contents.ledger[task], settled: true } };
}

/** A record without one entry. @template T @param {Record<string, T>} record @param {string} name */
export const without = (record, name) => Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));

/** @typedef {{reserved: bigint, spent: bigint, settled: boolean}} Line what one task may cost and has cost */
/**
 * @typedef {object} Membership a device in one task
 * @property {string} server
 * @property {Uint8Array} task its bytes, pinned
 * @property {Uint8Array} plan its bytes, pinned
 * @property {number[]} position fixed for the task; it never leaves
 * @property {number | null} [value] the owner's own, fixed for the task; it leaves through noise only
 * @property {import("#device/participant.js").State} state
 * @property {import("#device/task.js").Policy} policy what the owner allowed when joining
 * @property {string} token to enrol with; empty once enrolled
 * @property {boolean} enrolled
 * @property {number[]} reported rounds in which it sent something
 * @property {number | null} members of its region, at the end of the partition
 * @property {Record<string, string> | null} words parts of the promise to a participant
 * @property {Uint8Array[]} closings SHA-256 of every closing that was followed
 * @property {import("#device/agent.js").Chain} seals
 * @property {Uint8Array} checkpoint the transcript's root, pinned at the end
 * @property {boolean} over
 * @property {{token: string, reason: string} | null} refusal
 */
/**
 * @typedef {object} PairUpload the one upload for a task of two servers; the position is not in it
 * @property {Uint8Array} task its bytes, pinned
 * @property {Uint8Array} digest SHA-256 of the upload
 * @property {Uint8Array} upload what is sent, until it is acknowledged; then empty
 * @property {Uint8Array} receipt signed by the leader; empty until it is there
 * @property {{token: string, reason: string} | null} refusal
 * @property {Record<string, string> | null} [words] parts of the promise to its owner
 */
/**
 * @typedef {object} Contents
 * @property {number} version
 * @property {Uint8Array} secret
 * @property {number | null} cap on all losses; null for none
 * @property {Record<string, Line>} ledger by task id
 * @property {Record<string, Membership>} memberships by task id
 * @property {Record<string, PairUpload>} uploads by task id
 * @property {Record<string, string[]>} keys signing keys (hex) that were pinned, by address
 */
/** @typedef {{load: () => Promise<any>, save: (contents: any) => Promise<void>, close: () => void}} Store */

const VERSION = 2;

/**
 * The browser's own database, used by one page at a time: two programs must not use one secret.
 * @param {string} [name] @returns {Promise<Store>}
 */
export async function browserStore(name = "semilocal") {
  const release = await lock(name);
  const database = await /** @type {Promise<IDBDatabase>} */ (new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("vault");
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  }));
  return {
    load: () => new Promise((resolve, reject) => {
      const request = database.transaction("vault").objectStore("vault").get("contents");
      request.onsuccess = () => resolve(request.result ?? null);
      request.onerror = () => reject(request.error);
    }),
    save: (contents) => new Promise((resolve, reject) => {
      const transaction = database.transaction("vault", "readwrite", { durability: "strict" });
      transaction.objectStore("vault").put(contents, "contents");
      transaction.oncomplete = () => resolve();
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    }),
    close: () => {
      database.close();
      release();
    },
  };
}

/** Hold the vault's lock; refused if another page has it. @param {string} name @returns {Promise<() => void>} */
function lock(name) {
  return new Promise((resolve, reject) => {
    void navigator.locks.request(`vault ${name}`, { ifAvailable: true }, (held) => {
      if (held === null) {
        reject(new InvalidInput("this device is open in another tab or window of this browser; use that one, or close it"));
        return undefined;
      }
      return new Promise((done) => resolve(() => done(undefined)));
    });
  });
}

export class Vault {
  /** @param {Store} store @param {Contents} contents */
  constructor(store, contents) {
    this.store = store;
    this.contents = contents;
  }

  /** Open what a store holds, or begin with a fresh secret. @param {Store} store @param {Uint8Array} [secret] for tests */
  static async open(store, secret = crypto.getRandomValues(new Uint8Array(SECRET_BYTES))) {
    const found = /** @type {Contents | null} */ (await store.load());
    if (found) {
      check(found.version === VERSION, "this browser keeps a device of an earlier version; delete this site's data to begin with a new one");
      checkSecret(found.secret);
      return new Vault(store, found);
    }
    checkSecret(secret);
    const vault = new Vault(store, { version: VERSION, secret, cap: null, ledger: {}, memberships: {}, uploads: {}, keys: {} });
    await vault.save({});
    return vault;
  }

  /** Replace parts of the contents in one step; when this returns, it is stored. @param {Partial<Contents>} changes */
  async save(changes) {
    const contents = { ...this.contents, ...changes };
    check(equal(contents.secret, this.contents.secret), "a vault keeps one secret");
    await this.store.save(contents);
    this.contents = contents;
  }

  /** Refuse another signing key at an address that this vault knows. @param {string} address @param {Uint8Array} key empty if nothing is signed */
  checkKey(address, key) {
    const known = (this.contents.keys[address] ?? []).filter((one) => one !== "");
    if (!known.length || known.includes(hex(key))) return;
    const now = key.length ? `signs with another key (${hex(key).slice(0, 16)}…)` : "does not sign this task, as it did";
    throw new InvalidInput(`${address} ${now}; before it was ${known.map((one) => `${one.slice(0, 16)}…`).join(" or ")}. If its operator told you so, allow the new key`);
  }

  /** The known keys with one more. @param {...[string, Uint8Array]} rows address and key */
  withKeys(...rows) {
    const keys = { ...this.contents.keys };
    for (const [address, key] of rows) keys[address] = [...new Set([...(keys[address] ?? []), hex(key)])];
    return keys;
  }

  close() {
    this.store.close();
  }
}
