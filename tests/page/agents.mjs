// Runs devices of the page against a real server for a test in Python: JSON on standard input, how it went on standard
// output. Each device is stopped once after its first round and goes on from what its store holds.

import { readFileSync } from "node:fs";
import { Agent } from "../../src/semilocal/page/static/device/agent.js";
import { hex } from "../../src/semilocal/page/static/device/base.js";
import { Channel } from "../../src/semilocal/page/static/device/channel.js";
import { policyOf } from "../../src/semilocal/page/static/device/task.js";
import { Uploader } from "../../src/semilocal/page/static/device/upload.js";
import { Vault } from "../../src/semilocal/page/static/device/vault.js";
import { unhex } from "./read.mjs";
import { memoryStore } from "./store.mjs";

const { server, task, kind, devices, policy } = JSON.parse(readFileSync(0, "utf8"));
const { participant: words } = await (await fetch(`${server}/tasks/${task}/overview`)).json();

async function run({ position, secret, token }) {
  const store = memoryStore();
  const sent = [];
  const part = async (crash) => {
    const vault = await Vault.open(store, unhex(secret));
    const watched = async (url, request) => {
      if (request.body) sent.push([request.method, new URL(url).pathname, hex(request.body)]);
      const answer = await fetch(url, request);
      if (crash && request.body && /\/(reports|uploads)\//.test(url)) end.abort(new Crash()); // the answer is lost with the program
      end.signal.throwIfAborted();
      return answer;
    };
    const end = new AbortController();
    const connect = (origin) => new Channel(origin, { fetch: watched, signal: end.signal });
    const limits = policyOf(policy);
    const agent = kind === "pair"
      ? new Uploader(connect, server, task, vault, position, limits, { token, words })
      : new Agent(connect(server), task, vault, position, limits, { token, words });
    return { summary: await agent.run(), contents: vault.contents };
  };
  await part(true).catch((error) => {
    if (!(error instanceof Crash)) throw error;
  });
  const { summary, contents } = await part(false);
  const entry = contents.memberships[task];
  return {
    outcome: summary.outcome, reason: summary.reason, lines: summary.lines, region: summary.region?.map(String) ?? null,
    members: summary.members, answered: summary.answered, epsilon: summary.epsilon, checkpoint: summary.checkpoint, sent,
    reported: entry?.reported ?? [], state: entry ? plain(entry.state) : null,
    closings: entry ? entry.closings.map(hex) : [], released: entry ? entry.state.values.map(({ index }) => index) : [],
  };
}

/** What a device keeps, for JSON. */
const plain = ({ region, round, question, book, values, stopped }) => ({
  region: region?.map(String) ?? null, round, question: hex(question), stopped,
  book: book.map((booked) => [booked.round, booked.cuts.map(String)]), values: values.map(({ index, question: asked }) => [index, hex(asked)]),
});

class Crash extends Error {}

process.stdout.write(JSON.stringify(await Promise.all(devices.map(run))));
