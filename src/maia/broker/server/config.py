"""How shall this broker run, and can it?

    maia broker --config broker.toml         a file,
    MAIA_BROKER_LISTEN=127.0.0.1:7400        the environment,
    maia broker --listen 127.0.0.1:7400      and flags, which override both.

A router of a mesh needs its key and its neighbours, and nothing else:

    maia broker --key north.key --neighbour 10.0.0.2:7400

Its certificates lie beside the key, in `north.cert` or in a folder `north-certs`. The
network is the one that they let it connect to, and the owner named in them is whom
it trusts to say who else may.

Everything is checked before the broker opens a port, keys, certificates and folders
included, so that `maia broker --check` and a start fail for the same reasons. An error
names the file, the line and the key, and an unknown setting is an error too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as data_field
from pathlib import Path
from typing import Final, Literal

from msgspec import field

from maia.broker.settings import BrokerLimits, BrokerSettings, LedgerSettings, RecordingSettings, Routing
from maia.config.bounds_file import read_bounds
from maia.config.constitutions import Quorums, constitutions_of, read_quorums, remembered_in
from maia.config.identity_file import IdentityFile
from maia.config.input_files import read_certificates, read_owner, read_principal
from maia.config.settings import (
    Address,
    Addresses,
    BadConfig,
    Fraction,
    PeerAddresses,
    PlaceWord,
    Positive,
    PrincipalWord,
    ServerConfig,
    Setting,
    Text,
    Whole,
    build,
    gather,
    limits_of,
    settings_files,
    settings_of,
)
from maia.config.start_checks import check_folder, opened, right_as_broker, right_to_connect
from maia.config.type_folder import TypeFolder
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    NetworkName,
    NetworkPattern,
    Owner,
    Principal,
    SignedCertificate,
    SigningKey,
)
from maia.credentials.identity import IdentityTrust
from maia.credentials.requirements import parse_requirement
from maia.errors import MaiaError
from maia.events import Instant
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.keystore.lookup_tables import ReadTable, functions_in, load_transformation_keys, read_lookups
from maia.policy import BoundRule
from maia.predicates import ALWAYS, Predicate
from maia.routing.aggregation.budget import BudgetRange
from maia.types import SignedDefinition, definition_to_bytes


class BrokerConfig(ServerConfig, frozen=True, kw_only=True):
    """One broker's settings as the operator wrote them: words and paths, nothing opened yet."""

    listen: Address = "127.0.0.1:7400"
    address: Address | None = None
    """What others dial to reach this broker; default: where it listens."""
    processes: Positive = 1
    """How many processes the broker is; with several, they also listen at the next so many ports."""
    join: PeerAddresses = ()
    """Brokers to join the network through; one that is written KEY@HOST:PORT is dialled by statement link."""
    routing: Literal["rendezvous", "mesh"] = "rendezvous"
    """How interests spread: all brokers of a network route in the same way. Default with neighbours: mesh."""
    neighbours: PeerAddresses = ()
    """Where the neighbours of a router of a mesh listen; one of two neighbours names the other."""
    data: Path | None = None
    """A folder for what survives a restart; without one nothing does."""
    types: Path | None = None
    """A folder of *.type files that this broker answers type queries from."""
    receive_certificates: bool = False
    """Whether certificates that issuers push to this broker are kept in its data folder and used."""
    skew_s: Whole = 30
    """How far clocks may differ."""
    proof_age_s: Positive = 900
    """How long a client's signed request counts at other brokers; it is signed again in half that time. The
    same at all brokers of a network, and at least four leases."""
    verify_in_transit: Fraction = 1.0
    """The fraction of other brokers' interests, and of signed frames that only pass, verified here."""
    open_borders: bool = False
    """Whether brokers of other domains get events as they were published, not what subscribers there see."""
    keys: Addresses = ()
    """Where managers of keys may be found, beside the addresses that type definitions name."""
    share_plaintext: bool = False
    """Whether neighbours that may read a sealed attribute get its plaintext beside the ciphertext."""
    log_folder: Path | None = field(name="log.folder", default=None)
    """Where the event log is kept; without one nothing is recorded."""
    log_place: PlaceWord | None = field(name="log.place", default=None)
    """Where finished segments go, such as `s3://bucket/folder`; the folder stays the first copy."""
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
    ledger_folder: Path | None = field(name="ledger.folder", default=None)
    """Where deliveries are put on record; without one no type is delivered whose owner demands it."""
    ledger_all: bool = field(name="ledger.all", default=False)
    """Whether deliveries of all types are put on record, and not only where the type's owner demands it."""
    ledger_parquet: Path | None = field(name="ledger.parquet", default=None)
    """Where closed files of the ledger become tables for Spark, by themselves; without a folder nowhere."""
    ledger_witness: Address | None = field(name="ledger.witness", default=None)
    """The server of a domain to which the ledger's head is stated; without an address none is."""
    ledger_witness_domain: PrincipalWord | None = field(name="ledger.witness_domain", default=None)
    """The domain that must answer there: a key or .pub file."""
    statements_fetch_from: Addresses = field(name="statements.fetch_from", default=())
    """Domains' servers that may be asked for statements which are missed here; none by default."""
    identity_listen: Address | None = field(name="identity.listen", default=None)
    """Where to accept statement links, beside the TLS links at `listen`; without an address nowhere."""
    identity_statement: Path | None = field(name="identity.statement", default=None)
    """The broker's own identity statement; a renewed one is put in its place."""
    identity_community: Text | None = field(name="identity.community", default=None)
    """For which community of interest statements count; default: that of the broker's own statement."""
    identity_providers: tuple[PrincipalWord, ...] = field(name="identity.providers", default=())
    """The providers whose statements are believed: keys or .pub files."""
    identity_paths: bool = field(name="identity.paths", default=False)
    """Whether neighbours are told, signed, over which routers events come: subscribers can require it."""
    identity_demand: Text | None = field(name="identity.demand", default=None)
    """What the statements of other brokers have to say, as `tpm-integrity >= 2`; others are no neighbours."""
    aggregation_merge: bool = field(name="aggregation.merge", default=True)
    """Whether filters of this broker's clients are merged once they have many bytes."""
    transformation_keys: Path | None = None
    """A file with the secrets of pseudonyms and noise; without it, such values are missing."""
    lookups: Path | None = None
    """A file that names the tables of `lookup`; without it, what is looked up is missing."""
    limits: BrokerLimits = field(default_factory=BrokerLimits)


_OWN: Final = settings_of(BrokerConfig)
_LIMITS: Final = limits_of(BrokerLimits)


def read_config(
    file: Path | None, *, flags: Mapping[str, object], environment: Mapping[str, str]
) -> BrokerConfig:
    """Put the three sources together and check every value; raise BadConfig at the first wrong one."""
    settings = gather(_OWN | _LIMITS, file=file, environment=environment, prefix="MAIA_BROKER_", flags=flags)
    if "neighbours" in settings:
        settings.setdefault("routing", replace(settings["neighbours"], value="mesh"))
    if "routing" in settings and settings["routing"].value == "mesh":
        _add_what_the_key_tells(settings)
    for name in ("key", "network", "coordinator", "credentials"):
        if name not in settings:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a broker cannot run without it")
    limits = build(BrokerLimits, _LIMITS, settings, prefix="limits.")
    origins = {name: one.origin for name, one in settings.items()}
    config = build(
        BrokerConfig, _OWN, settings, limits=limits, origins=origins, read_from=settings_files(file)
    )
    if not config.log_types or ("*" in config.log_types and len(config.log_types) > 1):
        raise config.wrong("log.types", "must be `*` alone, or the names or ids of some types")
    if config.routing == "mesh" and config.join:
        raise config.wrong("join", "is for the rendezvous; a router of a mesh has `neighbours`")
    if config.routing == "rendezvous" and config.neighbours:
        raise config.wrong("neighbours", "are for a mesh; with a rendezvous, `join` names a broker")
    return config


def _add_what_the_key_tells(settings: dict[str, Setting]) -> None:
    """Find the certificates of a router beside its key, and its network in them, unless they are named."""
    key = settings.get("key")
    if key is None:
        return
    path = key.folder / Path(str(key.value)).expanduser()
    if "credentials" not in settings:
        places = (path.with_suffix(".cert"), path.with_name(f"{path.stem}-certs"))
        found = [str(place.absolute()) for place in places if place.exists()]
        if not found and not path.exists():
            raise key.wrong("key", f"names `{path}`, which is not there; `maia key new` makes a key")
        if not found:
            wanted = " nor ".join(f"`{place}`" for place in places)
            raise key.wrong("key", f"has no certificates beside it, neither {wanted}; or name `credentials`")
        settings["credentials"] = Setting(found, key.origin, Path())
    if "network" in settings or "coordinator" in settings:
        return
    named = settings["credentials"]
    words = named.value if isinstance(named.value, list) else str(named.value).split(",")
    try:
        certificates = read_certificates([named.folder / Path(str(word)).expanduser() for word in words])
    except MaiaError as problem:
        raise named.wrong("credentials", f"cannot be read: {problem.message} [{problem.code}]") from problem
    networks = {
        (pattern.owner, pattern.name.exact): None
        for signed in certificates
        if isinstance(signed.certificate, AuthorisationCertificate)
        and Action.CONNECT in signed.certificate.authority.actions
        and isinstance(pattern := signed.certificate.authority.resources, NetworkPattern)
        and pattern.owner is not None
        and pattern.name.exact is not None
    }
    if len(networks) != 1:
        raise named.wrong("credentials", f"name {len(networks)} networks; say `network` and `coordinator`")
    ((owner, name),) = networks
    settings["network"] = Setting(name, named.origin, Path())
    settings["coordinator"] = Setting(str(owner), named.origin, Path())


@dataclass(frozen=True, slots=True)
class PreparedBroker:
    """Everything that a broker needs, opened and checked; only `prepare` makes one."""

    config: BrokerConfig
    key: SigningKey = data_field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = data_field(repr=False)
    definitions: tuple[SignedDefinition, ...] = data_field(repr=False)
    may_connect_until: Instant | None
    quorums: Quorums = data_field(default_factory=dict, repr=False)
    bounds: tuple[BoundRule, ...] = data_field(default=(), repr=False)
    lookups: Mapping[bytes, Mapping[str, ReadTable]] = data_field(default_factory=dict, repr=False)
    identity: IdentityFile | None = data_field(default=None, repr=False)
    trust: IdentityTrust | None = None
    demand: Predicate = ALWAYS
    transformation_keys: TransformationKeys = data_field(default=NO_KEYS, repr=False)
    ledger_witness: Principal | None = None
    broken: Mapping[Path, MaiaError] = data_field(default_factory=dict, repr=False)
    """Definitions that cannot be read."""

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
            routing=Routing(config.routing),
            neighbours=config.neighbours,
            lease_s=config.lease_s,
            skew_s=config.skew_s,
            proof_age_s=config.proof_age_s,
            verify_in_transit=config.verify_in_transit,
            open_borders=config.open_borders,
            key_managers=config.keys,
            share_plaintext=config.share_plaintext,
            require_install=config.require_install,
            aggregation=BudgetRange() if config.aggregation_merge else None,
            recording=recording,
            ledger=None if config.ledger_folder is None else LedgerSettings(config.ledger_all),
            limits=config.limits,
            bounds=self.bounds,
            constitutions=constitutions_of(self.quorums),
            identity=self.trust,
            demand=self.demand,
            paths=self.config.identity_paths,
            transformation_keys=self.transformation_keys,
            functions=functions_in(self.lookups),
        )

    def types_to_keep(self) -> dict[str, bytes]:
        """Return the folder's definitions in the form in which a broker keeps those it has verified."""
        from maia.broker.rights.known_types import KEPT_TYPE

        return {f"{KEPT_TYPE}{one.id.hex()}": definition_to_bytes(one) for one in self.definitions}


def pushed_to(config: BrokerConfig) -> Path | None:
    """Return the folder of certificates that issuers push to this broker; None if it receives none."""
    return config.data / "certificates" if config.data is not None and config.receive_certificates else None


def prepare(config: BrokerConfig, *, now: Instant, open_key: Callable[[Path], SigningKey]) -> PreparedBroker:
    """Open and check whatever the configuration names; raise at the first thing that is wrong."""
    key = opened(config, "key", lambda: open_key(config.key))
    coordinator: Owner = opened(config, "coordinator", lambda: read_owner(config.coordinator))
    network = opened(config, "network", lambda: NetworkName(coordinator, config.network))
    pushed = pushed_to(config)
    folders = [*config.credentials, *([] if pushed is None or not pushed.is_dir() else [pushed])]
    credentials = tuple(opened(config, "credentials", lambda: read_certificates(folders)))
    if config.data is not None:
        check_folder(config, "data", config.data)
    shown = (*config.credentials, *remembered_in(config.data))
    quorums = opened(config, "credentials", lambda: read_quorums(shown))
    bounds = opened(config, "bounds", lambda: read_bounds(config.bounds))
    # Of several processes each is a broker, with a key of its own; this one starts them.
    right = right_as_broker if config.processes == 1 else right_to_connect
    until = right(config, key, network, credentials, now, constitutions_of(quorums))
    definitions: tuple[SignedDefinition, ...] = ()
    broken: Mapping[Path, MaiaError] = {}
    if config.types is not None:
        folder = TypeFolder(config.types)
        definitions, broken = opened(config, "types", folder.definitions), folder.broken
    secrets, path = NO_KEYS, config.transformation_keys
    if path is not None:
        secrets = opened(config, "transformation_keys", lambda: load_transformation_keys(path))
    tables: dict[bytes, dict[str, ReadTable]] = {}
    if (named := config.lookups) is not None:
        tables = opened(config, "lookups", lambda: read_lookups(named))
        secrets = secrets.with_tables(tables)
    _check_log(config)
    identity, trust = _identity(config, key, now)
    if config.ledger_folder is not None:
        check_folder(config, "ledger.folder", config.ledger_folder)
        if config.ledger_parquet is not None:
            check_folder(config, "ledger.parquet", config.ledger_parquet)
    for name in ("ledger.all", "ledger.parquet", "ledger.witness", "ledger.witness_domain"):
        if config.ledger_folder is None and name in config.origins:
            raise config.wrong(name, "is about a ledger, and `ledger.folder` does not say where one is kept")
    return PreparedBroker(
        config,
        key,
        network,
        credentials,
        definitions,
        until,
        quorums=quorums,
        bounds=bounds,
        lookups=tables,
        identity=identity,
        trust=trust,
        demand=opened(config, "identity.demand", lambda: parse_requirement(config.identity_demand or "true")),
        ledger_witness=_witness(config),
        transformation_keys=secrets,
        broken=broken,
    )


def _witness(config: BrokerConfig) -> Principal | None:
    """Return the domain to which the ledger's head is stated."""
    address, domain = config.ledger_witness, config.ledger_witness_domain
    if (address is None) != (domain is None):
        name = "ledger.witness" if domain is None else "ledger.witness_domain"
        raise config.wrong(name, "is given alone: `witness` and `witness_domain` go together")
    return None if domain is None else opened(config, "ledger.witness_domain", lambda: read_principal(domain))


def _identity(
    config: BrokerConfig, key: SigningKey, now: Instant
) -> tuple[IdentityFile | None, IdentityTrust | None]:
    """Return what statement links are opened with, and whose statements are believed."""
    said = [name for name in config.origins if name.startswith("identity.")]
    name, dialled = ("join", config.join) if config.join else ("neighbours", config.neighbours)
    by_statement = next((one for one in dialled if "@" in one), None)
    if by_statement is not None and config.identity_statement is None:
        raise config.wrong(
            name, f"names `{by_statement}`, a statement link, which needs `statement` under `[identity]`"
        )
    if not said:
        return None, None
    if not config.identity_providers:
        raise config.wrong(said[0], "needs `providers` beside it: whose statements are believed")
    providers = opened(
        config, "identity.providers", lambda: [read_principal(one) for one in config.identity_providers]
    )
    path = config.identity_statement
    if path is None:
        if config.identity_listen is not None:
            raise config.wrong("identity.listen", "needs `statement` beside it: statement links show one")
        if config.identity_community is None:
            raise config.wrong(said[0], "needs `statement` or `community` beside it")
        return None, IdentityTrust(config.identity_community, frozenset(providers))
    identity = opened(
        config, "identity.statement", lambda: IdentityFile(path, key, providers, window_s=config.skew_s)
    )
    statement = identity().own.statement
    if not statement.is_in_force(now):
        raise config.wrong(
            "identity.statement", f"holds from {statement.not_before} to {statement.not_after}; renew it"
        )
    if config.identity_community not in {None, statement.community}:
        raise config.wrong(
            "identity.community", f"is not `{statement.community}`, the community of `identity.statement`"
        )
    return identity, identity().trust


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
