"""A provider that speaks as OpenAI does, and LocalAI, and many others: pictures, chat, transcripts.

Routes: ``images``, ``chat``, ``transcriptions``, ``models``, ``files``.
"""

import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec

from jobrunner.testing.providers.made import Made, picture
from jobrunner.testing.providers.mishaps import PAGE, Refusal, WholeAnswer
from jobrunner.testing.providers.provider import Provider, Routes
from jobrunner.testing.providers.record import RecordedCall

MODEL = "fake-1"
WORDS: dict[int, tuple[str, str, str | None]] = {
    400: ("The request is not valid.", "invalid_request_error", None),
    401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    404: ("There is no such thing here.", "invalid_request_error", "not_found"),
    409: ("This idempotency key was used for another request.", "idempotency_error", None),
    429: ("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    500: ("The server had an error while processing your request.", "server_error", None),
    503: ("The engine is currently overloaded.", "server_error", None),
}
REFUSED = "Your request was rejected as a result of our safety system."

Draw = Callable[[dict[str, Any]], Made]
Reply = Callable[[dict[str, Any]], str]
Segments = list[tuple[float, float, str]]
Listen = Callable[[bytes], Segments]


def echo(asked: dict[str, Any]) -> str:
    """The last message, or a JSON object around it where JSON was asked for."""
    last = str(asked["messages"][-1].get("content", ""))
    if (asked.get("response_format") or {}).get("type", "text") == "text":
        return last
    return msgspec.json.encode({"text": last}).decode()


def hear(sound: bytes) -> Segments:
    """Answer with two sentences, whatever was said."""
    return [(0.0, 1.5, "This is the first sentence."), (1.5, 3.0, "And this is the second.")]


class OpenAILike(Provider):
    """``draw`` makes a picture of a request, ``reply`` a chat's answer, ``listen`` the segments of
    a recording (start, end, text)."""

    embeds = frozenset({"images"})

    def __init__(
        self,
        *,
        draw: Draw = picture,
        reply: Reply = echo,
        listen: Listen = hear,
        port: int = 0,
        token: str = "",
    ) -> None:
        super().__init__(port=port, token=token)
        self._draw, self._reply, self._listen = draw, reply, listen

    def routes(self) -> Routes:
        return {
            "images": ("POST", ("/v1/images/generations",), self._images),
            "chat": ("POST", ("/v1/chat/completions",), self._chat),
            "transcriptions": ("POST", ("/v1/audio/transcriptions",), self._transcriptions),
            "models": ("GET", ("/v1/models",), self._models),
            "files": ("GET", ("/files/{name}",), self.file),
        }

    def complaint(self, status: int) -> WholeAnswer:
        return _error(status, *WORDS.get(status, WORDS[500 if status >= 500 else 400]))

    def refusal(self, call: RecordedCall, fault: Refusal) -> WholeAnswer:
        if fault.spoken and call.route == "chat":
            return _said(None, "content_filter", refusal="I cannot help with that.")
        return _error(400, REFUSED, "image_generation_user_error", fault.code)

    def _images(self, call: RecordedCall) -> WholeAnswer:
        asked = call.json
        if not isinstance(asked, dict) or not isinstance(asked.get("prompt"), str):
            return _error(400, "'prompt' is required", "invalid_request_error", None, "prompt")
        pictures = [self._picture(call, asked, n) for n in range(int(asked.get("n") or 1))]
        return _json({"created": int(time.time()), "data": pictures})

    def _picture(self, call: RecordedCall, asked: dict[str, Any], number: int) -> dict[str, str]:
        made = self._draw({**asked, "number": number})
        if call.fault == "Page":
            made = Made(PAGE, made.content_type, made.ending)
        if asked.get("response_format") == "url":
            return {"url": self.keep(f"{call.number}-{number}", made)}
        return {"b64_json": b64encode(made.content).decode()}

    def _chat(self, call: RecordedCall) -> WholeAnswer:
        asked = call.json
        if not isinstance(asked, dict) or not asked.get("messages"):
            return _error(400, "'messages' is required", "invalid_request_error", None, "messages")
        if asked.get("stream"):
            text = "this fake does not stream; ask without 'stream'"
            return _error(400, text, "invalid_request_error", None, "stream")
        return _said(self._reply(asked), "stop")

    def _transcriptions(self, call: RecordedCall) -> WholeAnswer:
        sound = call.form.get("file")
        if not isinstance(sound, bytes):
            return _error(400, "'file' is required", "invalid_request_error", None, "file")
        segments = self._listen(sound)
        text = " ".join(said for _, _, said in segments)
        kind = call.form.get("response_format", "json")
        if kind == "text":
            return WholeAnswer(body=f"{text}\n".encode(), content_type="text/plain")
        if kind == "verbose_json":
            return _json(_verbose(text, segments))
        return _json({"text": text})

    def _models(self, call: RecordedCall) -> WholeAnswer:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "nobody"}
        return _json({"object": "list", "data": [model]})


def _verbose(text: str, segments: Segments) -> dict[str, Any]:
    told = [
        {"id": number, "start": start, "end": end, "text": said}
        for number, (start, end, said) in enumerate(segments)
    ]
    ends = max((end for _, end, _ in segments), default=0.0)
    return {
        "task": "transcribe",
        "language": "english",
        "duration": ends,
        "text": text,
        "segments": told,
    }


def _said(content: str | None, reason: str, refusal: str | None = None) -> WholeAnswer:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return _json(
        {
            "id": "chatcmpl-fake",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


def _error(
    status: int, message: str, kind: str, code: str | None, param: str | None = None
) -> WholeAnswer:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return WholeAnswer(status, msgspec.json.encode({"error": error}))


def _json(value: Any) -> WholeAnswer:
    return WholeAnswer(body=msgspec.json.encode(value))
