"""A real proxy with a shipped recipe before a real service, on free ports of loopback, with TLS by
a certificate that signs itself."""

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port
from tests.served import PATIENCE_S, POLLS_A_SECOND, Served, clean, serving

DEPLOY = Path(__file__).parents[2] / "deploy"
PREFIX = "/runner"
NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
worker_processes 1;
{user}
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""
CADDY = """\
{{
	admin off
	auto_https disable_redirects
	skip_install_trust
	storage file_system {folder}/caddy
}}
{site}"""


@dataclass
class Proxied:
    """``url`` is where clients reach the service, ``trust`` what they verify it with."""

    url: str
    trust: ssl.SSLContext
    service: Served


@dataclass
class Place:
    """What a recipe is filled with, for a test."""

    folder: Path
    port: int
    upstream: str

    @property
    def certificate(self) -> Path:
        return self.folder / "jobs.crt"

    @property
    def key(self) -> Path:
        return self.folder / "jobs.key"


Run = Callable[[Place], list[str]]


def nginx(place: Place) -> list[str]:
    site = (DEPLOY / "nginx.conf").read_text()
    site = replaced(site, "server 127.0.0.1:8080;", f"server {place.upstream};")
    site = replaced(site, "listen 443 ssl;", f"listen 127.0.0.1:{place.port} ssl;")
    site = replaced(site, "/etc/nginx/jobs.crt", str(place.certificate))
    site = replaced(site, "/etc/nginx/jobs.key", str(place.key))
    (place.folder / "site.conf").write_text(site)
    user = "user root;" if Path(place.folder).stat().st_uid == 0 else ""
    whole = place.folder / "nginx.conf"
    whole.write_text(NGINX.format(folder=place.folder, user=user))
    return ["nginx", "-p", str(place.folder), "-e", "stderr", "-c", str(whole)]


def caddy(place: Place) -> list[str]:
    site = (DEPLOY / "Caddyfile").read_text()
    upstream = place.upstream.replace("unix:", "unix/")
    site = replaced(site, "reverse_proxy 127.0.0.1:8080", f"reverse_proxy {upstream}")
    address = f"https://127.0.0.1:{place.port} {{\n\ttls {place.certificate} {place.key}"
    site = replaced(site, "jobs.example.com {", address)
    whole = place.folder / "Caddyfile"
    whole.write_text(CADDY.format(folder=place.folder, site=site))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(whole)]


def replaced(text: str, here: str, other: str) -> str:
    assert text.count(here) == 1, f"{here!r} stands {text.count(here)} times in the recipe"
    return text.replace(here, other)


@contextmanager
def proxied(folder: Path, run: Run, *, at_socket: bool = False) -> Iterator[Proxied]:
    port, path = free_port(), folder / "http.sock"
    url = f"https://127.0.0.1:{port}{PREFIX}"
    trusted = '["unix:"]' if at_socket else '["127.0.0.1"]'
    server = {"PUBLIC_URL": url, "TRUSTED_PROXIES": trusted}
    server |= {"SOCKET": str(path)} if at_socket else {}
    with serving(
        folder, **{f"JOBRUNNER_SERVER__{key}": value for key, value in server.items()}
    ) as service:
        upstream = f"unix:{path}" if at_socket else service.url.removeprefix("http://")
        place = Place(folder, port, upstream)
        make_certificate(place)
        with running(run(place), place):
            yield Proxied(url, ssl.create_default_context(cafile=place.certificate), service)


def make_certificate(place: Place) -> None:
    openssl = shutil.which("openssl")
    assert openssl, "make system installs openssl"
    kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    name = ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(place.key), "-out", str(place.certificate)]
    subprocess.run([openssl, *kind, *name, *files], check=True, capture_output=True, timeout=120)


@contextmanager
def running(command: list[str], place: Place) -> Iterator[None]:
    with (place.folder / "proxy.log").open("wb") as log:
        environ = clean() | {"HOME": str(place.folder)}
        process = subprocess.Popen(command, env=environ, cwd=place.folder, stdout=log, stderr=log)
    try:
        listens(process, place)
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listens(process: subprocess.Popen[bytes], place: Place) -> None:
    for _ in range(PATIENCE_S * POLLS_A_SECOND):
        with socket.socket() as knocking:
            if knocking.connect_ex(("127.0.0.1", place.port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    said = (place.folder / "proxy.log").read_text()
    raise AssertionError(f"the proxy did not start:\n{said}")
