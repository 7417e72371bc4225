"""The stage ``howera.regenerate``: one part of the draft is written anew, the rest stays.

Whether it still counts when it is done is not this stage's to say: somebody may have saved another
draft meanwhile, and the lifecycle looks at that in the commit that takes this one.
"""

import copy
import re
from typing import Any

from jobrunner import Done, PermanentFailure, PlainContext, openai_like, stage
from jobrunner_howera.transcribing import account

EVERYTHING = (None, "", "all", "*")
NAMED = ("steps", "step", "block_id", "id")
TOLD = re.compile(
    r"^(?:(?:so|now|then|next|and),?\s+)*(?:you|we)(?:\s+(?:need|have|want|are going)\s+to"
    r"|['’](?:re|ll)\s+(?:going\s+to\s+)?|\s+(?:should|must|can|will))\s+",
    re.IGNORECASE,
)
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
    for number, step in enumerate(chosen, 1):
        ctx.progress(100 * (number - 1) // len(chosen), str(step.get("title", ""))[:80])
        if ctx.settings.get("writer") == "openai":
            step["text"] = _asked(ctx, step, wish)
        else:
            rewrite(step, wish)
    value = fresh["steps"][0]["text"] if is_text else fresh
    return Done(artifacts={"draft": value}, result={"steps": [step.get("id") for step in chosen]})


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


def rewrite(step: dict[str, Any], wish: str) -> None:
    """What can be done to a text without understanding it: a title, shorter, a list, as orders."""
    if title := re.search(r"title\s*[:=]\s*(.+)", wish, re.IGNORECASE):
        step["title"] = title[1].strip().strip("\"'")[:200]
        return
    words = wish.lower()
    sentences = [_tidy(one) for one in _sentences(str(step.get("text") or ""))]
    if any(word in words for word in ("short", "brief", "concise")):
        keep = max(1, (len(sentences) + 1) // 2)
        longest = sorted(sentences, key=len, reverse=True)[:keep]
        sentences = [one for one in sentences if one in longest]
    if any(word in words for word in ("order", "imperative", "direct", "command")):
        sentences = [_ordered(one) for one in sentences]
    as_list = any(word in words for word in ("list", "bullet", "points"))
    step["text"] = "\n".join(f"- {one}" for one in sentences) if as_list else " ".join(sentences)


def _sentences(text: str) -> list[str]:
    """Also those that stand in a list."""
    lines = [line.removeprefix("- ").strip() for line in text.split("\n")]
    return [one for line in lines for one in re.split(r"(?<=[.!?])\s+", line) if one]


def _ordered(sentence: str) -> str:
    """What one is told to do, without being told that one is told."""
    plain = TOLD.sub("", sentence)
    return plain[:1].upper() + plain[1:]


def _tidy(sentence: str) -> str:
    """Without what one says while thinking."""
    plain = re.sub(r"\b(um+|uh+|you know|basically|sort of|kind of)\b,?\s*", "", sentence,
                   flags=re.IGNORECASE).strip()  # fmt: skip
    plain = plain[:1].upper() + plain[1:]
    return plain if plain.endswith((".", "!", "?")) else f"{plain.rstrip(',;:')}."


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
