"""A network of PITO's as files, for servers that run as processes: keys, certificates, configurations."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from maia.testing import wait_until
from support.processes import maia

__all__ = ["BROKER", "NETWORK", "OPEN", "address_of", "config", "issue", "lets_connect", "make_keys"]

NETWORK = "UK Police Network"


def config(who: str, more: str = "") -> str:
    """Return the configuration of somebody's server, which listens wherever there is room."""
    return f"""\
key = "{who}.key"
network = "{NETWORK}"
coordinator = "pito.pub"
credentials = "{who}-certs"
listen = "127.0.0.1:0"
data = "data"
{more}"""


OPEN = ("--action", "serve")
"""Brokers serve whom they have no right for: the tests are about something else."""
BROKER = ("--action", "broker")
"""What makes a key that may connect a broker."""


def make_keys(home: Path, *people: str) -> None:
    """Make a key for each, and for PITO."""
    for who in ("pito", *people):
        assert maia("key", "new", f"{who}.key", cwd=home).returncode == 0


def issue(
    home: Path,
    who: str,
    action: str,
    *about: object,
    name: str | None = None,
    period: tuple[object, ...] = ("--days", 2),
) -> None:
    """Let PITO allow somebody something; the certificate lies in the folder that is somebody's."""
    words = ("--subject", f"{who}.pub", "--action", action, *period)
    out = f"{who}-certs/{name or action}.cert"
    issued = maia("cert", "issue", "-k", "pito.key", *words, *about, "-o", out, cwd=home)
    assert issued.returncode == 0, issued.stderr


def lets_connect(home: Path, *people: str, brokers: Collection[str] = ("broker",), days: int = 90) -> None:
    """Let people be part of the network, by certificates of long ago that end in so many days."""
    end = (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    period = ("--not-before", "2020-01-01T00:00:00Z", "--not-after", end)
    for who in people:
        (home / f"{who}-certs").mkdir()
        about = (*OPEN, *BROKER) if who in brokers else OPEN
        issue(home, who, "connect", *about, "--owner", "pito.pub", "--network", NETWORK, period=period)


def address_of(home: Path, starts: int = 1) -> str:
    """Wait for the line that says that the server is ready, for as many times as it was started."""
    out = home / "out.log"
    wait_until(lambda: out.read_text().count("listening on") >= starts)
    return re.findall(r"listening on (\S+) as ed25519:[0-9a-f]{64}", out.read_text())[-1]
