"""``token``: who may speak to the service."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.file import OPERATOR, commit, file_or_none
from jobrunner.cli.frame.options import Asking, Listing, Many, not_negative, seconds
from jobrunner.cli.frame.service import part, service
from jobrunner.cli.frame.system import clock, ids
from jobrunner.core.declaration.spelling import USER
from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.features.tokens import replaced
from jobrunner.core.instants import text_or_none
from jobrunner.core.questions import Token
from jobrunner.core.units import Grant, NewToken, RevokeToken
from jobrunner.errors import Refused
from jobrunner.ports import digest

if TYPE_CHECKING:
    from jobrunner.store.store import Store

app = App(name="token", help="Tokens: who may call the service.")

COLUMNS = ("id", "name", "role", "workflows", "created_at", "expires_at", "revoked_at")


def _user_id(_: Any, name: str) -> None:
    if not USER.fullmatch(name):
        raise ValueError("a name is 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit")


@app.command(
    help_epilogue=examples(
        "jobrunner token create ann --expires 90d",
        "jobrunner token create painter --role workflow --workflow hello",
    )
)
async def create(
    name: Annotated[str, Parameter(validator=_user_id)],
    /,
    *,
    role: TokenRole = "user",
    credits: Annotated[int | None, Parameter(validator=not_negative)] = None,
    expires: str | None = None,
    workflow: Many = None,
    asking: Asking = Asking(),
) -> None:
    """Make a token for NAME and print it, this once.

    Parameters
    ----------
    name
        The user id of the jobs that are submitted with it.
    credits
        What a new account starts with, instead of [credits] initial.
    expires
        How long it is valid, like 90d or 12h; else until it is revoked.
    workflow
        With --role workflow: is for this one's jobs only; may be given several times.
    """
    if workflow and role != "workflow":
        raise CycloptsError(msg="--workflow says what a token of --role workflow is for")
    lifetime_s, bound = seconds(expires, "--expires"), tuple(sorted(set(workflow or ())))
    async with file_or_none(asking) as store:
        if store is not None:
            initial = _initial(credits, asking)
            token = await _created(store, name, role, initial, lifetime_s, bound)
        else:
            body: dict[str, Any] = {"name": name, "role": role}
            body |= {} if credits is None else {"credits": credits}
            body |= {} if lifetime_s is None else {"expires_in": lifetime_s}
            body |= {"workflows": bound} if bound else {}
            async with service(asking) as running:
                token = (await running.post("/admin/tokens", body))["token"]
    print(token)


@app.command(help_epilogue=examples("jobrunner token rotate ann --grace 12h"))
async def rotate(
    which: str, /, *, grace: str = "1d", expires: str | None = None, asking: Asking = Asking()
) -> None:
    """Replace a token (by its id), or all of a NAME, and print the new one, this once.

    Parameters
    ----------
    grace
        How long the old ones stay valid, like 12h.
    expires
        How long the new one is valid, like 90d; else until it is revoked.
    """
    grace_s, lifetime_s = seconds(grace, "--grace") or 0, seconds(expires, "--expires")
    async with file_or_none(asking) as store:
        if store is not None:
            token = await _rotated(store, which, grace_s, lifetime_s)
        else:
            body = {"grace": grace_s} | ({"expires_in": lifetime_s} if lifetime_s else {})
            async with service(asking) as running:
                made = await running.post(f"/admin/tokens/{part(which)}/rotate", body)
            token = made["token"]
    print(token)


@app.command(name="list", help_epilogue=examples("jobrunner token list"))
async def list_(*, listing: Listing = Listing()) -> None:
    """List the tokens; the secrets themselves are not stored and cannot be shown."""
    async with file_or_none(listing) as store:
        if store is not None:
            found = [_row(token) for token in await store.reader.tokens()]
        else:
            async with service(listing) as running:
                found = (await running.get("/admin/tokens"))["tokens"]
    printing.rows(found, COLUMNS, listing)


@app.command(help_epilogue=examples("jobrunner token revoke ann"))
async def revoke(which: str, /, *, asking: Asking = Asking()) -> None:
    """Revoke a token by its id, or all of a NAME."""
    async with file_or_none(asking) as store:
        if store is not None:
            missing = f"no token has the id or name {which!r}; see `jobrunner token list`"
            await commit(store, RevokeToken(which, clock.now(), OPERATOR), missing)
        else:
            async with service(asking) as running:
                await running.ask("DELETE", f"/admin/tokens/{part(which)}")


async def _created(
    store: "Store",
    name: str,
    role: str,
    initial: int,
    lifetime_s: int | None,
    workflows: tuple[str, ...],
) -> str:
    token, now = ids.secret(), clock.now()
    sealed, end = digest(token.encode()), _end(now, lifetime_s)
    made = NewToken(ids.fresh(), name, role, sealed, now, OPERATOR, end, workflows=workflows)
    await commit(store, made)
    if role == "user":
        await commit(store, Grant(name, initial, "initial", OPERATOR, now, once=True))
    return token


async def _rotated(store: "Store", which: str, grace_s: int, lifetime_s: int | None) -> str:
    token, now = ids.secret(), clock.now()
    old = replaced(await store.reader.tokens(), which, now)
    if isinstance(old, Refused):
        raise old
    made = NewToken(
        ids.fresh(),
        old[0].name,
        old[0].role,
        digest(token.encode()),
        now,
        OPERATOR,
        _end(now, lifetime_s),
        tuple(one.id for one in old),
        now + grace_s * 1000,
        old[0].workflows,
    )
    await commit(store, made)
    return token


def _end(now: int, lifetime_s: int | None) -> int | None:
    return None if lifetime_s is None else now + lifetime_s * 1000


def _initial(credits: int | None, asking: Asking) -> int:
    return asking.load().credits.initial if credits is None else credits


def _row(token: Token) -> dict[str, Any]:
    said = {name: getattr(token, name) for name in COLUMNS}
    return {name: text_or_none(at) if name.endswith("_at") else at for name, at in said.items()}
