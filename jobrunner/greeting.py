"""The first words of a service: where it answers and, on its first start, how to get in.

Said in one write. The log often goes to the same place, by a thread of its own; and where Python
keeps no buffer, as in most containers, each ``print`` is two writes, between which a line of the
log fits.

A terminal shows the token, and a link to sign in by. Whatever else there is keeps what it is told,
and shows it to others, as the journal of the system or the log of a container does. It is told
where the token lies, and what makes another one; no link is made for it.
"""

import sys
from collections.abc import Callable

from jobrunner.config.settings import Config

WELCOME_S = 15 * 60
HOW_ELSE = "in its folder, `jobrunner token create NAME --role admin` makes one to sign in with"


def may_sign_in(config: Config, local_url: str) -> bool:
    """Say whether a link that is shown may sign in: only people at this machine, not behind a
    public address."""
    from jobrunner.http.frame.origins import is_this_machine

    direct = not config.server.public_url and is_this_machine(local_url.partition("//")[2])
    return bool(config.auth.session) and direct


def greet(
    url: str,
    first_token: str | None = None,
    kept_in: str = "",
    linked: Callable[[], str] | None = None,
) -> None:
    """Say it, and show secrets to a terminal. ``linked`` makes a link to sign in by."""
    lines, kept = [f"jobrunner answers on {url}"], f"the admin's token is kept in {kept_in}"
    if first_token is not None and sys.stdout.isatty():
        lines += [f"admin token, shown this once: {first_token}", kept]
        if linked is not None:
            lines += [f"sign in at {linked()}"]
            lines += [f"(once, on this machine, within {WELCOME_S // 60} minutes)"]
    elif first_token is not None:
        lines += [kept, HOW_ELSE]
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()
