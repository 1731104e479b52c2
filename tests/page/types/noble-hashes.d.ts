export { expand, extract } from "@noble/hashes/hkdf.js";
export { hmac } from "@noble/hashes/hmac.js";
export { sha256, sha512 } from "@noble/hashes/sha2.js";
