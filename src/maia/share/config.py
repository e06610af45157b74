"""How shall a sharing server run, and what does it share?

    log = "log"
    data = "share-data"            # recipients, files, and the ledger of reads
    listen = "0.0.0.0:8890"
    endpoint = "https://share.hospital.example:8890/delta-sharing"

    [tls]
    certificate = "share.crt"
    key = "share.pem"

Everything is checked before a port is opened, as for every server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, field

from maia.config.settings import (
    Address,
    BadConfig,
    Defaults,
    Loopback,
    OutsideMetrics,
    PlaceWord,
    Positive,
    WrittenConfig,
    build,
    gather,
    settings_of,
)
from maia.places import places_of
from maia.private_files import exposure, make_private_folder

PREFIX: Final = "/delta-sharing"
"""Where the pages of the protocol are."""
_LOOPBACK: Final = ("127.", "localhost:", "[::1]:")
_LEDGER: Final = "ledger"

ShareName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z", description="1 to 63 letters, digits, `-` and `_`"),
]
Endpoint = Annotated[
    str,
    Meta(
        pattern=r"^https?://[A-Za-z0-9.:\[\]_-]+(?:/[A-Za-z0-9._~-]+)*\Z",
        description="an address such as `https://share.example/delta-sharing`",
    ),
]
Lifetime = Annotated[int, Meta(ge=10, le=3600, description="a whole number from 10 to 3600")]


class ShareConfig(WrittenConfig, frozen=True, kw_only=True):
    """A sharing server's settings as the operator wrote them."""

    log: PlaceWord
    """The event log whose tables are shared: a folder, or an address such as `s3://bucket/log`."""
    data: Path
    """Where recipients, files and the ledger of reads are kept, for this server alone."""
    share: ShareName = "maia"
    """What the share is called, in which all tables are."""
    listen: Address = "127.0.0.1:8890"
    """Where recipients connect; port 0 takes a free one."""
    endpoint: Endpoint | None = None
    """How recipients call the server, where that is not how it listens: profiles and addresses say it."""
    tls_certificate: Path | None = field(name="tls.certificate", default=None)
    """The server's X.509 certificate and chain, in PEM; without it only loopback can be listened at."""
    tls_key: Path | None = field(name="tls.key", default=None)
    """Its private key, in PEM."""
    ledger: PlaceWord | None = None
    """Where reads are put on record; default: `ledger` in the data folder."""
    cache_mb: Positive = 4096
    """Megabytes that the files of all tables may take; beyond, the oldest go."""
    address_s: Lifetime = 300
    """How long the address of a file is good."""
    refresh_s: Positive = 5
    """How often a table that is asked for is brought up to date at most."""
    connections: Positive = 256
    """Connections at one time."""
    calls_per_recipient: Positive = 16
    """Calls of one recipient at one time, downloads among them."""
    require_complete: bool = False
    """Whether tables are refused as long as the log is known to miss anything of them."""
    status: Loopback = "127.0.0.1:0"
    """Where /health, /ready, /metrics and /status answer, on loopback; or `off`."""
    metrics: OutsideMetrics = "off"
    """Where other machines may ask for /health, /ready and /metrics: numbers, in the clear, for everyone."""

    @property
    def ledger_place(self) -> str:
        """Return where reads are put on record."""
        return str(self.data / _LEDGER) if self.ledger is None else self.ledger

    def endpoint_at(self, address: str) -> str:
        """Return how recipients call a server that listens at an address."""
        scheme = "http" if self.tls_certificate is None else "https"
        return self.endpoint or f"{scheme}://{address}{PREFIX}"


_KNOWN: Final = settings_of(ShareConfig)


def read_config(
    file: Path | None,
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    defaults: Defaults | None = None,
) -> ShareConfig:
    """Read the file, the environment and flags; raise BadConfig at the first wrong value."""
    settings = gather(
        _KNOWN, file=file, environment=environment, prefix="MAIA_SHARE_", flags=flags, defaults=defaults
    )
    for name in ("log", "data"):
        if name not in settings:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a sharing server cannot run without it")
    origins = {name: one.origin for name, one in settings.items()}
    config = build(ShareConfig, _KNOWN, settings, origins=origins)
    if (config.tls_certificate is None) != (config.tls_key is None):
        raise config.wrong("tls.certificate", "and `tls.key` go together")
    if config.tls_certificate is None and not config.listen.startswith(_LOOPBACK):
        raise config.wrong(
            "listen", "is not loopback: tokens would travel in clear; set `tls.certificate` and `tls.key`"
        )
    if len(places_of(config.log)) != 1:
        raise config.wrong("log", "means several logs, and a sharing server shares one")
    try:
        make_private_folder(config.data)
        exposed = exposure(config.data)
    except OSError as problem:
        raise config.wrong("data", f"cannot be used: {problem.strerror}: `{config.data}`") from problem
    if exposed is not None:
        raise config.wrong("data", f"cannot be used: {exposed}")
    return config
