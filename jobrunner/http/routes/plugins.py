"""Routes that workflows declare as data: a submission or a command under a path of their own."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.actors import Answer
from jobrunner.core.declaration.functions import call_function, sendable
from jobrunner.core.declaration.workflow import Definition, Route
from jobrunner.core.instants import timed
from jobrunner.core.messages import Do
from jobrunner.errors import PluginFault, Refused
from jobrunner.http.frame.addresses import link, linked
from jobrunner.http.frame.bodies import decode
from jobrunner.http.frame.endpoint import (
    ANYBODY,
    DECLARED,
    MOVING,
    OWNERS,
    SUBMITTING,
    Endpoint,
    Handler,
    HttpCall,
    HttpReply,
)
from jobrunner.http.frame.etags import etag, expected_version
from jobrunner.http.frame.inputs import (
    NoFields,
    command_fields,
    governed_job,
    omitted_of,
    params_of,
)
from jobrunner.http.frame.views import Job, encode, job_view
from jobrunner.http.routes.jobs.commands import AnyCommand, command_at
from jobrunner.http.routes.jobs.submissions import CANONICAL, ended, submission

READ = tuple[dict[str, Any], str | None]


def endpoints_of(definitions: Iterable[Definition]) -> Iterator[Endpoint]:
    """List the endpoints that loaded workflows add, each path once."""
    seen: set[tuple[str, str]] = set()
    for definition in definitions:
        for endpoint in (*_routes(definition), *_aliases(definition)):
            if endpoint.door not in seen:
                seen.add(endpoint.door)
                yield endpoint


def _routes(definition: Definition) -> Iterator[Endpoint]:
    for route in definition.workflow.routes:
        handler = _commanding(route) if route.command else _submitting(definition, route)
        body = definition.structs[route.body] if route.body else NoFields
        yield Endpoint(
            method=route.method,
            path=route.path,
            name=_operation(route.path),
            handler=handler,
            summary=f"{definition.workflow.name}: {route.command or route.job_type}",
            roles=ANYBODY if route.command else OWNERS,
            body=msgspec.Raw if route.command else body,
            shown_body=body,
            empty=bool(route.command) or not route.body,
            answers={route.status: Job},
            codes=_codes(definition, bool(route.command)),
        )


def _aliases(definition: Definition) -> Iterator[Endpoint]:
    for command in definition.workflow.commands:
        for path in command.aliases:
            yield Endpoint(
                method="POST",
                path=path,
                name=_operation(path),
                handler=command_at(path),
                summary=f"The command {command.name!r} of whatever workflow the job has",
                roles=frozenset(command.roles) | {"admin"},
                body=msgspec.Raw,
                shown_body=AnyCommand,
                command=command.name,
                empty=True,
                answers={200: Job, 202: Job},
                codes=_codes(definition, command=True),
            )


def _submitting(definition: Definition, route: Route) -> Handler:
    async def submitted(call: HttpCall) -> HttpReply:
        current = call.door.facade.definitions.current(definition.workflow.name)
        assert current is not None, f"{definition.workflow.name} was loaded when its route was made"
        job_type = route.job_type or current.workflow.job_types[0].name
        said, key = _read(call, current, route, call.body)
        raw = CANONICAL(said)
        params = params_of(current, job_type, raw, "$")
        omitted = omitted_of(current, job_type, params, raw)
        order = submission(call, current, job_type, params, key, omitted=omitted)
        answer = await call.door.facade.submit(order, at_once=route.wait_s > 0)
        return await _reply(call, current, route, await ended(call, answer, route.wait_s))

    return submitted


def _commanding(route: Route) -> Handler:
    async def commanded(call: HttpCall) -> HttpReply:
        job, definition = await governed_job(call)
        if route not in definition.workflow.routes:
            detail = f"{definition.workflow.name} has no command at {route.path}"
            raise Refused("UNKNOWN_COMMAND", detail)
        fields, reason, version = _fields(call, definition, route)
        expected = expected_version(call, version)
        message = Do(call.actor, route.command, fields, expected, reason)
        answer = await call.door.facade.ask(job.id, message)
        return await _reply(call, definition, route, await ended(call, answer, route.wait_s))

    return commanded


def _read(
    call: HttpCall, definition: Definition, route: Route, body: Struct
) -> tuple[dict[str, Any], str | None]:
    """The params, and the client's key if its body has one."""
    said: dict[str, Any] = msgspec.to_builtins(body)
    if not route.read:
        return said, said.pop("idempotency_key", None)
    try:
        answer = call_function(definition, route.read, said)
        read: tuple[dict[str, Any], str | None] = sendable(definition, route.read, answer, READ)
    except PluginFault as fault:
        raise call.door.facade.faulted(fault) from fault
    return read


def _fields(
    call: HttpCall, definition: Definition, route: Route
) -> tuple[dict[str, Any], str | None, int | None]:
    """A command's fields, straight or by way of the route's own body."""
    command = definition.commands[route.command]
    if not route.body:
        return command_fields(definition, command, call.raw)
    body = decode(call.raw or b"{}", msgspec.json.Decoder(definition.structs[route.body]))
    said, _ = _read(call, definition, route, body)
    return command_fields(definition, command, CANONICAL(said))


async def _reply(call: HttpCall, definition: Definition, route: Route, answer: Answer) -> HttpReply:
    """The job, what was answered beside it, and on top of that what the route has to say."""
    body = msgspec.structs.asdict(job_view(call, answer.job))
    body |= {**linked(call, timed(answer.fields)), "replayed": answer.replayed}
    if route.answer:
        body |= linked(call, timed(await _said(call, definition, route.answer, answer)))
    headers = {"ETag": etag(answer.job), "Location": link(call, f"/jobs/{answer.job.id}")}
    return HttpReply(answer.status if route.command else route.status, encode(body), headers)


async def _said(
    call: HttpCall, definition: Definition, name: str, answer: Answer
) -> dict[str, Any]:
    """Ask the plugin for the route's own answer. The request is carried out by now, so a function
    that fails here takes back nothing: the job is answered without it."""
    purse = await call.door.reader.credits(answer.job.user_id)
    try:
        try:
            said = call_function(definition, name, answer.job, answer, purse)
        except Refused as refused:
            said = refused
        told: dict[str, Any] = sendable(definition, name, said, dict[str, Any])
    except PluginFault as fault:
        call.door.facade.faulted(fault, answer.job)
        return {}
    return told


def _operation(path: str) -> str:
    words = path.replace("{", "").replace("}", "").replace("-", "/").split("/")
    first, *rest = [word for word in words if word]
    return first + "".join(word.capitalize() for word in rest)


def _codes(definition: Definition, command: bool) -> tuple[str, ...]:
    """The codes of this workflow instead of those of all."""
    usual = MOVING if command else SUBMITTING
    return (*(code for code in usual if code != DECLARED), *definition.workflow.codes)
