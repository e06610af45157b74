"""What may a stranger cost each listener? One table, from the limits that the code has.

`docs/reference/listeners.md` shows it, and `tests/attacks/test_strangers_have_a_price.py` walks it, at
every listener, with real processes (A116). Code that begins to listen and has no row here fails there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from maia.api.endpoints import BODY_BYTES_MAX
from maia.api.http_calls import BODY_S
from maia.broker.settings import BrokerLimits
from maia.console.server import BODY_MAX
from maia.credentials.identity import IDENTITY_BYTES_MAX
from maia.domain import DomainLimits
from maia.gateway.mqtt import session
from maia.gateway.mqtt.effects import MqttLimits
from maia.gateway.server.config import GatewayConfig
from maia.gateway.server.connections import CLOSE_S, FIRST_PACKET_MAX
from maia.gateway.topic_table import TOPIC_BYTES_MAX
from maia.net import http_listener as http
from maia.net import status_endpoint as status
from maia.net.links import LinkLimits
from maia.spark.keys import key_server as desk
from maia.wire.framing import HANDSHAKE_BYTES_MAX

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "listeners.md"


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What strangers can do at one listener, and what that costs it at most."""

    where: str
    """Which setting of which server."""
    modules: tuple[str, ...]
    """The code that begins to listen."""
    places: int
    """Connections at one time whose peer has proved nothing."""
    setting: str = ""
    """Where an operator says how many."""
    waits: tuple[tuple[str, float], ...]
    """For what it waits, and for how many seconds each; then the connection ends."""
    read_bytes: int
    """The longest that is read of a stranger: more is refused as soon as it is announced."""
    reads: str
    held_bytes_max: int | None = None
    """What is held for all of them together, where that is less than each of them may send."""
    ms: float = 20
    """Milliseconds of computing for a connection: its handshake, if there is one."""
    kb: float = 600
    """Kilobytes that it has for as long as it stays, beside what it has sent."""


def _default(name: str) -> Any:
    # Any: the settings of a gateway are numbers, texts and paths.
    return next(one.default for one in msgspec.structs.fields(GatewayConfig) if one.name == name)


def _link(limits: BrokerLimits | DomainLimits, where: str, *modules: str) -> Listener:
    kinds = LinkLimits()
    waits = ("TLS", kinds.handshake_s), ("a right to connect", limits.handshake_s), ("its end", kinds.close_s)
    return Listener(
        where=where,
        modules=modules,
        places=limits.links_before_welcome,
        setting="limits.links_before_welcome",
        waits=waits,
        read_bytes=HANDSHAKE_BYTES_MAX,
        reads="a hello with certificates",
        ms=40,
        kb=1000,
    )


_TLS, _HEAD, _CLOSE = ("TLS", http.HANDSHAKE_S), ("a call", http.HEAD_S), ("the end of TLS", http.CLOSE_S)
_READER = ("a reader, or the next call", http.READ_S)


def _status(where: str) -> Listener:
    return Listener(
        where=where,
        modules=(
            "net/status_endpoint.py",
            "postgres/process.py",
            "cli/pipeline/follow.py",
            "share/process.py",
        ),
        places=status.CONNECTIONS_MAX,
        waits=(("a call and its reader", status.REQUEST_S),),
        read_bytes=status.REQUEST_BYTES_MAX,
        reads="a call without a body",
    )


LISTENERS = {
    "broker": _link(
        BrokerLimits(),
        "`listen` of a broker",
        "broker/server/server.py",
        "broker/server/process.py",
        "broker/server/processes.py",
    ),
    "statement link": Listener(
        where="`identity.listen` of a broker",
        modules=("broker/server/server.py",),
        places=LinkLimits().half_open,
        waits=(("the first message", LinkLimits().handshake_s),),
        read_bytes=IDENTITY_BYTES_MAX,
        reads="an identity statement; then as `listen`",
    ),
    "key server": _link(DomainLimits(), "`listen` of a domain server", "domain/server/process.py"),
    "domain": Listener(
        where="`api.listen` of a domain server",
        modules=("domain/server/access.py",),
        places=http.STRANGERS_MAX,
        waits=(_TLS, _HEAD, _READER, _CLOSE),
        read_bytes=http.HEAD_BYTES_MAX + BODY_BYTES_MAX,
        reads="a head, and a body if it is signed",
        held_bytes_max=http.STRANGERS_BYTES_MAX,
        ms=40,
        kb=1000,
    ),
    "console": Listener(
        where="`--listen` of `maia console serve`",
        modules=("console/server.py",),
        places=http.STRANGERS_MAX,
        waits=(_TLS, _HEAD, _READER, _CLOSE),
        read_bytes=http.HEAD_BYTES_MAX + BODY_MAX,
        reads="a head, and a body",
    ),
    "share": Listener(
        where="`listen` of `maia share serve`",
        modules=("share/process.py",),
        places=http.STRANGERS_MAX,
        setting="connections",
        waits=(_TLS, _HEAD, _READER, _CLOSE),
        read_bytes=http.HEAD_BYTES_MAX,
        reads="a head",
    ),
    "mqtt": Listener(
        where="`listen` of a gateway",
        modules=("gateway/server/process.py",),
        places=_default("connections_before_connect"),
        setting="connections_before_connect",
        waits=(("TLS and a CONNECT (`connect_s`)", _default("connect_s")), ("its end", CLOSE_S)),
        read_bytes=FIRST_PACKET_MAX,
        reads="a CONNECT with a will",
    ),
    "http": Listener(
        where="`http.listen` of a gateway",
        modules=("gateway/server/process.py",),
        places=http.STRANGERS_MAX,
        setting="http.connections",
        waits=(_TLS, _HEAD, _READER, _CLOSE),
        read_bytes=http.HEAD_BYTES_MAX,
        reads="a head",
    ),
    "status": _status("`status` of every server, on loopback"),
    "metrics": _status("`metrics` of every server, and of `maia pipeline … --follow`"),
    "job desk": Listener(
        where="the driver of a Spark job, for its workers",
        modules=("spark/keys/key_server.py",),
        places=desk.WORKERS_MAX,
        waits=(("a question", desk.QUESTION_S),),
        read_bytes=desk.ASK_BYTES_MAX,
        reads="a question under a token",
    ),
}


def page() -> str:
    """Return the page."""
    places = LinkLimits().half_open, http.HALF_OPEN_MAX
    return f"""\
# What strangers and accounts can cost a server

<!-- Written by `make docs` from the code. -->

Every address at which a process of Maia listens, and what a peer that has proved nothing can make it hold,
compute and wait for. A test walks this table with real processes (A116). Where all places are taken, the
oldest connection from the address with most of them makes room (for IPv6, the first 64 bits are the address),
so strangers keep no peer out. Connections that have not ended the handshake of TLS have places of their own:
{places[0]} at brokers and key servers, {places[1]} at HTTP interfaces.

{_table(HEADS, map(_cells, LISTENERS.values()))}

A number of places can be chosen where a setting is named; of `http.connections` and `connections`, strangers
have three quarters, and {http.STRANGERS_MAX} at most. The others are fixed: a smaller number refuses good
peers, and a larger one helps strangers only ([why](../decisions/limits-of-a-peer.md)). Computing is what the
test allows, several times what a calm machine needs. A page that answers a stranger may take 60 ms, and a
refusal 30 ms. A gateway lets new connections in as it finds time (`connections_while_busy`). Brokers and
domain servers pay for every handshake that is asked for: where anyone can reach them, limit the connections a
second in front.

## What an account of a gateway can hold

An account is bounded by [its share](../mqtt.md#what-one-account-may-hold), over MQTT and HTTP together.
One MQTT client of it, connected or away, holds at most:

{_table(("what", "limit"), _of_a_client())}

A caller that has proved who it is has {BODY_S:g} s for the body of a call. A stream of events whose reader
takes nothing for {http.READ_S:g} s ends. What a client, or another broker, may cost a broker is in
[its limits](settings.md#limits-of-a-broker).
"""


HEADS = (
    "listener",
    "strangers at one time",
    "silent, slow or not reading: ends after",
    "read of each, at most",
    "held for all, at most",
    "computing for one",
)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def _cells(one: Listener) -> Sequence[str]:
    return (
        one.where,
        f"{one.places}{f' (`{one.setting}`)' if one.setting else ''}",
        " + ".join(f"{what} {seconds:g} s" for what, seconds in one.waits),
        f"{_size(one.read_bytes)}: {one.reads}",
        _size(min(one.places * one.read_bytes, one.held_bytes_max or 1 << 62)),
        f"{one.ms:g} ms",
    )


def _of_a_client() -> list[tuple[str, str]]:
    limits = MqttLimits()
    return [
        ("its will, until it is published", f"{_size(FIRST_PACKET_MAX)}, a CONNECT"),
        ("a packet that has begun", f"`limits.packet_bytes`, {_size(limits.packet_bytes)}"),
        (
            "messages that the broker has not answered for",
            f"{session.UNANSWERED_MAX} and {_size(session.UNANSWERED_BYTES)}; then it is not read",
        ),
        (
            "messages of QoS 2 that it has not released",
            f"`limits.receive_maximum`, {limits.receive_maximum}; {session.UNANSWERED_MAX} in MQTT 3.1.1",
        ),
        (
            "subscriptions",
            f"`limits.subscriptions`, {limits.subscriptions}; a filter has {_size(TOPIC_BYTES_MAX)}",
        ),
        ("requests to subscribe that wait for the broker", f"{session.SUBSCRIBING_MAX}; then it is not read"),
        (
            "topic aliases",
            f"`limits.topic_aliases`, {limits.topic_aliases}, of {_size(TOPIC_BYTES_MAX)} each",
        ),
        (
            "what it does not read or acknowledge",
            f"`limits.unread_bytes`, {_size(limits.unread_bytes)}, and `limits.in_flight_bytes`, "
            f"{_size(limits.in_flight_bytes)}",
        ),
        (
            "its session while it is away",
            f"`limits.session_expiry_s`, {limits.session_expiry_s // 86_400} days",
        ),
    ]


def _size(count: int) -> str:
    return f"{count / (1 << 20):.3g} MiB" if count >= 1 << 20 else f"{count / 1024:g} KiB"
