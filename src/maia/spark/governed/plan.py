"""What does a reader see of the recorded events of a type, and what of each frame is opened for it?

Tables ask, those of Spark (`table.py`) and those of Arrow (`arrow_table.py`): certificates are verified
and a View is decided here, for each period in which the same ones were valid, and nowhere else. What
comes of it is a value: openers that turn frames into rows, and the Views that these rows go through.
Nothing here knows Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from maia.credentials import ALL_ATTRIBUTES, Action, AuthorisationCertificate, Principal, SignedCertificate
from maia.credentials.requirements import NO_REQUIREMENT
from maia.errors import BadInput, Refusal, Unavailable
from maia.events import Attribute, AttributeUid, Instant, Kind, Kinds, is_of_event
from maia.places import places_of
from maia.policy import PolicyRefusal, Request, View
from maia.policy.answers import ANSWER_PREFIX, Answers, answered, kind_of_answer, part_of, read_for
from maia.policy.refinement import refined
from maia.policy.view import (
    Window,
    asks_of,
    converts_to,
    is_summarised,
    keeps,
    kinds_shown,
    publisher_asked,
    shows,
    split,
    touched,
)
from maia.policy.view_bytes import EVERYTHING, class_of, view_to_bytes
from maia.predicates import ALWAYS, Predicate, attributes_of, parse_predicate
from maia.sealing import LEVEL_NUMBERS
from maia.spark.governed.log_folder import FramesWanted, LogFolder
from maia.spark.governed.opener import AS_PUBLISHED, SHOWN_META, FrameOpener, ReadingPeriod
from maia.spark.governed.reader import (
    PERIODS_MAX,
    AcceptedSigners,
    FrameRequirements,
    Reader,
    RowsWithheld,
    Slice,
    accepted_signers,
    frame_requirements,
    slices_of,
)
from maia.spark.governed.right_watch import HeldRight, RightWatch
from maia.spark.keys.content_keys import KeysBegin, KeySource
from maia.spark.keys.key_server import DeskPass, JobDesk
from maia.types import SealingLevel, VerifiedType
from maia.types.definition import strongest

if TYPE_CHECKING:
    from maia.views.to_spark import TransformationKeySource

__all__ = [
    "Access",
    "TableQuery",
    "GovernedRead",
    "Keys",
    "Plan",
    "check_on_record",
    "governed_read",
    "steady_spans",
    "summary_of_frames",
]

_ABOVE_MAX: Final = 16
"""Holders of rights that a reader's may be made of, as far as they are looked at."""


Logs: TypeAlias = str | Sequence[str]
"""A log by its path or address, or several that may hold copies of the same publications."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What opens the frames of a sealed type: where keys come from, where they lie, whose frames count."""

    source: KeySource | None = field(repr=False)
    """None for a type that is not sealed: its executors only check whether the grant is open."""
    desk: JobDesk = field(repr=False)
    signers: Mapping[Principal, Sequence[SignedCertificate]] = field(repr=False)
    """The brokers that sign frames of the type, with the certificates by which they publish."""
    answers: Answers = field(default_factory=dict, repr=False)
    """The answers in its frames to what restricts the reader by attributes that it may not read."""
    begins: tuple[KeysBegin, ...] = ()
    """Since when keys are held, where that is known: a table warns of what it cannot show."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who reads a type of a log, and what opens it."""

    reader: Reader = field(repr=False)
    versions: tuple[VerifiedType, ...]
    """The type, after other versions of it whose attributes a right may name."""
    keys: Keys | None = field(default=None, repr=False)
    """Needed for a sealed type, and for a watch over any type: executors ask whether the grant is open."""
    watch: RightWatch | None = field(default=None, repr=False)
    """Tests the reader now, one-time questions included, and ends the grants when its right is gone."""
    secrets: TransformationKeySource | None = field(default=None, repr=False)
    """Where executors find the secrets of pseudonyms and noise."""


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What of a type is asked for."""

    filter: Predicate | str = ALWAYS
    requires: Predicate | str = NO_REQUIREMENT
    """What the identity statement of a frame's publisher must meet, at the moment of publication."""
    columns: Collection[str] | None = None
    """Opens only some attributes, by name."""
    since: Instant | None = None
    until: Instant | None = None
    """Moments of publication, both included."""
    with_meta: bool = False
    """Adds what a subscriber receives about an event beside its attributes, and what is hidden of it."""
    shown_as: VerifiedType | None = None
    """The type that the reader's right converts events into; filter and columns are in its names."""
    as_of: int | Instant | None = None
    """The log as it was when it had come to a position, or at a moment."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one period needs of each frame, and what of it decides."""

    slice: Slice
    kinds: Mapping[AttributeUid, Kind]
    asks: frozenset[AttributeUid]
    classes: frozenset[bytes | None] = AS_PUBLISHED
    """Which frames it shows: as they were published, or as a border released them for a class."""


@dataclass(frozen=True, slots=True)
class GovernedRead:
    """What one reader sees of one type: a plan for each period, oldest first, and what they share."""

    access: Access
    """With the reader as it was tested."""
    query: TableQuery
    request: Request
    slices: tuple[Slice, ...]
    plans: tuple[Plan, ...]
    delivered: tuple[Attribute, ...]
    requirements: FrameRequirements
    grant: DeskPass | None = field(default=None, repr=False)
    """With which executors ask for keys, and whether the right still holds: one for all that is read."""
    has_copies: bool = False
    """Whether a log may hold a publication as released for the reader, and for those above it."""

    @property
    def event_type(self) -> VerifiedType:
        """Return the version that was asked for."""
        return self.access.versions[-1]

    @property
    def is_summary(self) -> bool:
        """Return whether the right shows summaries, in any period."""
        return any(is_summarised(one.view) for one in self.slices)

    @property
    def parts(self) -> list[list[Plan]]:
        """Return the periods that are opened together; each that is summarised has groups of its own.

        What was converted before it was released has uids of another type, which may mean another thing.
        """
        summarised = [one for one in self.plans if is_summarised(one.slice.view)]
        others = [one for one in self.plans if not is_summarised(one.slice.view)]
        converted = [one for one in others if self._is_converted(one)]
        others = [one for one in others if not self._is_converted(one)]
        return [*(some for some in (others, converted) if some), *([one] for one in summarised)]

    @property
    def shown(self) -> tuple[Attribute, ...]:
        """Return the attributes that the right shows at any time; it hides the others always."""
        windows = [window for one in self.slices for window in one.view.windows]
        return tuple(one for one in self.delivered if any(shows(window, one.uid) for window in windows))

    @property
    def shown_class(self) -> bytes:
        """Return a digest that readers share exactly if all frames show the same to them.

        What is made with a reader's own secrets, or depends on what is said of the reader itself, it shares
        with no other. Whose frames count is a part of it: those of a signer that was revoked are gone.
        """
        own = self.requirements != FrameRequirements() or any(
            window.transformations for one in self.slices for window in one.view.windows
        )
        plans = [
            (
                int(one.slice.since),
                int(one.slice.until),
                [(int(first), int(last)) for first, last in one.slice.spans],
                view_to_bytes(one.slice.view),
                sorted((uid, kind.value) for uid, kind in one.kinds.items()),
                sorted(one.asks),
                sorted(mark or b"" for mark in one.classes),
                None in one.classes,
                _written_down(self._signers(one.slice, self.access.reader)),
            )
            for one in self.plans
        ]
        about = [one.id for one in self.access.versions], [one.uid for one in self.delivered]
        who = self.access.reader.principal.key if own else b""
        return sha256(msgspec.msgpack.encode((about, who, plans))).digest()

    def _is_converted(self, plan: Plan) -> bool:
        return self.query.shown_as is not None and None not in plan.classes

    @property
    def meta(self) -> list[str]:
        """Return the columns about the event itself that are shown."""
        return list(SHOWN_META) if self.query.with_meta else []

    @property
    def reads(self) -> frozenset[str]:
        """Return the attributes of the type that are opened, in any period, by name; no others are read."""
        names = {one.uid: one.name for version in self.access.versions for one in version.attributes}
        plans = [plan for plan in self.plans if not self._is_converted(plan)]
        return frozenset(names[uid] for plan in plans for uid in plan.kinds if uid in names)

    def with_frames(self) -> GovernedRead:
        """Return the same with the columns that say which row of which frame an event is."""
        if taken := [one.name for one in self.delivered if one.name.lower() in SHOWN_META]:
            raise BadInput(
                "PIPELINE-NAME-TAKEN",
                f"attribute `{taken[0]}` has the name of a column about the event itself",
            )
        return replace(self, query=replace(self.query, with_meta=True))

    def wanted(self, log: Logs, plans: Sequence[Plan]) -> FramesWanted:
        """Return which frames of one or several logs are read for some periods."""
        first, *others = map(str, places_of(log))
        since, until = min(one.slice.since for one in plans), max(one.slice.until for one in plans)
        wanted = FramesWanted(first, self.event_type.type_id, int(since), int(until))
        upto = self.query.as_of
        if isinstance(upto, Instant):
            wanted = replace(wanted, recorded_until=int(upto))
        elif upto is not None:
            if others:
                raise BadInput(
                    "PIPELINE-MOMENTS", "several logs have positions of their own: say as of which moment"
                )
            wanted = replace(wanted, last=upto)
        return replace(wanted, others=tuple(others), has_copies=bool(others) or self.has_copies)

    def opener(self, wanted: FramesWanted, plans: Sequence[Plan], *, with_meta: bool = False) -> FrameOpener:
        """Return what opens the frames of some periods."""
        sealing = strongest(version.sealing for version in self.access.versions)
        periods = tuple(
            ReadingPeriod(
                int(one.slice.since),
                int(one.slice.until),
                dict(one.kinds),
                one.asks,
                self._signers(one.slice, self.access.reader),
                tuple((int(first), int(last)) for first, last in one.slice.spans),
                one.classes,
            )
            for one in plans
        )
        return FrameOpener(
            wanted,
            periods,
            least_level=0 if sealing is None else LEVEL_NUMBERS[sealing.level],
            keys=self.grant,
            with_meta=with_meta or self.query.with_meta,
            requirements=self.requirements,
        )

    def begun(self) -> GovernedRead:
        """Return the same with a grant, which ends when the right does: it is looked after from now on."""
        keys, watch = self.access.keys, self.access.watch
        is_sealed = any(version.sealing is not None for version in self.access.versions)
        if is_sealed and (keys is None or keys.source is None):
            raise Unavailable(
                "PIPELINE-NO-KEYS", "events of this type are sealed: say where their keys come from"
            )
        uids = (uid for one in self.plans for uid in one.kinds if is_of_event(uid))
        grant = None if keys is None else keys.desk.open(keys.source, frozenset({None, *uids}))
        if watch is not None:
            watch.begin(self._held(grant))
        return replace(self, grant=grant)

    def _held(self, grant: DeskPass | None) -> HeldRight:
        """Return what the table depends on, and how to recheck it."""
        reader, keys = self.access.reader, self.access.keys

        def decide(reader: Reader) -> tuple[tuple[Slice, ...], list[AcceptedSigners]]:
            found = slices_of(self.request, reader, since=self.query.since, until=self.query.until)
            return found, [self._signers(one, reader) for one in found]

        shown = {} if keys is None else keys.signers
        certificates = (*reader.credentials, *(one for pool in shown.values() for one in pool))
        decided = (self.slices, [self._signers(one, reader) for one in self.slices])
        return HeldRight(reader, certificates, decided, decide, grant, self.request)

    def _signers(self, one: Slice, reader: Reader) -> AcceptedSigners:
        keys = self.access.keys
        if keys is None:
            return AcceptedSigners({}, frozenset())
        found = accepted_signers(
            keys.signers, self.access.versions, grounds=reader, since=one.since, until=one.until
        )
        return replace(found, about={uid: read_for(said) for uid, said in keys.answers.items()})

    def warn_of_gaps(self, log: Logs) -> None:
        """Warn of recorded events that the reader's right covers, and that its keys do not open."""
        begins = () if self.access.keys is None else self.access.keys.begins
        sealing = strongest(version.sealing for version in self.access.versions)
        if not begins or sealing is None:
            return
        ever = frozenset[AttributeUid | None]().union(*(one.uids for one in begins))
        what, by_attribute = self.event_type.name.name, sealing.level is SealingLevel.ATTRIBUTE
        for plan in self.plans:
            needs = frozenset[AttributeUid | None](part_of(uid) for uid in plan.asks if part_of(uid))
            needs = needs or frozenset({None, *(plan.asks if by_attribute else ())})
            first = min((one.since for one in begins if needs <= one.uids), default=None)
            if any(uid is not None and not uid.startswith(ANSWER_PREFIX) for uid in needs - ever):
                why: Unavailable = Unavailable(
                    "UNAVAILABLE-RESTRICTION-UNANSWERED",
                    f"a part of your right to `{what}` shows no row: it is restricted by attributes that "
                    "you may not read, and no broker answers for them; ask its issuer to show these too",
                )
            elif first is None or _holds_any(log, self.event_type.type_id, plan.slice.since, first):
                shown = "nothing is" if first is None else f"what was published before {first} is not"
                why = Unavailable(
                    "PIPELINE-KEYS-BEGIN-LATER",
                    f"your right to `{what}` begins before your keys: {shown} shown",
                )
            else:
                continue
            warnings.warn(f"{why.message} [{why.code}]", RowsWithheld, stacklevel=4)


def governed_read(access: Access, query: TableQuery = TableQuery()) -> GovernedRead:  # noqa: B008 - a frozen value
    """Decide what a reader sees, and have its right looked after.

    Raises the refusal of the kernel if it is nothing at any moment that was asked for.
    """
    event_type, shown_as, reader = access.versions[-1], query.shown_as, access.reader
    named = event_type if shown_as is None else shown_as
    wanted = query.filter
    wanted = parse_predicate(wanted, named.vocabulary) if isinstance(wanted, str) else wanted
    request = Request(reader.principal, Action.SUBSCRIBE, event_type.name, event_type, wanted)
    if access.watch is not None:
        access = replace(access, reader=(reader := access.watch.tested(reader, request)))
    slices = slices_of(request, reader, since=query.since, until=query.until)
    _check_result(slices, shown_as)
    delivered = _delivered(named, query.columns)
    asking = (_asking(one, access.keys, access.versions) for one in slices)
    known = _known_kinds(access.versions, access.keys)
    above = tuple(_seen_above(request, reader, query)) if _crosses_borders(access.versions) else ()
    plans = tuple(plan for one in asking for plan in _plans(one, delivered, above, known, shown_as))
    requirements = frame_requirements(reader, query.requires)
    read = GovernedRead(access, query, request, slices, plans, delivered, requirements)
    read = replace(read, has_copies=len({class_of(view_to_bytes(one)) for one in above}) > 1)
    if read.is_summary:
        if query.with_meta:
            raise summary_of_frames()
        read = replace(read, requirements=replace(requirements, for_all_alone=True))
    return (read.with_frames() if query.with_meta else read).begun()


def check_on_record(versions: Iterable[VerifiedType], ledger: object) -> None:
    """Refuse to read events whose owner demands a record, where none would be made."""
    if ledger is None and any(one.definition.ledger for one in versions):
        raise Refusal(
            "PIPELINE-LEDGER-REQUIRED",
            "what is read of this type has to be on record: say where your ledger is (`ledger`, --record)",
        )


def summary_of_frames() -> BadInput:
    """Return the refusal of a stream, or of frames, where a right shows summaries."""
    return BadInput(
        "INPUT-SUMMARY-OF-FRAMES",
        "your right shows summaries: they are a table that does not grow, without frames",
    )


def steady_spans(one: Slice) -> Sequence[tuple[Instant, Instant]]:
    """Return the spans in which a summary's periods may lie; raise if they are too many."""
    if len(one.spans) > PERIODS_MAX:
        raise BadInput(
            "PIPELINE-PERIODS",
            f"your right is interrupted more than {PERIODS_MAX} times in the time asked for",
        )
    return one.spans or ((one.since, one.until),)


def _check_result(slices: Sequence[Slice], shown_as: VerifiedType | None) -> None:
    """Refuse to show events under the names of another type than the one that they become."""
    becomes = {converts_to(window) for one in slices for window in one.view.windows}
    for result in becomes:
        if result != (None if shown_as is None else shown_as.name):
            named = "its own" if result is None else f"`{result.name}`"
            raise BadInput(
                "INPUT-SHOWN-AS", f"your right shows events of this type as {named}: name that one"
            )


def _written_down(signers: AcceptedSigners) -> list[object]:
    """Return whose frames count, and when, in one order."""
    return [
        (key, sorted((one.since, one.until, sorted(one.uids), view_to_bytes(one.view)) for one in rights))
        for key, rights in sorted(signers.by_key.items())
    ]


def _delivered(event_type: VerifiedType, columns: Collection[str] | None) -> tuple[Attribute, ...]:
    if columns is not None and (unknown := [name for name in columns if name not in event_type.vocabulary]):
        shown = ascii(str(unknown[0])[:64])[1:-1]
        raise BadInput("PIPELINE-COLUMN", f"`{shown}` is no attribute of `{event_type.name.name}`")
    return tuple(one for one in event_type.attributes if columns is None or one.name in columns)


def _holds_any(log: Logs, type_id: bytes, since: Instant, until: Instant) -> bool:
    """Return whether a log may hold frames that were published from one moment up to another."""
    found = (LogFolder(str(place)).of_type(type_id) for place in places_of(log))
    return since < until and any(
        one.published_until >= since and one.published_from < until for log in found for one in log.stretches
    )


def _asking(one: Slice, keys: Keys | None, versions: Sequence[VerifiedType]) -> Slice:
    """Return a period whose View asks answers for what the reader may not read."""
    if keys is None or not keys.answers:
        return one
    sealing, windows = strongest(version.sealing for version in versions), one.view.windows
    readable = frozenset[AttributeUid | None]()
    if sealing is None or sealing.level is SealingLevel.ATTRIBUTE:
        known = {uid for version in versions for uid in version.kinds}
        readable = frozenset(uid for uid in known if any(keeps(window, uid) for window in windows))
    elif not all(window.transformations for window in windows):
        readable = frozenset({None})
    return replace(one, view=answered(one.view, keys.answers, readable))


def _plans(
    one: Slice,
    delivered: Sequence[Attribute],
    above: Sequence[View],
    known: Kinds,
    shown_as: VerifiedType | None,
) -> Iterator[Plan]:
    """Yield what a period needs of frames as they were published, and of those that a border released.

    What was released for the reader's class is what its View shows. Where the View would not show
    that again, because it transforms or asks about what it hides, such frames have a plan of their own. So
    has what was released for one of those `above`, of whose rights the reader's was made: a broker of its
    organisation records that.
    """
    plan, view = _planned(one, delivered, known), one.view
    if not above:
        yield plan
        return
    # Whoever records everything records the events themselves, also behind a border.
    whole = frozenset({None, EVERYTHING})
    if is_summarised(view):
        yield replace(plan, classes=whole)
        return
    for held in above:
        rest, released_for = refined(held, view), class_of(view_to_bytes(held))
        if rest is not None and held.windows != view.windows and released_for != EVERYTHING:
            made = {uid: kind for window in held.windows for uid, kind in kinds_shown(window, known).items()}
            yield replace(
                _planned(replace(one, view=rest), delivered, {**known, **made}),
                classes=frozenset({released_for}),
            )
    mark = class_of(view_to_bytes(view))
    if _shows_it_again(view):
        yield replace(plan, classes=whole | {mark})
        return
    yield replace(plan, classes=whole)
    released = replace(one, view=replace(view, windows=(Window(ALWAYS, ALL_ATTRIBUTES),)))
    # What was converted before it was released has the attributes of the type that it became.
    named = known if shown_as is None else shown_as.kinds
    yield replace(_planned(released, delivered, named), classes=frozenset({mark}))


def _crosses_borders(versions: Sequence[VerifiedType]) -> bool:
    """Return whether frames of a type are released at borders; sealed ones cross as they are."""
    return all(version.sealing is None for version in versions)


def _seen_above(request: Request, reader: Reader, query: TableQuery) -> Iterator[View]:
    """Yield what the reader sees itself, whatever it selects, and those who have passed its right on."""
    issued = (signed.certificate for signed in reader.pool)
    rights = (one for one in issued if isinstance(one, AuthorisationCertificate))
    holders = {one.subject: None for one in rights if isinstance(one.subject, Principal)}
    for holder in islice({reader.principal: None, **holders}, _ABOVE_MAX):
        asked = replace(request, principal=holder, filter=ALWAYS)
        with suppress(PolicyRefusal, BadInput):  # that of the reader itself was looked at before
            found = slices_of(asked, reader, since=query.since, until=query.until)
            yield from {one.view.windows: one.view for one in found}.values()


def _shows_it_again(view: View) -> bool:
    """Return whether a View shows all of what it has shown."""
    (window, *others) = view.windows
    shown = window.attributes
    asked = attributes_of(window.admits)
    return not others and not window.transformations and (shown is ALL_ATTRIBUTES or asked <= shown)


def _planned(one: Slice, delivered: Sequence[Attribute], known: Kinds) -> Plan:
    view = split(one.view).front if is_summarised(one.view) else one.view
    windows, names = view.windows, {attribute.uid for attribute in delivered}
    interest = attributes_of(view.interest)
    transforms = [window for window in windows if window.transformations]
    asks = frozenset().union(*map(asks_of, windows))
    if transforms:
        interest = frozenset(uid for uid in interest & known.keys() if any(keeps(w, uid) for w in windows))
        names |= interest
        made = frozenset[AttributeUid]().union(*map(touched, transforms))
        asks = frozenset(uid for uid in asks if uid in known or uid not in made)
    # What a transformation shows it has made of what it reads, which is among what is asked.
    shown = {
        uid
        for uid in names
        for window in windows
        if (shows(window, uid) if not window.transformations else keeps(window, uid))
    }
    return Plan(one, _kinds(asks | interest | shown, known) | _of_publisher(view), asks | interest)


def _of_publisher(view: View) -> dict[AttributeUid, Kind]:
    """Return the columns that the statements of publishers fill, which conditions of rules ask about."""
    asked = publisher_asked(view)
    if (uid := next((uid for uid, kinds in asked.items() if len(kinds) > 1), None)) is not None:
        raise BadInput(
            "PIPELINE-UNKNOWN-TERMS", f"your right compares `{uid}` with values of two kinds: a table has one"
        )
    return {uid: kind for uid, (kind,) in asked.items()}


def _known_kinds(versions: Sequence[VerifiedType], keys: Keys | None) -> Kinds:
    """Return the kinds of all that frames of a type may have, answers among them."""
    answers = {} if keys is None else {uid: kind_of_answer(said) for uid, said in keys.answers.items()}
    return {**{uid: kind for one in versions for uid, kind in one.kinds.items()}, **answers}


def _kinds(uids: Collection[AttributeUid], known: Kinds) -> dict[AttributeUid, Kind]:
    if not known.keys() >= set(uids):
        # Read as missing, it could make a restriction true that is not.
        raise BadInput(
            "PIPELINE-UNKNOWN-TERMS",
            "your right depends on an attribute of another version: hand that version over",
        )
    return {uid: known[uid] for uid in sorted(uids)}
