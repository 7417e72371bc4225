// Values in words: how long ago, how many, how large.
const STEPS = [[60, "s"], [60, "min"], [24, "h"], [Infinity, "d"]];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 75 s is "1 min 15 s"; of what is long, the two largest parts. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  let rest = Math.round(ms / 1000);
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const parts = [];
  for (const [many, name] of STEPS) {
    const here = many === Infinity ? rest : rest % many;
    if (here) parts.unshift(`${here} ${name}`);
    rest = many === Infinity ? 0 : Math.floor(rest / many);
    if (!rest) break;
  }
  return parts.slice(0, 2).join(" ");
}

/** The one largest part, for what is told again in a moment. */
export function roughly(ms) {
  const far = Math.abs(ms);
  if (far < 1500) return "now";
  let amount = Math.round(far / 1000);
  for (const [many, name] of STEPS) {
    if (amount < many) {
      const said = `${amount} ${name}`;
      return ms < 0 ? `in ${said}` : `${said} ago`;
    }
    amount = Math.floor(amount / many);
  }
  return "";
}

export function exactly(ms, utc) {
  const pad = (number, places = 2) => String(number).padStart(places, "0");
  const at = new Date(utc ? ms : ms - new Date(ms).getTimezoneOffset() * 60_000);
  const day = `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}`;
  const time = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}`;
  return `${day} ${time}${utc ? "Z" : ""}`;
}

export function size(bytes) {
  let amount = bytes, step = 0;
  while (amount >= 1024 && step < SIZES.length - 1) {
    amount /= 1024;
    step += 1;
  }
  return `${step && amount < 10 ? amount.toFixed(1) : Math.round(amount)} ${SIZES[step]}`;
}

export const count = (number) => number.toLocaleString("en");
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** Ids of one time share their beginning, so their end tells them apart. */
export const shortly = (id) => (id.length > 13 ? `…${id.slice(-8)}` : id);
