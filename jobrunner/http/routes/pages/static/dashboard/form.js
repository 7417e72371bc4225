// A form made of a JSON Schema, as the service publishes them for parameters and commands. What a
// field cannot show in a simple way is typed as JSON. What is left empty is left out, so the
// service's own default holds.
import { html, useState } from "./preact.js";

const LONG = 300;

/** Follows references, and takes "this or nothing" for "this, or left out". */
export function plain(schema, root) {
  let found = schema || {};
  for (let depth = 0; depth < 8; depth += 1) {
    if (found.$ref) found = { ...root.$defs?.[found.$ref.split("/").pop()], ...rest(found, "$ref") };
    else if (found.anyOf) {
      const real = found.anyOf.filter((one) => one.type !== "null");
      if (real.length !== 1) break;
      found = { ...real[0], ...rest(found, "anyOf") };
    } else break;
  }
  return found;
}

const rest = (schema, name) => Object.fromEntries(Object.entries(schema).filter(([key]) => key !== name));

/** The value that the schema gives as an example, as far as it gives one. */
export function example(schema, root) {
  const one = plain(schema, root);
  if (one.examples?.length) return one.examples[0];
  if (one.properties) {
    const found = Object.entries(one.properties).map(([name, inner]) => [name, example(inner, root)])
      .filter(([, value]) => value !== undefined);
    return found.length || one.required?.length ? Object.fromEntries(found) : undefined;
  }
  return undefined;
}

export function Form({ schema, value, onChange }) {
  const one = plain(schema, schema);
  const names = Object.keys(one.properties || {});
  if (!names.length) return html`<p class="faint">${one.description || "There is nothing to say."}</p>`;
  return html`<div class="form">${names.map((name) => html`<${Field} key=${name} name=${name} schema=${one.properties[name]} root=${schema}
    required=${one.required?.includes(name)} value=${value?.[name]} onChange=${(news) => onChange(put(value, name, news))} />`)}</div>`;
}

function put(value, name, news) {
  const found = { ...(value || {}) };
  if (news === undefined) delete found[name];
  else found[name] = news;
  return found;
}

function Field({ name, schema, root, required, value, onChange }) {
  const one = plain(schema, root);
  if (one.properties && !one.anyOf) {
    return html`<fieldset><legend>${name}${required ? "" : html` <small class="faint">may be left out</small>`}</legend>
      ${one.description && html`<p class="faint">${one.description}</p>`}
      <${Form} schema=${{ ...one, $defs: root.$defs }} value=${value} onChange=${(news) => onChange(Object.keys(news).length || required ? news : undefined)} /></fieldset>`;
  }
  const id = `field-${name}`;
  return html`<div class="entry"><label for=${id}>${name}${required && html`<span class="bad-text" title="must be there"> *</span>`}</label>
    <${Entry} id=${id} one=${one} root=${root} required=${required} value=${value} onChange=${onChange} />
    ${one.description && html`<small class="faint">${one.description}</small>`}</div>`;
}

function Entry({ id, one, root, required, value, onChange }) {
  const hint = one.examples?.[0] ?? one.default;
  const placeholder = hint === undefined || hint === null ? "" : typeof hint === "string" ? hint : JSON.stringify(hint);
  if (one.enum) {
    return html`<select id=${id} value=${value ?? ""} onChange=${(event) => onChange(event.target.value === "" ? undefined : one.enum.find((choice) => String(choice) === event.target.value))}>
      <option value="">${one.default === undefined || one.default === null ? "–" : `as by default: ${one.default}`}</option>
      ${one.enum.map((choice) => html`<option value=${String(choice)} selected=${choice === value}>${String(choice)}</option>`)}</select>`;
  }
  if (one.type === "boolean") {
    return html`<select id=${id} value=${value === undefined ? "" : String(value)} onChange=${(event) => onChange(event.target.value === "" ? undefined : event.target.value === "true")}>
      <option value="">${one.default === undefined ? "–" : `as by default: ${one.default ? "yes" : "no"}`}</option>
      <option value="true" selected=${value === true}>yes</option><option value="false" selected=${value === false}>no</option></select>`;
  }
  if (one.type === "integer" || one.type === "number") {
    return html`<input id=${id} type="number" step=${one.type === "integer" ? 1 : "any"} min=${one.minimum} max=${one.maximum} placeholder=${placeholder}
      required=${required} value=${value ?? ""} onInput=${(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))} />`;
  }
  if (one.type === "string") {
    const said = (event) => onChange(event.target.value === "" ? undefined : event.target.value);
    return one.maxLength > LONG
      ? html`<textarea id=${id} rows="3" maxlength=${one.maxLength} placeholder=${placeholder} required=${required} value=${value ?? ""} onInput=${said} />`
      : html`<input id=${id} maxlength=${one.maxLength} placeholder=${placeholder} required=${required} value=${value ?? ""} onInput=${said} />`;
  }
  if (one.type === "array" && plain(one.items, root).type === "string") {
    return html`<textarea id=${id} rows="3" placeholder="one a line" value=${(value || []).join("\n")}
      onInput=${(event) => { const lines = event.target.value.split("\n"); onChange(lines.some(Boolean) ? lines : undefined); }} />`;
  }
  return html`<${AsJson} id=${id} value=${value} placeholder=${placeholder || "JSON"} onChange=${onChange} />`;
}

/** Any value, as JSON. While it cannot be read, what was read last would be handed on, so whatever
 *  sends it must not be pressed: it is unfit. */
export function AsJson({ id, value, placeholder, onChange, rows = 3 }) {
  const [text, change] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [wrong, say] = useState("");
  const hear = ({ target }) => {
    change(target.value);
    let unread = "";
    try {
      onChange(target.value.trim() ? JSON.parse(target.value) : undefined);
    } catch (fault) {
      unread = `This is no JSON; a text stands in quotes. ${fault.message}`;
    }
    say(unread);
    target.setCustomValidity(unread);
  };
  return html`<textarea id=${id} rows=${rows} placeholder=${placeholder} spellcheck="false" aria-invalid=${wrong ? "true" : null} value=${text} onInput=${hear} />
    ${wrong && html`<small class="bad-text">${wrong}</small>`}`;
}

/** Lines of a list that are empty were only begun. */
export function tidy(value) {
  if (Array.isArray(value)) return value.filter((one) => one !== "").map(tidy);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, tidy(one)]));
  return value;
}
