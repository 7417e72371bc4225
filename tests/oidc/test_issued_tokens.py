"""Tokens of an identity provider, at the door of the real service: who it names comes in as what
the operator says, and nobody else."""

import hashlib
import hmac
import json
import time
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from msgspec.structs import replace

from jobrunner.config.settings import LimitsSection, OidcSection
from jobrunner.oidc.keyset import UNKNOWN_EVERY_S
from jobrunner.ports import SystemClock, system_ports
from tests.http.serving import House, Said, definitions, opened
from tests.http.uploading import until
from tests.oidc.issuing import AUDIENCE, Issuer, issuing, packed

pytestmark = pytest.mark.anyio

ROLES: Any = {"admins": "admin", "workers": "workflow", "users": "user", "auditors": "reader"}
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
with warnings.catch_warnings(action="ignore"):
    SMALL = RSAKey.generate_key(1024, {"kid": "small"})
SECRET = OctKey.generate_key(256, {"kid": "secret"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})


@pytest.fixture(scope="module")
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as found:
        for key in (RSA, EC, ED, SMALL, SECRET):
            found.add(key)
        found.keys[-1] = SECRET.as_dict(private=True)
        found.add(RSAKey.generate_key(2048, {"kid": "enc"}), use="enc")
        found.keys.append({"kty": "RSA", "kid": "broken", "n": "?"})
        yield found


def settings(issuer: Issuer, **more: Any) -> OidcSection:
    usual = {"issuer": issuer.url, "audience": AUDIENCE, "roles": ROLES}
    return OidcSection(**{**usual, **more})


@pytest.fixture(scope="module")
async def house(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with serving(tmp_path_factory.mktemp("oidc"), settings(issuer)) as house:
        yield house


def serving(folder: Path, oidc: OidcSection, **more: Any) -> Any:
    registry = definitions(names=("howera", "image_generation"))
    return opened(folder, registry=registry, oidc=oidc, **more)


async def asked(house: House, token: str, path: str = "/jobs") -> Said:
    return await house.caller(token).get(path)


async def test_who_has_one_is_who_it_names(house: House, issuer: Issuer) -> None:
    ann = house.caller(issuer.token(RSA, "RS256", sub="ann"))
    job = await ann.submit("howera")
    assert job["user_id"] == "ann"
    again = house.caller(issuer.token(EC, "ES256", sub="ann"))
    assert [one["id"] for one in (await again.get("/jobs")).json["jobs"]] == [job["id"]]
    bob = house.caller(issuer.token(RSA, "RS256", sub="bob"))
    assert (await bob.get("/jobs")).json["jobs"] == []
    assert (await bob.get(f"/jobs/{job['id']}")).status == 404


async def test_a_user_begins_with_credits_like_every_other(house: House, issuer: Issuer) -> None:
    eva = house.caller(issuer.token(RSA, "RS256", sub="eva"))
    before = (await eva.get("/credits")).json["balance"]
    job = await eva.submit("image-generation", params={"prompt": "a sea"})
    after = (await eva.get("/credits")).json
    assert (before, after["balance"] + after["held"]) == (25, 25)
    assert after["held"] == job["credits"]["cost"] > 0


async def test_a_user_of_the_issuer_is_given_credits_like_every_other(
    house: House, issuer: Issuer
) -> None:
    """Also before it has ever come: who begins with nothing must be given something first."""
    for name in ("mia", "oidc-abcdefghijklmnopqrstuvwxyz234567"):
        said = await house.admin.post(
            f"/admin/credits/{name}/grant", {"amount": 7, "reason": "paid", "idempotency_key": "a"}
        )
        assert (said.status, said.json["balance"]) == (200, 32)
    mia = house.caller(issuer.token(RSA, "RS256", sub="mia"))
    assert (await mia.get("/credits")).json["balance"] == 32
    said = await house.admin.post("/admin/credits/Mia/grant", {"amount": 7, "reason": "paid"})
    assert (said.status, said.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(RSA, "RS256"), (RSA, "RS512"), (RSA, "PS384"), (EC, "ES256"), (ED, "Ed25519")],
)
async def test_the_algorithms_with_two_keys(
    house: House, issuer: Issuer, key: Any, algorithm: str
) -> None:
    said = await asked(house, issuer.token(key, algorithm))
    assert said.status == 200, said.raw


@pytest.mark.parametrize(
    ("claim", "role"),
    [
        (["users"], "user"), (["x", "auditors"], "reader"), (["users", "admins"], "admin"),
        ("workers other", "workflow"), (["workers"], "workflow"),
    ],
)  # fmt: skip
async def test_a_role_is_what_the_operator_says(
    house: House, issuer: Issuer, claim: Any, role: str
) -> None:
    """The first of the operator's list that the claim has."""
    caller = house.caller(issuer.token(RSA, "RS256", roles=claim))
    made = await caller.post("/admin/tokens", {"name": "x", "role": "user"})
    assert made.status == (201 if role == "admin" else 403)
    seen = await caller.get("/admin/audit")
    assert seen.status == (200 if role in ("admin", "reader") else 403)
    work = {"workflow": "howera", "max": 1}
    said = await caller.post("/internal/claims", work)
    assert said.status == (200 if role in ("admin", "workflow") else 403)


NOW = int(time.time())
WRONG: dict[str, Any] = {
    "of another issuer": {"iss": "https://other.example.com"},
    "of an issuer whose name begins alike": {"iss": "ISSUER/"},
    "of no issuer": {"iss": None},
    "for another service": {"aud": "other"},
    "for several others": {"aud": ["other", "jobrunner2"]},
    "for nobody": {"aud": None},
    "for what is no name": {"aud": {"jobrunner": True}},
    "over": {"exp": NOW - 61},
    "without an end": {"exp": None},
    "with an end that is no number": {"exp": "tomorrow"},
    "with an end that is true": {"exp": True},
    "not good yet": {"nbf": NOW + 3600},
    "made tomorrow": {"iat": NOW + 86400},
    "of nobody": {"sub": None},
    "of a number": {"sub": 7},
    "of an empty name": {"sub": ""},
    "of a very long name": {"sub": "a" * 256},
    "without a role": {"roles": None},
    "with a role of elsewhere": {"roles": ["admin", "user"]},
    "with roles that are no list": {"roles": {"admins": True}},
}


@pytest.mark.parametrize("what", WRONG)
async def test_one_that_is_not_for_us_is_refused(house: House, issuer: Issuer, what: str) -> None:
    more = {
        name: value.replace("ISSUER", issuer.url) if isinstance(value, str) else value
        for name, value in WRONG[what].items()
    }
    said = await asked(house, issuer.token(RSA, "RS256", **more))
    assert (said.status, said.code) == (401, "UNAUTHORIZED"), said.raw
    assert said.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "more", [{"exp": NOW - 20}, {"nbf": NOW + 20}, {"iat": NOW + 20}, {"aud": ["x", AUDIENCE]}]
)
async def test_clocks_may_differ_a_little(house: House, issuer: Issuer, more: Any) -> None:
    more = {name: int(time.time()) + value - NOW if isinstance(value, int) else value
            for name, value in more.items()}  # fmt: skip
    assert (await asked(house, issuer.token(RSA, "RS256", **more))).status == 200


def unsigned(issuer: Issuer, **header: Any) -> str:
    head, body = packed({"alg": "none", **header}), packed(issuer.claims(roles=["admins"]))
    return f"{head}.{body}."


def signed_with_the_public_key(issuer: Issuer, form: str) -> str:
    """The old trick: what everybody knows, taken for a secret that both share."""
    head = packed({"alg": "HS256", "kid": "rsa", "typ": "JWT"})
    said = f"{head}.{packed(issuer.claims(roles=['admins']))}"
    secret = RSA.as_pem(private=False) if form == "pem" else RSA.as_der(private=False)
    return f"{said}.{packed(hmac.new(secret, said.encode(), hashlib.sha256).digest())}"


FORGED: dict[str, Any] = {
    "none": unsigned,
    "None": lambda issuer: unsigned(issuer, alg="None", kid="rsa"),
    "a public key as a secret": lambda issuer: signed_with_the_public_key(issuer, "pem"),
    "a public key as a secret, der": lambda issuer: signed_with_the_public_key(issuer, "der"),
    "a secret that the issuer published": lambda issuer: issuer.token(SECRET, "HS256"),
    "a stranger's key of the same name": lambda issuer: issuer.token(STRANGER, "RS256"),
    "the name of another key": lambda issuer: issuer.token(RSA, "RS256", {"kid": "ec"}),
    "a key that is too small": lambda issuer: issuer.token(SMALL, "RS256"),
    "a key that comes along": lambda issuer: issuer.token(
        STRANGER, "RS256", {"jwk": STRANGER.as_dict(private=False)}
    ),
    "a name that is a number": lambda issuer: ".".join(
        [packed({"alg": "RS256", "kid": 7}), *issuer.token(RSA, "RS256").split(".")[1:]]
    ),
    "a header that is critical": lambda issuer: ".".join(
        [
            packed({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}),
            *issuer.token(RSA, "RS256").split(".")[1:],
        ]
    ),
    "a token of another kind": lambda issuer: issuer.token(RSA, "RS256", {"typ": "logout+jwt"}),
    "another signature": lambda issuer: issuer.token(RSA, "RS256")[:-8] + "AAAAAAAA",
    "no signature": lambda issuer: issuer.token(RSA, "RS256").rpartition(".")[0] + ".",
    "a body changed": lambda issuer: ".".join(
        [
            (parts := issuer.token(RSA, "RS256").split("."))[0],
            packed(issuer.claims(roles=["admins"])),
            parts[2],
        ]
    ),
    "a deep header": lambda issuer: f"eyJ{packed(b'{' + b'[' * 3000)}.{packed({})}.AAAA",
    "no JSON": lambda issuer: "eyJ!.eyJ!.!",
    "a body that is a list": lambda issuer: f"{packed({'alg': 'RS256', 'kid': 'rsa'})}.W10.AAAA",
}


@pytest.mark.parametrize("what", FORGED)
async def test_a_forged_one_is_refused(house: House, issuer: Issuer, what: str) -> None:
    token = FORGED[what](issuer)
    said = await asked(house, token, "/jobs")
    assert (said.status, said.code) == (401, "UNAUTHORIZED"), said.raw
    assert token.encode() not in said.raw


async def test_our_own_tokens_are_what_they_were(house: House, issuer: Issuer) -> None:
    assert (await house.ada.get("/jobs")).status == 200
    assert (await house.admin.get("/admin/tokens")).status == 200
    assert (await asked(house, "x" * 513)).status == 401


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("ann", "ann"),
        ("0190aaaa-0000-7000-8000-000000000000", "0190aaaa-0000-7000-8000-000000000000"),
        ("auth0|5f7c", None), ("Ann", None), ("ann@example.com", None), ("oidc-ann", None),
        ("../../etc", None), ("ann\n", None),
    ],
)  # fmt: skip
async def test_a_name_that_is_no_user_id_becomes_one(
    house: House, issuer: Issuer, name: str, user: str | None
) -> None:
    """Always the same one, which nobody else becomes; it is a folder's name too."""
    ids = set()
    for key, algorithm in ((RSA, "RS256"), (EC, "ES256")):
        caller = house.caller(issuer.token(key, algorithm, sub=name))
        ids.add((await caller.submit("howera"))["user_id"])
    (found,) = ids
    assert found == user or (user is None and len(found) == 37 and found.startswith("oidc-"))


async def test_what_one_token_claimed_is_the_next_ones(house: House, issuer: Issuer) -> None:
    """They end after minutes, and the work goes on; a stranger's does not go on with it."""
    job = await house.ada.submit("howera")
    moved = {"to": "UPLOADED", "artifact_updates": {"video_uri": "file:v"}}
    assert (await house.worker.post(f"/jobs/{job['id']}/transitions", moved)).status == 200
    await house.ada.post(f"/jobs/{job['id']}/run")
    first, second, other = (
        house.caller(issuer.token(key, algorithm, sub=who, roles=["workers"]))
        for key, algorithm, who in ((RSA, "RS256", "w"), (EC, "ES256", "w"), (RSA, "RS256", "v"))
    )
    claimed = await first.post(f"/jobs/{job['id']}/claim")
    assert claimed.status == 200, claimed.raw
    told = {"claim": claimed.json["claim"], "progress": 5}
    assert (await other.post(f"/jobs/{job['id']}/progress", told)).code == "STALE_RUN"
    assert (await second.post(f"/jobs/{job['id']}/progress", told)).status == 200


class Ahead(SystemClock):
    """What is waited for passes when the test says so."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


async def test_a_key_that_is_new_is_found_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    """A rotation: the issuer signs with a new key at once; tokens by the old one end with it, also
    those that were good a moment ago."""
    fresh = RSAKey.generate_key(2048, {"kid": "fresh"})
    clock = Ahead()
    ports = replace(system_ports(), clock=clock)
    async with issuing() as own:
        own.add(RSA)
        async with serving(tmp_path, settings(own), ports=ports) as house:
            old, new = own.token(RSA, "RS256"), own.token(fresh, "RS256")
            await until(lambda: "oidc.keys" in {line["event"] for line in house.logged})
            assert (await asked(house, old)).status == 200
            own.keys.clear()
            own.add(fresh)
            assert (await asked(house, new)).status == 401
            clock.ahead_s += UNKNOWN_EVERY_S
            assert (await asked(house, new)).status == 200
            assert (await asked(house, old)).status == 401


async def test_while_there_are_no_keys_it_is_our_fault(tmp_path: Path) -> None:
    """A good token is not called a bad one because its issuer does not answer; and ours are good
    whatever becomes of it."""
    async with issuing() as own:
        own.add(RSA)
        own.down = True
        async with serving(tmp_path, settings(own)) as house:
            said = await asked(house, own.token(RSA, "RS256"))
            assert (said.status, said.code) == (503, "OVERLOADED")
            assert int(said.headers["Retry-After"]) > 0
            assert (await house.ada.get("/jobs")).status == 200
            (fault,) = [line for line in house.logged if line["event"] == "oidc.fault"]
            assert own.url in fault["detail"]


async def test_keys_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [RSA.as_dict(private=False)]}))
    offline = Issuer()
    offline.url = "https://id.invalid"
    oidc = settings(offline, keys=str(tmp_path / "keys.json"))
    async with serving(tmp_path, oidc) as house:
        await until(lambda: "oidc.keys" in {line["event"] for line in house.logged})
        assert (await asked(house, offline.token(RSA, "RS256"))).status == 200


async def test_an_inside_address_that_the_operator_did_not_write_is_not_asked(
    tmp_path: Path,
) -> None:
    """The issuer's document leads to another port of this machine."""
    async with issuing() as inside, issuing() as own:
        inside.add(RSA)
        own.leads_to = f"{inside.url}/keys"
        async with serving(tmp_path, settings(own)) as house:
            await until(lambda: "oidc.fault" in {line["event"] for line in house.logged})
            assert (await asked(house, own.token(RSA, "RS256"))).status == 503
    assert inside.fetched == 0


async def test_everybody_of_the_issuer_may_be_a_user(tmp_path: Path, issuer: Issuer) -> None:
    roles: Any = {"admins": "admin", "*": "user"}
    oidc = settings(issuer, roles=roles, role_claim="realm.roles", user_claim="who.name")
    async with serving(tmp_path, oidc) as house:
        who: Any = {"who": {"name": "ann"}, "roles": ["admins"]}
        caller = house.caller(issuer.token(RSA, "RS256", **who))
        assert (await caller.submit("howera"))["user_id"] == "ann"
        assert (await caller.get("/admin/audit")).status == 403
        chief = house.caller(issuer.token(RSA, "RS256", **who, realm={"roles": ["admins"]}))
        assert (await chief.get("/admin/audit")).status == 200


async def test_all_tokens_of_one_have_one_rate(tmp_path: Path, issuer: Issuer) -> None:
    """Else whoever fetches a new one has a new rate, too."""
    limits = LimitsSection(lag=0, requests_per_second=0.001, burst=3)
    async with serving(tmp_path, settings(issuer), limits=limits) as house:
        said = [
            (await asked(house, issuer.token(RSA, "RS256", number=number))).status
            for number in range(5)
        ]
    assert said == [200, 200, 200, 429, 429]
