"""Checks of declared children: whether they can be paid for and cancelled as it is said.

A workflow may be installed before or after those whose jobs it submits. So one that is not there is
no fault of the declaration: it is told, and a stage that wants such a job tries again.
"""

from collections.abc import Collection, Iterator, Mapping

from jobrunner.check.faults import Fault, meant
from jobrunner.core.declaration.offspring import ChildWorkflow
from jobrunner.core.declaration.workflow import Definition, Workflow

CANCEL = "cancel"
TAKES = ("hold", "charge")


def uncovered(workflow: Workflow) -> Iterator[Fault]:
    """Children that a price covers which is never taken."""
    for child in workflow.children:
        if child.covered and (problem := _unpaid(workflow)):
            yield Fault(
                "children",
                f"{workflow.name} covers its children of {child.workflow}, and {problem}, or "
                "leave out covered",
                (f"a job of {workflow.name} submits one of {child.workflow}", "here: nobody pays"),
            )


def uncancelable(name: str, known: Mapping[str, Definition]) -> dict[str, list[Fault]]:
    """Parents that cancel children which have no way to be cancelled, with their faults; ``name``
    is the workflow that is new, as a parent or as a child."""
    faults: dict[str, list[Fault]] = {}
    for parent, definition in known.items():
        for child in definition.workflow.children:
            there = known.get(child.workflow) if name in (parent, child.workflow) else None
            if child.at_end == CANCEL and there and (problem := uncanceled(there.workflow)):
                faults.setdefault(parent, []).append(_left_alone(parent, child, problem))
    return faults


def absent_children(
    workflow: Workflow, loaded: Collection[str], installed: Collection[str]
) -> Iterator[str]:
    """Sentences about declared children that no job can be made of for now."""
    for child in workflow.children:
        if child.workflow not in loaded:
            refused = f"it was refused, see `jobrunner workflow check {child.workflow}`"
            why = refused if child.workflow in installed else meant(child.workflow, loaded)
            yield f"{workflow.name} declares children of {child.workflow}, not loaded here; {why}"


def uncanceled(workflow: Workflow) -> str:
    """The want because of which no owner can cancel its jobs; empty where there is none."""
    command = next((one for one in workflow.commands if one.name == CANCEL), None)
    if command is None:
        return f"{workflow.name} has no command {CANCEL}; give it one"
    if "user" not in command.roles:
        roles = ", ".join(command.roles) or "nobody"
        return f"its command {CANCEL} is for {roles}, not for the user; add user to its roles"
    return ""


def _unpaid(workflow: Workflow) -> str:
    if not any(job_type.price > 0 for job_type in workflow.job_types):
        return "none of its job types has a price; give one a price"
    moves = {workflow.birth.money, *(edge.money for edge in workflow.edges)}
    moves |= {command.money for command in workflow.commands}
    if moves.isdisjoint(TAKES):
        return 'never takes its price; say money="hold" at its birth'
    return ""


def _left_alone(parent: str, child: ChildWorkflow, problem: str) -> Fault:
    return Fault(
        "children",
        f"{parent} cancels its children of {child.workflow} when it ends, and {problem}, or "
        'declare at_end="leave"',
        (f"{parent} ends before a child of {child.workflow}", "here: nothing cancels that one"),
    )
