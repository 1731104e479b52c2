// Seals as a device follows them: every round of a task that pins a key, in one chain, each with its signature. A server
// that shows two histories has to sign both. Knows seals and where they are published. Keeps nothing itself.

import { ServerViolation } from "#device/errors.js";
import { concat, equal, hex, utf8 } from "#device/bytes.js";
import { isSigned } from "#device/curve.js";
import { checkpointBytes, readMessage } from "#device/messages.js";
import { sha256 } from "#device/sha256.js";

/** @typedef {{round: number, head: Uint8Array, root: Uint8Array}} Chain the last round whose seal was good, 0 before the first */

/**
 * The chain up to a closed round; null if the server does not show a seal yet.
 * @param {import("#device/channel.js").Channel} channel @param {import("#device/task.js").Task} task @param {Chain} chain @param {number} number
 * @returns {Promise<Chain | null>}
 */
export async function followSeals(channel, task, chain, number) {
  while (chain.round < number) {
    const following = chain.round + 1;
    const seal = await channel.message(`/tasks/${hex(task.id)}/rounds/${following}/seal`, (data) => readMessage(data, "seal"));
    if (seal === null) return null;
    const point = seal.checkpoint;
    if (!seal.signature.length) throw new ServerViolation("not-signed", "the task pins a key, but the checkpoint is not signed");
    if (!(await isSigned(seal.signature, task.server_key, concat(utf8("semilocal/1/checkpoint"), seal.head)))) {
      throw new ServerViolation("bad-signature", "the checkpoint is not signed with the key that the task pins");
    }
    if (!equal(point.task, task.id) || point.round !== following) throw new ServerViolation("wrong-seal", `the seal of round ${following} belongs to another round or task`);
    const head = sha256(concat(utf8("semilocal/1/chain"), chain.round ? chain.head : task.id, checkpointBytes(point)));
    if (!equal(head, seal.head)) throw new ServerViolation("wrong-chain", `the seal of round ${following} does not continue the one before`);
    chain = { round: following, head, root: point.root };
  }
  return chain;
}
