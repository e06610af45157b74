"""How shall this broker run, and can it?

    maia broker --config broker.toml         a file,
    MAIA_BROKER_LISTEN=127.0.0.1:7400        the environment,
    maia broker --listen 127.0.0.1:7400      and flags, which override both.

Everything is checked before the broker opens a port, keys, certificates and folders
included, so that `maia broker --check` and a start fail for the same reasons. An error
names the file, the line and the key, and an unknown setting is an error too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from maia.broker.settings import BrokerLimits, BrokerSettings, RecordingSettings
from maia.config import readers
from maia.config.bounds_file import read_bounds
from maia.config.constitutions import Quorums, constitutions_of, read_quorums, remembered_in
from maia.config.input_files import read_certificates, read_owner
from maia.config.sources import BadConfig, from_environment, from_file, from_flags
from maia.config.start_checks import check_folder, opened, right_to_connect
from maia.config.type_folder import TypeFolder
from maia.credentials import NetworkName, Owner, SignedCertificate, SigningKey
from maia.events import Instant
from maia.policy import BoundRule
from maia.types import SignedDefinition, definition_to_bytes

__all__ = [
    "SETTINGS",
    "BrokerConfig",
    "PreparedBroker",
    "prepare",
    "read_config",
]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One broker's settings as the operator wrote them: words and paths, nothing opened yet."""

    key: Path
    """The broker's own signing key; its principal is the broker's identity."""
    network: str
    """The name of the network that this broker is a part of."""
    coordinator: str
    """Who owns the network: a key, a .pub file or quorum:…."""
    credentials: tuple[Path, ...]
    """Certificates and constitutions of quorums: files, and folders of *.cert and *.quorum."""
    listen: str = "127.0.0.1:7400"
    """Where to listen; port 0 takes a free one."""
    address: str | None = None
    """What others dial to reach this broker; default: where it listens."""
    join: tuple[str, ...] = ()
    """Brokers to join the network through."""
    data: Path | None = None
    """A folder for what survives a restart; without one nothing does."""
    types: Path | None = None
    """A folder of *.type files that this broker answers type queries from."""
    status: str | None = "127.0.0.1:0"
    """Where to answer /health, /ready, /metrics and /status; loopback only; `off` for nowhere."""
    lease_s: int = 60
    """How long an advertisement or subscription lasts without being renewed."""
    skew_s: int = 30
    """How far clocks may differ."""
    verify_in_transit: float = 1.0
    """The fraction of other brokers' interests whose proof is verified here."""
    keys: tuple[str, ...] = ()
    """Where managers of keys may be found, beside the addresses that type definitions name."""
    share_plaintext: bool = False
    """Whether neighbours that may read a sealed attribute get its plaintext beside the ciphertext."""
    require_install: bool = True
    """Whether a type's signer must be allowed to install types on the network."""
    bounds: tuple[Path, ...] = ()
    """Files with bounds on what clients may advertise and subscribe to."""
    log_folder: Path | None = None
    """Where the event log is kept; without one nothing is recorded."""
    log_types: tuple[str, ...] = ("*",)
    """Which types are recorded: names, ids in hexadecimal digits, or `*` for all."""
    log_durable: bool = True
    """Whether publishers are answered only when what they published is on disk."""
    log_roll_s: int = 60
    """How often journals become Parquet segments, and old segments are removed."""
    log_keep_days: int | None = None
    """How long what was recorded is kept; without a number, for ever."""
    log_keep_mb: int | None = None
    """How many megabytes of segments are kept of each type; without a number, all."""
    statements_fetch_from: tuple[str, ...] = ()
    """Domains' servers that may be asked for statements which are missed here; none unless said."""
    log_format: str = "auto"
    log_level: str = "info"
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Where each setting was said, by its name."""

    def wrong(self, name: str, problem: str) -> BadConfig:
        """Return the error about a setting that turned out wrong when it was used."""
        return BadConfig(f"{self.origins.get(name, 'the default')}: `{name}` {problem}")


def read_config(
    file: Path | None, *, flags: Mapping[str, object], environment: Mapping[str, str]
) -> BrokerConfig:
    """Put the three sources together and check every value; raise BadConfig at the first wrong one."""
    said = {} if file is None else from_file(file, SETTINGS)
    said |= from_environment(environment, SETTINGS) | from_flags(flags)
    for name in ("key", "network", "coordinator", "credentials"):
        if name not in said:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a broker cannot run without it")
    # object: each reader checks one setting, and the table below pairs it with its field.
    values: dict[str, object] = {name: SETTINGS[name](one, name) for name, one in said.items()}
    limits = {
        name.removeprefix("limits."): values.pop(name) for name in list(values) if name.startswith("limits.")
    }
    values = {name.replace(".", "_"): value for name, value in values.items()}
    origins = {name: one.origin for name, one in said.items()}
    return BrokerConfig(**values, limits=BrokerLimits(**limits), origins=origins)  # type: ignore[arg-type]  # by the table


SETTINGS: Final[Mapping[str, readers.Reader]] = {
    "key": readers.path,
    "network": readers.text,
    "coordinator": readers.principal_word,
    "credentials": readers.paths,
    "listen": readers.address,
    "address": readers.address,
    "join": readers.addresses,
    "data": readers.path,
    "types": readers.path,
    "status": readers.loopback,
    "lease_s": readers.whole(1),
    "skew_s": readers.whole(0),
    "verify_in_transit": readers.fraction,
    "keys": readers.addresses,
    "share_plaintext": readers.yes_or_no,
    "require_install": readers.yes_or_no,
    "bounds": readers.paths,
    "log.folder": readers.path,
    "log.types": readers.type_words,
    "log.durable": readers.yes_or_no,
    "log.roll_s": readers.whole(1),
    "log.keep_days": readers.whole(1),
    "log.keep_mb": readers.whole(1),
    "statements.fetch_from": readers.addresses,
    "log_format": readers.one_of(readers.LOG_FORMATS),
    "log_level": readers.one_of(readers.LOG_LEVELS),
    **{f"limits.{one.name}": readers.whole(1) for one in fields(BrokerLimits)},
}
"""Every setting by its name, with the reader that checks it."""


@dataclass(frozen=True, slots=True)
class PreparedBroker:
    """Everything that a broker needs, opened and checked; only `prepare` makes one."""

    config: BrokerConfig
    key: SigningKey = field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    definitions: tuple[SignedDefinition, ...] = field(repr=False)
    may_connect_until: Instant | None
    quorums: Quorums = field(default_factory=dict, repr=False)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)

    def settings(self, address: str) -> BrokerSettings:
        """Return the settings of the broker, once it is known where it listens."""
        config, recording = self.config, None
        if config.log_folder is not None:
            chosen = None if config.log_types == ("*",) else frozenset(config.log_types)
            recording = RecordingSettings(chosen, config.log_durable)
        return BrokerSettings(
            network=self.network,
            address=config.address or address,
            credentials=self.credentials,
            seeds=tuple(one for one in config.join if one != address),
            lease_s=config.lease_s,
            skew_s=config.skew_s,
            verify_in_transit=config.verify_in_transit,
            key_managers=config.keys,
            share_plaintext=config.share_plaintext,
            require_install=config.require_install,
            recording=recording,
            limits=config.limits,
            bounds=self.bounds,
            constitutions=constitutions_of(self.quorums),
        )

    def types_to_keep(self) -> dict[str, bytes]:
        """Return the folder's definitions in the form in which a broker keeps those it has verified."""
        from maia.broker.access.known_types import KEPT_TYPE

        return {f"{KEPT_TYPE}{one.id.hex()}": definition_to_bytes(one) for one in self.definitions}


def prepare(config: BrokerConfig, *, now: Instant, open_key: Callable[[Path], SigningKey]) -> PreparedBroker:
    """Open and check whatever the configuration names; raise at the first thing that is wrong."""
    key = opened(config, "key", lambda: open_key(config.key))
    coordinator: Owner = opened(config, "coordinator", lambda: read_owner(config.coordinator))
    network = opened(config, "network", lambda: NetworkName(coordinator, config.network))
    credentials = tuple(opened(config, "credentials", lambda: read_certificates(config.credentials)))
    if config.data is not None:
        check_folder(config, "data", config.data)
    shown = (*config.credentials, *remembered_in(config.data))
    quorums = opened(config, "credentials", lambda: read_quorums(shown))
    bounds = opened(config, "bounds", lambda: read_bounds(config.bounds))
    until = right_to_connect(config, key, network, credentials, now, constitutions_of(quorums))
    definitions: tuple[SignedDefinition, ...] = ()
    if config.types is not None:
        definitions = opened(config, "types", TypeFolder(config.types).definitions)
    _check_log(config)
    return PreparedBroker(
        config, key, network, credentials, definitions, until, quorums=quorums, bounds=bounds
    )


def _check_log(config: BrokerConfig) -> None:
    """Make the event log's folder if need be; what is in it is checked when it is opened."""
    if config.log_folder is None:
        said = [name for name in config.origins if name.startswith("log.")]
        if said:
            raise config.wrong(said[0], "says how to record, and `log.folder` does not say where")
        return
    if config.data is None:
        raise config.wrong(
            "log.folder", "needs `data` too: a broker that forgets what it has seen would record it twice"
        )
    check_folder(config, "log.folder", config.log_folder)
