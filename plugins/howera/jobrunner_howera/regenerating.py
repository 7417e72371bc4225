"""The stage ``howera.regenerate``: one part of the draft is written anew, the rest stays.

Whether it still counts when it is done is not this stage's to say: somebody may have saved another
draft meanwhile, and the lifecycle looks at that in the commit that takes this one.
"""

import copy
from typing import Any

from jobrunner import Done, PermanentFailure, PlainContext, openai_like, stage
from jobrunner_howera import rewriting
from jobrunner_howera.transcribing import account

EVERYTHING = (None, "", "all", "*")
NAMED = ("steps", "step", "block_id", "id")
Draft = dict[str, Any]


@stage("howera.regenerate")
def regenerate(ctx: PlainContext) -> Done:
    request, draft = ctx.artifacts.get("regenerate_request"), ctx.artifacts.get("draft")
    if not isinstance(request, dict) or not isinstance(draft, dict | str):
        raise PermanentFailure("DRAFT_MISSING", "there is no draft to write anew")
    is_text = isinstance(draft, str)
    held = {"steps": [{"id": "text", "text": draft}]} if isinstance(draft, str) else draft
    fresh: Draft = copy.deepcopy(held)
    chosen = selected(fresh, request.get("selection"))
    wish = str(request.get("instruction") or "")
    writer = ctx.settings.get("writer") == "openai"
    if not writer and not rewriting.understands(wish):
        return _not_understood(ctx)
    for number, step in enumerate(chosen, 1):
        ctx.progress(100 * (number - 1) // len(chosen), str(step.get("title", ""))[:80])
        if writer:
            step["text"] = _asked(ctx, step, wish)
        else:
            rewriting.rewrite(step, wish)
    steps = [step.get("id") for step in chosen]
    value = fresh["steps"][0]["text"] if is_text else fresh
    told = {"steps": steps, "understood": True, "changed": fresh != held}
    return Done(artifacts={"draft": value}, result=told)


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
