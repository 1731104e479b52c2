// Signatures, and a private part sealed for one server: HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and
// AES-128-GCM (spec/sharing.md, section 5). Knows bytes and keys. Knows no servers.

import { ed25519, x25519 } from "#vendor/noble-curves.js";
import { expand, extract, sha256 } from "#vendor/noble-hashes.js";
import { InvalidInput, bigEndian, check, concat, utf8 } from "#device/base.js";

const NOTHING = new Uint8Array(0);
const KEM = concat(utf8("KEM"), bigEndian(0x20, 2));
const SUITE = concat(utf8("HPKE"), bigEndian(0x20, 2), bigEndian(1, 2), bigEndian(1, 2));

/** Whether a message was signed with the secret of this key. @param {Uint8Array} signature @param {Uint8Array} key @param {Uint8Array} message */
export const isSigned = (signature, key, message) => signature.length === 64 && key.length === 32 && ed25519.verify(signature, message, key, { zip215: false });

/** @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label @param {Uint8Array} key */
const labeledExtract = (suite, salt, label, key) => extract(sha256, concat(utf8("HPKE-v1"), suite, utf8(label), key), salt);

/** @param {Uint8Array} suite @param {Uint8Array} key @param {string} label @param {Uint8Array} info @param {number} length */
const labeledExpand = (suite, key, label, info, length) => expand(sha256, key, concat(bigEndian(length, 2), utf8("HPKE-v1"), suite, utf8(label), info), length);

/** @param {Uint8Array} secret @param {Uint8Array} key */
function agreed(secret, key) {
  try {
    return x25519.getSharedSecret(secret, key);
  } catch {
    throw new InvalidInput("the server's key is not a key");
  }
}

/** @typedef {{role: "leader" | "helper", task: Uint8Array, report: Uint8Array, public: Uint8Array, bucket: bigint, token: string}} About */

/** What an envelope is bound to; the helper does not learn tokens. @param {About} about */
export function envelopeInfo({ role, task, report, public: open, bucket, token }) {
  check(task.length === 32 && report.length === 16, "ids have 32 and 16 bytes");
  const told = sha256(utf8(role === "leader" ? token : ""));
  return concat(utf8(`semilocal/2/sharing/envelope/${role}/`), task, report, sha256(open), bigEndian(bucket, 8), told);
}

/**
 * Seal bytes for the server with this public key, bound to all that is in the open beside them.
 * @param {Uint8Array} plain @param {Uint8Array} key
 * @param {About} about
 * @param {Uint8Array} [ephemeral] a secret key of 32 bytes, used once; the system's generator unless a test gives one
 */
export async function seal(plain, key, about, ephemeral = crypto.getRandomValues(new Uint8Array(32))) {
  const info = envelopeInfo(about);
  const sent = x25519.getPublicKey(ephemeral);
  const shared = labeledExpand(KEM, labeledExtract(KEM, NOTHING, "eae_prk", agreed(ephemeral, key)), "shared_secret", concat(sent, key), 32);
  const context = concat(Uint8Array.of(0), labeledExtract(SUITE, NOTHING, "psk_id_hash", NOTHING), labeledExtract(SUITE, NOTHING, "info_hash", info));
  const secret = labeledExtract(SUITE, shared, "secret", NOTHING);
  const iv = new Uint8Array(labeledExpand(SUITE, secret, "base_nonce", context, 12));
  const cipher = await crypto.subtle.importKey("raw", new Uint8Array(labeledExpand(SUITE, secret, "key", context, 16)), "AES-GCM", false, ["encrypt"]);
  return concat(sent, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, cipher, new Uint8Array(plain))));
}
