"""How shall this broker run?

    maia broker --config broker.toml         a file,
    MAIA_BROKER_LISTEN=127.0.0.1:7400        the environment,
    maia broker --listen 127.0.0.1:7400      and flags, the last word of the three.

Everything is checked before the broker opens a port. An error names the
file, the line and the key, and a name that is not a setting is an error too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import field

from maia.broker.settings import BrokerLimits
from maia.config.settings import (
    Address,
    Addresses,
    BadConfig,
    Fraction,
    Positive,
    ServerConfig,
    Text,
    Whole,
    build,
    gather,
    limits_of,
    settings_of,
)

__all__ = ["BrokerConfig", "read_config"]


class BrokerConfig(ServerConfig, frozen=True, kw_only=True):
    """One broker's settings as the operator wrote them: words and paths, nothing opened yet."""

    listen: Address = "127.0.0.1:7400"
    address: Address | None = None
    """What others dial to reach this broker; default: where it listens."""
    join: Addresses = ()
    """Brokers to join the network through."""
    data: Path | None = None
    """A folder for what survives a restart; without one nothing does."""
    types: Path | None = None
    """A folder of *.type files that this broker answers type queries from."""
    skew_s: Whole = 30
    """How far clocks may differ."""
    verify_in_transit: Fraction = 1.0
    """The fraction of other brokers' interests whose proof is verified here."""
    keys: Addresses = ()
    """Where managers of keys may be found, beside the addresses that type definitions name."""
    share_plaintext: bool = True
    """Whether neighbours that may read a sealed attribute get its plaintext beside the ciphertext."""
    log_folder: Path | None = field(name="log.folder", default=None)
    """Where the event log is kept; without one nothing is recorded."""
    log_types: tuple[Text, ...] = field(name="log.types", default=("*",))
    """Which types are recorded: names, ids in hexadecimal digits, or `*` for all."""
    log_durable: bool = field(name="log.durable", default=True)
    """Whether publishers are answered only when what they published is on disk."""
    log_roll_s: Positive = field(name="log.roll_s", default=60)
    """How often journals become Parquet segments, and old segments are removed."""
    log_keep_days: Positive | None = field(name="log.keep_days", default=None)
    """How long what was recorded is kept; without a number, for ever."""
    log_keep_mb: Positive | None = field(name="log.keep_mb", default=None)
    """How many megabytes of segments are kept of each type; without a number, all."""
    statements_fetch_from: Addresses = field(name="statements.fetch_from", default=())
    """Domains' servers that may be asked for statements which are missed here; none by default."""
    limits: BrokerLimits = field(default_factory=BrokerLimits)


_OWN: Final = settings_of(BrokerConfig)
_LIMITS: Final = limits_of(BrokerLimits)


def read_config(
    file: Path | None, *, flags: Mapping[str, object], environment: Mapping[str, str]
) -> BrokerConfig:
    """Put the three sources together and check every value; raise BadConfig at the first wrong one."""
    settings = gather(_OWN | _LIMITS, file=file, environment=environment, prefix="MAIA_BROKER_", flags=flags)
    for name in ("key", "network", "coordinator", "credentials"):
        if name not in settings:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a broker cannot run without it")
    limits = build(BrokerLimits, _LIMITS, settings, prefix="limits.")
    origins = {name: one.origin for name, one in settings.items()}
    config = build(BrokerConfig, _OWN, settings, limits=limits, origins=origins)
    if not config.log_types or ("*" in config.log_types and len(config.log_types) > 1):
        raise config.wrong("log.types", "must be `*` alone, or the names or ids of some types")
    return config
