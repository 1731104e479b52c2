// Bytes as the vector files write them, and messages whose kind a test does not know beforehand.

import { readMessage } from "../../src/semilocal/page/static/device/messages.js";
import { unpack } from "../../src/semilocal/page/static/device/wire.js";

export function unhex(text) {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new Error(`not pairs of hex digits: ${text.slice(0, 40)}`);
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export const readServerMessage = (data) => readMessage(data, unpack(data)[0]);

/** The report of a device to a query of either kind. */
export const receive = (device, query) => (query.type === "value-query" ? device.value(query) : device.answer(query));
