// Answers of a file to areas: {tree, domain, areas} from stdin, one [value, stderr, low, high] each; and its first leaves as rows.
import { readFileSync } from "node:fs";
import { CountTree } from "../../src/semilocal/page/static/map/answer.js";

const { tree, domain, areas } = JSON.parse(readFileSync(0, "utf8"));
const counts = new CountTree(tree, domain);
const answers = areas.map(([[x0, y0], [x1, y1]]) => {
  const { value, stderr, interval } = counts.answer({ x0, y0, x1, y1 });
  return [value, stderr, ...interval];
});
console.log(JSON.stringify({ answers, rows: tree.halves ? counts.rows(domain) : null }));
