// Files that are shown for what they say: tables and Markdown. Both are made of elements, one by one,
// and never of markup that came with the file: whatever looks like HTML in it stays text.
import { html } from "./preact.js";
import { Link } from "./parts.js";

const ROWS_MAX = 200;
const CELLS_MAX = 40;

/** Lines of comma-separated values, as RFC 4180 has them; also with semicolons or tabs. */
export function rows(text) {
  const head = text.slice(0, 4096).split("\n", 1)[0];
  const mark = [",", ";", "\t"].sort((one, other) => head.split(other).length - head.split(one).length)[0];
  const found = [];
  let row = [], cell = "", quoted = false;
  const close = () => { row.push(cell); cell = ""; };
  for (let at = 0; at < text.length && found.length <= ROWS_MAX; at += 1) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') { cell += '"'; at += 1; } else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === mark) close();
    else if (letter === "\n") { close(); found.push(row); row = []; } else if (letter !== "\r") cell += letter;
  }
  if (cell || row.length) { close(); found.push(row); }
  return found;
}

export function Sheet({ text, cut }) {
  const [head = [], ...found] = rows(text);
  const shown = found.slice(0, ROWS_MAX);
  return html`<div class="wide short" tabindex="0"><table><thead><tr>${head.slice(0, CELLS_MAX).map((cell) => html`<th>${cell}</th>`)}</tr></thead>
      <tbody>${shown.map((row) => html`<tr>${row.slice(0, CELLS_MAX).map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>
    ${(cut || found.length > ROWS_MAX || head.length > CELLS_MAX) && html`<p class="faint">Only its beginning is shown.</p>`}`;
}

/** Headings, lists, quotes, code, emphasis and links; pictures are named and not fetched. */
export function Markdown({ text }) {
  const found = [];
  const lines = text.replace(/\r/g, "").split("\n");
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const heading = /^(#{1,6})\s+(.*)/.exec(line), fence = /^(```|~~~)/.exec(line);
    const run = (fits) => { const from = at; while (at < lines.length && fits(lines[at])) at += 1; return lines.slice(from, at); };
    if (!line.trim()) at += 1;
    else if (heading) { found.push(html`<p class=${`heading h${heading[1].length}`} role="heading" aria-level=${Math.min(6, heading[1].length + 2)}>${spans(heading[2])}</p>`); at += 1; }
    else if (fence) {
      at += 1;
      found.push(html`<pre tabindex="0">${run((one) => !one.startsWith(fence[1])).join("\n")}</pre>`);
      at += 1;
    } else if (ITEM.test(line)) found.push(html`<ul>${run((one) => ITEM.test(one)).map((one) => html`<li>${spans(one.replace(ITEM, ""))}</li>`)}</ul>`);
    else if (/^>/.test(line)) found.push(html`<blockquote>${run((one) => /^>/.test(one)).map((one) => html`<p>${spans(one.replace(/^>\s?/, ""))}</p>`)}</blockquote>`);
    else if (/^([-*_])(\s*\1){2,}\s*$/.test(line)) { found.push(html`<hr />`); at += 1; }
    else found.push(html`<p>${spans(run((one) => one.trim() && !/^(#{1,6}\s|```|~~~|>)/.test(one) && !ITEM.test(one)).join(" "))}</p>`);
  }
  return html`<div class="markdown">${found}</div>`;
}

const ITEM = /^\s*([-*+]|\d{1,9}[.)])\s+/;
const SPAN = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|!\[([^\]]*)\]\([^)]*\)|\[([^\]]+)\]\(([^)\s]+)[^)]*\)/g;

function spans(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(SPAN)) {
    const [whole, code, strong, soft, picture, words, link] = match;
    found.push(text.slice(from, match.index));
    if (code) found.push(html`<code>${code}</code>`);
    else if (strong) found.push(html`<strong>${strong}</strong>`);
    else if (soft) found.push(html`<em>${soft}</em>`);
    else if (words) found.push(/^https?:/.test(link) ? html`<${Link} to=${link}>${words}<//>` : words);
    else found.push(html`<span class="faint">[picture: ${picture || "unnamed"}]</span>`);
    from = match.index + whole.length;
  }
  found.push(text.slice(from));
  return found;
}
