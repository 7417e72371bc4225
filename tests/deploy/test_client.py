"""Our own client through the shipped recipes for proxies: under a path, and with TLS."""

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobrunner.client import Client, InConflict, RetryLimits, Unanswered
from jobrunner.errors import Unreachable
from tests.client.in_loop import InLoop
from tests.deploy.proxied import PREFIX, Proxied, Run, caddy, nginx, proxied

FILM = os.urandom(3_000_000)
WAYS: dict[str, Run] = {"nginx": nginx, "caddy": caddy}


@pytest.fixture(scope="module", params=WAYS)
def way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    for program in (request.param, "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"make system installs {program}")
    folder: Path = tmp_path_factory.mktemp("client")
    with proxied(folder, WAYS[request.param], at_socket=False) as found:
        yield found


@pytest.mark.parametrize("kind", [Client, InLoop], ids=["blocking", "in a loop"])
def test_whatever_our_client_does_it_does_through_a_proxy(way: Proxied, kind: Any) -> None:
    assert way.url.startswith("https://")
    assert way.url.endswith(PREFIX)
    with kind(way.url, way.service.token, trust=way.trust) as client:
        assert client.submit("hello", {"name": "Ada"}, wait_s=30).ended
        job = client.submit("howera")
        seen = iter(client.events(job.id))
        assert next(seen).job.status == "CREATED"
        client.cancel(job.id)
        assert [event.kind for event in seen] == ["transition", "settled"]
        with pytest.raises(InConflict):
            client.cancel(job.id, expected_version=1)
        file = client.upload(FILM, name="film.mp4", piece=1_000_000)
        assert file.sha256 == hashlib.sha256(FILM).hexdigest()
        into = io.BytesIO()
        assert client.download(file.id, into) == len(FILM)
        assert into.getvalue() == FILM


@pytest.mark.parametrize("kind", [Client, InLoop], ids=["blocking", "in a loop"])
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(way: Proxied, kind: Any) -> None:
    once = RetryLimits(tries=1)
    with (
        kind(way.url, way.service.token, limits=once) as client,
        pytest.raises(Unreachable, match=r"(?i)certificate") as refused,
    ):
        client.workflows()
    assert not isinstance(refused.value, Unanswered)
