"""What do all parts of the access control service share?

The key, the store, and caches of the store. No cache outlives a transaction
that failed. Whether an actor may administer the domain is decided here too: the
right is a certificate over topics of the domain's own key; to publish on
`/admin/policy` is to change the policy, to subscribe to `/admin/audit` is to
read the audit. The policy kernel decides: these topics are reserved, so no
wildcard and no blanket grant covers them (docs/decisions/names.md).
The domain key owns them and needs no certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from maia.credentials import (
    Budget,
    Principal,
    SignedCertificate,
    SigningKey,
    TopicName,
    VerificationCache,
    principal_from_bytes,
)
from maia.credentials.statements import CertificateRevoked, SignedStatement
from maia.domain.access.issuance import Issuer
from maia.domain.access.memberships import DomainTester, RoleActivation
from maia.domain.access.policy_store import PolicyStore, TypeRegistry
from maia.domain.access.results import AdminAct, Page, Revoked, cursor_number, page_limit
from maia.domain.access.settings import AccessSettings
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.access.validity_publisher import ValidityPublisher
from maia.domain.facts.store import take_unpublished_facts
from maia.domain.storage.store import DomainStore, Tables, Where
from maia.domain.storage.tables import ReceivedRow, TableRow
from maia.errors import BadInput, Refusal
from maia.events import Instant
from maia.policy import Denial, Facts, Permit, Request, decide, gather_evidence
from maia.roles import Policy
from maia.validity import AsOf, Monitor, Tester

WORK_MAX: Final = 4096
"""Steps that the search for the right to one act may take; a signature check counts for some (A87)."""
_POOL_MAX: Final = 256
_RECEIVED_MAX: Final = 1 << 16
_PUSHED_MAX: Final = 4096
"""How many new certificates wait for a broker; the oldest are fetched at a login."""

_Row = TypeVar("_Row", bound=TableRow)
_Shown = TypeVar("_Shown")


class AccessCore:
    """What acts, statements and questions are made with."""

    def __init__(self, key: SigningKey, store: DomainStore, settings: AccessSettings | None = None) -> None:
        """Work on what the store holds; a policy that cannot be read any more grants nothing."""
        self._key, self._store = key, store
        self._settings = settings or AccessSettings()
        limits = self._settings.limits
        self._cache = VerificationCache()
        self._registry = TypeRegistry(self._cache, limits, self._settings.constitutions)
        self._policies = PolicyStore(key.principal, self._registry, self._settings)
        self._roles = RoleActivation(key, self._settings)
        self._issuer = Issuer(key, self._settings, self._cache)
        self._publisher = ValidityPublisher(key, self._settings)
        self._received: Monitor | None = None
        self._is_ahead = False
        self.has_news = False
        """Whether an act has left something for `due` to sign, sooner than was due before."""
        self.has_new_policy = False
        """Whether an act has put another policy in force."""
        self.to_push: list[bytes] = []
        """New certificates of this domain, which are to be pushed to their subjects."""
        self.to_tell: list[bytes] = []
        """New certificates of this domain, of which the key servers of sealed types are to be told."""
        self.stream: bytes | None = None
        """The signed type of the stream on which the domain publishes its statements, once it does."""

    @property
    def principal(self) -> Principal:
        return self._key.principal

    def authorised(
        self, actor: Principal, pool: Sequence[SignedCertificate], act: AdminAct, now: Instant
    ) -> Permit:
        """Return the permit of the kernel for an administrative act; raise its refusal if there is none.

        `pool` are the certificates of the request. The domain key needs none.
        """
        if len(pool) > _POOL_MAX:
            raise BadInput("INPUT-TOO-MANY-SHOWN", f"a request shows at most {_POOL_MAX} certificates")
        request = Request(actor, act.action, TopicName(self.principal, act.topic))
        with self._store.reading() as tables:
            evidence = gather_evidence(
                request,
                pool,
                at=now,
                cache=self._cache,
                standing=self._tester(tables),
                budget=Budget.of(WORK_MAX),
            )
        decision = decide(request, evidence, Facts(), now)
        if isinstance(decision, Denial):
            raise decision.as_refusal()
        return decision

    # ------------------------------------------------------------ units of work

    @contextmanager
    def _begin(self, actor: Principal, now: Instant) -> Iterator[UnitOfWork]:
        """Do one act: everything is kept when the body ends, or nothing is."""
        try:
            with self._store.transaction() as tables:
                if self._received is not None:
                    self._received.advance(now)
                work = UnitOfWork(tables, actor, now)
                yield work
            self.to_push = [*self.to_push, *work.issued][-_PUSHED_MAX:]
            self.to_tell = [*self.to_tell, *work.issued][-_PUSHED_MAX:]
        except BaseException:
            if self._is_ahead:
                # What was received within it is ahead of the store now. An old statement, which changes
                # nothing, is no reason to read everything again: any client can send one.
                self._received, self._is_ahead = None, False
            raise

    def _state_revoked(self, work: UnitOfWork) -> Revoked:
        """Sign a list of what an act revoked. The audit record comes before, so that the list covers it."""
        if not work.ids:
            return Revoked(memberships=tuple(work.memberships))
        statement = self._publisher.state_now(work.tables, work.now)
        return Revoked(tuple(work.ids), tuple(work.memberships), statement, is_silent=statement is None)

    def _state_revoked_and_facts(self, work: UnitOfWork) -> Revoked:
        """Sign a list of what an act revoked, and the facts of conditions if it has changed them."""
        return replace(self._state_revoked(work), facts=self._state_facts(work))

    def _state_facts(self, work: UnitOfWork) -> SignedStatement | None:
        facts = take_unpublished_facts(work.tables, self._policies.in_force(work.tables))
        return None if facts is None else self._publisher.state_facts(work.tables, work.now, facts)

    def _page(
        self,
        table: type[_Row],
        *where: Where,
        after: str | None,
        limit: int,
        shape: Callable[[Tables, _Row], _Shown],
    ) -> Page[_Shown]:
        """Return a page of a numbered table, each row in the shape of an answer."""
        page_limit(limit, self._settings.limits)
        with self._store.reading() as tables:
            number = table.c.number
            rows = tables.find(table, *where, limit=limit, order=number, after=cursor_number(after))
            more = str(getattr(rows[-1], number.name)) if len(rows) == limit else None
            return Page(tuple(shape(tables, row) for row in rows), more)

    # ------------------------------------------------------------ what is known

    def _validity(self, tables: Tables) -> Monitor:
        if self._received is None:
            rows = tables.find(ReceivedRow, limit=_RECEIVED_MAX)
            self._received = Monitor.reloaded(row.record for row in rows)
        return self._received

    def _keep_received(self, tables: Tables, by: Principal) -> None:
        """Store what is known of an issuer as it is now, with the periods that are seen to be over."""
        records = self._validity(tables).exported(by)
        tables.delete(ReceivedRow, ReceivedRow.c.issuer == by.key)
        tables.put(*(ReceivedRow(by.key, number, record) for number, record in enumerate(records)))

    def _tester(self, tables: Tables) -> DomainTester:
        return DomainTester(tables, self._validity(tables), self.principal)

    def _revocations(self, tables: Tables, now: Instant) -> Tester:
        """Return the same for questions about rights: only a revocation counts against a certificate."""
        return AsOf(self._tester(tables), now, kinds=(CertificateRevoked,))

    def _policy_in_force(self, tables: Tables) -> Policy:
        policy = self._policies.in_force(tables)
        if policy is None:
            raise Refusal("REFUSED-NO-POLICY", "no policy is in force in this domain, so nothing is granted")
        return policy


def principals(keys: Iterable[bytes]) -> list[Principal]:
    """Return the principals with these keys, as rows have them; an empty one means none."""
    return [principal_from_bytes(key) for key in keys if key]


def rule_name(policy: Policy | None, grant: str) -> str:
    """Return how people find a grant: by role and place, or by id if the policy has it no more."""
    found = None if policy is None else policy.grant(grant)
    return grant if found is None else f"grant {found.role}, {found.place}"
