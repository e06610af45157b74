"""Whatever certificates say and whatever happens, who can open an attribute is who may see it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maia.credentials import SignedCertificate
from maia.events import AttributeUid, Instant, Kind, frame_of
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.policy.view import shows
from maia.sealing import EpochKeys, Publication, Sealer
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, content_key
from maia.sealing.keys.secrets import Secret
from maia.types import SealingLevel
from maia.wire.messages import GroupKeys, GroupsEnded, JoinGroups, KeysHeld, Message, Rekey, Sealed
from support.key_groups import READ, SECOND, UIDS, WRITE, KeyNet, Member, grant, key_of, random_from
from support.random_cases import usually
from support.sealing import read, seal_one

pytestmark = pytest.mark.laws

NAMES = ("ann", "bob", "eve")
NOTHING: frozenset[AttributeUid] = frozenset()


@dataclass(slots=True)
class City:
    """A camera that writes everything, people with certificates, and all that any member ever got hold of."""

    net: KeyNet
    certificates: dict[str, tuple[SignedCertificate, ...]]
    camera: Member
    hoards: dict[str, dict[bytes, GroupId]] = field(default_factory=dict)
    evicted: dict[str, bool] = field(default_factory=dict)
    readmitted: dict[str, Instant] = field(default_factory=dict)
    revoked: dict[bytes, Instant] = field(default_factory=dict)
    samples: list[tuple[Instant, int, dict[GroupId, bytes], dict[str, frozenset[AttributeUid]]]] = field(
        default_factory=list
    )

    def may_see(self, name: str, now: Instant) -> frozenset[AttributeUid]:
        """Return what a member's View shows or writes, straight from the kernel."""
        if self.evicted.get(name):
            return NOTHING
        who, version = key_of(name).principal, self.net.event_type
        pool = tuple(one for one in self.certificates[name] if one.id not in self.revoked)
        return frozenset(
            uid
            for action in (*READ, *WRITE)
            for uid in _shown(Request(who, action, version.name, version), pool, now)
        )

    def hoard(self) -> None:
        """Let every member remember whatever its ring has at this moment: a thief throws nothing away."""
        for name, member in self.net.members.items():
            ring = member.node.ring(self.net.type_id)
            for group in _groups(self.net) if ring is not None else ():
                for epoch in range(1, self.net.epoch() + 1):
                    secret = ring.secret(group, epoch)
                    if secret is not None and not secret.wiped:
                        self.hoards.setdefault(name, {})[secret.reveal()] = group

    def sample(self) -> None:
        """Let the camera seal something, and remember with which keys and who might see it."""
        now, ring = self.net.now, self.net.ring(self.camera)
        epoch = ring.sealing_epoch(now)
        if epoch is None:
            return
        keys = {group: ring.key(group, epoch) for group in _groups(self.net)}
        known = {group: key.reveal() for group, key in keys.items() if key is not None}
        self.samples.append((now, epoch, known, {name: self.may_see(name, now) for name in NAMES}))

    def can_open(self, name: str, group: GroupId, epoch: int, key: bytes) -> bool:
        """Return whether anything that a member ever held leads to a content key."""
        return any(
            content_key(Secret.from_bytes(secret), group, epoch).reveal() == key
            for secret, of in self.hoards.get(name, {}).items()
            if of == group
        )


def _shown(request: Request, pool: tuple[SignedCertificate, ...], now: Instant) -> frozenset[AttributeUid]:
    decision = decide(request, gather_evidence(request, pool, at=now), NO_FACTS, now)
    windows = decision.view.windows if isinstance(decision, Permit) else ()
    return frozenset(uid for uid in UIDS for window in windows if shows(window, uid))


def _groups(net: KeyNet) -> tuple[GroupId, ...]:
    if net.event_type.sealing is not None and net.event_type.sealing.level is SealingLevel.EVENT:
        return (net.group(),)
    return (net.group(), *(net.group(uid) for uid in UIDS))


# ------------------------------------------------------------ what may happen

Rule = tuple[str, frozenset[AttributeUid] | None, bool, int | None, int | None]
Step = tuple[str, str, int]

subsets = st.none() | st.frozensets(st.sampled_from(UIDS), min_size=1)
bounds = st.none() | st.integers(-10, 60)
rules = st.lists(st.tuples(st.sampled_from(NAMES), subsets, st.booleans(), bounds, bounds), max_size=5)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "join",
                "join",
                "leave",
                "restart",
                "cut",
                "heal",
                "server",
                "evict",
                "readmit",
                "revoke",
                "wait",
            ]
        ),
        st.sampled_from(NAMES),
        st.integers(1, 30),
    ),
    max_size=14,
)


def city_of(given_rules: list[Rule], level: SealingLevel) -> City:
    """Start a city in which every member holds the certificates of the rules."""
    held: dict[str, list[SignedCertificate]] = {name: [] for name in NAMES}
    for name, uids, writes, one, other in given_rules:
        since, until = (one, other) if one is None or other is None else sorted((one, other))
        held[name].append(
            grant(key_of(name), uids, actions=WRITE if writes else READ, since=since, until=until)
        )
    net = KeyNet(level)
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    return City(net, {name: tuple(some) for name, some in held.items()}, camera)


def do(city: City, step: Step) -> None:
    """Let one thing happen, and then half-second by half-second some time pass."""
    net, (what, name, amount) = city.net, step
    member = net.members.get(name)
    match what:
        case "join" if member is None:
            net.member(name, *city.certificates[name])
        case "join" if member is not None:
            net.ask(member, member.node.need((net.event_type,), net.now))
        case "leave" if member is not None:
            net.leave(member)
        case "restart" if member is not None and member.node.ring(net.type_id) is not None:
            net.restart_member(member)
        case "cut" if member is not None:
            net.cut_off(member)
        case "heal" if member is not None:
            net.cut_off(member, is_cut_off=False)
        case "server":
            net.restart_server()
            net.run(2)  # members dial again after a second
        case "evict":
            city.evicted[name] = True
            net.serve(net.server.evict(key_of(name).principal, net.now))
        case "readmit" if city.evicted.get(name):
            city.evicted[name] = False
            city.readmitted[name] = net.now
            net.serve(net.server.readmit(key_of(name).principal, net.now))
        case "revoke" if city.certificates[name]:
            taken = city.certificates[name][amount % len(city.certificates[name])]
            city.revoked[taken.id] = net.now
            net.serve(net.server.revoke([taken.id], net.now))
        case "wait":
            for _ in range(amount):
                net.run_to(Instant(net.now + SECOND // 2))
                observe(city)


def observe(city: City) -> None:
    """Take a sample; a member that is here and may see something holds its key at this very moment."""
    city.hoard()
    # Two epochs never begin at the same moment, so one may begin a microsecond after its cause.
    city.net.run_to(Instant(city.net.now + 1000))
    city.sample()
    now, epoch, keys, may_see = city.samples[-1]
    for name in NAMES:
        for group in keys:
            if has_right(group, may_see[name]) and is_served(city, name):
                assert city.can_open(name, group, epoch, keys[group]), (name, str(group), now)


def is_served(city: City, name: str) -> bool:
    """Return whether a member runs, needs the type, is connected, and was not distrusted a moment ago."""
    member = city.net.members.get(name)
    if member is None or member.is_cut_off or member.node.ring(city.net.type_id) is None:
        return False
    # No member tells a member that it is trusted again: it asks once a minute.
    if city.net.now - city.readmitted.get(name, Instant(0)) <= 61 * SECOND:
        return False
    return list(member.node.status()["managers"].values()) == ["ready"]


def has_right(group: GroupId, seen: frozenset[AttributeUid]) -> bool:
    """Return whether a View that shows these attributes opens a group."""
    return bool(seen) if group.uid is None else group.uid in seen


def check_nobody_opened_too_much(city: City) -> None:
    """Of all that was ever sealed, no member can open what it might not see when it was sealed."""
    city.hoard()
    for now, epoch, keys, may_see in city.samples:
        for name in NAMES:
            for group, key in keys.items():
                if not has_right(group, may_see[name]):
                    assert not city.can_open(name, group, epoch, key), (name, str(group), now)


# ------------------------------------------------------------ the laws


@given(rules, steps, st.sampled_from(SealingLevel))
@settings(max_examples=usually(20, laws=60))
@example(
    [("ann", frozenset(UIDS[:1]), False, 0, 10), ("ann", frozenset(UIDS[:1]), False, 20, None)],
    [("wait", "ann", 30), ("wait", "ann", 20), ("join", "ann", 1), ("wait", "ann", 5)],
    SealingLevel.ATTRIBUTE,
)
@example(
    [("ann", None, False, None, None)],
    [
        ("join", "ann", 1),
        ("evict", "ann", 1),
        ("wait", "ann", 9),
        ("readmit", "ann", 1),
        ("restart", "ann", 1),
        ("wait", "ann", 3),
    ],
    SealingLevel.ATTRIBUTE,
)
@example(
    [("ann", None, False, None, 8), ("bob", None, True, 4, None)],
    [
        ("join", "ann", 1),
        ("join", "bob", 1),
        ("leave", "ann", 1),
        ("wait", "bob", 12),
        ("server", "bob", 1),
        ("wait", "bob", 12),
    ],
    SealingLevel.EVENT,
)
def test_whoever_may_see_an_attribute_can_open_it_and_nobody_else_ever_can(given_rules, schedule, level):
    city = city_of(given_rules, level)
    observe(city)
    for step in schedule:
        do(city, step)
        observe(city)
    do(city, ("wait", "ann", 3))
    check_nobody_opened_too_much(city)


@given(rules, steps, st.sampled_from(SealingLevel))
@settings(max_examples=usually(12, laws=40))
def test_of_a_sealed_frame_every_member_opens_what_its_view_shows(given_rules, schedule, level):
    """The same with real frames: sealed by the camera, opened with each one's own ring."""
    city = city_of(given_rules, level)
    for number, step in enumerate(schedule):
        do(city, step)
        city.net.run_to(Instant(city.net.now + 1000))
        frame = sealed_by(city, number)
        for name in NAMES:
            expected = city.may_see(name, city.net.now)
            opened = opened_by(city, name, frame)
            assert opened <= expected, name
            assert opened == expected or not is_served(city, name), name


def sealed_by(city: City, number: int) -> Sealed:
    """Let the camera publish one event with a value in every attribute."""
    net, ring = city.net, city.net.ring(city.camera)
    epoch = ring.sealing_epoch(net.now)
    assert epoch is not None
    sealer = Sealer(city.camera.key, random=random_from(b"sealer %d" % number), process_id=lambda: 1)
    about = Publication(city.camera.principal, bytes(16), number, int(net.now), 1)
    event = frame_of([{uid: f"value of {uid}" for uid in UIDS}], dict.fromkeys(UIDS, Kind.STRING))
    level = net.event_type.sealing.level
    return seal_one(sealer, about, event, epoch_keys(net, ring, epoch), level)


def opened_by(city: City, name: str, frame: Sealed) -> frozenset[AttributeUid]:
    """Return the attributes of a frame that a member reads with what it holds now."""
    member = city.net.members.get(name)
    ring = None if member is None else member.node.ring(city.net.type_id)
    if ring is None or not ring.opens(frame.epoch, Instant(frame.published_at), city.net.now):
        return NOTHING
    found = read(frame, epoch_keys(city.net, ring, frame.epoch))
    if found.run.uids == ("",) and not found.closed:
        # Sealed as a whole: what is shown of it is the edge's to say.
        return city.may_see(name, city.net.now) or frozenset(UIDS)
    return frozenset(AttributeUid(column.uid) for column in found.columns[0])


def epoch_keys(net: KeyNet, ring: KeyRing, epoch: int) -> EpochKeys:
    return EpochKeys(net.type_id, epoch, lambda uid: ring.key(GroupId(net.type_id, uid), epoch))


LOST: tuple[type[Message], ...] = (Rekey, GroupKeys, GroupsEnded, JoinGroups, KeysHeld)


@given(rules, steps, st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=usually(12, laws=40))
def test_lost_repeated_and_reordered_messages_fork_no_member_and_leave_no_member_behind(
    given_rules, schedule, chance, reorders
):
    city = city_of(given_rules, SealingLevel.ATTRIBUTE)
    net = city.net
    observe(city)
    net.reorders = reorders
    net.weather = lambda message, _name, _up: chance.choice((0, 1, 1, 2)) if isinstance(message, LOST) else 1
    for step in schedule:
        do_in_bad_weather(city, step)
    net.weather, net.reorders = (lambda _message, _name, _up: 1), False
    for member in net.members.values():
        net.cut_off(member, is_cut_off=False)
    net.run(200)  # every wait is over, and every question was asked again
    observe(city)
    check_nobody_opened_too_much(city)
    check_all_agree(city)


def do_in_bad_weather(city: City, step: Step) -> None:
    """Let one thing happen; samples are taken only while the camera knows the newest epoch."""
    if step[0] != "wait":
        do(city, step)
    for _ in range(step[2] if step[0] == "wait" else 1):
        city.net.run_to(Instant(city.net.now + SECOND // 2))
        city.hoard()
        if city.net.ring(city.camera).newest == city.net.epoch():
            city.sample()


def check_all_agree(city: City) -> None:
    """Every member who is served holds the same epochs, and the same keys, as the camera."""
    net = city.net
    camera = net.ring(city.camera)
    assert camera.newest == net.epoch()
    for member in net.members.values():
        ring = member.node.ring(net.type_id)
        if ring is None or not member.node.groups(net.type_id):
            continue
        assert ring.newest == net.epoch()
        for group in member.node.groups(net.type_id):
            assert ring.key(group, net.epoch()) == camera.key(group, net.epoch())
