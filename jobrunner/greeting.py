"""The first words of a service: where it answers and, to whoever starts it first, how to get in.

Said in one write. The log often goes to the same place, by a thread of its own; and where Python
keeps no buffer, as in most containers, each ``print`` is two writes, between which a line of the
log fits.

A terminal shows the token. Whatever else there is keeps what it is told, and shows it to others, as
the journal of the system or the log of a container does. It is told where the token lies; a link is
good once and soon over.
"""

import sys

from jobrunner.config.settings import Config

WELCOME_S = 15 * 60


def may_sign_in(config: Config, local_url: str) -> bool:
    """By a link that is printed: whoever sits at this machine, and nobody behind an address of the
    world."""
    from jobrunner.http.frame.origins import is_this_machine

    direct = not config.server.public_url and is_this_machine(local_url.partition("//")[2])
    return bool(config.auth.session) and direct


def greet(
    url: str, first_token: str | None = None, kept_in: str = "", sign_in_url: str = ""
) -> None:
    lines = [f"jobrunner answers on {url}"]
    if first_token is not None:
        if sys.stdout.isatty():
            lines += [f"admin token, shown this once: {first_token}"]
        lines += [f"the admin's token is kept in {kept_in}"]
    if sign_in_url:
        lines += [f"sign in at {sign_in_url}"]
        lines += [f"(once, on this machine, within {WELCOME_S // 60} minutes)"]
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()
