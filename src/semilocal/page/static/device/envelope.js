// A private part sealed for one server: HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and AES-128-GCM
// (spec/sharing.md, section 5). Knows bytes and keys. Knows no servers.

import { check } from "#device/errors.js";
import { bigEndian, concat, utf8 } from "#device/bytes.js";
import { x25519, x25519Public } from "#device/curve.js";
import { hmac, sha256 } from "#device/sha256.js";

const NOTHING = new Uint8Array(0);
const KEM = concat(utf8("KEM"), bigEndian(0x20, 2));
const SUITE = concat(utf8("HPKE"), bigEndian(0x20, 2), bigEndian(1, 2), bigEndian(1, 2));

/** @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label @param {Uint8Array} key */
const extract = (suite, salt, label, key) => hmac(salt, utf8("HPKE-v1"), suite, utf8(label), key);

/** @param {Uint8Array} suite @param {Uint8Array} key @param {string} label @param {Uint8Array} info @param {number} length at most 32 */
const expand = (suite, key, label, info, length) => hmac(key, bigEndian(length, 2), utf8("HPKE-v1"), suite, utf8(label), info, Uint8Array.of(1)).slice(0, length);

/**
 * Seal bytes for the server with this public key, bound to role, task, report and public part.
 * @param {Uint8Array} plain @param {Uint8Array} key
 * @param {{role: "leader" | "helper", task: Uint8Array, report: Uint8Array, public: Uint8Array}} about
 * @param {Uint8Array} [ephemeral] a secret key of 32 bytes, used once; the system's generator unless a test gives one
 */
export async function seal(plain, key, about, ephemeral = crypto.getRandomValues(new Uint8Array(32))) {
  check(about.task.length === 32 && about.report.length === 16, "ids have 32 and 16 bytes");
  const info = concat(utf8(`semilocal/1/sharing/envelope/${about.role}/`), about.task, about.report, sha256(about.public));
  const sent = x25519Public(ephemeral);
  const agreed = x25519(ephemeral, key);
  check(agreed.some((byte) => byte !== 0), "the server's key is not a key");
  const shared = expand(KEM, extract(KEM, NOTHING, "eae_prk", agreed), "shared_secret", concat(sent, key), 32);
  const context = concat(Uint8Array.of(0), extract(SUITE, NOTHING, "psk_id_hash", NOTHING), extract(SUITE, NOTHING, "info_hash", info));
  const secret = extract(SUITE, shared, "secret", NOTHING);
  const cipher = await crypto.subtle.importKey("raw", expand(SUITE, secret, "key", context, 16), "AES-GCM", false, ["encrypt"]);
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: expand(SUITE, secret, "base_nonce", context, 12) }, cipher, new Uint8Array(plain));
  return concat(sent, new Uint8Array(sealed));
}
