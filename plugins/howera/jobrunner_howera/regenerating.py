"""The stage ``howera.regenerate``: one part of the draft is written anew, the rest stays.

Whether it still counts when it is done is not this stage's to say: somebody may have saved another
draft meanwhile, and the lifecycle looks at that in the commit that takes this one.
"""

import copy
import os
from typing import Any

from jobrunner import Done, PermanentFailure, PlainContext, openai_like, stage
from jobrunner_howera import film, rewriting
from jobrunner_howera.audio import video_of
from jobrunner_howera.transcribing import account

MIB = 1024 * 1024
EVERYTHING = (None, "", "all", "*")
NAMED = ("steps", "step", "block_id", "id")
Draft = dict[str, Any]


@stage("howera.regenerate", memory=8192 * MIB)
def regenerate(ctx: PlainContext) -> Done:
    request, draft = ctx.artifacts.get("regenerate_request"), ctx.artifacts.get("draft")
    if not isinstance(request, dict) or not isinstance(draft, dict | str):
        raise PermanentFailure("DRAFT_MISSING", "there is no draft to write anew")
    is_text = isinstance(draft, str)
    held = {"steps": [{"id": "text", "text": draft}]} if isinstance(draft, str) else draft
    fresh: Draft = copy.deepcopy(held)
    chosen = selected(fresh, request.get("selection"))
    wish = str(request.get("instruction") or "")
    moment_s = request.get("moment_s")
    if moment_s is not None:
        _pictured(ctx, chosen, float(moment_s))
    if (moment_s is None or wish) and not _written(ctx, chosen, wish):
        return _not_understood(ctx)
    steps = [step.get("id") for step in chosen]
    value = fresh["steps"][0]["text"] if is_text else fresh
    told = {"steps": steps, "understood": True, "changed": fresh != held}
    return Done(artifacts={"draft": value}, result=told)


def _written(ctx: PlainContext, chosen: list[dict[str, Any]], wish: str) -> bool:
    """The words of each step; False where the wish is not understood."""
    writer = ctx.settings.get("writer") == "openai"
    if not writer and not rewriting.understands(wish):
        return False
    for number, step in enumerate(chosen, 1):
        ctx.progress(100 * (number - 1) // len(chosen), str(step.get("title", ""))[:80])
        before = step.get("text")
        if writer:
            step["text"] = _asked(ctx, step, wish)
        else:
            rewriting.rewrite(step, wish)
        if step.get("text") != before:
            step.pop("doubtful", None)  # they are places in the words that were
    return True


def _pictured(ctx: PlainContext, chosen: list[dict[str, Any]], moment_s: float) -> None:
    """The picture of one step, taken at another moment.

    Raises: PermanentFailure SELECTION_UNKNOWN, PICTURE_MISSING"""
    if len(chosen) != 1:
        text = f"moment_s takes the picture of one step, and {len(chosen)} are selected"
        raise PermanentFailure("SELECTION_UNKNOWN", text)
    into = os.path.join(ctx.scratch, f"moment-{moment_s:.2f}.jpg")
    if not film.picture_at(video_of(ctx), moment_s, into):
        text = f"the film shows nothing at {moment_s:.1f} s"
        raise PermanentFailure("PICTURE_MISSING", text)
    kept = ctx.save(os.path.basename(into), into, asset_type="frame")
    chosen[0].update(image=kept.url, image_s=round(moment_s, 2))


def _not_understood(ctx: PlainContext) -> Done:
    """The draft stays as it is; that nothing was done is said where everybody looks."""
    text = f"not understood, nothing changed; without a language model: {rewriting.UNDERSTOOD}"
    ctx.progress(None, text)
    ctx.log(text)
    return Done(result={"steps": [], "understood": False, "changed": False, "message": text})


def selected(draft: Draft, selection: Any) -> list[dict[str, Any]]:
    """By the id of a step, its number, ids in a list, or all of them.

    Raises: PermanentFailure SELECTION_UNKNOWN"""
    held = draft.get("steps")
    steps = [step for step in held if isinstance(step, dict)] if isinstance(held, list) else []
    wanted = _wanted(selection)
    found = steps if wanted in EVERYTHING else [
        step
        for number, step in enumerate(steps, 1)
        if any(one in (step.get("id"), number, str(number)) for one in _listed(wanted))
    ]  # fmt: skip
    if not found:
        known = ", ".join(str(step.get("id")) for step in steps[:20]) or "none"
        text = f"no step is meant by {selection!r}; there are: {known}"
        raise PermanentFailure("SELECTION_UNKNOWN", text)
    return found


def _wanted(selection: Any) -> Any:
    """An object names steps under one of a few words; one that names none means none."""
    if not isinstance(selection, dict):
        return selection
    return next((selection[name] for name in NAMED if name in selection), [])


def _listed(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def _asked(ctx: PlainContext, step: dict[str, Any], wish: str) -> str:
    order = "Rewrite this step of an instruction. Answer with its new text and nothing else."
    told = f"Title: {step.get('title')}\n\n{step.get('text')}\n\nWanted: {wish or 'clearer'}"
    asked = openai_like.chat(
        account(ctx),
        [{"role": "system", "content": order}, {"role": "user", "content": told}],
        model=str(ctx.settings.get("model") or "gpt-4o-mini"),
        repeat_key=ctx.idempotency_key(f"regenerate:{step.get('id')}"),
    )
    return openai_like.text_in(ctx.http.exchange(asked.method, asked.url, **asked.options)).strip()
