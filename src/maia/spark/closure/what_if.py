"""Who would have seen more of a recorded period, and who less, with other certificates?

The closures of both pools say whose rights differ. For each of these principals the kernel decides its Views
of every moment, once with each pool, and Spark applies both to the recorded events and counts. Events are
read by the asker, under the asker's own rights: no example shows a value that the asker may not read, and
a question whose answer depends on such a value is refused.

Facts of the past are not on record: a condition that asks for anything but the time counts as not met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    VerificationCache,
    VerifiedConstitution,
)
from maia.credentials.certificate import as_signed
from maia.credentials.encoding.certificates import certificate_body
from maia.credentials.keys import SIGNATURE_BYTES
from maia.errors import Refusal
from maia.events import Attribute, AttributeUid, Instant
from maia.policy import PolicyRefusal, Request
from maia.policy.view import asks_of, keeps
from maia.predicates.syntax import ALWAYS
from maia.spark.closure.reach import Reach, ReachedGrant
from maia.spark.governed.reader import Reader, Slice, slices_of
from maia.types import VerifiedType
from maia.validity import ASSUMED_GOOD
from maia.views import ViewSummarises
from maia.views.plan import spark_type
from maia.views.to_spark import to_spark, with_bound

PRINCIPALS_MAX: Final = 1000
"""Principals whose rights differ that one question compares; the answer says how many there are besides."""
_AT: Final = "_published_at"


class _Supposing(VerificationCache):
    """A cache that takes some certificates for signed, which their issuer would have to sign yet.

    What is decided with it is the answer to a question, and is in force nowhere.
    """

    __slots__ = ("_supposed",)

    def __init__(self, supposed: Iterable[bytes]) -> None:
        super().__init__()
        self._supposed = frozenset(supposed)

    def knows(self, signed: SignedCertificate) -> bool:
        """Return whether a signature was found good, or is supposed to be."""
        return signed.id in self._supposed or super().knows(signed)


def supposed(certificate: AuthorisationCertificate) -> SignedCertificate:
    """Return a certificate that its issuer has not signed; only `Pools.supposed` lets it count."""
    return as_signed(certificate, certificate_body(certificate), bytes(SIGNATURE_BYTES))


@dataclass(frozen=True, slots=True)
class Pools:
    """The certificates before and after, and which of the latter are not signed yet."""

    before: tuple[SignedCertificate, ...] = field(repr=False)
    after: tuple[SignedCertificate, ...] = field(repr=False)
    supposed: frozenset[bytes] = frozenset()
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)

    def cache(self) -> VerificationCache:
        """Return a fresh memory of signatures in which the supposed ones are good."""
        return _Supposing(self.supposed)


@dataclass(frozen=True, slots=True)
class Affected:
    """A principal whose rights differ, and what it may see of each moment, before and after."""

    principal: Principal
    before: tuple[Slice, ...] = field(repr=False)
    after: tuple[Slice, ...] = field(repr=False)
    is_conditional: bool
    """A right of it depends on a condition, which may not have been met."""


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What a principal would have seen of the recorded events."""

    affected: Affected
    rows_before: int
    rows_after: int
    rows_less: int
    """Events of which it would have seen less: not the event, or not an attribute of it."""
    rows_more: int
    rows_other: int
    """Events of which an attribute would have had another value."""
    less: dict[str, int]
    """In how many events an attribute would no longer have been seen."""
    more: dict[str, int]
    # Any: values of all kinds.
    examples: tuple[dict[str, Any], ...] = field(repr=False)


def affected(
    event_type: VerifiedType,
    pools: Pools,
    *,
    at: Instant,
    since: Instant | None = None,
    until: Instant | None = None,
) -> tuple[list[Affected], int]:
    """Return whose rights to a type differ between two pools, and how many more there are than that."""
    before, after = (_grants(event_type, one, pools, at) for one in (pools.before, pools.after))
    differ = sorted(
        one for one in before.keys() | after.keys() if _rights(before, one) != _rights(after, one)
    )
    found: list[Affected] = []
    for principal in differ[:PRINCIPALS_MAX]:
        sides = [one.get(principal, []) for one in (before, after)]
        slices = [_slices(principal, event_type, side, pools, since, until) for side in sides]
        is_conditional = any(grant.sight.condition for side in sides for grant in side)
        found.append(Affected(principal, slices[0], slices[1], is_conditional))
    return found, len(differ) - len(found)


def _grants(
    event_type: VerifiedType, pool: Sequence[SignedCertificate], pools: Pools, at: Instant
) -> dict[Principal, list[ReachedGrant]]:
    reach = Reach(event_type, pool, at=at, constitutions=pools.constitutions, cache=pools.cache())
    found: dict[Principal, list[ReachedGrant]] = {}
    for grant in reach.grants():
        found.setdefault(grant.principal, []).append(grant)
    return found


def _rights(grants: dict[Principal, list[ReachedGrant]], principal: Principal) -> set[object]:
    return {(one.period, one.sight) for one in grants.get(principal, ())}


def _slices(
    principal: Principal,
    event_type: VerifiedType,
    grants: Sequence[ReachedGrant],
    pools: Pools,
    since: Instant | None,
    until: Instant | None,
) -> tuple[Slice, ...]:
    used = {signed.id: signed for grant in grants for signed in grant.certificates}
    reader = Reader(principal, tuple(used.values()), constitutions=pools.constitutions, tester=ASSUMED_GOOD)
    request = Request(principal, Action.SUBSCRIBE, event_type.name, event_type)
    try:
        return slices_of(request, reader, since=since, until=until, cache=pools.cache())
    except PolicyRefusal:
        return ()


# ------------------------------------------------------------ what the asker has to be able to read


def readable_by(slices: Sequence[Slice], event_type: VerifiedType) -> frozenset[AttributeUid]:
    """Return the attributes that the asker reads of every event, as they were published."""
    return frozenset(
        uid
        for uid in event_type.kinds
        if all(any(keeps(w, uid) and w.admits == ALWAYS for w in one.view.windows) for one in slices)
    )


def check_sight(
    asked: frozenset[AttributeUid], readable: frozenset[AttributeUid], event_type: VerifiedType
) -> None:
    """Refuse a question whose answer depends on attributes that the asker may not read."""
    names = {one.uid: one.name for one in event_type.attributes}
    hidden = sorted(names.get(uid, uid) for uid in asked - readable)
    if hidden:
        raise Refusal(
            "PIPELINE-WHAT-IF-BLIND",
            f"these rights depend on `{hidden[0]}`, which you may not read of all events: "
            "ask a reader who may",
        )


# Both Views over the recorded events, in Spark


def compare(
    events: DataFrame,
    event_type: VerifiedType,
    changed: Sequence[Affected],
    *,
    readable: frozenset[AttributeUid],
    examples: int = 3,
    done: Callable[[int], None] = lambda _count: None,
) -> Iterator[ReplayOutcome]:
    """Yield what each principal would have seen of `events`, a governed table of the asker `with_meta`.

    Principals with the same rights before and after are compared once. Attributes that the asker may not
    read are left out. No more rows than the examples leave Spark.
    """
    windows = [w for one in changed for part in (*one.before, *one.after) for w in part.view.windows]
    check_sight(frozenset[AttributeUid]().union(*map(asks_of, windows)), readable, event_type)
    known = [one for one in event_type.attributes if one.uid in readable]
    stored = events.select(*(F.col(f"`{one.name}`").alias(one.uid) for one in known), F.col(_AT))
    kinds = {one.uid: one.kind for one in known}
    found: list[tuple[tuple[Slice, ...], tuple[Slice, ...], ReplayOutcome]] = []
    for one in changed:
        same = next((past for *views, past in found if views == [one.before, one.after]), None)
        if same is None:
            bound: list[Sequence[Column]] = []
            before, after = (_seen(part, kinds, known, bound) for part in (one.before, one.after))
            both = with_bound(stored, bound).select(F.col(_AT), before.alias("before"), after.alias("after"))
            same = _outcome(one, both, known, examples)
            found.append((one.before, one.after, same))
        done(1)
        yield replace(same, affected=one)


def _seen(
    slices: Sequence[Slice],
    kinds: dict[AttributeUid, Any],
    known: Sequence[Attribute],
    bound: list[Sequence[Column]],
) -> Column:
    """Return what Views show of an event, by attribute; null where they show nothing of it.

    The columns that they bind are added to `bound`.
    """
    empty = F.lit(None).cast(f"struct<{', '.join(f'`{one.uid}`: {_ddl(one)}' for one in known)}>")
    moment = F.unix_micros(F.col(_AT))
    found: list[Column] = []
    for one in slices:
        try:
            view = to_spark(one.view, kinds, tuple(known), place=len(bound))
        except ViewSummarises:  # it shows no single event
            continue
        bound += view.bound
        shown = dict(zip(view.uids, view.seen, strict=True))
        values = [
            (shown[each.uid] if each.uid in shown else F.lit(None).cast(_ddl(each))).alias(each.uid)
            for each in known
        ]
        spans = one.spans or ((one.since, one.until),)
        inside = reduce(Column.__or__, (moment.between(int(first), int(last)) for first, last in spans))
        found.append(F.when(inside & view.admits, F.struct(*values)))
    return F.coalesce(*found, empty)


def _ddl(attribute: Attribute) -> str:
    return spark_type(attribute.kind).simpleString()


def _outcome(one: Affected, both: DataFrame, known: Sequence[Attribute], examples: int) -> ReplayOutcome:
    less = {each.name: _is_in("before", each) & ~_is_in("after", each) for each in known}
    more = {each.name: ~_is_in("before", each) & _is_in("after", each) for each in known}
    other = [
        _is_in("before", each) & _is_in("after", each) & (_value("before", each) != _value("after", each))
        for each in known
    ]
    gone = F.col("before").isNotNull() & F.col("after").isNull()
    came = F.col("before").isNull() & F.col("after").isNotNull()
    any_less, any_more = (
        reduce(Column.__or__, (first, *some.values())) for first, some in ((gone, less), (came, more))
    )
    any_other = reduce(Column.__or__, other, F.lit(False))
    counts = both.agg(
        F.count("before"),
        F.count("after"),
        *(F.count_if(one) for one in (any_less, any_more, any_other, *less.values(), *more.values())),
    ).collect()[0]
    rows_before, rows_after, rows_less, rows_more, rows_other, *each = map(int, counts)
    shown = both.where(any_less | any_more | any_other).limit(examples).collect() if examples else []
    return ReplayOutcome(
        one, rows_before, rows_after, rows_less, rows_more, rows_other,
        _positive(less, each[: len(known)]), _positive(more, each[len(known) :]),
        tuple(_example(row, known) for row in shown),
    )  # fmt: skip


def _value(side: str, attribute: Attribute) -> Column:
    return F.col(side).getField(attribute.uid)


def _is_in(side: str, attribute: Attribute) -> Column:
    return _value(side, attribute).isNotNull()


def _positive(names: Iterable[str], counts: Iterable[int]) -> dict[str, int]:
    return {name: count for name, count in zip(names, counts, strict=True) if count}


# Any: a row of Spark has no type.
def _example(row: Any, known: Sequence[Attribute]) -> dict[str, Any]:
    def values(side: str) -> dict[str, Any] | None:
        seen = row[side]
        return (
            None if seen is None else {one.name: seen[one.uid] for one in known if seen[one.uid] is not None}
        )

    return {"published_at": row[_AT], "before": values("before"), "after": values("after")}
