// The agent of a device: follows one task over HTTP, from enrolment to the last value. Before it enrols, the vault has the
// worst case reserved; before it sends an answer, the question and the loss; before it goes on, the closing and the new
// state. So after a crash between any two steps it goes on where it was and sends the same bytes again. Every decision is
// the participant's. Knows the order of things. Knows no storage and no page.

import { BudgetExceeded, InvalidInput, ServerViolation } from "#device/errors.js";
import { equal, exactUnits, hex, unitsToNumber, utf8 } from "#device/bytes.js";
import { MSGPACK, SPREAD } from "#device/channel.js";
import { accessKey } from "#device/keys.js";
import { readMessage, readServerMessage } from "#device/messages.js";
import { Participant } from "#device/participant.js";
import { pinned } from "#device/pinned.js";
import { followSeals } from "#device/seals.js";
import { sha256 } from "#device/sha256.js";
import { summarise } from "#device/summary.js";
import { epsilonOfTask, readTask } from "#device/task.js";
import { exactSum, leftOn, reserve, settle, spend, without } from "#device/ledger.js";
import { readPlan } from "#device/plan.js";

/** @typedef {import("#device/channel.js").Channel} Channel */
/** @typedef {import("#device/channel.js").Status} Status */
/** @typedef {import("#device/vault.js").Vault} Vault */
/** @typedef {import("#device/vault.js").Membership} Membership */
/** @typedef {import("#device/policy.js").Policy} Policy */
/**
 * @typedef {object} Options
 * @property {number | null} [value] the owner's own, if the campaign asks for one
 * @property {string} [token] to enrol with; empty where enrolment is open
 * @property {number} [spread] answers are sent up to this many milliseconds late, by jitter: how long a device computes tells whether it was moved
 * @property {Uint8Array} [agreed] digest of the plan that the owner agreed to; another one is refused
 * @property {boolean} [newKey] whether the owner allows a signing key that the vault does not know
 * @property {(line: string) => void} [notify] a sentence for the owner now and then
 */

const OUT = ["round-closed", "missed-round"];
const ENDED = "campaign-ended";
const NOTHING = new Uint8Array(0);
const ADVICE = /** @type {Record<string, string>} */ ({
  "bad-token": "the server does not know this token; ask the campaign's administrator for one",
  "token-used": "the token has enrolled someone else; ask the campaign's administrator for another",
  "pseudonym-taken": "this participant is enrolled with another key; use the device it enrolled with",
  "enrolment-closed": "enrolment is over; nobody may join after the first round has begun",
});

const isOver = (/** @type {Status} */ status) => status.phase === "finished" || status.phase === "cancelled";

/** Fetch what a device pins. @param {Channel} channel @param {string} name */
async function fetchTask(channel, name) {
  const task = await channel.message(`/tasks/${name}`, (data) => readTask(pinned(data, name)));
  const plan = await channel.message(`/tasks/${name}/plan`, readPlan);
  if (task === null || plan === null) throw new ServerViolation("malformed", "the task and its plan must exist from the start");
  return { task, plan };
}

export class Agent {
  /** @param {Channel} channel @param {string} name the task's id @param {Vault} vault open @param {number[]} position @param {Policy} policy what the owner allows; fixed when the device joins @param {Options} [options] */
  constructor(channel, name, vault, position, policy, options = {}) {
    this.channel = channel;
    this.name = name;
    this.vault = vault;
    this.position = position.map(Number);
    this.policy = policy;
    this.value = options.value ?? null;
    this.token = options.token ?? "";
    this.spread = options.spread ?? SPREAD;
    this.agreed = options.agreed;
    this.newKey = options.newKey ?? false;
    this.notify = options.notify ?? (() => {});
    /** @type {Set<number>} */
    this.delivered = new Set(); // rounds whose answer the server has acknowledged
  }

  /** Follow the task to its end, or to a refusal, and say how it went. Running a new agent later is safe at any moment. */
  async run() {
    try {
      await this.join();
      if (!this.entry.over) {
        await this.enrol();
        if ((await this.partition()) === "finished") {
          await this.values();
          await this.pinCheckpoint();
        }
        await this.vault.save({ memberships: this.with({ over: true }), ledger: settle(this.vault.contents, this.name) });
      }
    } catch (error) {
      if (!(error instanceof ServerViolation)) throw error;
      return this.refuse(error);
    }
    return this.summary();
  }

  summary() {
    return summarise(this.vault.contents, this.name);
  }

  /** @returns {Membership} */
  get entry() {
    return this.vault.contents.memberships[this.name];
  }

  /** Pin task and plan, check them against the policy, reserve the worst case. */
  async join() {
    if (!this.entry) {
      const { task, plan } = await fetchTask(this.channel, this.name);
      if (this.agreed && !equal(plan.digest, this.agreed)) throw new ServerViolation("other-plan", "the server shows another plan of values than the one you agreed to");
      if (!this.newKey) this.vault.checkKey(this.channel.server, task.server_key);
      await this.pin(task, plan);
    } else if (this.position.join() !== this.entry.position.join() || this.value !== (this.entry.value ?? null)) {
      throw new InvalidInput("this device joined the task with another position or value; both are fixed for a task, because two different answers could be compared. Give the same ones");
    }
    const { entry } = this;
    const { ledger, secret } = this.vault.contents;
    const { epsilon, exposure } = ledger[this.name]; // what was reserved when it joined, whatever the limits are now
    const policy = { ...entry.policy, max_epsilon: unitsToNumber(epsilon.reserved), max_exposure: unitsToNumber(exposure.reserved) };
    this.participant = new Participant(readTask(entry.task), entry.position, secret, policy, readPlan(entry.plan), { value: entry.value, kept: entry });
  }

  /** @param {import("#device/task.js").Task} task @param {import("#device/plan.js").Plan} plan */
  async pin(task, plan) {
    const { contents } = this.vault;
    const participant = new Participant(task, this.position, contents.secret, this.policy, plan, { value: this.value }); // checks all of them
    const epsilon = epsilonOfTask(task);
    const values = plan.asked.map((index) => participant.valueEpsilon(index));
    const worst = exactSum([...Array(1 + task.max_trims).fill(epsilon), ...values]);
    const limits = [exactSum([...Array(task.max_rounds).fill(epsilon), ...values])];
    if (this.policy.max_exposure !== null) limits.push(exactUnits(this.policy.max_exposure));
    const left = leftOn(contents, "exposure");
    if (left !== null) limits.push(left);
    const exposure = limits.reduce((a, b) => (a < b ? a : b));
    if (exposure < exactUnits(epsilon)) {
      throw new BudgetExceeded(`one answer exposes epsilon = ${epsilon} (positions in the same cell, delta = 0) to a server that lies; your cap leaves less`);
    }
    const answers = exposure / exactUnits(epsilon);
    if (exposure < limits[0]) this.notify(`Your cap on exposure ends your part after ${answers} ${answers === 1n ? "answer" : "answers"}, perhaps without a region.`);
    /** @type {Membership} */
    const entry = {
      server: this.channel.server, task: task.bytes, plan: plan.bytes, position: this.position, value: this.value, policy: this.policy, state: participant.state,
      released: participant.released, token: this.token, enrolled: false, closings: [],
      seals: { round: 0, head: NOTHING, root: NOTHING }, checkpoint: NOTHING, over: false, refusal: null,
    };
    const ledger = reserve(contents, this.name, { epsilon: worst, exposure });
    await this.vault.save({ memberships: { ...contents.memberships, [this.name]: entry }, ledger, keys: this.vault.withKeys([this.channel.server, task.server_key]) });
  }

  async enrol() {
    if (this.entry.enrolled) return;
    const token = this.token || this.entry.token;
    const verifier = hex(sha256(this.key()));
    const content = utf8(JSON.stringify(token ? { token, verifier } : { verifier }));
    const path = `/tasks/${this.name}/participants/${hex(this.device.pseudonym)}`;
    const answer = await this.channel.send("PUT", path, { content, headers: { "Content-Type": "application/json" } });
    if (answer.status !== 200 && answer.status !== 201) {
      const { memberships, ledger } = this.vault.contents; // nothing was answered: the reservation is taken back
      await this.vault.save({ memberships: without(memberships, this.name), ledger: without(ledger, this.name) });
      throw new ServerViolation(answer.token, ADVICE[answer.token] ?? `the server refused the enrolment: ${answer.detail}`);
    }
    await this.save({ enrolled: true, token: "" });
    this.notify("Enrolled; waiting for the first round.");
  }

  get device() {
    if (!this.participant) throw new TypeError("join first");
    return this.participant;
  }

  /** @returns {Promise<"finished" | "lost" | "cancelled">} */
  async partition() {
    const { device } = this;
    while (device.state.phase === "waiting" || device.state.phase === "answered") {
      const { phase, round } = device.state;
      const asks = (/** @type {Status} */ status) => isOver(status) || status.phase === "releasing" || status.closed >= round || (status.phase === "collecting" && status.round >= round);
      const status = await this.channel.until(this.name, asks, round - 2); // -1 waits for the end of enrolment
      if (status.phase === "cancelled") return "cancelled";
      if (phase === "waiting" && status.closed >= round) {
        await this.follow(round); // too late for an answer: it would be seen and not counted
      } else if (phase === "waiting" && status.phase !== "collecting") {
        throw new ServerViolation("ended-early", `the task ended, but your cell goes on to round ${round}`);
      } else if (phase === "waiting" || !this.delivered.has(round)) {
        if ((await this.answer(round)) === ENDED) return "cancelled";
      } else {
        const later = await this.channel.until(this.name, (seen) => isOver(seen) || seen.closed >= round, round - 1);
        if (later.closed >= round) await this.follow(round);
        else if (later.phase === "finished") throw new ServerViolation("ended-early", `the task ended without closing round ${round}`);
      }
    }
    if (device.state.phase === "lost") this.notify("A round closed without your answer: you are out.");
    return device.state.phase === "lost" ? "lost" : "finished";
  }

  /** Answer the query of a round; the question and the loss are stored first. @param {number} round */
  async answer(round) {
    const query = await this.channel.message(`${this.rounds(round)}/query`, (data) => readMessage(data, "query"));
    if (query === null) return "";
    const report = this.device.receive(query);
    if (report === null) return "";
    await this.save({});
    const token = await this.deliver(round, report);
    if (OUT.includes(token)) {
      this.device.state = { ...this.device.state, phase: "lost" }; // spent all the same: the server has seen it
      await this.save({});
    }
    return token;
  }

  /** Take the closing of a round. @param {number} round */
  async follow(round) {
    const found = await this.channel.message(`${this.rounds(round)}/closed`, (data) => ({ closed: readServerMessage(data), digest: sha256(data) }));
    if (found === null) return;
    const { task } = this.device;
    const seals = task.server_key.length ? await followSeals(this.channel, task, this.entry.seals, round) : this.entry.seals;
    if (seals === null) return;
    if (found.closed.type !== "closed" && found.closed.type !== "value-closed") throw new ServerViolation("malformed", `the closing of round ${round} is a query`);
    this.device.receive(found.closed);
    await this.save({ closings: [...this.entry.closings, found.digest], seals });
  }

  /** Answer every value that the pinned plan asks for, each once. */
  async values() {
    const { device } = this;
    const { asked } = device.plan;
    let last = 0;
    while (asked.length && last < (device.released.first || 1) + asked.length - 1) {
      const seen = last;
      const status = await this.channel.until(this.name, (now) => isOver(now) || (now.phase === "releasing" && now.round > seen));
      if (isOver(status)) return;
      const { round } = status;
      const query = await this.channel.message(`${this.rounds(round)}/query`, (data) => readMessage(data, "value-query"));
      if (query === null) continue;
      if (query.round !== round) throw new ServerViolation("skipped-round", `round ${round} holds the query of round ${query.round}`);
      const report = device.receive(query);
      if (report === null) return;
      await this.save({});
      const token = await this.deliver(round, report);
      if (token === ENDED) return;
      last = round;
      if (OUT.includes(token)) continue;
      const closed = await this.channel.until(this.name, (now) => isOver(now) || now.closed >= round, round - 1);
      if (closed.closed >= round) await this.follow(round);
    }
  }

  /** Send a report until the server has it for good, or says why not: the token, or nothing. @param {number} round @param {Uint8Array} report */
  async deliver(round, report) {
    if (this.delivered.has(round)) return "";
    await this.channel.pause(this.spread * this.channel.jitter());
    const answer = await this.channel.send("PUT", `${this.rounds(round)}/reports/${hex(this.device.pseudonym)}`, {
      content: report, headers: { "Content-Type": MSGPACK, Authorization: `Bearer ${hex(this.key())}` },
    });
    if (answer.status === 200 || answer.status === 201) this.delivered.add(round);
    else if (!OUT.includes(answer.token) && answer.token !== ENDED) throw new ServerViolation(answer.token, `the server refused the answer to round ${round}: ${answer.detail}`);
    return answer.token;
  }

  /** Pin the transcript's root: the last sealed one, or that of the round in which the region was fixed. */
  async pinCheckpoint() {
    if (this.entry.seals.round) {
      await this.save({ checkpoint: this.entry.seals.root });
      return;
    }
    const { round } = this.device.state;
    const point = await this.channel.message(`${this.rounds(round)}/checkpoint`, (data) => readMessage(data, "checkpoint"));
    if (point === null) return;
    if (!equal(point.task, this.device.task.id) || point.round !== round) throw new ServerViolation("other-checkpoint", `the checkpoint of round ${round} belongs to another task or round`);
    await this.save({ checkpoint: point.root });
  }

  /** Store the state and what it cost; only then may something be sent. @param {Partial<Membership>} changes */
  async save(changes) {
    const { state, released, spentParts, exposureParts } = this.device;
    let ledger;
    try {
      ledger = spend(this.vault.contents, this.name, { epsilon: exactSum(spentParts), exposure: exactSum(exposureParts) });
    } catch (error) {
      if (error instanceof BudgetExceeded) throw new ServerViolation("over-exposure", error.message);
      throw error;
    }
    await this.vault.save({ memberships: this.with({ state, released, ...changes }), ledger });
  }

  /** All memberships, this one with changes. @param {Partial<Membership>} changes */
  with(changes) {
    return { ...this.vault.contents.memberships, [this.name]: { ...this.entry, ...changes } };
  }

  /** @param {ServerViolation} error */
  async refuse(error) {
    const refusal = { token: error.token, reason: error.reason };
    this.notify(`Refused: ${error.reason} [${error.token}]`);
    if (!this.entry) return summarise(this.vault.contents, this.name, refusal);
    // Not settled: against a server that breaks the protocol the whole reservation stays booked.
    await this.vault.save({ memberships: this.with({ over: true, refusal }) });
    return this.summary();
  }

  key() {
    return accessKey(this.vault.contents.secret, this.device.task.id);
  }

  /** @param {number} number */
  rounds(number) {
    return `/tasks/${this.name}/rounds/${number}`;
  }
}
