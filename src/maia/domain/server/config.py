"""How shall this domain's server run?

    maia domain serve --config domain.toml         a file,
    MAIA_DOMAIN_LISTEN=127.0.0.1:7500              the environment,
    maia domain serve --listen 127.0.0.1:7500      and flags, the last word of the three.

Everything is checked before the server opens a port. An error names the file,
the line and the key, and a name that is not a setting is an error too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from maia.config.bounds_file import read_bounds
from maia.config.constitutions import Quorums, constitutions_of, read_quorums, remembered_in
from maia.config.input_files import (
    BadFile,
    read_certificates,
    read_definition,
    read_definitions,
    read_owner,
    read_principal,
)
from maia.config.settings import (
    Address,
    BadConfig,
    Paths,
    Positive,
    ServerConfig,
    Whole,
    build,
    gather,
    limits_of,
    settings_files,
    settings_of,
)
from maia.config.start_checks import check_folder, opened, right_to_connect
from maia.config.type_folder import in_order_of_making
from maia.credentials import NetworkName, Principal, SignedCertificate, SigningKey, VerifiedConstitution
from maia.credentials.names import checked_label
from maia.domain import DomainLimits, DomainSettings
from maia.domain.server.access_config import (
    AccessConfig,
    FactConfig,
    PreparedAccess,
    StreamOfFacts,
    read_authorities,
)
from maia.events import Instant
from maia.policy import BoundRule
from maia.sealing.keys.key_ring import KeyTerms
from maia.types import type_id

_TERMS: Final = KeyTerms()


class DomainConfig(ServerConfig, frozen=True, kw_only=True):
    """One key server's settings as the operator wrote them: words and paths, nothing opened yet."""

    data: Path
    """A folder for epochs, sealed keys and evictions; a key server cannot run without one."""
    listen: Address = "127.0.0.1:7500"
    history: Paths = ()
    """*.type files of the types whose old keys are kept, for pipelines that read the past."""
    refresh_s: Positive = _TERMS.refresh_s
    """How often keys are refreshed even if no member comes or goes."""
    overdue_s: Whole = _TERMS.overdue_s
    """For how long publishers go on sealing after a refresh is overdue."""
    drift_s: Whole = _TERMS.drift_s
    """For how long old keys still open what was sealed before a refresh."""
    back_dating_s: Whole = _TERMS.back_dating_s
    """By how much a publication's moment may lie outside its epoch."""
    limits: DomainLimits = msgspec.field(default_factory=DomainLimits)
    access: AccessConfig | None = None
    """The access control service, where one was asked for."""


_OWN: Final = settings_of(DomainConfig)
_LIMITS: Final = limits_of(DomainLimits)
_ACCESS: Final = settings_of(AccessConfig)


@dataclass(frozen=True, slots=True)
class PreparedDomain:
    """Everything that a key server needs, opened and checked; only `prepare_domain` makes one."""

    config: DomainConfig
    key: SigningKey = field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    history: frozenset[bytes]
    may_connect_until: Instant | None
    access: PreparedAccess | None = None
    quorums: Quorums = field(default_factory=dict, repr=False)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)

    def settings(self, address: str) -> DomainSettings:
        """Return what the server is told, once it is known where it listens."""
        config = self.config
        terms = KeyTerms(config.refresh_s, config.overdue_s, config.drift_s, config.back_dating_s)
        return DomainSettings(
            self.network,
            address,
            self.credentials,
            terms=terms,
            history=self.history,
            lease_s=config.lease_s,
            require_install=config.require_install,
            limits=config.limits,
            bounds=self.bounds,
            constitutions=constitutions_of(self.quorums),
        )


def read_domain_config(
    file: Path | None, *, flags: Mapping[str, object], environment: Mapping[str, str]
) -> DomainConfig:
    """Put the three sources together and check every value; raise BadConfig at the first wrong one."""
    settings = gather(
        _OWN | _LIMITS | _ACCESS, file=file, environment=environment, prefix="MAIA_DOMAIN_", flags=flags
    )
    for name in ("key", "network", "coordinator", "credentials", "data"):
        if name not in settings:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a key server cannot run without it")
    limits = build(DomainLimits, _LIMITS, settings, prefix="limits.")
    access = build(AccessConfig, _ACCESS, settings) if any(name in _ACCESS for name in settings) else None
    names = [] if access is None else [one.name for one in access.facts]
    for number, name in enumerate(names, start=1):
        if name in names[: number - 1]:
            problem = f"number {number}: `{name[:64]}` has a source already"
            raise settings["facts"].in_table(number, "name").wrong("facts", problem)
    origins = {name: one.origin for name, one in settings.items()}
    return build(
        DomainConfig,
        _OWN,
        settings,
        limits=limits,
        access=access,
        origins=origins,
        read_from=settings_files(file),
    )


def prepare_domain(
    config: DomainConfig, *, now: Instant, open_key: Callable[[Path], SigningKey]
) -> PreparedDomain:
    """Open and check whatever the configuration names; raise at the first thing that is wrong."""
    key = opened(config, "key", lambda: open_key(config.key))
    owner = opened(config, "coordinator", lambda: read_owner(config.coordinator))
    network = opened(config, "network", lambda: NetworkName(owner, config.network))
    credentials = tuple(opened(config, "credentials", lambda: read_certificates(config.credentials)))
    names = opened(
        config, "history", lambda: [read_definition(one).definition.name for one in config.history]
    )
    history = frozenset(type_id(name.owner, name.name) for name in names)
    check_folder(config, "data", config.data)
    shown = (*config.credentials, *remembered_in(config.data))
    quorums = opened(config, "credentials", lambda: read_quorums(shown))
    constitutions = constitutions_of(quorums)
    bounds = opened(config, "bounds", lambda: read_bounds(config.bounds))
    until = right_to_connect(config, key, network, credentials, now, constitutions)
    access = None if config.access is None else _prepared_access(config, config.access, constitutions)
    prepared = PreparedDomain(
        config, key, network, credentials, history, until, access, quorums=quorums, bounds=bounds
    )
    opened(config, "drift_s", lambda: prepared.settings(config.listen))
    return prepared


def _prepared_access(
    config: DomainConfig, access: AccessConfig, constitutions: tuple[VerifiedConstitution, ...]
) -> PreparedAccess:
    """Open what the access control service names; its policy is read when it runs, again and again."""
    hear = opened(config, "broker.hear", lambda: tuple(read_principal(one) for one in access.broker_hear))
    held = opened(config, "policy.held", lambda: tuple(read_certificates(access.policy_held)))
    types = opened(config, "policy.types", lambda: in_order_of_making(read_definitions(access.policy_types)))
    streams = opened(
        config, "facts", lambda: tuple(_stream(one) for one in access.facts if one.source == "stream")
    )
    pushes = opened(
        config, "push", lambda: tuple((read_principal(one.subject), one.folder) for one in access.push)
    )
    broker = opened(config, "broker.own", lambda: _own_broker(access))
    opened(config, "identity.authorities", lambda: read_authorities(access.identity_authorities))
    prepared = PreparedAccess(access, hear, held, types, streams, pushes, broker, constitutions)
    if access.identity_community is not None:
        opened(config, "identity.community", lambda: checked_label(access.identity_community or ""))
    opened(config, "statements.period_s", lambda: prepared.settings)
    return prepared


def _own_broker(access: AccessConfig) -> tuple[Principal, Path] | None:
    own, folder = access.broker_own, access.broker_own_credentials
    if own is None and folder is None:
        return None
    if own is None or folder is None:
        raise BadFile("`broker.own` and `broker.own_credentials` go together")
    return read_principal(own), folder


def _stream(fact: FactConfig) -> StreamOfFacts:
    definition = read_definition(fact.path or Path())
    known = {one.name for one in definition.definition.attributes}
    for name in (*fact.columns, *(() if fact.holds is None else (fact.holds,))):
        if name not in known:
            raise BadFile(f"`{fact.path}` has no attribute `{name[:64]}`")
    return StreamOfFacts(fact.name, definition, fact.columns, fact.kinds, fact.holds, fact.stale_s)
