// Plays the device of the page for a test in Python: cases as JSON on standard input, what it sends on standard output.

import { readFileSync } from "node:fs";
import { hex, unhex } from "../../src/semilocal/page/static/device/bytes.js";
import { readServerMessage } from "../../src/semilocal/page/static/device/messages.js";
import { readPairTask } from "../../src/semilocal/page/static/device/pair.js";
import { readPlan } from "../../src/semilocal/page/static/device/plan.js";
import { Participant } from "../../src/semilocal/page/static/device/participant.js";
import { readTask } from "../../src/semilocal/page/static/device/task.js";
import { makeUpload } from "../../src/semilocal/page/static/device/upload.js";

const OPEN = { max_epsilon: 1e6, max_exposure: null, min_k: 1, max_delta: 1, allow_no_crowd: true, allow_simulation: false, min_side: [] };
const { plays, uploads } = JSON.parse(readFileSync(0, "utf8"));

const played = plays.map(({ task, plan, people, messages }) => {
  const pinned = [readTask(unhex(task)), readPlan(unhex(plan))];
  const devices = people.map(({ point, secret, value }) => new Participant(pinned[0], point, unhex(secret), OPEN, pinned[1], { value }));
  const reports = messages.map((data) => devices.map((device) => device.receive(readServerMessage(unhex(data)))));
  return {
    reports: reports.map((row) => row.map((report) => (report === null ? null : hex(report)))),
    ends: devices.map(({ region, state }) => [region === null ? null : String(region), state.crowd, state.moves, state.trims]),
  };
});

const uploaded = [];
for (const { pair, point, secret, value } of uploads) uploaded.push(hex(await makeUpload(readPairTask(unhex(pair)), point, unhex(secret), "a token", value)));

process.stdout.write(JSON.stringify({ played, uploaded }));
