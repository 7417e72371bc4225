"""The settings: defaults, file, environment, and all faults at once."""

import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrunner.config.contradictions import is_loopback
from jobrunner.config.reading import load
from jobrunner.config.settings import Config, OidcSection, RetrySettings, WorkflowSettings
from jobrunner.core.features.turns.rates import RateLimit
from jobrunner.errors import Misconfigured

SHIPPED = Path(__file__).resolve().parents[2] / "config.toml"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str) -> Path:
    path = Path("settings.toml")
    path.write_text(text, encoding="utf-8")
    return path


def faults(text: str = "", **environ: str) -> tuple[str, ...]:
    with pytest.raises(Misconfigured) as caught:
        load(written(text), environ)
    return caught.value.faults


def test_no_file_and_no_variable_are_the_defaults() -> None:
    assert load(None, {}) == Config()


def test_the_shipped_file_changes_nothing() -> None:
    assert load(SHIPPED, {}) == Config()


def test_the_shipped_file_states_every_key_with_its_default() -> None:
    tree = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    for section, kind in get_type_hints(Config).items():
        if section != "workflows":
            assert set(tree[section]) == set(msgspec.to_builtins(getattr(Config(), section))), kind


def test_the_commented_part_of_the_shipped_file_reads_too() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    _, _, commented = text.partition("#\n# [workflows.")
    lines = [line.removeprefix("# ") for line in f"# [workflows.{commented}".splitlines()]
    plain = "\n".join(line if not line.startswith("#") else "" for line in lines)
    config = load(written(plain), {})
    howera = config.workflow("howera")
    assert howera.retry["TRANSCRIBING"] == RetrySettings(3, 1, 2, 30, 0.1)
    assert howera.lease == howera.deadline["TRANSCRIBING"] == howera.limit["TRANSCRIBING"] == 1800
    assert howera.stages["*"] == "external"
    assert config.workflow("cutx").prices == {"tts": 2}


def test_config_toml_of_the_working_folder_is_taken() -> None:
    Path("config.toml").write_text("[server]\nport = 9\n", encoding="utf-8")
    assert load(None, {}).server.port == 9


def test_a_named_file_must_be_there() -> None:
    with pytest.raises(Misconfigured, match=r"missing\.toml: cannot be read: No such file"):
        load(Path("missing.toml"), {})


def test_a_file_that_is_not_toml_says_where() -> None:
    assert "is not TOML" in faults("[server\n")[0]
    assert "line 1" in faults("[server\n")[0]


def test_all_faults_are_told_at_once_with_key_value_and_what_is_allowed() -> None:
    found = faults(
        """
        [server]
        prot = 1
        port = 70000
        max_body = "256 KiBs"
        drain_seconds = inf
        [auth]
        mode = "open"
        [limits]
        active_jobs = 0
        [workflows.cutx.retry.processing]
        max = true
        """,
        JOBRUNNER_CREDITS__INITIAL="many",
        JOBRUNNER_SERVR__HOST="x",
    )
    assert found == (
        "servr: no such key; did you mean 'server'?",
        "server.prot: no such key; did you mean 'port'?",
        "server.port = 70000: must be a port, 0 to 65535; 0 takes a free one",
        "server.max_body = '256 KiBs': must be a size: bytes, or text like \"256KiB\"",
        'server.drain_seconds = inf: must be a duration: seconds, or text like "30m"',
        'auth.mode = \'open\': must be "tokens" or "none"',
        "limits.active_jobs = 0: must be a whole number from 1",
        "credits.initial = 'many': must be a whole number from 0 (from JOBRUNNER_CREDITS__INITIAL)",
        "workflows.cutx.retry.processing.max = True: must be a whole number from 1",
    )


def test_a_key_nothing_resembles_is_answered_with_all_of_them() -> None:
    assert faults("[auth]\nzzz = 1\n") == ("auth.zzz: no such key; known: mode, oidc, session",)


@pytest.mark.parametrize("section", list(get_type_hints(Config)))
def test_a_section_must_be_a_table(section: str) -> None:
    assert faults(f"{section} = 1\n") == (f"{section} = 1: must be a table of keys",)


KEYS: list[tuple[str, str, Any]] = [
    ("server.host", '"::1"', "::1"),
    ("server.port", "0", 0),
    ("server.max_body", '"1 MiB"', 1024**2),
    ("server.max_upload", "7", 7),
    ("server.upload_expires", '"2h"', 7200),
    ("server.drain_seconds", '"500ms"', 0.5),
    ("server.public_url", '"https://jobs.example.com/runner"', "https://jobs.example.com/runner"),
    ("server.socket", '"/run/jobs.sock"', "/run/jobs.sock"),
    ("server.socket_for", '"owner"', "owner"),
    ("server.trusted_proxies", '["unix:"]', ("unix:",)),
    ("server.cors", '["https://app.example.com"]', ("https://app.example.com",)),
    ("server.gzip", '"1MiB"', 1024**2),
    ("server.gzip", "0", 0),
    ("server.trusted_proxies", '["10.0.0.0/8"]', ("10.0.0.0/8",)),
    ("store.min_free", '"1MiB"', 1024**2),
    ("store.min_free", "0", 0),
    ("store.wal_max", '"1GiB"', 1024**3),
    ("objects.bucket", '"files"', "files"),
    ("objects.place", '"disk"', "disk"),
    ("objects.endpoint", '"http://127.0.0.1:9000"', "http://127.0.0.1:9000"),
    ("objects.region", '"eu-central-2"', "eu-central-2"),
    ("objects.prefix", '"jobs/"', "jobs/"),
    ("objects.credentials", '"keys.ini"', "keys.ini"),
    ("objects.style", '"host"', "host"),
    ("objects.checksum", '"off"', "off"),
    ("objects.part", '"16MiB"', 16 * 1024**2),
    ("objects.timeout", '"1m"', 60),
    ("objects.at_once", "2", 2),
    ("objects.keep_local", "0", 0),
    ("objects.keep_deleted", '"30d"', 30 * 86400),
    ("objects.presign", '"5m"', 300),
    ("store.path", '"x.db"', "x.db"),
    ("store.assets", '"files"', "files"),
    ("server.admin_host", '"127.0.0.1"', "127.0.0.1"),
    ("server.admin_port", "9", 9),
    ("auth.mode", '"none"', "none"),
    ("auth.oidc.user_claim", '"email"', "email"),
    ("auth.oidc.role_claim", '"a.b"', "a.b"),
    ("auth.oidc.leeway", '"5s"', 5),
    ("auth.oidc.refresh", '"10m"', 600),
    ("auth.session", "0", 0),
    ("auth.oidc.audience", '"jobs"', "jobs"),
    ("auth.oidc.keys", '"/etc/keys.json"', "/etc/keys.json"),
    ("limits.children_per_job", "1", 1),
    ("limits.child_generations", "1", 1),
    ("limits.active_jobs", "1", 1),
    ("limits.queued_jobs", "2", 2),
    ("limits.bulk_per_second", "50", 50),
    ("limits.kept_jobs", '"1MiB"', 1024**2),
    ("limits.per_user_active", "3", 3),
    ("limits.requests_per_second", "2.5", 2.5),
    ("limits.anonymous_per_second", "0", 0),
    ("limits.burst", "7", 7),
    ("limits.connections", "100", 100),
    ("limits.streams", "10", 10),
    ("limits.streams_per_user", "2", 2),
    ("limits.pending_writes", "0", 0),
    ("limits.submissions", "0", 0),
    ("limits.patience", '"50ms"', 0.05),
    ("limits.lag", '"1s"', 1),
    ("limits.free_disk", '"1GiB"', 1024**3),
    ("limits.rate_hold", '"2h"', 7200),
    ("limits.rate_holds", "3", 3),
    ("resources.cpu", "4", 4),
    ("credits.initial", "0", 0),
    ("log.format", '"human"', "human"),
    ("log.level", '"warning"', "warning"),
    ("log.file", '"log/jobs.log"', "log/jobs.log"),
    ("log.max_size", '"1MiB"', 2**20),
    ("log.keep", "3", 3),
    ("telemetry.otlp_endpoint", '"http://127.0.0.1:4318"', "http://127.0.0.1:4318"),
    ("cluster.scheduler", '"tls://10.0.0.1:8786"', "tls://10.0.0.1:8786"),
    ("cluster.listen", '"10.0.0.5:8790"', "10.0.0.5:8790"),
    ("cluster.ca", '"ca.pem"', "ca.pem"),
    ("cluster.cert", '"it.pem"', "it.pem"),
    ("cluster.key", '"it.key"', "it.key"),
    ("cluster.security", '"none"', "none"),
    ("cluster.silence", '"1m"', 60),
    ("cluster.patience", '"0"', 0),
    ("downloads.allow_hosts", '["example.org"]', ("example.org",)),
    ("downloads.allow_private", '["127.0.0.1:9000", "[::1]:80"]', ("127.0.0.1:9000", "[::1]:80")),
    ("downloads.max_size", '"2GB"', 2 * 1000**3),
    ("retention.ended", '"30d"', 30 * 86400),
    ("retention.keys", '"1d"', 86400),
    ("retention.files", "0", 0),
    ("retention.audit", '"1d"', 86400),
    ("retention.dead_letters", '"1d"', 86400),
    ("backup.path", '"/srv/backups"', "/srv/backups"),
    ("standby.path", '"/srv/copy"', "/srv/copy"),
    ("standby.lag", '"500ms"', 0.5),
    ("standby.lease", '"1m"', 60.0),
    ("backup.every", '"6h"', 21600),
    ("backup.keep", "30", 30),
    ("webhooks.replicate.secrets_env", '["ONE", "TWO"]', ("ONE", "TWO")),
    ("notify.secrets_env", '["NEW", "OLD"]', ("NEW", "OLD")),
    ("plugins.enabled", '["cutx"]', ("cutx",)),
    ("plugins.path", '"more"', "more"),
    ("retention.firings", '"7d"', 604800),
    ("retention.batches", '"7d"', 604800),
    ("workflows.w.stages.A", '"external"', "external"),
    ("workflows.w.retry.A.max", "5", 5),
    ("workflows.w.retry.A.base", '"2s"', 2),
    ("workflows.w.retry.A.factor", "1.5", 1.5),
    ("workflows.w.retry.A.cap", '"1h"', 3600),
    ("workflows.w.retry.A.jitter", "0", 0),
    ("workflows.w.deadline.A", '"1d"', 86400),
    ("workflows.w.limit.A", "0", 0),
    ("workflows.w.quota.open_jobs", "1", 1),
    ("workflows.w.quota.per_minute", "2", 2),
    ("workflows.w.quota.per_day", "3", 3),
    ("workflows.w.prices.tts", "4", 4),
    ("workflows.w.lease", '"30m"', 1800),
    ("workflows.w.record", '"decisions"', "decisions"),
    ("workflows.w.notify.url", '"https://ops.example/"', "https://ops.example/"),
    ("workflows.w.notify.on", '["ended", "stuck"]', ("ended", "stuck")),
    ("workflows.w.notify.secret_env", '"OPS"', "OPS"),
    ("workflows.w.retention.keep", "5", 5),
    ("workflows.w.settings.anything", '{ deep = [1, "x"] }', {"deep": [1, "x"]}),
]


def at(config: Config, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(("key", "toml", "meant"), KEYS, ids=[key for key, _, _ in KEYS])
def test_every_key_can_be_set_in_the_file(key: str, toml: str, meant: Any) -> None:
    assert at(load(written(f"{key} = {toml}\n"), {}), key) == meant


@pytest.mark.parametrize(("key", "toml", "meant"), KEYS, ids=[key for key, _, _ in KEYS])
def test_every_key_can_be_set_by_a_variable_which_wins(key: str, toml: str, meant: Any) -> None:
    variable = "JOBRUNNER_" + key.upper().replace(".", "__")
    text = toml[1:-1] if toml.startswith('"') else toml
    config = load(None, {variable: text, "HOME": "/", "JOBRUNNER_TOKEN": "not a setting"})
    assert at(config, key.replace(".A", ".a")) == meant


def test_the_keys_above_are_all_keys() -> None:
    covered = {key.replace(".A", "") for key, _, _ in KEYS}
    for section, kind in get_type_hints(Config).items():
        for name in getattr(kind, "__struct_fields__", ()):
            assert f"{section}.{name}" in covered | {"auth.oidc"}
    together = {"issuer", "roles"}  # these are tried with what belongs to them
    for name in set(OidcSection.__struct_fields__) - together:
        assert f"auth.oidc.{name}" in covered
    for name in WorkflowSettings.__struct_fields__:
        assert any(key.startswith(f"workflows.w.{name}") for key in covered)


def test_variables_match_without_case_and_with_underscores_for_dashes() -> None:
    path = written("[workflows.image-generation.stages]\nrunning = 'external'\n")
    config = load(
        path,
        {
            "jobrunner_Server__Port": "1",
            "JOBRUNNER_WORKFLOWS__IMAGE_GENERATION__STAGES__RUNNING": "image.other",
            "JOBRUNNER_WORKFLOWS__ASSET_PATTERN__LEASE": "1s",
        },
    )
    assert config.server.port == 1
    assert list(config.workflows) == ["image-generation", "asset_pattern"]
    assert config.workflow("image-generation").stages == {"running": "image.other"}
    assert config.workflow("asset-pattern").lease == 1


def test_two_variables_for_one_key_are_a_fault() -> None:
    assert faults(JOBRUNNER_SERVER__PORT="1", jobrunner_server__port="2") == (
        "jobrunner_server__port: means the same key as JOBRUNNER_SERVER__PORT; keep one of them",
    )


def test_a_variable_that_fits_two_keys_of_the_file_is_a_fault() -> None:
    text = "[workflows.a-b]\nlease = 1\n[workflows.a_b]\nlease = 1\n"
    assert faults(text, JOBRUNNER_WORKFLOWS__A_B__LEASE="2") == (
        "JOBRUNNER_WORKFLOWS__A_B__LEASE: matches both 'a-b' and 'a_b' in the file; rename one",
    )


def test_a_variable_below_a_value_is_a_fault() -> None:
    assert faults("[server]\nport = 1\n", JOBRUNNER_SERVER__PORT__X="2") == (
        "JOBRUNNER_SERVER__PORT__X: server.port has a value already and holds no keys",
    )


def test_a_variable_without_its_section_is_not_overlooked() -> None:
    assert faults(JOBRUNNER_PORT="1") == (
        "JOBRUNNER_PORT: names no section; did you mean JOBRUNNER_SERVER__PORT?",
    )


def test_lists_in_variables_need_no_brackets() -> None:
    config = load(None, {"JOBRUNNER_DOWNLOADS__ALLOW_HOSTS": "a.org, b.org"})
    assert config.downloads.allow_hosts == ("a.org", "b.org")


def test_both_spellings_of_a_stage_of_one_job_type_mean_the_same() -> None:
    nested = load(written("[workflows.w.stages]\nprocessing.tts = 'external'\n"), {})
    quoted = load(written("[workflows.w.stages]\n'processing.tts' = 'external'\n"), {})
    assert (
        nested.workflows["w"].stages
        == {"processing.tts": "external"}
        == quoted.workflows["w"].stages
    )


def test_resources_keep_what_is_not_named() -> None:
    assert load(written("[resources]\ncpu = 2\n"), {}).resources == {"gpu": 1, "cpu": 2}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org"])
def test_mode_none_is_refused_off_loopback(host: str) -> None:
    (fault,) = faults(f"[auth]\nmode = 'none'\n[server]\nhost = '{host}'\n")
    assert host in fault
    assert "loopback only" in fault


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_mode_none_is_accepted_on_loopback(host: str) -> None:
    config = load(written(f"[auth]\nmode = 'none'\n[server]\nhost = '{host}'\n"), {})
    assert config.auth.mode == "none"
    assert is_loopback(host)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "localhost:80", "1.2.3.4:0", "1.2.3:80", "::1:80"]
)
def test_private_addresses_need_a_port_and_no_name(address: str) -> None:
    assert address in faults(f"[downloads]\nallow_private = ['{address}']\n")[0]


@pytest.mark.parametrize("host", ["https://a.example", "a.example/x", "a:80", "*.a", "a b", "."])
def test_allowed_hosts_are_names_alone(host: str) -> None:
    assert host in faults(f"[downloads]\nallow_hosts = ['b.example', '{host}']\n")[0]


def test_assets_may_not_be_the_file() -> None:
    (fault,) = faults("[store]\npath = 'data'\nassets = './data'\n")
    assert "must not be store.path itself" in fault


@given(st.text(max_size=20))
@pytest.mark.parametrize("key", ["SERVER__PORT", "SERVER__HOST", "SERVER__MAX_BODY", "SERVER"])
def test_no_text_in_a_variable_does_more_than_set_or_be_refused(key: str, text: str) -> None:
    """Above all it cannot add other keys, though it is read as TOML."""
    try:
        config = load(None, {f"JOBRUNNER_{key}": text})
    except Misconfigured:
        return
    server = msgspec.structs.replace(config.server, host="", port=1, max_body=1)
    assert msgspec.structs.replace(config, server=server) == Config(
        server=type(server)(host="", port=1, max_body=1)
    )


@pytest.mark.parametrize(
    "url", ["jobs.example.com", "ftp://jobs.example.com", "https://", "https://a b", "http://a?b=c"]
)
def test_where_the_service_is_reached_is_a_url(url: str) -> None:
    """P9: nobody is told to call back at what is none."""
    (fault,) = faults(f"server.public_url = {url!r}")
    assert fault.startswith(f"server.public_url = {url!r}: must be where others reach this")


GOOD_OIDC = {
    "issuer": "'https://id.example.com'",
    "audience": "'jobs'",
    "roles": "{ '*' = 'user' }",
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("issuer", "'http://id.example.com'"), ("issuer", "'id.example.com'"),
        ("issuer", "'https://id.example.com?x=1'"), ("keys", "'http://id.example.com/keys'"),
        ("audience", "''"), ("roles", "{}"), ("roles", "{ x = 'root' }"), ("leeway", "'soon'"),
    ],
)  # fmt: skip
def test_whom_to_believe_is_said_in_full(key: str, value: str) -> None:
    """Without an audience a token for any other service would do, without roles nobody's."""
    lines = [f"auth.oidc.{name} = {said}" for name, said in (GOOD_OIDC | {key: value}).items()]
    (fault,) = faults("\n".join(lines))
    assert fault.startswith(f"auth.oidc.{key}")


@pytest.mark.parametrize("issuer", ["https://id.example.com/a", "http://127.0.0.1:9000"])
def test_an_issuer_elsewhere_has_https(issuer: str) -> None:
    lines = [f"auth.oidc.{key} = {said}" for key, said in GOOD_OIDC.items()][1:]
    config = load(written("\n".join([f"auth.oidc.issuer = {issuer!r}", *lines])), {})
    assert config.auth.oidc.roles == {"*": "user"}


def test_whoever_asks_nobody_believes_nobody() -> None:
    lines = [f"auth.oidc.{key} = {said}" for key, said in GOOD_OIDC.items()]
    (fault,) = faults("\n".join(["auth.mode = 'none'", *lines]))
    assert "auth.oidc.issuer" in fault


@pytest.mark.parametrize(
    "origin",
    [
        "*", "null", "", "app.example.com", "https://app.example.com/", "https://App.example.com",
        "https://app.example.com:443", "http://app.example.com:80", "https://*.example.com",
        "file:///x", "https://app.example.com/page", "https://a b",
    ],
)  # fmt: skip
def test_pages_that_may_ask_are_origins(origin: str) -> None:
    """As browsers write them, or they would never be equal to one; and no wildcard."""
    (fault,) = faults(f"server.cors = ['http://localhost:5173', 'https://[::1]:8443', {origin!r}]")
    assert fault.startswith("server.cors")


@pytest.mark.parametrize("network", ["proxy.example.com", "10.0.0.0/33", "", "10.0.0.1:80", "*"])
def test_whom_to_trust_is_a_network(network: str) -> None:
    (fault,) = faults(f"server.trusted_proxies = ['127.0.0.1', '::1', '10.1.2.3/8', {network!r}]")
    assert fault.startswith("server.trusted_proxies")


def test_without_tokens_neither_listener_is_for_others() -> None:
    listeners = "server.host = '192.0.2.7'\nserver.admin_host = '0.0.0.0'\n"
    found = faults(f"{listeners}auth.mode = 'none'\n")
    assert [fault.partition(" everybody")[0] for fault in found] == [
        "auth.mode = 'none': with server.host = '192.0.2.7'",
        "auth.mode = 'none': with server.admin_host = '0.0.0.0'",
    ]


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://127.0.0.1", "http://", "http://a b"])
def test_where_traces_go_is_a_url(url: str) -> None:
    (fault,) = faults(f"telemetry.otlp_endpoint = {url!r}")
    assert fault.startswith(f"telemetry.otlp_endpoint = {url!r}: must be where traces are taken")


@pytest.mark.parametrize(
    "text",
    [
        'a = "60/min burst 10"',
        'a = { limit = "60/min", burst = 10 }',
        'a.limit = "60/min burst 3"\na.burst = 10',
    ],
)
def test_a_rate_is_a_text_or_a_table(text: str) -> None:
    settings = load(written(f"[rates]\n{text}\n"), {})
    assert settings.rates["a"].rate == RateLimit(60, 60, 10)


def test_a_rate_comes_from_the_environment_too() -> None:
    settings = load(None, {"JOBRUNNER_RATES__OPENAI": "5/s"})
    assert settings.rates["openai"].rate == RateLimit(5, 1, 1)


@pytest.mark.parametrize("text", ['"often"', "7", '{ limit = "0/s" }', "{ burst = 3 }"])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Misconfigured, match="must be a rate, like"):
        load(written(f"[rates]\na = {text}\n"), {})


def test_what_jobs_that_run_write_keeps_nobody_from_submitting() -> None:
    """An end and a begin of each that has a slot may wait, with all submissions under way."""
    limits = Config().limits
    assert limits.submissions + 2 * limits.active_jobs <= limits.pending_writes
