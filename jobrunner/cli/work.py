"""``work``: run stages of a workflow here, for a service elsewhere."""

import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter
from msgspec.structs import replace

from jobrunner.cli.frame.options import Asking, Many, positive, seconds

if TYPE_CHECKING:
    from jobrunner.client import AsyncClient
    from jobrunner.config.settings import Config
    from jobrunner.ending import Ending
    from jobrunner.log import Log
    from jobrunner.ports import Ports
    from jobrunner.work import Abilities, Equipment, Taking, WorkTerms

FOLDER = "work.d"
# What is given back has as long as stages have had, and the process so much more.
LEAVES_S = 5.0


async def work(
    *,
    workflow: str,
    stage: Many = None,
    slots: Annotated[int | None, Parameter(validator=positive)] = None,
    folder: str = FOLDER,
    drain: str = "20s",
    asking: Asking = Asking(),
) -> None:
    """Take work of a workflow from a service, and run its stages here, until SIGTERM or SIGINT.

    The same plugins are installed here as there, and the states are bound to "remote" there.

    Parameters
    ----------
    workflow
        Whose jobs. The token is for it, of role workflow.
    stage
        Run only this stage; repeat for more.
    slots
        How many stages run at a time; else as many as there are processors.
    folder
        The folder for files of running stages.
    drain
        How long stages may go on when it is told to stop; then work is given back. When it is
        told a second time, it ends at once.

    """
    from jobrunner.app import load_definitions
    from jobrunner.client import AsyncClient
    from jobrunner.log import bridge, open_log
    from jobrunner.work import Abilities, WorkTerms, for_elsewhere

    os.umask(0o077)
    config = for_elsewhere(asking.load())
    registry = load_definitions(config, at_home=True)
    abilities = Abilities(registry, workflow, tuple(stage or ()))
    resources = {**registry.supplied, **config.resources}
    drain_s = float(seconds(drain, "--drain") or 0)
    terms = WorkTerms(slots or os.cpu_count() or 1, drain_s, resources)
    log = open_log(config.log, os.environ)
    bridge(log)
    try:
        async with AsyncClient(asking.url, asking.token) as client:
            await _at_work(config, abilities, client, terms, folder, log)
    finally:
        log.close()


async def _at_work(
    config: "Config",
    abilities: "Abilities",
    client: "AsyncClient",
    terms: "WorkTerms",
    folder: str,
    log: "Log",
) -> None:
    from jobrunner.ending import WorkEnding
    from jobrunner.equipping import accompanied
    from jobrunner.files.lent import own_folder
    from jobrunner.ports import system_ports
    from jobrunner.work import Taking

    ports, name = system_ports(), abilities.definition.workflow.name
    with own_folder(folder, ports.ids.fresh()) as mine:
        beside = os.path.join(os.path.abspath(folder), "jobs.db")  # its companions stay there
        store = replace(config.store, path=beside, assets=mine)
        config = replace(config, store=store)
        equipment = _equipment(config, abilities, client, ports, log)
        taking, around = Taking(equipment, terms), equipment.around
        ending = WorkEnding(log, ports.children, ports.clock)
        registry = abilities.registry
        registry.companions = {key: one for key, one in registry.companions.items() if key == name}
        async with (
            aclosing(around.outlets),
            accompanied(config, registry, around, ports.clock, log),
            ports.signals.stops() as stops,
            anyio.create_task_group() as group,
        ):
            group.start_soon(ending.watch)
            group.start_soon(ending.listen, stops, 2 * terms.drain_s + LEAVES_S)
            group.start_soon(_drain_when_asked, ending, taking)
            stages = sorted({one["stage"] for one in abilities.runs})
            log("work.begins", workflow=name, url=around.base_url, stages=stages)
            for missing in abilities.missing:
                log("stage.missing", level="warning", workflow=name, stage=missing)
            await taking.run()
            group.cancel_scope.cancel()
    log("work.stopped")


def _equipment(
    config: "Config", abilities: "Abilities", client: "AsyncClient", ports: "Ports", log: "Log"
) -> "Equipment":
    from jobrunner.equipping import surroundings
    from jobrunner.startup import keep_secrets
    from jobrunner.work import Equipment

    name = abilities.definition.workflow.name
    around = surroundings(config, ports)
    keep_secrets(config, abilities.registry, around.redaction, log)
    around.hold([name])
    around.base_url = around.local_url = client.line.place.url
    return Equipment(
        client=client,
        ports=ports,
        around=around,
        abilities=abilities,
        folder=config.store.assets,
        floor=config.store.min_free,
        own_settings=config.workflow(name).settings,
        log=log,
    )


async def _drain_when_asked(ending: "Ending", taking: "Taking") -> None:
    await ending.asked.wait()
    taking.drain()
