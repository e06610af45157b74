"""How shall this gateway run, and can it?

    maia gateway mqtt --config gateway.toml

Everything is checked before a port is opened. An error names the file, the line and the key, and an
unknown setting is an error too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as data_field
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import field

from maia.client import known_version
from maia.config.constitutions import constitutions_of, read_quorums
from maia.config.input_files import read_definition, read_owner, read_principal
from maia.config.settings import (
    Address,
    Addresses,
    BadConfig,
    Defaults,
    Loopback,
    OutsideMetrics,
    Paths,
    Positive,
    PrincipalWord,
    Text,
    WrittenConfig,
    build,
    gather,
    limits_of,
    settings_of,
)
from maia.credentials import NetworkName, Owner
from maia.errors import MaiaError
from maia.events import Instant
from maia.gateway.mqtt.effects import MqttLimits
from maia.gateway.server.shares import AccountShares, Over
from maia.gateway.server.upstream import UpstreamSettings
from maia.gateway.topic_table import PayloadForm, TopicRow, TopicTable, row_of
from maia.private_files import exposure, make_private_folder
from maia.types import SignedDefinition

_Read = TypeVar("_Read")
_LOOPBACK: Final = ("127.", "localhost:", "[::1]:")


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One `[[topics]]`: which MQTT topics mean which event type."""

    mqtt: Text
    """MQTT topics: levels such as `city/plates/{location}`, or `news/#` for a tree of topics."""
    type: Paths
    """The type's definition; of a later version, all files from the first to that one."""
    payload: Literal["json", "cbor", "plain"] = "json"
    """How a payload holds the attributes that the topic does not."""
    attribute: Text | None = None
    """Which attribute a plain payload is; default: `payload`."""
    durable: bool = False
    """Whether the broker records the type, so that lasting sessions miss nothing."""
    retained: bool = False
    """Whether a new subscriber gets the last message of each topic first."""


class GatewayConfig(WrittenConfig, frozen=True, kw_only=True):
    """One gateway's settings as the operator wrote them."""

    broker: Addresses
    """Brokers to connect to, in the order of preference."""
    brokers_of: tuple[PrincipalWord, ...] = ()
    """The organisations whose brokers they have to be, by key or .pub file; default: of any."""
    network: Text
    """The name of the network."""
    coordinator: PrincipalWord
    """Who owns the network: a key, a .pub file or quorum:…."""
    data: Path
    """Where accounts and lasting sessions are kept."""
    listen: Address = "127.0.0.1:8883"
    """Where MQTT clients connect; port 0 takes a free one."""
    http_listen: Address | None = field(name="http.listen", default=None)
    """Where HTTP clients connect; without it only MQTT clients do."""
    http_connections: Positive = field(name="http.connections", default=1024)
    """HTTP connections at one time, streams of events among them."""
    http_streams_per_account: Positive = field(name="http.streams_per_account", default=16)
    """Streams of events that one account has at one time."""
    http_origins: tuple[Text, ...] = field(name="http.origins", default=())
    """Web pages of these origins, such as `https://desk.example`, may call; without it no page may."""
    status: Loopback = "127.0.0.1:0"
    """Where /health, /ready, /metrics and /status answer, on loopback; or `off`."""
    metrics: OutsideMetrics = "off"
    """Where other machines may ask for /health, /ready and /metrics: numbers, in the clear, for everyone."""
    quorums: Paths = ()
    """Constitutions of quorums: files, and folders of *.quorum."""
    tls_certificate: Path | None = field(name="tls.certificate", default=None)
    """The gateway's X.509 certificate and chain, in PEM; without it only loopback can be listened at."""
    tls_key: Path | None = field(name="tls.key", default=None)
    """Its private key, in PEM."""
    connections: Positive = 4096
    """MQTT connections at one time."""
    connections_before_connect: Positive = 256
    """Of these, connections whose client has not proved who it is."""
    connections_while_busy: Positive = 20
    """New connections a second, over MQTT and HTTP, while the gateway is behind with its work; networks that
    they come from take turns."""
    connections_per_account: Positive = 256
    """MQTT connections and HTTP calls of one account at one time; at most half of the places for either."""
    sessions: Positive = 16_384
    """MQTT sessions, of clients that are away as well."""
    sessions_per_account: Positive = 256
    """Of these, sessions of one account."""
    unread_bytes_per_account: Positive = 64 << 20
    """Bytes of events that wait for all readers of one account together."""
    connect_s: Positive = 10
    """How long a client may take for its CONNECT, and a broker to be reached."""
    retain_s: Positive = 86_400
    """How long retained messages outlive the last connection of their account."""
    topics: tuple[TopicConfig, ...] = ()
    limits: MqttLimits = field(default_factory=MqttLimits)


_OWN: Final = settings_of(GatewayConfig)
_LIMITS: Final = limits_of(MqttLimits)


def read_config(
    file: Path | None,
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    defaults: Defaults | None = None,
) -> GatewayConfig:
    """Read the file, the environment and flags; raise BadConfig at the first wrong value."""
    settings = gather(
        _OWN | _LIMITS,
        file=file,
        environment=environment,
        prefix="MAIA_GATEWAY_",
        flags=flags,
        defaults=defaults,
    )
    for name in ("broker", "network", "coordinator", "data", "topics"):
        if name not in settings:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a gateway cannot run without it")
    limits = build(MqttLimits, _LIMITS, settings, prefix="limits.")
    origins = {name: one.origin for name, one in settings.items()}
    config = build(GatewayConfig, _OWN, settings, limits=limits, origins=origins)
    if (config.tls_certificate is None) != (config.tls_key is None):
        raise config.wrong("tls.certificate", "and `tls.key` go together")
    for name, listen in (("listen", config.listen), ("http.listen", config.http_listen)):
        if config.tls_certificate is None and listen is not None and not listen.startswith(_LOOPBACK):
            raise config.wrong(
                name, "is not loopback: tokens would travel in clear; set `tls.certificate` and `tls.key`"
            )
    return config


@dataclass(frozen=True, slots=True)
class PreparedGateway:
    """Everything that a gateway needs, opened and checked; only `prepare` makes one."""

    config: GatewayConfig
    upstream: UpstreamSettings = data_field(repr=False)
    shares: AccountShares = data_field(repr=False)

    @property
    def table(self) -> TopicTable:
        """Return what MQTT topics mean."""
        return self.upstream.table


def prepare(config: GatewayConfig, *, now: Instant) -> PreparedGateway:
    """Open and check whatever the configuration names; raise at the first thing that is wrong."""
    coordinator: Owner = _opened(config, "coordinator", lambda: read_owner(config.coordinator))
    network = _opened(config, "network", lambda: NetworkName(coordinator, config.network))
    constitutions = constitutions_of(_opened(config, "quorums", lambda: read_quorums(config.quorums)))
    try:
        make_private_folder(config.data)
        exposed = exposure(config.data)
    except OSError as problem:
        raise config.wrong("data", f"cannot be used: {problem.strerror}: `{config.data}`") from problem
    if exposed is not None:
        raise config.wrong("data", f"cannot be used: {exposed}")
    rows: list[TopicRow] = []
    histories: list[Sequence[SignedDefinition]] = []
    for number, topic in enumerate(config.topics, start=1):

        def read(topic: TopicConfig = topic) -> tuple[TopicRow, list[SignedDefinition]]:
            history = [read_definition(path) for path in topic.type]
            known = known_version(history, at=now, constitutions=constitutions)
            row = row_of(
                mqtt=topic.mqtt,
                event_type=known.event_type,
                form=PayloadForm(topic.payload),
                attribute=topic.attribute,
                is_durable=topic.durable,
                is_retained=topic.retained,
            )
            return row, history

        row, history = _opened(config, "topics", read, f"number {number}: ")
        rows.append(row)
        histories.append(history)
    upstream = UpstreamSettings(
        config.broker, network, TopicTable(rows), tuple(histories), constitutions, float(config.connect_s),
        _opened(config, "brokers_of", lambda: frozenset(map(read_principal, config.brokers_of)) or None),
    )  # fmt: skip
    shares = AccountShares(
        places={Over.MQTT: config.connections, Over.HTTP: config.http_connections},
        connections_per_account=config.connections_per_account,
        sessions=config.sessions,
        sessions_per_account=config.sessions_per_account,
        unread_bytes=config.limits.unread_bytes,
        unread_bytes_per_account=config.unread_bytes_per_account,
    )
    return PreparedGateway(config, upstream, shares)


def _opened(config: GatewayConfig, name: str, read: Callable[[], _Read], which: str = "") -> _Read:
    try:
        return read()
    except MaiaError as problem:
        raise config.wrong(name, f"{which}does not work: {problem.message} [{problem.code}]") from problem
