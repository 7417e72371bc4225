"""Orders to move the files of jobs between disk and store, while everything goes on."""

from jobrunner.core.instants import text_of
from jobrunner.core.keeping.objects import FileMove, Standing, Target
from jobrunner.http.frame import inputs
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import ADMINS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.views import encode, reply, view_of


class FileMoveOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``dry_run``: only say how many files it would be."""

    to: Target
    dry_run: bool = False


class FileMoveForeseen(View, frozen=True, kw_only=True):
    """Nothing was moved: so much would be."""

    to: Target
    files: int
    bytes: int


class FileMoveView(View, frozen=True, kw_only=True):
    """``skipped`` files are not where their rows say, or not what they say: the log names them."""

    id: str
    to: Target
    by: str
    status: Standing
    moved: int
    bytes: int
    skipped: int
    created_at: str
    ended_at: str | None


class FileMoveList(View, frozen=True, kw_only=True):
    file_moves: list[FileMoveView]
    next_cursor: str | None


@Endpoint(
    "POST",
    "/admin/file-moves",
    {200: FileMoveForeseen, 202: FileMoveView},
    ADMINS,
    body=FileMoveOrder,
    codes=("NOT_FOUND", "ALREADY_EXISTS", "PLACE_OF_SETTINGS"),
)
async def order_file_move(call: HttpCall) -> HttpReply:
    """Move all files to the store of objects, or back to the disk.

    It is begun when this answers, and goes on whatever happens."""
    body: FileMoveOrder = call.body
    moves = call.door.facade.file_moves
    if body.dry_run:
        seen = await moves.foresee(body.to)
        return reply(FileMoveForeseen(to=body.to, files=seen.files, bytes=seen.bytes))
    move = await moves.order(body.to, call.actor)
    where = link(call, f"/admin/file-moves/{move.id}")
    return HttpReply(202, encode(_shown(move)), {"Location": where})


@Endpoint("GET", "/admin/file-moves", {200: FileMoveList}, ADMINS, query=inputs.PageQuery)
async def list_file_moves(call: HttpCall) -> HttpReply:
    """List the orders to move files, the newest first."""
    query: inputs.PageQuery = call.query
    found = await call.door.reader.file_moves(query.limit, after=inputs.key_of(query.cursor))
    following = inputs.following_cursor([one.row for one in found], query)
    return reply(FileMoveList(file_moves=[_shown(one) for one in found], next_cursor=following))


@Endpoint("GET", "/admin/file-moves/{id}", {200: FileMoveView}, ADMINS, query=inputs.WaitQuery)
async def get_file_move(call: HttpCall) -> HttpReply:
    """Show how many files were moved."""
    query: inputs.WaitQuery = call.query
    call.leave()
    return reply(_shown(await call.door.facade.file_moves.ended(call.path["id"], query.wait)))


@Endpoint("DELETE", "/admin/file-moves/{id}", {200: FileMoveView}, ADMINS)
async def abort_file_move(call: HttpCall) -> HttpReply:
    """Move no more files; whatever was moved stays where it is."""
    return reply(_shown(await call.door.facade.file_moves.abort(call.path["id"], call.actor)))


def _shown(move: FileMove) -> FileMoveView:
    return view_of(FileMoveView, move, to=move.target, by=move.actor, created_at=text_of(move.at))
