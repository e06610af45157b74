"""A domain's whole service beside the slow model of OASIS, under random policies and random histories.

Two courts issue what rules ask for, and take it back on their own; the domain
hears them. A broker hears the domain. The power may go at any write, and then
the act has not happened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from maia.credentials import Action, TypePattern, Validity, exact_name
from maia.credentials.appointments import BadArgument, argument_kind, verify_appointment
from maia.credentials.statements import CertificateRevoked
from maia.domain.access.policy_store import read_policy
from maia.domain.access.results import Activated, EntryKind, Revoked
from maia.domain.access.settings import AccessSettings
from maia.errors import Refusal
from maia.events import Instant
from maia.predicates.syntax import ALWAYS
from maia.roles import RoleMembership, certificate_support, fact_support, membership_support
from maia.validity import Monitor
from reference import oasis
from support.access_control import Station, check_consistent, quick_store, told
from support.policy import granted
from support.roles import (
    APPOINTMENTS,
    COURT,
    DOMAIN,
    FACTS,
    HIGH_COURT,
    JONES,
    ROLES,
    SECOND,
    SMITH,
    THING,
    Dice,
)
from support.roles import OTHER_DOMAIN as FRIEND
from support.roles import shown as shown_value
from support.types import NOON, PITO

__all__ = ["DomainBeside"]

PEOPLE = {one.principal: one for one in (SMITH, JONES)}
OF_THINGS = TypePattern(PITO.principal, exact_name("Thing"), None)
RIGHT_S = 86_400
MEMBERS_MAX, WAYS_MAX = 10, 8
WRITES_MAX = 14


class PowerCut(Exception):
    """The machine has stopped at a write."""


class CutStore:
    """A store whose power goes at the write that was chosen."""

    def __init__(self) -> None:
        self.store = quick_store()
        self.left: int | None = None

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with self.store.transaction() as tables:
            yield _CutTables(tables, self)

    def reading(self):
        return self.store.reading()


class _CutTables:
    def __init__(self, tables, store: CutStore) -> None:
        self._tables, self._store = tables, store

    def __getattr__(self, name: str):
        found = getattr(self._tables, name)
        if name not in ("put", "delete", "delete_in"):
            return found

        def write(*words, **named):
            if self._store.left is not None:
                if self._store.left == 0:
                    raise PowerCut
                self._store.left -= 1
            return found(*words, **named)

        return write


@dataclass
class Right:
    """A right that was issued, as the model knows it; `ways` are what it may have been issued for."""

    member: oasis.Member
    grant: oasis.Grant
    until: int
    certificate: object
    ways: list[tuple]
    is_whole: bool = True
    is_revoked: bool = False


@dataclass
class DomainBeside:
    """The service and the model, side by side, and what things are called in the other one."""

    dice: Dice
    cuts: int = 0
    steps: int = 0
    called: dict = field(default_factory=dict)
    shown: dict = field(default_factory=dict)
    rights: dict[bytes, Right] = field(default_factory=dict)
    gone: dict[bytes, int] = field(default_factory=dict)
    friends: set = field(default_factory=set)

    def __post_init__(self) -> None:
        policy = self.dice.policy()
        self.model = oasis.Model(policy, int(NOON))
        self.store, self.broker = CutStore(), Monitor()
        settings = AccessSettings(period_s=30, lead_s=5, right_s=RIGHT_S)
        self.station = Station(DOMAIN, self.store, settings)
        self.courts = {one.principal: Station(one) for one in (COURT, HIGH_COURT)}
        self.station.register_type(THING.signed)
        self.members: dict[oasis.Member, RoleMembership] = {}
        self.station.hold([granted(PITO, DOMAIN, "subscribe", OF_THINGS, may_delegate=True)])
        self.put_in_force(policy)

    # ------------------------------------------------------------ acting

    def act(self, work: Callable[[], object]):
        """Do something in the domain; now and then the power goes first, and nothing has happened."""
        if self.dice.perhaps(0.25):
            self.store.left = self.dice.random.randrange(WRITES_MAX)
            try:
                return work()
            except PowerCut:
                self.cuts += 1
                self.station = self.station.restarted()
            finally:
                self.store.left = None
            self.check()
        return work()

    def take_away(self, work: Callable[[], Revoked]) -> None:
        gone = self.act(work)
        assert isinstance(gone, Revoked)
        if gone.statement is not None:
            self.broker.receive(gone.statement, self.station.now)

    def tick(self) -> None:
        """Let everybody hear what is said now."""
        self.station.now = Instant(self.model.now)
        told(self.station, *self.courts.values())
        for signed in self.act(lambda: self.station.due(self.station.now)):
            self.broker.receive(signed, self.station.now)

    # ------------------------------------------------------------ policies

    def put_in_force(self, policy: oasis.Policy) -> None:
        """Load a policy, as one text or as one that imports a part of it from a parent."""
        text, parents, rules, grants = self._written(policy)
        self.take_away(lambda: self.station.load_policy(text, parents=parents).revoked)
        self.model.policy = policy
        read = read_policy(text, parents, {"Thing": THING}, DOMAIN.principal)
        for role in ROLES:
            mine = [rule for rule in rules if rule.role == role]
            self.called |= {one.id: rule for one, rule in zip(read.rules[role], mine, strict=True)}
            given = [grant for grant in grants if grant.role == role]
            for one, grant in zip(read.grants[role], given, strict=True):
                self.called[f"grant {role}, {one.place}"] = grant
        self.order = read.roles_in_order

    def _written(self, policy: oasis.Policy):
        if self.dice.perhaps(0.5):
            return self._text(policy), {}, policy.rules, policy.grants
        names = list(ROLES)
        upto = self.dice.random.randrange(1, len(names))
        theirs, ours = dict(list(ROLES.items())[:upto]), dict(list(ROLES.items())[upto:])
        # Rules that the child adds to a role of its parent rest on nothing that the parent cannot know.
        added = {
            one for one in (*policy.rules, *policy.grants) if one.role in theirs and self.dice.perhaps(0.3)
        }

        def some(all_of, *, of_parent: bool):
            return tuple(one for one in all_of if (one.role in theirs and one not in added) == of_parent)

        parent = replace(
            policy,
            roles=theirs,
            rules=some(policy.rules, of_parent=True),
            grants=some(policy.grants, of_parent=True),
        )
        child = oasis.Policy(
            {}, {}, {}, ours, some(policy.rules, of_parent=False), some(policy.grants, of_parent=False)
        )
        text = self._text(child).replace('policy "Random"\n', 'policy "Random"\nimport nation\n', 1)
        also = re.sub(rf"(?m)^(rule|grant) (?=(?:{'|'.join(theirs)})\b)", r"also \1 ", text)
        rules, grants = (*parent.rules, *child.rules), (*parent.grants, *child.grants)
        return also, {"nation": self._text(parent)}, rules, grants

    def _text(self, policy: oasis.Policy) -> str:
        return oasis.as_text(policy, shown=shown_value, attribute="plate")

    # ------------------------------------------------------------ what happens

    def assert_fact(self) -> None:
        fact = self.dice.fact()
        _, name, values = fact
        arguments = [value for _, value in values]
        try:
            is_news = self.act(lambda: self.station.assert_fact(name, arguments))
        except BadArgument:
            # Of another kind than the policy declares: nothing was said.
            assert self.station.policy() is not None
            return
        assert is_news == (fact not in self.model.facts)
        self.model.facts.add(fact)
        self.called[fact_support(name, arguments)] = fact

    def retract_fact(self) -> None:
        fact = self._relied_on(self.model.facts)
        if fact is not None:
            arguments = [value for _, value in fact[2]]
            self.take_away(lambda: self.station.retract_fact(fact[1], arguments))
            self.model.facts.discard(fact)

    def replace_facts(self) -> None:
        name = self.dice.one_of(FACTS)
        rows = {("fact", name, self.dice.row(FACTS[name])) for _ in range(self.dice.one_of((0, 2, 4)))}
        arguments = [[value for _, value in row] for _, _, row in sorted(rows, key=repr)]
        try:
            self.take_away(lambda: self.station.replace_facts(name, arguments))
        except BadArgument:
            assert self.station.policy() is not None
            return
        self.model.facts = {one for one in self.model.facts if one[1] != name} | rows
        for row, values in zip(sorted(rows, key=repr), arguments, strict=True):
            self.called[fact_support(name, values)] = row

    def appoint(self) -> None:
        issuer, holder = self.dice.one_of((*self.courts, COURT.principal)), self.dice.one_of(PEOPLE)
        name = self.dice.one_of(APPOINTMENTS)
        row = self.dice.row(APPOINTMENTS[name])
        begins = (self.model.now + self.dice.one_of((-1, -1, 2)) * SECOND) // SECOND * SECOND
        ends = self.dice.one_of((None, begins + 6 * SECOND, begins + 60 * SECOND, begins + 60 * SECOND))
        validity = Validity(Instant(begins), None if ends is None else Instant(ends))
        signed = self.courts[issuer].appoint(holder, name, [value for _, value in row], validity)
        said = oasis.Certificate(len(self.shown), name, issuer, holder, row, begins, ends)
        self.called[certificate_support(verify_appointment(signed))] = said
        self.model.certificates.add(said)
        self.shown[said] = signed

    def revoke_appointment(self) -> None:
        """A court takes back what it gave; the domain hears of it from the court alone."""
        said = self._relied_on(self.model.certificates)
        if said is None:
            return
        statement = self.courts[said.issuer].revoke_appointment(self.shown[said].id, "appeal").statement
        self.take_away(lambda: self.station.receive_statement(statement))
        self.model.certificates.discard(said)

    def activate(self) -> None:
        principal, role = self.dice.one_of(PEOPLE), self.dice.one_of((*ROLES, "r3", "r4", "r4"))
        wanted = [self.dice.value(kind) if self.dice.perhaps(0.3) else None for kind in ROLES[role]]
        ways = self.model.activate(principal, role, wanted)
        if self._is_much(ways):
            return
        arguments = [None if one is None else one[1] for one in wanted]
        try:
            found = self.act(
                lambda: self.station.activate(principal, role, arguments, list(self.shown.values()))
            )
        except Refusal as problem:
            if problem.code != "REFUSED-ACTIVATION":
                raise
            found = ()
        self._take_in(found, ways)
        for one in found[:2]:
            member, membership = self._as_model(one.membership), one.membership
            issued = self.act(lambda one=membership: self.station.authorise(one.principal, one.id))
            self._issued(self.members[member], issued)

    def login(self) -> None:
        principal = self.dice.one_of(PEOPLE)
        expected = self._everything_for(principal)
        if expected is None:
            return
        wallet = self.act(lambda: self.station.login(principal, list(self.shown.values())))
        self.model.members |= expected
        assert {self._as_model(one.membership) for one in wallet.memberships} == expected
        assert not wallet.withheld
        for one in wallet.memberships:
            self._issued(
                one.membership, [right for right in wallet.issued if right.membership == one.membership.id]
            )

    def _everything_for(self, principal) -> set | None:
        """Return the memberships that a login ends in, role by role; None if they are too many to look at."""
        later = replace(self.model, members=set(self.model.members))
        expected: set = set()
        for role in self.order:
            ways = later.activate(principal, role, [None] * len(ROLES[role]))
            expected |= {self._lasting(way) or way for way in ways}
            later.members |= expected
            if self._is_much(later.members | ways):
                return None
        return expected

    def authorise(self) -> None:
        member = self._something(self.model.members)
        if member is not None:
            issued = self.act(lambda: self.station.authorise(member.principal, self.members[member].id))
            self._issued(self.members[member], issued)

    def deactivate(self) -> None:
        member = self._something(self.model.members)
        if member is not None:
            self.take_away(lambda: self.station.deactivate(self.members[member].id, "tired"))
            self.model.members.discard(member)

    def revoke_right(self) -> None:
        right = self._something(self.rights)
        if right is not None:
            self.take_away(lambda: self.station.revoke([right], "mistake"))
            self.rights[right].is_revoked = True

    def delegate(self) -> None:
        """Somebody passes on whatever they have, and has it registered; a friend holds it for as long."""
        givers = {one.member.principal for one in self.rights.values() if one.grant.delegable}
        if givers:
            giver = self.dice.one_of(sorted(givers))
            passed_on = granted(PEOPLE[giver], FRIEND, "subscribe", OF_THINGS)
            self.act(lambda: self.station.register_delegation(passed_on))
            self.friends.add(giver)

    def reload(self) -> None:
        """Lose a rule, a grant or an issuer, gain one, or change nothing but where the text stands."""
        policy, dice = self.model.policy, self.dice
        match dice.one_of(("rule", "grant", "issuer", "issuers", "more", "nothing")):
            case "rule" if policy.rules:
                lost = self._of_use(policy.rules, {one.rule for one in self.model.members})
                policy = oasis.without(policy, rule=policy.rules.index(lost))
            case "grant" if policy.grants:
                lost = self._of_use(policy.grants, {one.grant for one in self.rights.values()})
                policy = replace(policy, grants=tuple(one for one in policy.grants if one != lost))
            case "issuer":
                policy = oasis.without(policy, issuer=HIGH_COURT.principal)
            case "issuers":
                both = frozenset(self.courts)
                policy = replace(policy, issuers=dict.fromkeys(APPOINTMENTS, both))
            case "more":
                rule, grant = dice.rule(dice.one_of(ROLES)), dice.grant(dice.one_of(ROLES))
                rules, grants = (*policy.rules, rule), (*policy.grants, grant)
                policy = replace(
                    policy, rules=tuple(dict.fromkeys(rules)), grants=tuple(dict.fromkeys(grants))
                )
        self.put_in_force(policy)
        self.tick()

    def wait(self) -> None:
        self.model.now += self.dice.one_of((1, 2, 4, 40)) * SECOND
        self.model.settle()
        self.tick()

    def restart(self) -> None:
        self.station = self.station.restarted()
        self.courts = {who: one.restarted() for who, one in self.courts.items()}

    # ------------------------------------------------------------ what must be so

    def step(self) -> None:
        """Let one thing happen on both sides, and compare what follows from it."""
        self.model.now += SECOND // 3
        self.model.settle()
        self.tick()
        self.check()
        getattr(self, self.dice.one_of(_STEPS))()
        self.model.settle()
        self.check()
        self.steps += 1

    def check(self) -> None:
        """Memberships, rights, lists, and what a broker would say: all of it as the model has it."""
        now = self.station.now
        rows = [one for who in PEOPLE for one in self.station.memberships_of(who, now, limit=500).rows]
        assert {self._as_model(one.membership) for one in rows} == self.model.members
        entries = self.station.register(standing_at=now, limit=500).rows
        self._check_rights({one.certificate.id for one in entries if one.kind is EntryKind.ISSUED})
        page = self.station.who_can(Action.SUBSCRIBE, THING.name, "plate", now, limit=500)
        can = {one.principal for one in page.rows} - {PITO.principal, DOMAIN.principal}
        holders = {one.member.principal for one in self.rights.values()}
        givers = {one.member.principal for one in self.rights.values() if one.grant.delegable}
        assert can == holders | ({FRIEND.principal} if givers & self.friends else set())

    def finish(self) -> None:
        """Look at every table once."""
        check_consistent(self.station)

    def _check_rights(self, standing: set[bytes]) -> None:
        now = self.station.now
        for identifier, right in list(self.rights.items()):
            left = [way for way in right.ways if all(map(self.model.is_there, way))]
            right.is_whole &= len(left) == len(right.ways)
            right.ways = left
            is_good = (
                right.member in self.model.members
                and right.grant in self.model.policy.grants
                and right.until >= now
                and not right.is_revoked
            )
            # Of several ways to one right the service has chosen one; which, the model does not know.
            assert identifier not in standing or (is_good and left)
            assert identifier in standing or not (is_good and right.is_whole)
            problem = self.broker.check(right.certificate, now)
            assert isinstance(problem, CertificateRevoked) == (
                identifier not in standing and right.until >= now
            ) or (right.until < now)
            if identifier not in standing:
                self.gone[identifier] = right.until
                del self.rights[identifier]
        assert standing == self.rights.keys()
        stated = self.broker.revoked_by(DOMAIN.principal)
        assert {one for one, until in self.gone.items() if until >= now} <= stated | self._expired(now)

    def _expired(self, now: Instant) -> set[bytes]:
        """Rights that ended with their time need no list."""
        return {one for one, until in self.gone.items() if until <= now}

    def _issued(self, membership: RoleMembership, issued) -> None:
        member = self._as_model(membership)
        expected = {(grant, value): until for grant, value, until in self.model.rights(member)}
        found = {(self.called[one.rule], _restricted(one)): one for one in issued}
        assert len(found) == len(issued)
        assert found.keys() == expected.keys()
        for (grant, value), one in found.items():
            certificate = one.certificate.certificate
            ends = int(certificate.validity.not_after)
            assert certificate.may_delegate == grant.delegable
            assert certificate.subject == member.principal
            if one.id not in self.rights:
                longest = self.model.now // SECOND * SECOND + RIGHT_S * SECOND
                assert ends == min(longest, expected[grant, value] or longest)
                ways = list(self.ways(grant, member, value))
                self.rights[one.id] = Right(member, grant, ends, one.certificate, ways)

    def ways(self, grant: oasis.Grant, member: oasis.Member, value) -> Iterator[tuple]:
        start = oasis.agree(grant.terms, member.values, {}, member.principal)
        for values, items in self.model.ways(grant.premises, start, member.principal):
            if grant.restricted_to is None or values[grant.restricted_to] == value:
                yield tuple(item for item, watched in items if watched)

    # ------------------------------------------------------------ calling things by their names

    def _take_in(self, found: tuple[Activated, ...], ways: set) -> None:
        expected = {self._lasting(way) or way for way in ways}
        got = {self._as_model(one.membership) for one in found}
        assert got == expected
        self.model.members |= got

    def _lasting(self, way: oasis.Member) -> oasis.Member | None:
        """Return the membership by the same way that lasts long enough, if there is one."""
        same = [
            one
            for one in self.model.members
            if replace(one, since=0, until=None) == replace(way, since=0, until=None)
        ]
        for one in sorted(same, key=_until, reverse=True)[:1]:
            left, whole = _until(one) - self.model.now, _until(one) - one.since
            if _until(one) >= _until(way) or 2 * left > whole:
                return one
        return None

    def _as_model(self, membership: RoleMembership) -> oasis.Member:
        support = membership_support(membership)
        known = self.called.get(support)
        if known is None:
            known = self.called[support] = oasis.Member(
                membership.principal,
                membership.role,
                tuple((argument_kind(value).value, value) for value in membership.arguments),
                self.called[membership.rule],
                tuple((self.called[ground.support], ground.is_watched) for ground in membership.depends_on),
                int(membership.since),
                None if membership.until is None else int(membership.until),
            )
            self.members[known] = membership
        return known

    def _is_much(self, ways: set) -> bool:
        """Return whether this would only take long, or be more ways to one thing than the service keeps."""
        each: dict = {}
        for way in ways:
            each.setdefault((way.values, way.rule), []).append(way)
        return len(self.model.members | ways) > MEMBERS_MAX or any(
            len(one) > WAYS_MAX for one in each.values()
        )

    def _relied_on(self, some):
        """Draw a fact or certificate to lose, most often one that somebody rests on."""
        members = {item for one in self.model.members for item, watched in one.depends_on if watched}
        rights = {item for right in self.rights.values() for way in right.ways for item in way}
        return self._of_use(some, members | rights)

    def _of_use(self, some, used):
        wanted = [one for one in some if one in used]
        return self._something(wanted if wanted and self.dice.perhaps(0.7) else some)

    def _something(self, some):
        return self.dice.one_of(sorted(some, key=repr)) if some else None


def _until(member: oasis.Member) -> float:
    return float("inf") if member.until is None else member.until


def _restricted(issued):
    restriction = issued.certificate.certificate.authority.restriction
    return None if restriction == ALWAYS else ("string", restriction.literal)


_STEPS = (
    *("assert_fact", "assert_fact", "appoint", "appoint", "activate", "activate", "activate", "login"),
    *("authorise", "authorise", "delegate", "retract_fact", "replace_facts", "revoke_appointment"),
    *("deactivate", "revoke_right", "reload", "reload", "wait", "restart"),
)
