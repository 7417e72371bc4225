"""One picture for one prompt, paid for by a hold.

The lifecycle is a table in ``workflow``; this room adds two functions that a table cannot say: what
a prompt may not contain (``guards``) and when two submissions are one (``recipes``). ``stage`` is
the work itself, with ``sketcher`` for where there is no provider.

1. Credits are held at birth and settled once: captured by a picture and by a refusal of the
   prompt (the penalty), released when the job is given up.
2. A failure is a status that everybody can see. It leads back to the line after a backoff or, in
   the same commit, on to ``dead_letter``.
3. A prompt is read twice: at the door, and again at pick-up, because the operator's list of words
   may have grown while the job stood in line.

Absent on purpose: a cancel and a retry for users. The timer retries; an operator may take the two
edges out of ``failed`` by hand.
"""

from jobrunner import Definition, Panel
from jobrunner_image_generation.guards import one_picture, prompt_allowed
from jobrunner_image_generation.params import ImageParams, Note
from jobrunner_image_generation.recipes import same_minute
from jobrunner_image_generation.settings import Settings
from jobrunner_image_generation.workflow import WORKFLOW

__all__ = ["definition", "panel"]

definition = Definition(
    WORKFLOW,
    functions={
        "prompt_allowed": prompt_allowed,
        "one_picture": one_picture,
        "same_minute": same_minute,
    },
    structs={"image": ImageParams, "note": Note},
    settings=Settings,
)

panel = Panel("image-generation", __name__, title="The picture")
