"""How shall the access control service of a domain run?

    [api]         where the HTTP interface listens
    [database]    SQLite in the data folder, or PostgreSQL
    [broker]      which broker carries statements, and whose are subscribed to
    [policy]      the policy's file, the role sets it imports, types and certificates it depends on
    [statements]  the rhythm of lists
    [identity]    the community of interest, and how long identity statements hold
    [[facts]]     where facts come from
    [[push]]      which brokers' credential folders are kept fresh

A domain with none of these settings is a key server only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from maia.config.row_sources import SourceConfig
from maia.config.settings import (
    Address,
    Addresses,
    Mismatch,
    Paths,
    Positive,
    PrincipalWord,
    Secret,
    Text,
    Whole,
)
from maia.credentials import Principal, SignedCertificate, VerifiedConstitution
from maia.credentials.appointments import ParameterKind
from maia.credentials.names import checked_label
from maia.credentials.x509_chains import x509_from_file
from maia.domain.access.settings import AccessSettings
from maia.errors import Unavailable
from maia.types import SignedDefinition

_TAKES: Final = {"parameters": ("sqlite", "postgresql"), "listen": ("postgresql",)}
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class DatabaseUrl(Secret):
    """A database's address, which may hold a password."""

    __slots__ = ()
    expected = "`sqlite:///FILE` or `postgresql://…`"

    @classmethod
    def read(cls, text: str, folder: Path) -> Self:
        """Return the address, a file's from the folder of the configuration."""
        if text.startswith("sqlite:///"):
            return cls(f"sqlite:///{folder / text.removeprefix('sqlite:///')}")
        if not text.startswith("postgresql://"):
            raise ValueError
        return cls(text)


class FactConfig(SourceConfig, frozen=True, kw_only=True):
    """One `[[facts]]` table, as the operator wrote it."""

    source: Literal["sqlite", "postgresql", "file", "http", "stream"]
    every_s: Positive = 10
    stale_s: Positive = 60
    kinds: tuple[ParameterKind, ...]
    """The kind of each argument."""
    holds: Text | None = None
    """For a stream: the attribute that says whether the fact holds."""
    listen: Text | None = None
    """A channel of PostgreSQL: the fact is read again at each NOTIFY on it."""

    def __post_init__(self) -> None:
        """Refuse words that do not fit each other."""
        super().__post_init__()
        if self.columns and len(self.columns) != len(self.kinds):
            raise Mismatch("columns", "there are not as many columns as kinds")
        for word in ("parameters", "listen"):
            if getattr(self, word) and self.source not in _TAKES[word]:
                raise Mismatch(word, f"a source `{self.source}` has no `{word}`")
        if self.source == "http" and self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
                raise Mismatch("url", "a page is fetched over https, or from this machine")


class PushConfig(Struct, frozen=True):
    """One `[[push]]` table: whose certificates are kept fresh in which folder."""

    subject: PrincipalWord
    """The broker: a key or .pub file."""
    folder: Path
    """The credential folder that the broker reads."""


class AccessConfig(Struct, frozen=True, kw_only=True):
    """The settings of the service: words and paths, nothing opened yet."""

    api_listen: Address = msgspec.field(name="api.listen", default="127.0.0.1:7600")
    """Where the HTTP interface answers."""
    api_skew_s: Positive = msgspec.field(name="api.skew_s", default=60)
    """By how many seconds a caller's clock may differ."""
    api_public: Address | None = msgspec.field(name="api.public", default=None)
    """How others reach the interface; certificates then name it as the place to fetch statements from."""
    database_url: DatabaseUrl | None = msgspec.field(name="database.url", default=None)
    """Where its state is kept: SQLite in the data folder, or `postgresql://…`, best in a variable."""
    broker_addresses: Addresses = msgspec.field(name="broker.addresses", default=())
    """Brokers that carry the domain's statements."""
    broker_hear: tuple[PrincipalWord, ...] = msgspec.field(name="broker.hear", default=())
    """More issuers whose statements are subscribed to: keys or .pub files."""
    broker_own: PrincipalWord | None = msgspec.field(name="broker.own", default=None)
    """The domain's own broker, a key or .pub file: it may do what the policy lets members do with types."""
    broker_own_credentials: Path | None = msgspec.field(name="broker.own_credentials", default=None)
    """The folder of that broker's credentials, into which the certificates for it are put."""
    broker_own_delegates: bool = msgspec.field(name="broker.own_delegates", default=False)
    """Whether that broker passes its rights on, to the processes that it consists of."""
    broker_carry_s: Positive = msgspec.field(name="broker.carry_s", default=10)
    """How many seconds a call waits for a broker to act on a statement."""
    policy_file: Path | None = msgspec.field(name="policy.file", default=None)
    """The policy."""
    policy_parents: Annotated[
        dict[str, Path], Meta(description="a table of names and files, such as { home = 'home.policy' }")
    ] = msgspec.field(name="policy.parents", default_factory=dict)
    """Role sets that the policy imports, in the order in which each may import the ones before it."""
    policy_types: Paths = msgspec.field(name="policy.types", default=())
    """Event types that the policy names: files, and folders of *.type."""
    policy_held: Paths = msgspec.field(name="policy.held", default=())
    """Certificates that owners issued to the domain: files and folders."""
    policy_issued: Paths = msgspec.field(name="policy.issued", default=())
    """Folders of certificates that the domain's key signs elsewhere; the register takes in what appears."""
    policy_revoked: Paths = msgspec.field(name="policy.revoked", default=())
    """Folders of keys (.pub) whose calls are refused, as `maia revoke` leaves them."""
    statements_period_s: Positive = msgspec.field(name="statements.period_s", default=30)
    """For how many seconds a list of revocations holds."""
    statements_lead_s: Whole | None = msgspec.field(name="statements.lead_s", default=None)
    """How many seconds before its end the next list is signed; default: a third of the period."""
    rights_seconds: Positive = msgspec.field(name="rights.seconds", default=86_400)
    """The longest period of a right that the domain issues."""
    identity_community: Text | None = msgspec.field(name="identity.community", default=None)
    """The community of interest of identity statements; without one none is issued."""
    identity_lifetime_s: Positive = msgspec.field(name="identity.lifetime_s", default=3_600)
    """For how many seconds an identity statement holds at most."""
    identity_authorities: Paths = msgspec.field(name="identity.authorities", default=())
    """X.509 authorities (PEM): subjects are registered by certificates that lead to one of them."""
    identity_revocation_lists: Paths = msgspec.field(name="identity.revocation_lists", default=())
    """Revocation lists of these authorities (PEM or DER); read again for each statement."""
    identity_attested_s: Positive = msgspec.field(name="identity.attested_s", default=900)
    """For how many seconds a verified boot of a router counts."""
    facts: tuple[FactConfig, ...] = ()
    push: tuple[PushConfig, ...] = ()


# ------------------------------------------------------------ what the settings name, opened

# Kept apart from the service itself, so that checking a configuration loads no server.


@dataclass(frozen=True, slots=True)
class StreamOfFacts:
    """A fact, the type of the events that state it, and which attributes are its arguments."""

    name: str
    definition: SignedDefinition
    columns: tuple[str, ...]
    kinds: tuple[ParameterKind, ...]
    holds: str | None
    stale_s: float


def _contents(paths: Iterable[Path]) -> list[bytes]:
    """Return the bytes of files; what cannot be read now is not taken for empty."""
    try:
        return [one.read_bytes() for one in paths]
    except OSError as problem:
        said = f"a revocation list cannot be read: {problem.strerror}"
        raise Unavailable("UNAVAILABLE-REVOCATION-LIST", said) from problem


def read_authorities(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """Return the X.509 authorities in some files, in DER."""
    return tuple(one for data in _contents(paths) for one in x509_from_file(data))


@dataclass(frozen=True, slots=True)
class PreparedAccess:
    """Everything that the service needs, opened and checked."""

    config: AccessConfig
    hear: tuple[Principal, ...] = ()
    held: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    types: tuple[SignedDefinition, ...] = field(default=(), repr=False)
    streams: tuple[StreamOfFacts, ...] = field(default=(), repr=False)
    pushes: tuple[tuple[Principal, Path], ...] = ()
    own_broker: tuple[Principal, Path] | None = None
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)

    @property
    def settings(self) -> AccessSettings:
        config = self.config
        return AccessSettings(
            period_s=config.statements_period_s,
            lead_s=config.statements_period_s // 3
            if config.statements_lead_s is None
            else config.statements_lead_s,
            right_s=config.rights_seconds,
            community=None if config.identity_community is None else checked_label(config.identity_community),
            identity_s=config.identity_lifetime_s,
            attested_s=config.identity_attested_s,
            authorities=read_authorities(config.identity_authorities),
            revocation_lists=lambda: _contents(config.identity_revocation_lists),
            constitutions=self.constitutions,
            name_folders=tuple(str(place.parent) for place in config.policy_types),
            locations=() if config.api_public is None else (f"https://{config.api_public}/v1/statements",),
        )
