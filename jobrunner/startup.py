"""Does once at each start what comes between the opening of the store and the first job that moves:
says what is there and what was refused, keeps declarations, makes the first admin, and puts memory
in order.
"""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

import msgspec

from jobrunner.config import overrides
from jobrunner.config.settings import Config
from jobrunner.core.declaration.old_declarations import leniently
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.redaction import Redaction
from jobrunner.core.features.upgrades.forecasts import Forecast
from jobrunner.core.features.upgrades.upgrades import SHORT
from jobrunner.core.instants import text_of
from jobrunner.core.keeping.backups import RestorationTold
from jobrunner.core.questions import Token
from jobrunner.core.units import AuditRecord, Grant, NewToken, Note, Remember
from jobrunner.ports import Clock, Files, Ids, digest
from jobrunner.stages import Registry
from jobrunner.stages.distributions import offered
from jobrunner.stages.secret_settings import secrets_of_settings
from jobrunner.store.store import Store

Log = Callable[..., None]
NAMED_MAX = 100
LOCAL = "local"
FLUSHES = 9
COLLECTING = 100_000, 20, 50


def introduce(
    config: Config, store: Store, registry: Registry, files: Files, log: Log, version: str
) -> None:
    """Log what starts here, on how quick a disk, and what does not start."""
    log(
        "service.starting",
        version=version,
        sqlite=store.sqlite_version,
        path=config.store.path,
        flush_ms=flush_ms(config, files),
        workflows=registry.names(),
    )
    if (brought := store.brought) is not None:
        log("store.migrated", from_schema=brought.schema, copy=brought.copy)
    refused = registry.refused
    for name, reasons in refused["stages"].items():
        log("stage.refused", level="error", stage=name, reason="; ".join(reasons))
    for name, reasons in refused["sources"].items():
        log("source.refused", level="error", source=name, reason="; ".join(reasons))
    for name, reasons in refused["companions"].items():
        log("companion.refused", level="error", companion=name, reason="; ".join(reasons))
    for name, reasons in refused["hooks"].items():
        log("hook.refused", level="error", hook=name, reason="; ".join(reasons))
    for name, reasons in refused["panels"].items():
        log("panel.refused", level="error", panel=name, reason="; ".join(reasons))
    for name, reasons in refused["workflows"].items():
        log("workflow.refused", level="error", workflow=name, reasons=list(reasons))
    for name in registry.names():
        for text in registry.absent_children(name):
            log("children.unavailable", level="warning", workflow=name, detail=text)
    unknown = overrides.unknown_plugins(config, offered())
    unknown += overrides.idle_rates(config, registry.rates())
    for fault in unknown + overrides.unknown_workflows(config, registry.known()):
        log("config.ignored", level="warning", detail=fault)


def keep_secrets(config: Config, registry: Registry, redaction: Redaction, log: Log) -> None:
    """Learn the values of all secrets that the settings name: no text of ours may hold them."""
    named = [*config.notify.secrets_env]
    for name in registry.names():
        definition = registry.current(name)
        settings = definition.workflow.settings if definition is not None else {}
        redaction.learn(secrets_of_settings(settings, os.environ))
        named.append(config.workflow(name).notify.secret_env or "")
    for source in registry.sources:
        named += config.webhook(source).secrets_env
    redaction.learn(one for name in named for one in os.environ.get(name, "").split())
    if hear := getattr(log, "clean_with", None):
        hear(redaction)


async def tell_of_restoration(store: Store, clock: Clock, log: Log) -> None:
    """Say once what it means that this file was put in place from a backup: what others did between
    then and now is unknown here, and what was done here may be done again."""
    found = await store.reader.restoration()
    if found is None:
        return
    open_now = await store.reader.uncertain(NAMED_MAX)
    fields = {
        "backup": found.backup,
        "since": text_of(found.since),
        "until": text_of(found.until),
        "notifications_may_repeat": open_now.notification_count,
        "notifications": list(open_now.notifications),
        "webhooks_may_be_missing": open_now.webhook_count,
        "webhooks": list(open_now.webhooks),
        "lost": msgspec.to_builtins(found.lost),
    }
    log("service.restored", level="warning", **fields)
    record = AuditRecord("service.restored", "service", fields)
    await store.commit(Note(record, clock.now()))
    await store.commit(RestorationTold(found.id, clock.now()))


async def remember(store: Store, registry: Registry, clock: Clock, log: Log) -> None:
    """Keep every declaration that a job may be born under, by its digest."""
    for name in registry.names():
        definition = registry.current(name)
        assert definition is not None
        await store.commit(_remembered(definition, clock.now()))
    kept = await store.reader.declarations()
    registry.remember(kept)
    await _told_of_upgrades(store, registry, kept, log)
    await _told_of_the_gone(store, registry, log)


async def _told_of_upgrades(
    store: Store, registry: Registry, kept: Iterable[tuple[str, str, bytes]], log: Log
) -> None:
    """Say what becomes of jobs under way whose declaration is not the one of today. Where there is
    no other declaration, nobody is asked."""
    older = {digest for name, digest, _ in kept if not registry.is_current(name, digest)}
    places = await store.reader.under_way() if older else ()
    waiting: Counter[str] = Counter()
    for place in places:
        waiting[place.digest] += place.jobs
    for (name, pinned), reasons in registry.outdated.items():
        if jobs := waiting.get(pinned):
            which = f"{name} {pinned[:SHORT]}"
            about = {"declaration": which, "jobs": jobs, "reasons": list(reasons)}
            log("declaration.outdated", level="error", **about)
    for name in registry.names():
        if digests := registry.namesakes(name):
            said = [digest[:SHORT] for digest in digests]
            log("declaration.same_version", level="warning", workflow=name, digests=said)
        _tell_of_upgrade(registry.forecast(name, places), log)


def _tell_of_upgrade(found: Forecast, log: Log) -> None:
    if not found.differs:
        return
    log(
        "workflow.upgraded",
        level="warning" if found.lacks else "info",
        workflow=found.workflow,
        go_on=found.jobs("today"),
        under_older=found.jobs("older"),
        stuck=found.jobs("stuck"),
        lacks=list(found.lacks),
    )


async def _told_of_the_gone(store: Store, registry: Registry, log: Log) -> None:
    """Workflows that are not loaded, with the number of their jobs that are under way."""
    gone = [one for one in await store.reader.declarations() if one[0] not in registry.names()]
    if not gone:
        return
    over = {(name, status) for name, _, data in gone for status in _over(data)}
    waiting: Counter[str] = Counter()
    for workflow, status, jobs in (await store.reader.counts()).by_status:
        if workflow not in registry.names() and (workflow, status) not in over:
            waiting[workflow] += jobs
    for name, jobs in sorted(waiting.items()):
        reason = "; ".join(registry.refused["workflows"].get(name, ())) or "no plugin brings it"
        log("workflow.missing", level="error", workflow=name, jobs=jobs, reason=reason)


def _over(data: bytes) -> list[str]:
    """The statuses in which a job of this declaration has ended."""
    try:
        states = leniently(data).states
    except msgspec.MsgspecError:
        return []
    return [state.name for state in states if state.ended]


def _remembered(definition: Definition, now: int) -> Remember:
    workflow = definition.workflow
    states = tuple((state.name, state.kind) for state in workflow.states)
    return Remember(
        definition.digest, workflow.name, workflow.version, definition.encoded, states, now
    )


def flush_ms(config: Config, files: Files) -> float | None:
    """The price of a flush to the disk of the database, which every commit waits for."""
    folder = os.path.dirname(os.path.abspath(config.store.path))
    found = files.flushes_s(folder, FLUSHES)
    return round(1000 * median(found), 3) if found else None


async def first_token(
    config: Config, store: Store, clock: Clock, ids: Ids, files: Files
) -> str | None:
    """The first admin, on the first start; without tokens, the account of the local user."""
    now = clock.now()
    if config.auth.mode == "none":
        initial = config.credits.initial
        await store.commit(Grant(LOCAL, initial, "initial", "service", now, once=True))
        return None
    if any(_is_live_admin(token, now) for token in await store.reader.tokens()):
        return None
    token = ids.secret()
    data = token.encode()
    files.write_private(admin_token_path(config), data + b"\n")
    unit = NewToken(ids.fresh(), "admin", "admin", digest(data), now, "service")
    await store.commit(unit)
    return token


def admin_token_path(config: Config) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(config.store.path)), "admin.token")


def settle() -> None:
    """Freeze what was loaded: it stays for good. To look through it again costs a sixth of the work
    on a job, and makes everybody wait meanwhile. What thousands are about at a time is no garbage
    either, and each such look makes more of them come at once."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTING)


def _is_live_admin(token: Token, now: int) -> bool:
    expired = token.expires_at is not None and token.expires_at <= now
    return token.role == "admin" and token.revoked_at is None and not expired
