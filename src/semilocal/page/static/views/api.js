// Requests to this server. Every failure becomes an Error with the server's own words.
// Knows routes. The admin token is held in memory only and forgotten with the page.

/** @typedef {Error & {detail?: string, field?: string}} Refusal what a server refuses, and which field of a form it is about */

let token = "";

export const hasToken = () => token !== "";

export function forgetToken() {
  token = "";
}

/** Take a token if the server knows it; what is wrong with it, empty if nothing is. @param {string} value */
export async function useToken(value) {
  token = value;
  try {
    await request("/metrics", { admin: true });
    return "";
  } catch (error) {
    token = "";
    const { message } = /** @type {Error} */ (error);
    return message.startsWith("no valid key") ? "this server does not take this token; copy it again" : message;
  }
}

/** @param {string} path @param {{method?: string, body?: unknown, admin?: boolean}} [options] */
async function request(path, { method = "GET", body, admin = false } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (admin && /[^\x21-\x7e]/.test(token)) throw new Error("no valid key: the token has letters that no admin token has; copy it again");
  if (admin) headers.authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), redirect: "error" });
  } catch {
    throw new Error("the server does not answer");
  }
  if (answer.ok) return answer;
  /** @type {Refusal} */
  let refusal = new Error(`the server answered ${answer.status}`);
  try {
    const { title, detail, field } = await answer.json();
    refusal = Object.assign(new Error(`${title}: ${detail}`), { detail, field });
  } catch {
    // not a problem document; the status has to do
  }
  throw refusal;
}

/** @param {string} path @param {{method?: string, body?: unknown, admin?: boolean}} [options] */
export async function json(path, options) {
  return (await request(path, options)).json();
}

/** @param {string} path @returns {Promise<Uint8Array>} */
export async function bytes(path) {
  return new Uint8Array(await (await request(path)).arrayBuffer());
}
