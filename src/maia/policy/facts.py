"""What is true at this moment, beside the certificates and the event?

A certificate may grant under a condition: the doctor is on duty, the camera
is in service, it is Monday morning. Facts are the values such conditions are
asked of. A broker keeps them fresh from events, Spark joins them, PostgreSQL
queries them; here they are values that cannot change. A fact that is missing
is unknown, and an unknown condition grants nothing.

Who asserts that a principal is on duty? What the verifier knows by itself holds for
every certificate; what a principal has asserted holds for the certificates
that this principal has issued, and for no others. The time is known from the
clock, and no issuer can assert another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from maia.credentials.authority import Authority
from maia.credentials.certificate import UNBOUNDED, Validity
from maia.credentials.keys import Principal
from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    WORLD_PREFIX,
    AttributeUid,
    Instant,
    Kind,
    PresentValue,
    Value,
    attribute_uid,
    checked_value,
    condition_uid,
    is_of_event,
    kind_of,
)
from maia.events.zones import MINUTES_IN_A_DAY, LocalTime, UnknownZone, local_time, zone_names, zone_of
from maia.predicates.meaning import admits, verdict
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    atoms,
    attributes_of,
)

# The time of day, as far as a condition asks.


_UID: Final = re.compile(r"time-(minute|weekday|date)-(.+)", re.ASCII)
_MINUTE: Final = timedelta(minutes=1)


def minute_uid(zone: str) -> AttributeUid:
    """Return the fact that is the minute of the day in a zone: 0 to 1439."""
    return _uid("minute", zone)


def weekday_uid(zone: str) -> AttributeUid:
    """Return the fact that is the day of the week in a zone: 1 for Monday to 7 for Sunday."""
    return _uid("weekday", zone)


def date_uid(zone: str) -> AttributeUid:
    """Return the fact that is the date in a zone, such as `2026-11-15`."""
    return _uid("date", zone)


def during(zone: str, *, days: frozenset[int], start: int, end: int) -> Predicate:
    """Return the condition that it is one of these days, from minute `start` up to minute `end`.

    Where `end` comes before `start`, the period begins on the day and goes on past midnight.
    """
    minute, weekday = minute_uid(zone), weekday_uid(zone)
    if start < end:
        return AllOf((_from(minute, start), _before(minute, end), Membership(weekday, days)))
    next_days = frozenset(day % 7 + 1 for day in days)
    evening = AllOf((_from(minute, start), Membership(weekday, days)))
    return AnyOf((evening, AllOf((_before(minute, end), Membership(weekday, next_days)))))


def window_in(condition: Predicate) -> tuple[str, frozenset[int], int, int] | None:
    """Return zone, days, start and end of a condition as `during` makes it; None for any other one."""
    zone = next((zone for _, kind, zone in _asked(condition) if kind == "minute"), None)
    start, end, days = 0, MINUTES_IN_A_DAY, frozenset[int]()
    for one in atoms(condition):
        match one:
            case Comparison(_, Operator.GE, int(minute)):
                start = minute
            case Comparison(_, Operator.LT, int(minute)):
                end = minute
            case Membership(_, values) if not days:
                days = frozenset(value for value in values if isinstance(value, int))
    if zone is None or not days or condition != during(zone, days=days, start=start, end=end):
        return None
    return zone, days, start, end


def check_clock_facts(condition: Predicate) -> None:
    """Refuse a condition that asks for the time in a zone that does not exist."""
    for uid in attributes_of(condition):
        found = _UID.fullmatch(uid)
        if found is not None and found[2] not in _zones():
            raise UnknownZone(f"`{uid}` asks for the time in a zone that does not exist")


def clock_facts(condition: Predicate, now: Instant) -> dict[AttributeUid, PresentValue]:
    """Return the facts about the time in a condition."""
    facts: dict[AttributeUid, PresentValue] = {}
    for uid, kind, zone in _asked(condition):
        shown = local_time(now, zone)
        if shown is not None:
            facts[uid] = _fact(kind, shown)
    return facts


def steady_clock(condition: Predicate, now: Instant) -> Validity:
    """Return a period around `now` in which the time alone does not change a condition's answer.

    It may be shorter than the longest one, never longer.
    """
    steady = UNBOUNDED
    for zone in {zone for _, _, zone in _asked(condition)}:
        steady = steady.intersection(_steady_in(zone, condition, now))
    return steady


def _steady_in(zone: str, condition: Predicate, now: Instant) -> Validity:
    shown = local_time(now, zone)
    if shown is None:
        return Validity(now, now)
    minute = minute_uid(zone)
    steps = {step for atom in atoms(condition) if atom.uid == minute for step in _steps(atom)}
    change = min(step for step in (*steps, MINUTES_IN_A_DAY) if step > shown.minute)
    begins = _later(now, -shown.into_minute)
    ends = _later(now, (change - shown.minute) * _MINUTE - shown.into_minute)
    at_end = local_time(ends, zone)
    if at_end is None or at_end.offset != shown.offset:
        # The clock is put forward or back before that. Minute by minute, nothing can go wrong.
        ends = _later(now, _MINUTE - shown.into_minute)
    return Validity(begins, Instant(ends - 1))


def _steps(atom: Atom) -> Iterator[int]:
    """Yield the minutes at which the answer of an atom may become another one."""
    match atom:
        case Comparison(literal=int(literal)):
            yield from (literal, literal + 1)
        case Membership(literals=literals):
            yield from (step for one in literals if isinstance(one, int) for step in (one, one + 1))
        case _:
            pass


def _asked(condition: Predicate) -> Iterator[tuple[AttributeUid, str, str]]:
    for uid in attributes_of(condition):
        found = _UID.fullmatch(uid)
        if found is not None and found[2] in _zones():
            yield uid, found[1], _zones()[found[2]]


def _fact(kind: str, shown: LocalTime) -> PresentValue:
    match kind:
        case "minute":
            return shown.minute
        case "weekday":
            return shown.weekday
        case _:
            return shown.date


def _uid(kind: str, zone: str) -> AttributeUid:
    zone_of(zone)
    return attribute_uid(f"time-{kind}-{_word(zone)}")


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """Return the zones by how a uid names them; one whose name would mean two zones is left out."""
    found: dict[str, str] = {}
    twice = set[str]()
    for name in zone_names():
        word = _word(name)
        twice |= {word} if word in found else set()
        found[word] = name
    return {word: name for word, name in found.items() if word not in twice and "+" not in word}


def _word(zone: str) -> str:
    return zone.lower().replace("/", "-").replace("_", "-")


def _later(now: Instant, by: timedelta) -> Instant:
    return Instant(max(INSTANT_MIN, min(INSTANT_MAX, now + by // timedelta(microseconds=1))))


def _from(minute: AttributeUid, start: int) -> Predicate:
    return Comparison(minute, Operator.GE, start)


def _before(minute: AttributeUid, end: int) -> Predicate:
    return Comparison(minute, Operator.LT, end)


_NOBODY: Final[Mapping[Principal, Mapping[AttributeUid, Value]]] = {}


class Facts(Mapping[AttributeUid, PresentValue]):
    """Some facts by uid, checked once and never changed; nulls are left out.

    As a mapping it holds what the verifier knows by itself.
    """

    __slots__ = ("_asserted", "_values")

    def __init__(
        self,
        values: Mapping[AttributeUid, Value] | None = None,
        *,
        asserted: Mapping[Principal, Mapping[AttributeUid, Value]] = _NOBODY,
    ) -> None:
        """Copy and check both: later changes to the mappings do not reach a decision."""
        self._values: Final = _checked(values or {})
        self._asserted: Final = {by: _checked(facts) for by, facts in asserted.items()}

    def __getitem__(self, uid: AttributeUid) -> PresentValue:
        """Return one fact."""
        return self._values[uid]

    def __iter__(self) -> Iterator[AttributeUid]:
        """Yield the uids of the facts."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many facts there are."""
        return len(self._values)

    @classmethod
    def joined(cls, parts: Iterable[Facts]) -> Facts:
        """Return what several know together."""
        values: dict[AttributeUid, Value] = {}
        asserted: dict[Principal, dict[AttributeUid, Value]] = {}
        for part in parts:
            values |= part._values
            for by, said in part._asserted.items():
                asserted.setdefault(by, {}).update(said)
        return cls(values, asserted=asserted)

    def satisfy(self, condition: Predicate, *, of: Principal | None, now: Instant) -> bool:
        """Return whether a condition holds that the issuer `of` has set; unknown is no."""
        if condition == ALWAYS:
            return True
        said = self._asserted.get(of, {}) if of is not None else {}
        known = said | self._values | clock_facts(condition, now)
        # Of an event, absence can be seen. Of a fact it cannot: withholding the statement would grant.
        if any(isinstance(atom, Exists) and atom.uid not in known for atom in atoms(condition)):
            return False
        return admits(condition, known)

    def refute(self, condition: Predicate, *, of: Principal, now: Instant) -> bool:
        """Return whether a condition that the issuer `of` has set is known to be false; unknown is no."""
        known = self._asserted.get(of, {}) | self._values | clock_facts(condition, now)
        if any(isinstance(atom, Exists) and atom.uid not in known for atom in atoms(condition)):
            return False
        return verdict(condition, known) is False

    def resolved(self, condition: Predicate, *, of: Principal, now: Instant) -> Predicate:
        """Return a condition of `of`'s rules with what it asks of the world, or of its holder, answered.

        What is not known stays as a question that no event answers: unknown, in every executor.
        """
        asked = frozenset(uid for uid in attributes_of(condition) if not is_of_event(uid))
        if not asked:
            return condition
        bare = {uid: AttributeUid(uid.removeprefix(WORLD_PREFIX)) for uid in asked}
        clock = clock_facts(AllOf(tuple(map(Exists, bare.values()))), now)
        known = self._asserted.get(of, {}) | self._values | clock
        return answered(condition, {uid: known[name] for uid, name in bare.items() if name in known})


def answered(condition: Predicate, known: Mapping[AttributeUid, PresentValue]) -> Predicate:
    """Return what is left of a condition after the questions whose answers are known."""
    match condition:
        case Not(inner):
            found = answered(inner, known)
            return NEVER if found == ALWAYS else ALWAYS if found == NEVER else Not(found)
        case AllOf(parts) | AnyOf(parts):
            void, decisive = (ALWAYS, NEVER) if isinstance(condition, AllOf) else (NEVER, ALWAYS)
            left = tuple(one for part in parts if (one := answered(part, known)) != void)
            if decisive in left:
                return decisive
            return left[0] if len(left) == 1 else type(condition)(left)
        case atom:
            answer = verdict(atom, known) if atom.uid in known else None
            return atom if answer is None else ALWAYS if answer else NEVER


def about_the_world(authority: Authority) -> Predicate:
    """Return what a right asks for beside the event: its condition, and what its rules ask of the world."""
    if not authority.transformations:
        return authority.condition
    rules = (rule for step in authority.transformations for rule in step.rules)
    asked = tuple(
        replace(atom, uid=AttributeUid(atom.uid.removeprefix(WORLD_PREFIX)))
        for rule in rules
        for atom in atoms(rule.condition)
        if not is_of_event(atom.uid)
    )
    return AllOf((authority.condition, *asked)) if asked else authority.condition


def _checked(values: Mapping[AttributeUid, Value]) -> dict[AttributeUid, PresentValue]:
    return {
        condition_uid(uid): value
        for uid, given in values.items()
        if given is not None and (value := checked_value(given, kind_of(given))) is not None
    }


CLIENT_ADDRESS: Final = AttributeUid("client-address")
ADDRESS_BITS: Final = AttributeUid("client-address-bits")
"""The address in binary digits behind its version, so that a network is a prefix: `4:00001010`."""


@lru_cache(maxsize=1024)
def place_facts(address: str | None) -> Mapping[AttributeUid, PresentValue]:
    """Return what conditions may ask of the place that a peer has dialled from; nothing if unknown."""
    if address is None:
        return {}
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return {CLIENT_ADDRESS: address}
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return {CLIENT_ADDRESS: address, ADDRESS_BITS: _bits(found if mapped is None else mapped)}


def inside_network(network: IPv4Network | IPv6Network) -> Predicate:
    """Return the condition that a peer has dialled from this network."""
    length = network.prefixlen
    return TextMatch(ADDRESS_BITS, TextTest.PREFIX, _bits(network.network_address)[: 2 + length])


def _bits(address: IPv4Address | IPv6Address) -> str:
    return f"{address.version}:{int(address):0{address.max_prefixlen}b}"


SUBSCRIBER: Final = AttributeUid("subscriber")
"""What a function is asked of, where it is asked of the holder of the right: its key as text."""


@dataclass(frozen=True, slots=True)
class WorldFunction:
    """A function that an operator has registered for the certificates of one issuer.

    It is a table that is read whole: `find` is asked here, of something that is known when a right is decided
    (`of`), and hands no value on. Its answer counts for `every_s`, and what it does not know is unknown.
    """

    issuer: Principal
    name: AttributeUid
    of: AttributeUid
    find: Callable[[PresentValue], Value] = field(repr=False)
    every_s: float


VERIFIERS_OWN: Final[Mapping[AttributeUid, Kind]] = {
    AttributeUid("rate-second"): Kind.INT,
    AttributeUid("rate-minute"): Kind.INT,
    CLIENT_ADDRESS: Kind.STRING,
    ADDRESS_BITS: Kind.STRING,
}
"""What brokers know by themselves, beside the time: no issuer can state it."""


def clock_kind(uid: AttributeUid) -> Kind | None:
    """Return the kind of a fact about the time; None for any other."""
    found = _UID.fullmatch(uid)
    return None if found is None else Kind.STRING if found[1] == "date" else Kind.INT


NO_FACTS: Final = Facts()
"""Nothing is known: only certificates without condition grant anything."""
