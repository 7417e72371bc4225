"""An issuer of tokens on loopback, which really signs, and rotates its keys when told."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

AUDIENCE = "jobrunner"
Key = RSAKey | ECKey | OKPKey | OctKey


class Issuer:
    """``asked`` counts who wanted its document, ``fetched`` who wanted its keys."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: list[dict[str, Any]] = []
        self.asked = 0
        self.down = False
        self.named: str | None = None
        self.leads_to = ""
        self.fetched = 0

    def add(self, key: Key, **about: Any) -> Key:
        """Publish it."""
        self.keys.append({**key.as_dict(private=False), **about})
        return key

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "roles": ["users"]}
        whole = {**usual, "iat": now, "exp": now + 300, **more}
        return {name: value for name, value in whole.items() if value is not None}

    def token(self, key: Key, algorithm: str, header: Any = None, **more: Any) -> str:
        about = {"alg": algorithm, "kid": key.kid, **(header or {})}
        about = {name: value for name, value in about.items() if value is not None}
        return jwt.encode(about, self.claims(**more), key, algorithms=[algorithm])


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer = Issuer()

    async def document(request: web.Request) -> web.Response:
        issuer.asked += 1
        if issuer.down:
            raise web.HTTPBadGateway
        whose = issuer.named or issuer.url
        place = issuer.leads_to or f"{issuer.url}/keys"
        return web.json_response({"issuer": whose, "jwks_uri": place, "more": 1})

    async def keys(request: web.Request) -> web.Response:
        issuer.fetched += 1
        if issuer.down:
            raise web.HTTPBadGateway
        return web.json_response({"keys": issuer.keys})

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", document)
    app.router.add_get("/keys", keys)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield issuer
    finally:
        await runner.cleanup()


def packed(value: Any) -> str:
    """A part of a token, made by hand."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()
