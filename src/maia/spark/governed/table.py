"""What may this reader see of the recorded events of a type, as a Spark table?

    governed(spark, log="/var/lib/maia/log", event_type=…, reader=…, keys=…)

The driver verifies certificates and decides a View for each period in which
the same ones were valid: what counts is the right at the moment of
publication. Executors open and prove frames; then the View is applied as
Catalyst columns. The result is an ordinary DataFrame, and whatever its user
adds to it runs behind the View, on rows and values that the View shows
(docs/decisions/governed-tables.md). With `is_stream`, the same table grows
with the log.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t

from maia.broker.subscriptions.local_subscribers import class_key
from maia.clock import system_now
from maia.credentials import Action, Principal, SignedCertificate
from maia.credentials.requirements import NO_REQUIREMENT
from maia.events import SECOND, Attribute, AttributeUid, Instant, Kind
from maia.ledger.files import LedgerFiles
from maia.ledger.records import (
    FORMAT,
    Audience,
    Begin,
    Disclosed,
    Ground,
    LedgerRecord,
    Shown,
    records_to_bytes,
    to_ranges,
)
from maia.net.process import own_folder
from maia.policy import Request, gather_evidence
from maia.policy.answers import Answers, answered, unanswered
from maia.policy.view import View, Window, asks_of, converts_to, is_summarised, keeps, shows, split
from maia.predicates import ALWAYS, Predicate, attributes_of, parse_predicate
from maia.private_files import make_private_folder
from maia.sealing.frames.content import LEVEL_NUMBERS
from maia.spark.governed.frame_reader import PERIOD, FrameOpener, PeriodsOpener
from maia.spark.governed.reader import (
    PERIODS_MAX,
    FrameRequirements,
    KeysBeginLater,
    NameTaken,
    NoKeys,
    NoSuchColumn,
    Reader,
    ReadingNotOnRecord,
    RestrictionUnanswered,
    RowsWithheld,
    ShownAsAnother,
    Signers,
    Slice,
    SummaryOfFrames,
    TooManyPeriods,
    UnknownTerms,
    accepted_signers,
    frame_requirements,
    slices_of,
)
from maia.spark.governed.recorded_log import BYTES_AT_ONCE, Recorded, between
from maia.spark.governed.right_watch import HeldRight, Watch
from maia.spark.keys.content_keys import KeyDesk, KeyPass, KeysBegin, KeySource
from maia.types import SealingLevel, VerifiedType
from maia.types.definition import strongest
from maia.views.plan import spark_type
from maia.views.to_spark import SparkView, TransformationKeySource, to_spark, to_spark_summary
from maia.wire.effects import Disclose

# What does a job put on record about the events that it reads?
#
# The records are those of a broker's ledger (`maia.ledger`): who reads, by which certificates, which rows of
# which frames, which attributes. The reader of a log is its own recipient, and writes the ledger itself. All
# that a table can show is on record before it is handed out, in one pass over the same files that Spark then
# reads; what its user makes of the table, less or nothing, is not.


_RUN_BYTES: Final = 16
_AT_ONCE: Final = 4096
"""Records of one entry."""
_FRAME: Final = ("_publisher", "_stream", "_sequence")


def put_on_record(
    folder: Path,
    parts: Sequence[tuple[Slice, DataFrame]],
    delivered: Sequence[Attribute],
    *,
    request: Request,
    reader: Reader,
    now: Instant,
) -> None:
    """Write everything that tables `with_meta` show, each of one period, to the ledger in a folder."""
    make_private_folder(folder)
    with own_folder(folder), LedgerFiles(folder) as ledger:
        records = _records(parts, delivered, request, reader, now)
        begins = True
        while some := list(islice(records, _AT_ONCE)):
            ledger.write([Disclose(begins, records_to_bytes(some))])
            begins = False


def _records(
    parts: Sequence[tuple[Slice, DataFrame]],
    delivered: Sequence[Attribute],
    request: Request,
    reader: Reader,
    now: Instant,
) -> Iterator[LedgerRecord]:
    principal, event_type = reader.principal, request.event_type
    assert event_type is not None  # noqa: S101 - a table is of a type
    yield Begin(FORMAT, principal.key, os.urandom(_RUN_BYTES), int(now))
    number, shown = 0, dict[tuple[str, ...], int]()
    for one, rows in parts:
        number += 2
        audience = number
        yield Ground(
            number - 1,
            principal.key,
            event_type.type_id,
            event_type.id,
            class_key(one.view, event_type),
            _certificates(request, reader, one.since),
        )
        yield Audience(audience, (number - 1,))
        for frame in _frames(rows, delivered):
            uids = tuple(sorted(frame["shown"]))
            if uids not in shown:
                number += 1
                shown[uids] = number
                yield Shown(number, uids)
            publisher, stream, sequence = (frame[name] for name in _FRAME)
            ranges = to_ranges(sorted(frame["rows"]))
            yield Disclosed(
                int(now), audience, shown[uids], bytes(publisher), bytes(stream), sequence, ranges
            )


# Any: rows of Spark have no type.
def _frames(rows: DataFrame, delivered: Sequence[Attribute]) -> Iterator[Any]:
    """Yield, for each frame, rows that show the same attributes; a partition at a time."""
    shown = F.array_compact(
        F.array(*(F.when(F.col(f"`{one.name}`").isNotNull(), F.lit(one.uid)) for one in delivered))
    )
    return (
        rows.select(*_FRAME, "_row", shown.alias("shown"))
        .groupBy(*_FRAME, "shown")
        .agg(F.collect_set("_row").alias("rows"))
        .toLocalIterator()
    )


def _certificates(request: Request, reader: Reader, at: Instant) -> tuple[bytes, ...]:
    evidence = gather_evidence(
        request,
        reader.pool,
        at=at,
        bounds=reader.bounds,
        constitutions=reader.constitutions,
        standing=reader.tester,
        chains_max=reader.chains_max,
    )
    return tuple(dict.fromkeys(signed.id for chain in evidence.chains for signed in chain.certificates))


# How do the Views of several periods become one, for rows that say of which period they are?
#
# A governed stream asks, if its reader's rights changed. Each row goes through
# the View of its own period and no other: Catalyst evaluates a branch of a
# CASE only for the rows that take it.


class PeriodsView:
    """The Views of several periods as columns, over what `opening.PeriodsOpener` makes."""

    def __init__(
        self,
        views: Sequence[tuple[View, Mapping[AttributeUid, Kind]]],
        delivered: tuple[Attribute, ...],
        keys: TransformationKeySource | None = None,
    ) -> None:
        """Compile each View over the attributes that its period has."""
        self._views: list[SparkView] = [to_spark(view, dict(kinds), delivered, keys) for view, kinds in views]
        self._seen: list[dict[AttributeUid, Column]] = [
            dict(zip(made.uids, made.seen, strict=True)) for made in self._views
        ]
        self._delivered = delivered

    @property
    def admits(self) -> Column:
        """Return which rows may be read."""
        return _by_period(enumerate(view.admits for view in self._views))

    @property
    def seen(self) -> list[Column]:
        """Return what is seen of them, by uid."""
        return [self._seen_column(uid).alias(uid) for uid in self._uids]

    @property
    def interest(self) -> Column:
        """Return which of those are wanted."""
        wanted = (F.lit(True) if view.interest is None else view.interest for view in self._views)
        return _by_period(enumerate(wanted))

    @property
    def delivered(self) -> list[Column]:
        """Return the attributes by the names of the reader's version."""
        return [self._delivered_column(attribute) for attribute in self._delivered]

    @property
    def _uids(self) -> list[AttributeUid]:
        return sorted({uid for seen in self._seen for uid in seen})

    def _seen_column(self, uid: AttributeUid) -> Column:
        shown = ((number, seen[uid]) for number, seen in enumerate(self._seen) if uid in seen)
        return _by_period(shown)

    def _delivered_column(self, attribute: Attribute) -> Column:
        if attribute.uid in self._uids:
            return F.col(f"`{attribute.uid}`").alias(attribute.name)
        return F.lit(None).cast(spark_type(attribute.kind)).alias(attribute.name)


def _by_period(columns: Iterable[tuple[int, Column]]) -> Column:
    """Return each row's column by its period: null where there is none for it."""
    (first, column), *others = columns
    begun = F.when(F.col(PERIOD) == first, column)
    return reduce(lambda made, one: made.when(F.col(PERIOD) == one[0], one[1]), others, begun)


__all__ = ["META_COLUMNS", "Keys", "governed"]

META_COLUMNS: Final[Mapping[str, t.DataType]] = {
    "_publisher": t.BinaryType(),
    "_stream": t.BinaryType(),
    "_sequence": t.LongType(),
    "_row": t.IntegerType(),
    "_published_at": t.TimestampType(),
}
"""What a subscriber receives about an event beside its attributes; added by `with_meta`."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens the frames of a sealed type: where keys come from, where they lie, whose frames count."""

    source: KeySource | None = field(repr=False)
    """None for a type that is not sealed: its executors only check whether the grant is open."""
    desk: KeyDesk = field(repr=False)
    signers: Mapping[Principal, Sequence[SignedCertificate]] = field(repr=False)
    """The brokers that sign frames of the type, with the certificates by which they publish."""
    answers: Answers = field(default_factory=dict, repr=False)
    """The answers in its frames to what restricts the reader by attributes that it may not read."""
    begins: tuple[KeysBegin, ...] = ()
    """Since when keys are held, where that is known: a table warns of what it cannot show."""


def governed(  # noqa: PLR0913 - every one is named at the call
    spark: SparkSession,
    *,
    log: str,
    segments: Collection[str | PathLike[str]] | None = None,
    event_type: VerifiedType,
    reader: Reader,
    keys: Keys | None = None,
    filter: Predicate | str = ALWAYS,  # noqa: A002 - it is called so in requests and in the client
    requires: Predicate | str = NO_REQUIREMENT,
    columns: Collection[str] | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    versions: Sequence[VerifiedType] = (),
    with_meta: bool = False,
    is_stream: bool = False,
    fails_on_loss: bool = True,
    batch_bytes: int = BYTES_AT_ONCE,
    watch: Watch | None = None,
    shown_as: VerifiedType | None = None,
    transformation_keys: TransformationKeySource | None = None,
    ledger: str | PathLike[str] | None = None,
) -> DataFrame:
    """Return the events published between two moments as `reader` may see them, named as in `event_type`.

    `segments` are the files to read, as the log's manifest names them
    (`LogView.segments`, which verifies them first); without them, all that the
    log has now. A stream goes on with what the log gets later, each frame once,
    whatever is joined meanwhile; if the log forgets frames that it has not read,
    it ends, unless `fails_on_loss` is false. A batch reads about `batch_bytes`.
    Frames show only if their publisher's identity statement meets `requires`, and
    the reader's the requirement of the publisher, each at the moment of publication.
    `versions` are others of the same type whose attributes a right may name
    of. `columns` opens only some attributes, by name. `watch` tests the reader
    now, which includes one-time questions about this request, and ends the
    table's grants when its right is gone; executors ask for them if there are
    `keys`, with a source or without. `shown_as` is the type that the reader's right converts events into,
    and in whose names the filter and the columns are then; `transformation_keys` is where executors
    find the secrets of pseudonyms and noise. `ledger` is a folder in which all that the table shows is
    put on record before it is handed out, as a broker does; the owner of a type may demand one. Raises
    the kernel's refusal if the reader had no right at any moment of the period.
    """
    _check_on_record((*versions, event_type), ledger, is_stream=is_stream)
    named = event_type if shown_as is None else shown_as
    wanted = parse_predicate(filter, named.vocabulary) if isinstance(filter, str) else filter
    request = Request(reader.principal, Action.SUBSCRIBE, event_type.name, event_type, wanted)
    reader = reader if watch is None else watch.tested(reader, request)
    slices = slices_of(request, reader, since=since, until=until)
    _check_result(slices, shown_as)
    is_summary = any(is_summarised(one.view) for one in slices)
    if is_summary and (is_stream or with_meta):
        raise SummaryOfFrames(
            "your right shows summaries: they are a table that does not grow, without frames"
        )
    requirements = replace(frame_requirements(reader, requires), for_all_alone=is_summary)
    table = _Table(
        spark, event_type, tuple(versions), reader, keys, with_meta, requirements, transformation_keys
    )
    delivered = _delivered(named, columns, with_meta=with_meta)
    plans = [table.planned(table.asking(one), delivered) for one in slices]
    recorded = Recorded(spark, log, event_type.type_id, *_outer(slices))
    uids = sorted({uid for plan in plans for uid in plan.kinds})
    if is_stream:
        frames = recorded.stream(uids, fails_on_loss=fails_on_loss, batch_bytes=batch_bytes)
    else:
        frames = recorded.table(uids, None if segments is None else tuple(map(str, segments)))
    if is_stream and len(plans) > 1:
        rows = table.of_all(frames, plans, delivered)
    else:
        rows = reduce(DataFrame.unionAll, [table.of(frames, plan, delivered) for plan in plans])
    table.warn_of_gaps(recorded, plans)
    if ledger is not None:
        shown, marked = _delivered(named, columns, with_meta=True), replace(table, with_meta=True)
        parts = [(one, marked.of(frames, plan, shown)) for one, plan in zip(slices, plans, strict=True)]
        put_on_record(Path(ledger), parts, shown, request=request, reader=reader, now=system_now())
    if watch is not None:
        watch.begin(table.held(request, slices, since=since, until=until))
    return rows


def _check_on_record(versions: Iterable[VerifiedType], ledger: object, *, is_stream: bool) -> None:
    """Refuse to read events whose owner demands a record, where none would be made."""
    is_demanded = any(one.definition.ledger for one in versions)
    if is_demanded and ledger is None:
        raise ReadingNotOnRecord(
            "what is read of this type has to be on record: say where your ledger is (`ledger`, --record)"
        )
    if is_stream and (is_demanded or ledger is not None):
        raise ReadingNotOnRecord(
            "a stream shows what is recorded later, which is on no record before: read it as a table"
        )


def _check_result(slices: Sequence[Slice], shown_as: VerifiedType | None) -> None:
    """Refuse to show events under the names of another type than the one that they become."""
    becomes = {converts_to(window) for one in slices for window in one.view.windows}
    for result in becomes:
        if result != (None if shown_as is None else shown_as.name):
            named = "its own" if result is None else f"`{result.name}`"
            raise ShownAsAnother(f"your right shows events of this type as {named}: name that one")


def _delivered(
    event_type: VerifiedType, columns: Collection[str] | None, *, with_meta: bool
) -> tuple[Attribute, ...]:
    if columns is not None and (unknown := [name for name in columns if name not in event_type.vocabulary]):
        shown = ascii(str(unknown[0])[:64])[1:-1]
        raise NoSuchColumn(f"`{shown}` is no attribute of `{event_type.name.name}`")
    chosen = [one for one in event_type.attributes if columns is None or one.name in columns]
    if with_meta and (taken := [one.name for one in chosen if one.name.lower() in META_COLUMNS]):
        raise NameTaken(f"attribute `{taken[0]}` has the name of a column about the event itself")
    return tuple(chosen)


# ------------------------------------------------------------ rows


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one period needs of each frame, and what of it decides."""

    slice: Slice
    kinds: Mapping[AttributeUid, Kind]
    asks: frozenset[AttributeUid]


@dataclass(frozen=True, slots=True)
class _Table:
    """What all periods of one table share."""

    spark: SparkSession
    event_type: VerifiedType
    versions: tuple[VerifiedType, ...]
    reader: Reader
    keys: Keys | None
    with_meta: bool
    requirements: FrameRequirements
    transformation_keys: TransformationKeySource | None = None
    passes: list[KeyPass] = field(default_factory=list, repr=False)

    def held(
        self, request: Request, slices: tuple[Slice, ...], *, since: Instant | None, until: Instant | None
    ) -> HeldRight:
        """Return what the table depends on, and how to recheck it."""

        def decide(reader: Reader) -> tuple[tuple[Slice, ...], list[Signers]]:
            found = slices_of(request, reader, since=since, until=until)
            return found, [self._signers(one, reader) for one in found]

        shown = {} if self.keys is None else self.keys.signers
        certificates = (*self.reader.credentials, *(one for pool in shown.values() for one in pool))
        decided = (slices, [self._signers(one, self.reader) for one in slices])
        return HeldRight(self.reader, certificates, decided, decide, tuple(self.passes), request)

    def _signers(self, one: Slice, reader: Reader) -> Signers:
        if self.keys is None:
            return Signers({}, frozenset())
        versions = (*self.versions, self.event_type)
        found = accepted_signers(
            self.keys.signers, versions, grounds=reader, since=one.since, until=one.until
        )
        return replace(found, about={uid: attributes_of(said) for uid, said in self.keys.answers.items()})

    def _pass(self, kinds: Mapping[AttributeUid, Kind]) -> KeyPass | None:
        if self.keys is None:
            return None
        self.passes.append(self.keys.desk.open(self.keys.source, frozenset({None, *kinds})))
        return self.passes[-1]

    def asking(self, one: Slice) -> Slice:
        """Return a period whose View asks answers for what the reader may not read."""
        answers = {} if self.keys is None else self.keys.answers
        return replace(one, view=answered(one.view, answers, self._readable(one))) if answers else one

    def _readable(self, one: Slice) -> frozenset[AttributeUid]:
        """Return the attributes that a reader has keys of, if the type is sealed attribute by attribute."""
        versions = (*self.versions, self.event_type)
        known = {uid for version in versions for uid in version.kinds}
        return frozenset(uid for uid in known if any(keeps(window, uid) for window in one.view.windows))

    def warn_of_gaps(self, recorded: Recorded, plans: Sequence[_Plan]) -> None:
        """Warn of recorded events that the reader's right covers and its keys do not open."""
        if self.keys is None or not self.keys.begins:
            return
        name = self.event_type.name.name
        for plan in plans:
            hidden = unanswered(plan.slice.view, {}, self._readable(plan.slice)) - self.keys.answers.keys()
            if hidden and self._level is SealingLevel.ATTRIBUTE:
                warnings.warn(
                    f"a part of your right to `{name}` shows no row: it is restricted by attributes that "
                    f"you may not read, and no broker answers for them [{RestrictionUnanswered.code}]",
                    RowsWithheld,
                    stacklevel=3,
                )
            held = [one.since for one in self.keys.begins if plan.asks - hidden <= one.uids]
            begins = min(held, default=None)
            end = plan.slice.until if begins is None else Instant(min(begins - 1, plan.slice.until))
            if plan.slice.since <= end and recorded.has_any(plan.slice.since, end):
                since = "" if begins is None else f"; events published from {begins} on are shown"
                warnings.warn(
                    f"your right to `{name}` begins before your keys: what was published in an epoch that "
                    f"had begun before your right is not shown{since} [{KeysBeginLater.code}]",
                    RowsWithheld,
                    stacklevel=3,
                )

    @property
    def _level(self) -> SealingLevel | None:
        sealing = strongest(version.sealing for version in (*self.versions, self.event_type))
        return None if sealing is None else sealing.level

    def planned(self, one: Slice, delivered: tuple[Attribute, ...]) -> _Plan:
        """Return what is needed for one period."""
        view = split(one.view).front if is_summarised(one.view) else one.view
        windows, names = view.windows, {attribute.uid for attribute in delivered}
        interest = attributes_of(view.interest)
        transforms = [window for window in windows if window.transformations]
        asks = frozenset().union(*map(asks_of, windows))
        if transforms:
            known = {uid for version in (*self.versions, self.event_type) for uid in version.kinds}
            interest = frozenset(uid for uid in interest & known if any(keeps(w, uid) for w in windows))
            names |= known & interest
            asks = frozenset(uid for uid in asks if uid in known or uid not in _assigned(transforms))
        # What a transformation shows it has made of what it reads, which is among what is asked.
        shown = {
            uid
            for uid in names
            for window in windows
            if (shows(window, uid) if not window.transformations else keeps(window, uid))
        }
        return _Plan(one, self._kinds(asks | interest | shown), asks | interest)

    def of(self, frames: DataFrame, plan: _Plan, delivered: tuple[Attribute, ...]) -> DataFrame:
        """Return what one period shows: open, then the View, then whatever its user adds."""
        if is_summarised(plan.slice.view):
            return replace(self, with_meta=True)._summarised(frames, plan, delivered)
        opener = self._opener(plan.slice, plan.kinds, plan.asks)
        chosen = between(frames, plan.slice.since, plan.slice.until, plan.kinds)
        rows = chosen.mapInArrow(opener, self._schema(plan.kinds))
        return self._seen(rows, plan.slice, plan.kinds, delivered)

    def of_all(
        self, frames: DataFrame, plans: Sequence[_Plan], delivered: tuple[Attribute, ...]
    ) -> DataFrame:
        """Return what all periods show, from one source: each row goes by the View of its own period."""
        opener = PeriodsOpener(tuple(self._opener(plan.slice, plan.kinds, plan.asks) for plan in plans))
        kinds = opener.kinds
        schema = self._schema(kinds).add(PERIOD, t.IntegerType())
        chosen = between(frames, *_outer([plan.slice for plan in plans]), kinds)
        rows = chosen.mapInArrow(opener, schema)
        views = [(plan.slice.view, plan.kinds) for plan in plans]
        view = PeriodsView(views, delivered, self.transformation_keys)
        meta = [F.col(name) for name in META_COLUMNS if self.with_meta]
        seen = rows.where(view.admits).where(_barrier()).select(*view.seen, *meta, PERIOD)
        return seen.where(view.interest).select(*view.delivered, *meta)

    def _kinds(self, uids: Collection[AttributeUid]) -> dict[AttributeUid, Kind]:
        known = {uid: kind for one in (*self.versions, self.event_type) for uid, kind in one.kinds.items()}
        known |= {} if self.keys is None else dict.fromkeys(self.keys.answers, Kind.BOOL)
        if not known.keys() >= set(uids):
            # Read as missing, it could make a restriction true that is not.
            raise UnknownTerms(
                "your right depends on an attribute of another version: hand that version over"
            )
        return {uid: known[uid] for uid in sorted(uids)}

    def _opener(
        self, one: Slice, kinds: Mapping[AttributeUid, Kind], asks: frozenset[AttributeUid]
    ) -> FrameOpener:
        sealing = strongest(version.sealing for version in (*self.versions, self.event_type))
        if sealing is not None and (self.keys is None or self.keys.source is None):
            raise NoKeys("events of this type are sealed: say where their keys come from")
        return FrameOpener(
            type_id=self.event_type.type_id,
            kinds=dict(kinds),
            asks=asks,
            least_level=0 if sealing is None else LEVEL_NUMBERS[sealing.level],
            signers=self._signers(one, self.reader),
            since=int(one.since),
            until=int(one.until),
            keys=self._pass(kinds),
            with_meta=self.with_meta,
            spans=tuple((int(first), int(last)) for first, last in one.spans),
            requirements=self.requirements,
        )

    def _schema(self, kinds: Mapping[AttributeUid, Kind]) -> t.StructType:
        fields = [t.StructField(uid, spark_type(kind)) for uid, kind in kinds.items()]
        meta = [t.StructField(name, kind) for name, kind in META_COLUMNS.items() if self.with_meta]
        return t.StructType([*fields, *meta])

    def _seen(
        self,
        rows: DataFrame,
        one: Slice,
        kinds: Mapping[AttributeUid, Kind],
        delivered: tuple[Attribute, ...],
    ) -> DataFrame:
        view = to_spark(one.view, kinds, delivered, self.transformation_keys)
        meta = [F.col(name) for name in META_COLUMNS if self.with_meta]
        seen = rows.where(view.admits).where(_barrier()).select(*view.seen, *meta)
        wanted = seen if view.interest is None else seen.where(view.interest)
        return wanted.select(*view.delivered, *meta)

    def _summarised(self, frames: DataFrame, plan: _Plan, delivered: tuple[Attribute, ...]) -> DataFrame:
        """Return what events come to in the periods that lie wholly within a time of the same right.

        It is what a subscriber has received who was connected all that time.
        """
        one = plan.slice
        opener = self._opener(one, plan.kinds, plan.asks)
        chosen = between(frames, one.since, one.until, plan.kinds)
        rows = chosen.mapInArrow(opener, self._schema(plan.kinds))
        view = to_spark_summary(one.view, plan.kinds, delivered, self.transformation_keys)
        start = view.start_column(F.col("_published_at"))
        taken = rows.where(view.front.admits).where(_barrier()).select(*view.front.seen, start)
        closes = view.start + F.lit((view.summary.every_s + view.summary.late_s) * SECOND)
        spans = one.spans or ((one.since, one.until),)
        if len(spans) > PERIODS_MAX:
            raise TooManyPeriods(
                f"your right is interrupted more than {PERIODS_MAX} times in the time asked for"
            )
        within = [(view.start >= F.lit(int(first))) & (closes <= F.lit(int(last))) for first, last in spans]
        is_closed = closes <= F.unix_micros(F.current_timestamp())
        return view.grouped(taken, reduce(Column.__or__, within) & is_closed)


def _assigned(windows: Sequence[Window]) -> frozenset[AttributeUid]:
    return frozenset(rule.uid for window in windows for step in window.transformations for rule in step.rules)


def _outer(slices: Sequence[Slice]) -> tuple[Instant, Instant]:
    return min(one.since for one in slices), max(one.until for one in slices)


def _barrier() -> Column:
    """Return a condition that always holds, and which the optimiser moves nothing across.

    Catalyst joins neighbouring filters and may evaluate a user's expression
    together with the policy's. A non-deterministic filter is never joined, nor
    passed by another, so that nothing a user writes sees a row that the View
    does not show (A73). It costs one comparison of two numbers.
    """
    return F.spark_partition_id() >= F.lit(0)
