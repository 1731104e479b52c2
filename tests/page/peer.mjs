// Plays the device of the page for a test in Python: cases as JSON on standard input, what it sends on standard output.

import { readFileSync } from "node:fs";
import { hex } from "../../src/semilocal/page/static/device/base.js";
import { readMessage } from "../../src/semilocal/page/static/device/messages.js";
import { readPairTask } from "../../src/semilocal/page/static/device/pair.js";
import { readPlan } from "../../src/semilocal/page/static/device/plan.js";
import { Participant } from "../../src/semilocal/page/static/device/participant.js";
import { readTask } from "../../src/semilocal/page/static/device/task.js";
import { makeUpload } from "../../src/semilocal/page/static/device/upload.js";
import { readServerMessage, receive, unhex } from "./read.mjs";

const OPEN = { max_epsilon: 1e6, min_k: 1, max_delta: 1, min_side: [] };
const { plays, uploads } = JSON.parse(readFileSync(0, "utf8"));

const played = plays.map(({ task, plan, people, rounds }) => {
  const pinned = [readTask(unhex(task)), readPlan(unhex(plan))];
  const devices = people.map(({ point, secret, value }) => new Participant(pinned[0], point, unhex(secret), OPEN, pinned[1], { value }));
  const reports = rounds.map(({ query, closed, slices }) => {
    const asked = readServerMessage(unhex(query));
    const row = devices.map((device) => receive(device, asked));
    const found = readServerMessage(unhex(closed));
    if (found.type === "closed") {
      const rows = new Map(Object.entries(slices).map(([region, data]) => [region, readMessage(unhex(data), "slice")]));
      for (const device of devices) {
        const region = device.wanted(found);
        device.close(found, region ? rows.get(region.join("-")) : null);
      }
    }
    return row.map((report) => (report === null ? null : hex(report)));
  });
  return { reports, ends: devices.map((device) => [device.region?.map(String) ?? null, device.members, device.state.book.length, device.lines.map(String)]) };
});

const uploaded = [];
for (const { pair, point, secret, value } of uploads) uploaded.push(hex(await makeUpload(readPairTask(unhex(pair)), point, unhex(secret), "a token", value)));

process.stdout.write(JSON.stringify({ played, uploaded }));
