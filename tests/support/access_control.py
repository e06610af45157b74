"""The Metropolitan Police, its courts and its detectives, with their access control services."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Engine

from maia.credentials import Action, Principal, SigningKey, Validity
from maia.credentials.appointments import SignedAppointment
from maia.credentials.statements import RevocationList, SignedStatement, statement_from_bytes
from maia.domain.access.audit import check_linked, record_from_bytes
from maia.domain.access.memberships import membership_from_bytes, support_key
from maia.domain.access.service import AccessControl
from maia.domain.access.settings import AccessSettings
from maia.domain.storage.store import DomainStore, memory_store
from maia.domain.storage.tables import ALL_TABLES
from maia.events import Instant
from maia.policy import Decision, Facts, Request, decide, gather_evidence
from maia.types import VerifiedType
from maia.validity import Monitor
from support.policy import MET, NOON, NUMBERPLATE, PITO, SMITH, granted, key

COURT, JONES, BROWN = key(30), key(31), key(32)
SECOND = 1_000_000
DAY = 86_400

POLICY = f"""
policy "Metropolitan Police"
key courts = {COURT.principal}
type Numberplate = uk.gov.pito.Numberplate
appointment court_order(case: string, plate: string) by courts
appointment medal() by here
fact detective(who: principal)
fact case_assignment(who: principal, case: string)
role detective_on_duty()
role np_tracker(plate: string)
role supervisor(plate: string)

rule detective_on_duty()
    while detective(holder)
    for 8 hours

rule np_tracker(plate)
    while court_order(case, plate)
    while detective(holder)
    while case_assignment(holder, case)
    until the court_order ends

rule supervisor(plate)
    while np_tracker(plate)
    until np_tracker ends

grant np_tracker(plate)
    may subscribe to Numberplate(location, timestamp, numberplate)
    where numberplate == $plate

grant supervisor(plate)
    may subscribe to Numberplate(timestamp, numberplate)
    may delegate
    where numberplate == $plate
end
"""


def later(seconds: float) -> Instant:
    """Return a moment after noon."""
    return Instant(int(NOON + seconds * SECOND))


def until(seconds: float) -> Validity:
    """Return the period from noon on."""
    return Validity(NOON, later(seconds))


def quick_store(content: bytes | None = None) -> DomainStore:
    """Return a store in memory, with what another one held.

    It shares what SQLAlchemy compiles with all others: that takes longer than most tests.
    """
    store, first = memory_store(), _first_store()
    if content is not None:
        with engine_of(store).connect() as connection:
            connection.connection.driver_connection.deserialize(content)
        store = DomainStore(engine_of(store), "memory")
    own, shared = engine_of(store), engine_of(first)
    own.dialect, own._compiled_cache = shared.dialect, shared._compiled_cache
    return store


def engine_of(store: DomainStore) -> Engine:
    """Return the database behind a store, which only tests look at."""
    return store._engine


@cache
def _first_store() -> DomainStore:
    return memory_store()


class Station:
    """An access control service, the store that it works on, and short ways to speak to it."""

    def __init__(self, signing_key: SigningKey, store=None, settings: AccessSettings | None = None):
        self.key, self.store, self.settings = signing_key, store or quick_store(), settings
        self.access = AccessControl(signing_key, self.store, settings)
        self.now = NOON

    def __getattr__(self, name: str):
        """Ask the service, as the domain itself, at this station's time."""
        found = getattr(self.access, name)
        if name in WITH_ACTOR:
            return lambda *words, **named: found(
                *words, **{"actor": self.key.principal, "now": self.now, **named}
            )
        return found

    def restarted(self, store=None) -> Station:
        """Return the same service after its process has died, with nothing left but the store."""
        again = Station(self.key, store or self.store, self.settings)
        again.now = self.now
        return again

    def beat(self) -> list[SignedStatement]:
        """Sign what is due."""
        return self.access.due(self.now)


WITH_ACTOR = frozenset(
    (
        *("register_type", "hold", "load_policy", "appoint", "revoke_appointment", "assert_fact"),
        *("retract_fact", "replace_facts", "activate", "deactivate", "authorise", "login"),
        *("register_delegation", "revoke", "receive_statement", "once"),
    )
)


def court() -> Station:
    """The courts, which give orders and take them back."""
    return Station(COURT)


def met(store=None, settings: AccessSettings | None = None, policy: str = POLICY) -> Station:
    """The Met, which may pass on what PITO granted it, with a policy in force and Smith on case 42."""
    if store is None and settings is None:
        return Station(MET, quick_store(_content_of_met(policy)))
    return _made(store, settings, policy)


@cache
def _content_of_met(policy: str) -> bytes:
    with engine_of(_made(None, None, policy).store).connect() as connection:
        return connection.connection.driver_connection.serialize()


def _made(store: DomainStore | None, settings: AccessSettings | None, policy: str) -> Station:
    station = Station(MET, store, settings)
    station.register_type(NUMBERPLATE.signed)
    station.hold([granted(PITO, MET, "subscribe", may_delegate=True)])
    station.load_policy(policy)
    for detective in (SMITH, JONES):
        station.assert_fact("detective", [detective.principal])
    station.assert_fact("case_assignment", [SMITH.principal, "42"])
    return station


def told(listener: Station, *speakers: Station) -> None:
    """Let a station hear everything that others have to say now."""
    for speaker in speakers:
        speaker.now = listener.now
        speaker.beat()
        for statement in speaker.current_statements(speaker.now):
            listener.receive_statement(statement)


def order(courts: Station, holder: SigningKey, case: str, plate: str, days: float = 10) -> SignedAppointment:
    """A court order for a plate."""
    return courts.appoint(holder.principal, "court_order", [case, plate], until(days * DAY))


def listed(statement: SignedStatement | None) -> frozenset[bytes]:
    """What a list names."""
    assert statement is not None
    assert isinstance(statement.statement, RevocationList)
    return statement.statement.revoked


def verdict(
    who: Principal,
    certificates,
    standing: Monitor,
    now: Instant,
    event_type: VerifiedType = NUMBERPLATE,
) -> Decision:
    """What a broker says to a subscription, from certificates and the statements it has heard."""
    request = Request(who, Action.SUBSCRIBE, event_type.name, event_type)
    evidence = gather_evidence(request, tuple(certificates), at=now, standing=standing)
    return decide(request, evidence, Facts(), now)


def broker(now: Instant, *stations: Station) -> Monitor:
    """A verifier that has heard everything that these domains say now."""
    standing = Monitor()
    for station in stations:
        station.access.due(now)
        for statement in station.current_statements(now):
            standing.receive(statement, now)
    return standing


def check_consistent(station: Station) -> None:
    """Everything that the tables of a domain say about one thing, they say together."""
    with station.store.reading() as tables:
        everything = {
            table.sql.name.removeprefix("domain_"): tables.find(table, limit=100_000) for table in ALL_TABLES
        }
    meta = {row.name: row for row in everything["meta"]}
    _check_audit(everything, meta)
    _check_statements(everything, meta)
    _check_revocations(everything)
    _check_memberships(everything)
    if everything["policies"]:
        newest = max(everything["policies"], key=lambda row: row.version)
        assert [row.version for row in everything["policies"]] == list(range(1, newest.version + 1))
        assert station.policy().digest == newest.digest


def _check_audit(everything, meta) -> None:
    records = [record_from_bytes(row.body, row.previous) for row in everything["audit"]]
    head = check_linked(records)
    assert [row.digest for row in everything["audit"]] == [record.digest for record in records]
    kept = meta.get("audit")
    assert (0, bytes(32)) == head_of(head) if kept is None else (kept.number, kept.data) == head_of(head)


def head_of(head) -> tuple[int, bytes]:
    """A head as rows have it."""
    return head.length, head.digest


def _check_statements(everything, meta) -> None:
    lists = [statement_from_bytes(row.signed).statement for row in everything["statements"]]
    numbers = [said.sequence for said in lists if isinstance(said, RevocationList)]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
    if numbers:
        assert meta["lists"].number == numbers[-1]
    heads = [said.audit.length for said in lists if isinstance(said, RevocationList)]
    assert heads == sorted(heads)
    audited = meta["audit"].number if "audit" in meta else 0
    assert not heads or heads[-1] <= audited


def _check_revocations(everything) -> None:
    revoked = {row.id for row in everything["revoked"]}
    marked = {
        row.id
        for name in ("rights", "appointments")
        for row in everything[name]
        if row.revoked_at is not None
    }
    assert revoked == marked


def _check_memberships(everything) -> None:
    ended = {row.id: row.ended_at is not None for row in everything["memberships"]}
    supports: dict[bytes, set] = {}
    for row in everything["supports"]:
        supports.setdefault(row.dependent, set()).add(row.support)
    for row in everything["memberships"]:
        depends_on = membership_from_bytes(row.membership).depends_on
        wanted = set() if ended[row.id] else {support_key(ground.support) for ground in depends_on}
        assert supports.get(row.id, set()) == wanted
    for row in everything["rights"]:
        if row.membership and row.revoked_at is None:
            assert not ended[row.membership]
            assert b"membership " + row.membership in supports[row.id]
    for row in everything["appointments"]:
        # Two activations at one moment are one membership; its first certificate may be gone by then.
        if row.membership and row.revoked_at is None:
            assert not ended[row.membership]


__all__ = [
    "BROWN",
    "COURT",
    "DAY",
    "JONES",
    "MET",
    "NOON",
    "NUMBERPLATE",
    "PITO",
    "POLICY",
    "SECOND",
    "SMITH",
    "Station",
    "broker",
    "check_consistent",
    "court",
    "granted",
    "later",
    "listed",
    "met",
    "order",
    "told",
    "until",
    "verdict",
]
