"""``token``: who may speak to the service."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from jobrunner.cli import printing
from jobrunner.cli.file import OPERATOR, Moment, commit, file_or_none
from jobrunner.cli.options import Asking, Listing
from jobrunner.core.decision import Grant, NewToken, RevokeToken
from jobrunner.ports import digest

if TYPE_CHECKING:
    from jobrunner.store import Store

app = App(name="token", help="Who may speak to the service.")

Role = Literal["user", "workflow", "admin"]
COLUMNS = ("id", "name", "role", "created_at", "expires_at", "revoked_at")


@app.command
async def create(
    name: str,
    /,
    *,
    role: Role = "user",
    credits: Annotated[int | None, Parameter(validator=_not_negative)] = None,
    asking: Asking = Asking(),  # noqa: B008 - frozen
) -> None:
    """Make a token for NAME and print it; it is shown this once. A new user starts with CREDITS."""
    async with file_or_none(asking) as store:
        if store is None:
            body = {"name": name, "role": role, "credits": credits}
            given = {key: value for key, value in body.items() if value is not None}
            print((await _asked(asking, "POST", "/admin/tokens", given))["token"])
        else:
            print(await _created(store, asking, name, role, credits))
