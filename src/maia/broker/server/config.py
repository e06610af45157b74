"""How shall this broker run?

    maia broker --config broker.toml         a file,
    MAIA_BROKER_LISTEN=127.0.0.1:7400        the environment,
    maia broker --listen 127.0.0.1:7400      and flags, the last word of the three.

Everything is checked before the broker opens a port. An error names the
file, the line and the key, and a setting that nobody knows is an error too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from maia.broker.settings import BrokerLimits
from maia.config import readers
from maia.config.sources import BadConfig, from_environment, from_file, from_flags

__all__ = ["BrokerConfig", "SETTINGS", "read_config"]


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
    """How long an advertisement or subscription stands without being renewed."""
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
