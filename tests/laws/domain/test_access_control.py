"""Whatever is done in whatever order: register, lists and granted rights agree with a plain model."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maia.credentials import Action, Validity
from maia.credentials.statements import CertificateRevoked
from maia.domain.access.results import EntryKind
from maia.domain.access.settings import AccessSettings
from maia.domain.storage.store import postgres_store
from maia.domain.storage.tables import ALL_TABLES
from maia.events import Instant
from maia.policy import Permit
from maia.validity import Monitor
from reference.access_control_model import Model, Order
from support.access_control import (
    DAY,
    JONES,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    POLICY,
    SECOND,
    SMITH,
    check_consistent,
    court,
    met,
    told,
    verdict,
)
from support.random_cases import usually

PEOPLE = (SMITH, JONES)
CASES = ("42", "43")
PLATES = ("A", "B")
SUPERVISOR_RULE = POLICY[POLICY.index("rule supervisor") : POLICY.index("grant np_tracker")]
TRACKING_GRANT = POLICY[POLICY.index("grant np_tracker") : POLICY.index("grant supervisor")]

people, cases, plates = st.integers(0, 1), st.integers(0, 1), st.integers(0, 1)
pick = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("detective"), people, st.booleans()),
        st.tuples(st.just("assign"), people, cases, st.booleans()),
        st.tuples(st.just("roster"), st.sets(st.tuples(people, cases), max_size=3)),
        st.tuples(st.just("order"), people, cases, plates, st.sampled_from([0.3, 5])),
        st.tuples(st.just("revoke order"), pick),
        st.tuples(st.just("login"), people, st.booleans()),
        st.tuples(st.just("login"), people, st.just(True)),
        st.tuples(st.just("deactivate"), pick),
        st.tuples(st.just("revoke right"), pick),
        st.tuples(st.just("policy"), st.booleans(), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([1, 20, 40, 9 * 3600, 14 * 3600])),
        st.tuples(st.just("restart")),
    ),
    min_size=3,
    max_size=14,
)


class Play:
    """A domain, a court, a broker that receives both, and the model beside them."""

    def __init__(self, store=None):
        self.courts, self.station = court(), met(store, AccessSettings(period_s=30, lead_s=5))
        self.model = Model(NOON)
        self.model.facts = {("detective", one.principal) for one in PEOPLE}
        self.model.facts.add(("case_assignment", SMITH.principal, "42"))
        self.broker = Monitor()
        self.certificates = {}
        self.tick()

    # ------------------------------------------------------------ acts

    def do(self, word, *rest):
        getattr(self, word.replace(" ", "_"))(*rest)
        self.model.settle()

    def hear(self, gone):
        if gone.statement is not None:
            self.broker.receive(gone.statement, self.station.now)

    def detective(self, who, is_one):
        who = PEOPLE[who].principal
        self.fact("detective", [who], is_one)

    def assign(self, who, case, is_assigned):
        self.fact("case_assignment", [PEOPLE[who].principal, CASES[case]], is_assigned)

    def fact(self, name, arguments, holds):
        known = (name, *arguments)
        if holds:
            assert self.station.assert_fact(name, arguments) == (known not in self.model.facts)
            self.model.facts.add(known)
        else:
            self.hear(self.station.retract_fact(name, arguments))
            self.model.facts.discard(known)

    def roster(self, rows):
        wanted = {("case_assignment", PEOPLE[who].principal, CASES[case]) for who, case in rows}
        self.hear(self.station.replace_facts("case_assignment", [row[1:] for row in sorted(wanted)]))
        others = {fact for fact in self.model.facts if fact[0] != "case_assignment"}
        self.model.facts = others | wanted

    def order(self, who, case, plate, days):
        start = Instant(self.station.now - self.station.now % SECOND)
        end = Instant(start + int(days * DAY) * SECOND)
        holder, words = PEOPLE[who].principal, [CASES[case], PLATES[plate]]
        self.courts.now = self.station.now
        signed = self.courts.appoint(holder, "court_order", words, Validity(start, end))
        self.model.orders[signed.id] = Order(signed.id, holder, *words, end)
        self.certificates[signed.id] = signed

    def revoke_order(self, number):
        known = sorted(self.model.orders.keys() - self.model.revoked_orders)
        if known:
            chosen = known[number % len(known)]
            statement = self.courts.revoke_appointment(chosen, "appeal").statement
            self.model.revoked_orders.add(chosen)
            if statement is not None:
                self.hear(self.station.receive_statement(statement))

    def login(self, who, shows_orders):
        who = PEOPLE[who].principal
        shown = [one for one in self.certificates if shows_orders and self.model.orders[one].holder == who]
        wallet = self.station.login(who, [self.certificates[one] for one in shown])
        found = {(one.membership.role, *one.membership.arguments) for one in wallet.memberships}
        assert found == self.model.expected_roles(who, set(shown))
        self.model.logged_in(wallet)

    def deactivate(self, number):
        known = sorted(self.model.active())
        if known:
            self.hear(self.station.deactivate(known[number % len(known)], "tired"))
            self.model.end(known[number % len(known)])

    def revoke_right(self, number):
        known = sorted(self.model.standing())
        if known:
            self.hear(self.station.revoke([known[number % len(known)]], "mistake"))
            self.model.take(known[number % len(known)])

    def policy(self, has_supervisors, has_tracking):
        text = POLICY if has_supervisors else POLICY.replace(SUPERVISOR_RULE, "")
        text = text if has_tracking else text.replace(TRACKING_GRANT, "")
        self.hear(self.station.load_policy(text).revoked)
        self.model.has_supervisors, self.model.has_tracking = has_supervisors, has_tracking

    def restart(self):
        self.station, self.courts = self.station.restarted(), self.courts.restarted()

    def wait(self, seconds):
        self.station.now = self.courts.now = Instant(self.station.now + seconds * SECOND)
        self.model.now = self.station.now
        # Before the beat: a beat after a pause would otherwise find that no peer confirms the orders.
        told(self.station, self.courts)
        self.tick()

    def tick(self):
        told(self.station, self.courts)
        for signed in self.station.beat():
            self.broker.receive(signed, self.station.now)

    # ------------------------------------------------------------ what must be so

    def check(self):
        now, model = self.station.now, self.model
        active = {
            one.membership.id
            for who in PEOPLE
            for one in self.station.memberships_of(who.principal, now, limit=500).rows
        }
        assert active == set(model.active())
        entries = self.station.register(standing_at=now, limit=500).rows
        assert {one.certificate.id for one in entries if one.kind is EntryKind.ISSUED} == set(
            model.standing()
        )
        stated = self.broker.revoked_by(MET.principal)
        assert {one for one, end in model.gone.items() if end >= now} <= stated <= set(model.gone)
        for right in model.standing().values():
            assert not isinstance(self.broker.check(right.certificate, now), CertificateRevoked)
        self.check_decisions()

    def check_decisions(self):
        now, model = self.station.now, self.model
        page = self.station.who_can(Action.SUBSCRIBE, NUMBERPLATE.name, "location", now, limit=500)
        can = {one.principal for one in page.rows} - {PITO.principal, MET.principal}
        assert can == {one.principal for one in model.standing().values() if one.grants_location}
        held = self.station.held(now)
        for who in PEOPLE:
            mine = [one for one in model.standing().values() if one.principal == who.principal]
            everything = [
                entry.certificate for entry in self.station.rights_of(who.principal, limit=500).rows
            ]
            decision = verdict(who.principal, [*held, *everything][:200], self.broker, now)
            assert isinstance(decision, Permit) == bool(mine)


def play(steps, store=None):
    game = Play(store)
    game.check()
    for step in steps:
        game.do(*step)
        game.check()
    check_consistent(game.station)


STORY = [
    ("order", 0, 0, 0, 5),
    ("login", 0, True),
    ("restart",),
    ("revoke order", 0),
    ("order", 0, 0, 0, 0.3),
    ("login", 0, True),
    ("wait", 40),
    ("policy", False, True),
    ("policy", True, True),
    ("login", 0, False),
    ("roster", set()),
    ("assign", 0, 0, True),
    ("login", 0, False),
    ("policy", True, False),
    ("wait", 9 * 3600),
    ("login", 0, False),
    ("policy", True, True),
    ("order", 1, 1, 1, 5),
    ("login", 1, True),
    ("assign", 1, 1, True),
    ("login", 1, True),
    ("revoke right", 0),
    ("login", 1, False),
    ("deactivate", 0),
    ("deactivate", 1),
]


@given(STEPS)
@example(STORY)
@settings(max_examples=usually(4, laws=10))
@pytest.mark.laws
def test_register_lists_and_rights_agree_with_the_model_on_sqlite(steps):
    play(steps)


@given(STEPS)
@example(STORY)
@settings(max_examples=usually(2, laws=3))
@pytest.mark.laws
def test_register_lists_and_rights_agree_with_the_model_on_postgres(postgres_server: str, steps):
    with closing(postgres_store(postgres_server, "access_control")) as store:
        with store.transaction() as tables:
            for table in ALL_TABLES:
                tables.delete(table)
        play(steps, store)
