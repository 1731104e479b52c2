// The agent of a device: follows one task over HTTP, from enrolment to the last value, and the seals of a task that pins a
// key. Before it enrols, the vault has the worst case reserved; before it sends a report, the participant's state and the
// loss. After a crash, or if it enrols late, it reads the public log from round 1, must find the closings that it had
// followed, and goes on: it sends the same bytes again. In most rounds it has nothing to say and sends nothing. Every
// decision is the participant's. Knows the order of things. Knows no storage and no page.

/** @import { Channel, Status } from "#device/channel.js" */
/** @import { Policy } from "#device/task.js" */
/** @import { Membership, Vault } from "#device/vault.js" */
import { sha256 } from "#vendor/noble-hashes.js";
import { BudgetExceeded, concat, equal, hex, InvalidInput, ServerViolation, unitsToNumber, utf8 } from "#device/base.js";
import { MSGPACK } from "#device/channel.js";
import { isSigned } from "#device/crypto.js";
import { accessKey } from "#device/keys.js";
import { checkpointBytes, readMessage } from "#device/messages.js";
import { Participant } from "#device/participant.js";
import { readPlan } from "#device/plan.js";
import { Member, summarise } from "#device/summary.js";
import { pinned, readTask } from "#device/task.js";
import { exactSum, reserve, settle, spend, without } from "#device/vault.js";

/** @typedef {{round: number, head: Uint8Array, root: Uint8Array}} Chain the last round whose seal was good, 0 before the first */

/**
 * The chain up to a closed round; null if the server does not show a seal yet.
 * @param {Channel} channel @param {import("#device/task.js").Task} task @param {Chain} chain @param {number} number
 * @returns {Promise<Chain | null>}
 */
export async function followSeals(channel, task, chain, number) {
  while (chain.round < number) {
    const following = chain.round + 1;
    const seal = await channel.message(`/tasks/${hex(task.id)}/rounds/${following}/seal`, (data) => readMessage(data, "seal"));
    if (seal === null) return null;
    const point = seal.checkpoint;
    if (!seal.signature.length) throw new ServerViolation("not-signed", "the task pins a key, but the checkpoint is not signed");
    if (!isSigned(seal.signature, task.server_key, concat(utf8("semilocal/1/checkpoint"), seal.head))) {
      throw new ServerViolation("bad-signature", "the checkpoint is not signed with the key that the task pins");
    }
    if (!equal(point.task, task.id) || point.round !== following) throw new ServerViolation("wrong-seal", `the seal of round ${following} belongs to another round or task`);
    const head = sha256(concat(utf8("semilocal/1/chain"), chain.round ? chain.head : task.id, checkpointBytes(point)));
    if (!equal(head, seal.head)) throw new ServerViolation("wrong-chain", `the seal of round ${following} does not continue the one before`);
    chain = { round: following, head, root: point.root };
  }
  return chain;
}

/**
 * @typedef {object} Options
 * @property {number | null} [value] the owner's own, if the campaign asks for one
 * @property {string} [token] to enrol with; empty where enrolment is open
 * @property {number} [spread] answers are sent up to this many milliseconds late, by jitter, so that their time tells nothing about the device
 * @property {Record<string, string> | null} [words] the parts of the promise to a participant
 * @property {Uint8Array} [agreed] digest of the plan that the owner agreed to; another one is refused
 * @property {(line: string) => void} [notify] a sentence for the owner now and then
 */

const LATE = "round-closed";
const ENDED = "campaign-ended";
const NOTHING = new Uint8Array(0);
const ADVICE = /** @type {Record<string, string>} */ ({
  "bad-token": "the server does not know this token; ask the campaign's administrator for one",
  "token-used": "the token has enrolled someone else; ask the campaign's administrator for another",
  "pseudonym-taken": "this participant is enrolled with another key; use the device it enrolled with",
  "enrolment-closed": "enrolment is over: the partition is finished, or the campaign is full",
});

const isOver = (/** @type {Status} */ status) => status.phase === "finished" || status.phase === "cancelled";

/** Fetch what a device pins. @param {Channel} channel @param {string} name */
async function fetchTask(channel, name) {
  const task = await channel.message(`/tasks/${name}`, (data) => readTask(pinned(data, name)));
  const plan = await channel.message(`/tasks/${name}/plan`, readPlan);
  if (task === null || plan === null) throw new ServerViolation("malformed", "the task and its plan must exist from the start");
  return { task, plan };
}

export class Agent extends Member {
  /** @param {Channel} channel @param {string} name the task's id @param {Vault} vault open @param {number[]} position @param {Policy} policy what the owner allows; fixed when the device joins @param {Options} [options] */
  constructor(channel, name, vault, position, policy, options = {}) {
    super(name, vault, position, policy, options);
    this.channel = channel;
    this.agreed = options.agreed;
    /** @type {Uint8Array[]} */
    this.closings = []; // SHA-256, of the log as it is read now
    this.late = false; // whether the last report came too late
  }

  /** Follow the task to its end, or to a refusal, and say how it went. Running a new agent later is safe at any moment. */
  async run() {
    try {
      await this.join();
      if (!this.entry.over) {
        await this.enrol();
        if (await this.partition()) {
          await this.save({ members: this.device.members });
          if (!this.device.state.stopped && (await this.values())) await this.pinCheckpoint();
        }
        await this.vault.save({ memberships: this.with({ over: true }), ledger: settle(this.vault.contents, this.name) });
      }
    } catch (error) {
      if (!(error instanceof ServerViolation)) throw error;
      return this.refuse(error);
    }
    return this.summary();
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
      this.vault.checkKey(this.channel.server, task.server_key);
      await this.pin(task, plan);
    } else if (this.position.join() !== this.entry.position.join() || this.value !== (this.entry.value ?? null)) {
      throw new InvalidInput("this device joined the task with another position or value; both are fixed for a task, because two different answers could be compared. Give the same ones");
    }
    const { entry } = this;
    const { ledger, secret } = this.vault.contents;
    const policy = { ...entry.policy, max_epsilon: unitsToNumber(ledger[this.name].reserved) }; // what was reserved when it joined, whatever the limits are now
    this.participant = new Participant(readTask(entry.task), entry.position, secret, policy, readPlan(entry.plan), { value: entry.value, state: entry.state });
  }

  /** @param {import("#device/task.js").Task} task @param {import("#device/plan.js").Plan} plan */
  async pin(task, plan) {
    const { contents } = this.vault;
    const participant = new Participant(task, this.position, contents.secret, this.policy, plan, { value: this.value }); // checks all of them
    const answers = /** @type {number[]} */ (Array(task.answers).fill(task.randomizer.epsilon));
    const worst = exactSum([...answers, ...plan.asked.map((index) => participant.valueEpsilon(index))]);
    /** @type {Membership} */
    const entry = {
      server: this.channel.server, task: task.bytes, plan: plan.bytes, position: this.position, value: this.value, policy: this.policy, state: participant.state,
      token: this.token, enrolled: false, reported: [], members: null, words: this.words, closings: [],
      seals: { round: 0, head: NOTHING, root: NOTHING }, checkpoint: NOTHING, over: false, refusal: null,
    };
    const ledger = reserve(contents, this.name, worst);
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

  /** Follow the log until there is nothing more to say; false if the campaign was cancelled. */
  async partition() {
    const { device } = this;
    while (!device.partitioned && !device.state.stopped) {
      const { round } = device;
      const asks = (/** @type {Status} */ status) => isOver(status) || status.phase === "releasing" || status.closed >= round || (status.phase === "collecting" && status.round >= round);
      const status = await this.channel.until(this.name, asks, round - 2); // -1 waits for the end of enrolment
      if (status.phase === "cancelled") return false;
      if (status.closed < round && status.phase !== "collecting") throw new ServerViolation("ended-early", `the task ended without round ${round}`);
      const query = await this.channel.message(`${this.rounds(round)}/query`, (data) => readMessage(data, "query"));
      if (query === null) continue;
      // In a closed round it is too late for a report: it would be seen and not counted.
      if (!(await this.deliver(round, await this.answer(query, status.closed < round)))) return false;
      if (device.state.stopped) break;
      if (!(await this.isClosed(round))) return false;
      await this.follow(round);
    }
    return true;
  }

  /** The report to a query; null if there is nothing to say, or the owner's limits say no for good. @param {import("#device/messages.js").Query} query @param {boolean} isOpen */
  async answer(query, isOpen) {
    const { device } = this;
    let report = null;
    try {
      if (isOpen) report = device.answer(query);
      else device.observe(query);
    } catch (error) {
      if (!device.state.stopped) throw error;
    }
    if (device.state.stopped) {
      await this.save({});
      this.notify(`Your limits end your part here, and you keep your region: ${device.state.stopped}`);
    }
    return report;
  }

  /** Read the closing of a round and the reports of its own region. @param {number} round */
  async follow(round) {
    const { device } = this;
    const closed = await this.fetch(round, "closed", "closed");
    await this.keep(round, closed.bytes);
    const region = device.wanted(closed);
    const reports = region && (await this.fetch(round, `slices/${region.join("-")}`, "slice"));
    device.close(closed, reports);
    if (device.state.stopped) {
      await this.save({});
      this.notify(`You keep the region you have: ${device.state.stopped}`);
    }
  }

  /** Wait for the end of a round; false if the campaign was cancelled before. @param {number} round */
  async isClosed(round) {
    const status = await this.channel.until(this.name, (seen) => isOver(seen) || seen.closed >= round, round - 1);
    if (status.closed < round && status.phase === "finished") throw new ServerViolation("ended-early", `the task ended without closing round ${round}`);
    return status.closed >= round;
  }

  /** Answer every value that the pinned plan asks for, each once; false if the campaign was cancelled. */
  async values() {
    const { device } = this;
    for (let round = device.round; round < device.round + device.plan.asked.length; round++) {
      const number = round;
      const status = await this.channel.until(this.name, (now) => isOver(now) || now.closed >= number || (now.phase === "releasing" && now.round >= number), number - 1);
      if (isOver(status) && status.closed < round) return false;
      const query = await this.fetch(round, "query", "value-query");
      if (query.round !== round) throw new ServerViolation("skipped-round", `round ${round} holds the query of round ${query.round}`);
      const report = status.closed < round ? device.value(query) : null;
      if (!(await this.deliver(round, report)) || !(await this.isClosed(round))) return false;
      const closed = await this.fetch(round, "closed", "value-closed");
      await this.keep(round, closed.bytes);
      if (report !== null && !this.late) device.checkCounted(closed, readMessage(report, "value-report").answer);
    }
    return true;
  }

  /**
   * A message of a round that the server says is there.
   * @template {"closed" | "slice" | "value-query" | "value-closed"} K @param {number} round @param {string} name @param {K} kind
   */
  async fetch(round, name, kind) {
    for (;;) {
      const found = await this.channel.message(`${this.rounds(round)}/${name}`, (data) => readMessage(data, kind));
      if (found !== null) return found; // the channel waits between two tries
    }
  }

  /** Compare a closing with the one that was followed before a restart, and its seal with the chain. @param {number} round @param {Uint8Array} data */
  async keep(round, data) {
    const digest = sha256(data);
    const known = this.entry.closings[round - 1];
    if (known && !equal(known, digest)) throw new ServerViolation("changed-closing", `round ${round} was closed before in another way`);
    this.closings = [...this.closings.slice(0, round - 1), digest];
    const { task } = this.device;
    while (task.server_key.length && round > this.entry.seals.round) {
      const seals = await followSeals(this.channel, task, this.entry.seals, round);
      if (seals !== null) await this.save({ seals });
    }
  }

  /** Save, and send a report until the server has it for good; false if the campaign was cancelled. @param {number} round @param {Uint8Array | null} report */
  async deliver(round, report) {
    this.late = false;
    if (report === null) return true;
    await this.save(this.entry.reported.includes(round) ? {} : { reported: [...this.entry.reported, round] });
    await this.channel.pause(this.spread * this.channel.jitter());
    const answer = await this.channel.send("PUT", `${this.rounds(round)}/reports/${hex(this.device.pseudonym)}`, {
      content: report, headers: { "Content-Type": MSGPACK, Authorization: `Bearer ${hex(this.key())}` },
    });
    if (answer.status === 200 || answer.status === 201) return true;
    if (answer.token !== LATE && answer.token !== ENDED) throw new ServerViolation(answer.token, `the server refused the report for round ${round}: ${answer.detail}`);
    this.late = true; // spent all the same: the server has seen it; but it is not in the log
    await this.save({ reported: this.entry.reported.filter((before) => before !== round) });
    return answer.token !== ENDED;
  }

  /** Pin the transcript's root: the last sealed one, or that of the round in which the region was fixed. */
  async pinCheckpoint() {
    if (this.entry.seals.round) {
      await this.save({ checkpoint: this.entry.seals.root });
      return;
    }
    const round = this.closings.length;
    const point = await this.channel.message(`${this.rounds(round)}/checkpoint`, (data) => readMessage(data, "checkpoint"));
    if (point === null) return;
    if (!equal(point.task, this.device.task.id) || point.round !== round) throw new ServerViolation("other-checkpoint", `the checkpoint of round ${round} belongs to another task or round`);
    await this.save({ checkpoint: point.root });
  }

  /** Store the state and what it cost; only then may something be sent. @param {Partial<Membership>} changes */
  async save(changes) {
    const { state, spentParts } = this.device;
    const closings = this.closings.length > this.entry.closings.length ? this.closings : this.entry.closings;
    let ledger;
    try {
      ledger = spend(this.vault.contents, this.name, exactSum(spentParts));
    } catch (error) {
      if (error instanceof BudgetExceeded) throw new ServerViolation("over-budget", error.message);
      throw error;
    }
    await this.vault.save({ memberships: this.with({ state, closings, ...changes }), ledger });
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
