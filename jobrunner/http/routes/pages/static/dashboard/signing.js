// Signing in: a token is shown to the service once. What it gives back is a cookie that no script can
// read, so this page never holds a token.
import { html, useState } from "./preact.js";
import { post } from "./asking.js";
import { Fault } from "./parts.js";

export function SignIn({ onSignedIn, fault: known = null }) {
  const [state, change] = useState({ token: "", fault: known, busy: false });
  const signIn = async (event) => {
    event.preventDefault();
    change({ ...state, busy: true, fault: null });
    try {
      onSignedIn(await post("session", { token: state.token.trim() }));
    } catch (fault) {
      change({ token: "", fault, busy: false });
    }
  };
  return html`<main class="sign-in">
    <form onSubmit=${signIn}>
      <h1><${Mark} /> jobrunner</h1>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="current-password" autofocus required maxlength="512"
        value=${state.token} onInput=${(event) => change({ ...state, token: event.target.value })} />
      <button class="strong" disabled=${state.busy}>Sign in</button>
      <${Fault} fault=${state.fault} />
      <p class="faint">The first admin's token is in <code>admin.token</code>, beside the database.${" "}
        <code>jobrunner token create NAME</code> makes one for somebody else.</p>
    </form>
  </main>`;
}

export function Mark() {
  return html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><rect width="24" height="24" rx="6" />
    <circle cx="6.5" cy="12" r="2.5" class="full" /><path d="M9 12h4" /><circle cx="16" cy="12" r="3.4" /></svg>`;
}
