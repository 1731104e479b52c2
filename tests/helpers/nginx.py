"""A real nginx before a server, with any configuration or with the one that ships."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from semilocal.testing import free_port
from tests.helpers import HANG
from tests.helpers.service import unmet

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx.conf"


class Nginx(NamedTuple):
    """A running nginx: its port, its address, the certificate to trust, and its main process."""

    port: int
    url: str
    certificate: Path
    pid: int

    def resident(self) -> int:
        """Bytes of memory that its workers have taken at most."""
        workers = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sum(peak_memory(int(worker)) for worker in workers)


def peak_memory(process: int) -> int:
    """Bytes of memory that a process has taken at most."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1, which nobody trusts unless told to, and its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "semilocal.test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


def program() -> str:
    """nginx, or a skipped test."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        unmet("nginx is not installed (make system)")
    return found or ""


@contextlib.contextmanager
def running(home: Path, text: str, port: int) -> Iterator[int]:
    """nginx with this configuration, once its port is open; its main process."""
    path = home / "nginx.conf"
    path.write_text(text)
    process = subprocess.Popen([program(), "-e", str(home / "start.log"), "-c", str(path), "-g", "daemon off;"])
    try:
        deadline = time.monotonic() + HANG
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
                break
            assert process.poll() is None, (home / "start.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait()


def shipped(home: Path, upstreams: Sequence[int], port: int, **changes: str) -> str:
    """The configuration that ships, with the paths and addresses of a test; every change must be found in it."""
    pem = certificate(home)
    edits = {
        "worker_processes auto;": f"{'user root;' if os.geteuid() == 0 else ''} worker_processes 2;",
        "pid /run/nginx.pid;": f"pid {home}/nginx.pid;",
        "error_log /var/log/nginx/error.log crit;": f"error_log {home}/error.log crit;",
        "http {\n": "http {\n" + "".join(
            f"  {kind}_temp_path {home}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        ),
        "server 127.0.0.1:8000;": " ".join(f"server 127.0.0.1:{upstream};" for upstream in upstreams),
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "ssl_certificate /etc/semilocal/certificate.pem;": f"ssl_certificate {pem};",
        "ssl_certificate_key /etc/semilocal/key.pem;": f"ssl_certificate_key {pem};",
        **{f"{name} {old};": f"{name} {new};" for name, value in changes.items() for old, new in [value.split("->")]},
    }  # fmt: skip
    text = SHIPPED.read_text()
    for old, new in edits.items():
        assert text.count(old) == 1, f"{old!r} is not once in {SHIPPED}"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def shipped_nginx(home: Path, *upstreams: int, **changes: str) -> Iterator[Nginx]:
    """The nginx that ships, before servers at ports; ``changes`` are ``name="old->new"``."""
    home.mkdir(exist_ok=True)
    port = free_port()
    with running(home, shipped(home, upstreams, port, **changes), port) as pid:
        yield Nginx(port, f"https://127.0.0.1:{port}", home / "server.pem", pid)
