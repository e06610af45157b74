"""How shall this broker run?

    maia broker --config broker.toml         a file,
    MAIA_BROKER_LISTEN=127.0.0.1:7400        the environment,
    maia broker --listen 127.0.0.1:7400      and flags, the last word of the three.

Everything is checked before the broker opens a port. An error names the
file, the line and the key, and a setting that nobody knows is an error too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from maia.broker.settings import BrokerLimits
from maia.runtime.config_sources import BadConfig, Said, from_environment, from_file, from_flags

__all__ = ["BrokerConfig", "SETTINGS", "read_config"]

ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
LOOPBACK: Final = re.compile(r"(?:127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]|localhost):\d{1,5}")
_NUMBER_MAX: Final = 1 << 31
_LIST_MAX: Final = 1024
_LOG_FORMATS: Final = ("auto", "json", "text")
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")


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
    """Certificates: files, and folders of *.cert."""
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
    require_install: bool = True
    """Whether a type's signer must be allowed to install types on the network."""
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
    limits = {name.removeprefix("limits."): values.pop(name) for name in list(values) if "." in name}
    origins = {name: one.origin for name, one in said.items()}
    return BrokerConfig(**values, limits=BrokerLimits(**limits), origins=origins)  # type: ignore[arg-type]  # by the table


# ------------------------------------------------------------ one reader for each form of value


def _text(said: Said, name: str) -> str:
    if not isinstance(said.value, str) or not said.value.strip():
        raise said.wrong(name, f"must be text, not {_shown(said.value)}")
    return said.value.strip()


def _path(said: Said, name: str) -> Path:
    return said.folder / Path(_text(said, name)).expanduser()


def _principal_word(said: Said, name: str) -> str:
    """Keep a key or quorum as it is; a file's name begins at the folder of whoever wrote it."""
    word = _text(said, name)
    return word if word.startswith(("ed25519:", "quorum:")) else str(said.folder / Path(word).expanduser())


def _address(said: Said, name: str) -> str:
    word = _text(said, name)
    found = ADDRESS.fullmatch(word)
    if found is None or int(found["port"]) > 65_535:
        raise said.wrong(name, f"must be HOST:PORT such as `127.0.0.1:7400`, not {_shown(word)}")
    return word


def _loopback(said: Said, name: str) -> str | None:
    if _text(said, name) == "off":
        return None
    word = _address(said, name)
    if LOOPBACK.fullmatch(word) is None:
        raise said.wrong(
            name, f"must be on this machine's loopback, such as `127.0.0.1:0`, not {_shown(word)}"
        )
    return word


def _words(said: Said, name: str) -> list[Said]:
    """Return the members of a list; where only text can be written, commas divide it."""
    value = said.value
    if said.is_text and isinstance(value, str):
        value = [word for word in value.split(",") if word.strip()]
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or len(value) > _LIST_MAX:
        raise said.wrong(name, f"must be a list of at most {_LIST_MAX} words, not {_shown(said.value)}")
    return [
        Said(one if not isinstance(one, Path) else str(one), said.origin, said.folder, said.is_text)
        for one in value
    ]


def _paths(said: Said, name: str) -> tuple[Path, ...]:
    return tuple(_path(one, name) for one in _words(said, name))


def _addresses(said: Said, name: str) -> tuple[str, ...]:
    return tuple(_address(one, name) for one in _words(said, name))


def _whole(least: int) -> Callable[[Said, str], int]:
    def read(said: Said, name: str) -> int:
        value = said.value
        if said.is_text and isinstance(value, str) and re.fullmatch(r"\d{1,10}", value.strip()):
            value = int(value)
        if type(value) is not int or not least <= value <= _NUMBER_MAX:
            raise said.wrong(
                name, f"must be a whole number from {least} to {_NUMBER_MAX}, not {_shown(said.value)}"
            )
        return value

    return read


def _fraction(said: Said, name: str) -> float:
    value = said.value
    if said.is_text and isinstance(value, str) and re.fullmatch(r"\d(\.\d{1,12})?", value.strip()):
        value = float(value)
    if type(value) not in (int, float) or not 0 <= value <= 1:  # type: ignore[operator]  # a number by then
        raise said.wrong(name, f"must be a fraction from 0 to 1, not {_shown(said.value)}")
    return float(value)  # type: ignore[arg-type]  # the same


def _yes_or_no(said: Said, name: str) -> bool:
    value = said.value
    if said.is_text and value in ("true", "false"):
        value = value == "true"
    if not isinstance(value, bool):
        raise said.wrong(name, f"must be true or false, not {_shown(said.value)}")
    return value


def _one_of(words: tuple[str, ...]) -> Callable[[Said, str], str]:
    def read(said: Said, name: str) -> str:
        if said.value not in words:
            raise said.wrong(name, f"must be one of {', '.join(words)}, not {_shown(said.value)}")
        return str(said.value)

    return read


def _shown(value: object) -> str:
    """Return what was written, short and on one line. No setting is a secret."""
    return (
        f"`{str(value)[:80]!s}`".replace("\n", "\\n")
        if isinstance(value, str | int | float)
        else f"a {type(value).__name__}"
    )


Reader = Callable[[Said, str], object]

SETTINGS: Final[Mapping[str, Reader]] = {
    "key": _path,
    "network": _text,
    "coordinator": _principal_word,
    "credentials": _paths,
    "listen": _address,
    "address": _address,
    "join": _addresses,
    "data": _path,
    "types": _path,
    "status": _loopback,
    "lease_s": _whole(1),
    "skew_s": _whole(0),
    "verify_in_transit": _fraction,
    "require_install": _yes_or_no,
    "log_format": _one_of(_LOG_FORMATS),
    "log_level": _one_of(_LOG_LEVELS),
    **{f"limits.{one.name}": _whole(1) for one in fields(BrokerLimits)},
}
"""Every setting by its name, with the reader that checks it."""
