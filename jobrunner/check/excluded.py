"""Counter-examples that the edges of a declaration exclude: each edge is left out in turn, and the
checker shows the job that would suffer. So a proof that found nothing can be inspected."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.check.faults import Fault
from jobrunner.core.declaration.workflow import Definition


class Excluded(Struct, frozen=True):
    """The first fault that there would be without one edge."""

    source: str
    target: str
    fault: Fault


def excluded(definition: Definition) -> Iterator[Excluded]:
    """Leave out every declared edge once; one that nothing depends on has no example."""
    edges = definition.workflow.edges
    for place, edge in enumerate(edges):
        without = replace(definition.workflow, edges=(*edges[:place], *edges[place + 1 :]))
        faults = check(Definition(without, definition.functions, definition.structs))
        if faults:
            yield Excluded(edge.source, edge.target, faults[0])
