"""Which local subscribers see what of a frame?

Subscribers with the same View over the same version of a type form a class.
A frame is matched, screened, translated and serialised once for a class,
however many links it leaves through. What is matched is a filter over transit
uids that admits at least what the View shows; what is delivered is exactly
what `see` of the policy kernel shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from maia.bounded_map import BoundedMap
from maia.broker.audiences.identity_classes import LinkIdentities, Partition
from maia.broker.keys.keys import SealingKeys
from maia.broker.links.links import OWN_LINK
from maia.broker.links.transit import Labels, Transit, author_of_part, without_proof
from maia.broker.turn import Turn
from maia.canonical import SExpression, write_canonical
from maia.credentials import ALL_ATTRIBUTES, AllAttributes
from maia.credentials.encoding.parts import transformation_to_expression
from maia.credentials.requirements import NO_REQUIREMENT, joined_with_filter, of_path
from maia.events import (
    ATTRIBUTES_MAX,
    AttributeUid,
    Column,
    Frame,
    Instant,
    Kind,
    Kinds,
    PresentValue,
    is_of_event,
)
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.policy import View
from maia.policy.answers import Answers, answered
from maia.policy.refinement import refined
from maia.policy.view import (
    Window,
    asks_of,
    converts_to,
    is_summarised,
    keeps,
    kinds_shown,
    publisher_asked,
    touched,
)
from maia.policy.view_bytes import EVERYTHING, class_of, view_to_bytes
from maia.predicates import (
    ALWAYS,
    AllOf,
    AnyOf,
    Predicate,
    attributes_of,
    predicate_to_expression,
    simplified,
)
from maia.predicates.meaning import RowReader, is_quickly_read, row_reader
from maia.routing.matching.index import MatchIndex
from maia.types import VerifiedType
from maia.views import See, to_python
from maia.views.frame_transformers import SeeFrame, transforming_frames
from maia.views.open_periods import ClosedPeriod, GroupRoom, OpenPeriods
from maia.views.plan import transforms
from maia.wire.codec import encode_known
from maia.wire.columns import frame_to_columns
from maia.wire.effects import LinkId, Send
from maia.wire.messages import Author, Deliver
from maia.wire.messages import Column as WireColumn

# ------------------------------------------------------------ summaries
#
# The frames of a class of subscribers whose View summarises are counted as they come, and a timer
# delivers what they have come to when their period closes. A member gets the periods that begin after it
# has subscribed and close before it leaves: so nothing is delivered of a time in which its right may have
# been another, and a broker that restarts delivers nothing of a period that it has seen in part.
#
# The publisher of a derived event is this broker, and its moment the end of the period. An event that
# requires something of subscribers is in no summary: what it comes to would reach all members alike.


_ROWS_AT_ONCE: Final = 1000
_STREAM_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class PeriodDelivery:
    """Some of the events that a period has come to, and who gets them."""

    period: ClosedPeriod
    stream: bytes
    number: int
    rows: Frame = field(repr=False)
    members: Mapping[LinkId, list[int]]


@dataclass(slots=True)
class ClassSummaries:
    """What the events for one class of subscribers come to."""

    periods: OpenPeriods = field(repr=False)
    stream: bytes
    joined: dict[tuple[LinkId, int], Instant] = field(default_factory=dict)
    numbered: int = 0
    """How many frames of derived events were delivered."""
    right: bytes = b""
    """How the last frame that was counted names its right; nothing if it was not signed."""

    @classmethod
    def begin(
        cls, key: bytes, view: View, keys: TransformationKeys, room: GroupRoom, now: Instant
    ) -> ClassSummaries:
        """Count from now on; after a restart the frames are of another stream."""
        stream = sha256(b"maia/1/summary\x00" + key + int(now).to_bytes(8, "big", signed=True)).digest()
        return cls(OpenPeriods(view, keys, now=now, room=room), stream[:_STREAM_BYTES])

    def take(self, transit: Transit, rows: Sequence[int], now: Instant) -> None:
        """Count rows that the window of the View admits."""
        if transit.requires:
            self.periods.left_out += len(rows)
            return
        self.periods.take(transit.cut(rows).frame, transit.published_at, now)

    def close(self, now: Instant) -> Iterator[PeriodDelivery]:
        """Yield what is delivered of the periods that are closed by now."""
        for period in self.periods.close(now):
            members: dict[LinkId, list[int]] = {}
            for (link, ref), joined in self.joined.items():
                if joined <= period.start:
                    members.setdefault(link, []).append(ref)
            if not members:
                continue
            for first in range(0, period.frame.rows, _ROWS_AT_ONCE):
                last = min(first + _ROWS_AT_ONCE, period.frame.rows)
                self.numbered += 1
                rows = period.frame.take(range(first, last))
                yield PeriodDelivery(period, self.stream, self.numbered, rows, members)


# ------------------------------------------------------------

CLASS_KEY_BYTES: Final = 16
"""A class is known to other brokers by its key, and their ids of what is wanted have as many bytes."""
READ_ONE_BY_ONE: Final = 8
"""Up to this many classes, reading each one's filter costs less than asking the index."""

_BEGINNING: Final = Instant(0)
_SETS_REMEMBERED: Final = 1024
_SORTS_REMEMBERED: Final = 64
_ENCODER: Final = msgspec.msgpack.Encoder()
_AS_IT_IS: Final = (Window(ALWAYS, ALL_ATTRIBUTES),)
_BEFORE_REFS: Final = 2
"""How many bytes of a delivery come before its references: that it is an array, and its number."""


class Seen(msgspec.Struct, frozen=True):
    """What a class of subscribers sees of a frame, ready to be sent."""

    rows: int
    columns: list[WireColumn]
    shown: Mapping[frozenset[AttributeUid], Sequence[int]]
    """The attributes that are shown, with the numbers of the rows that show them."""
    author: Author | None = None
    """What goes along about the publisher: its signature as far as it covers these columns."""


Members: TypeAlias = Sequence[Mapping[LinkId, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class _Sort:
    """What very many classes have in common."""

    event_type: VerifiedType = field(repr=False)
    shown: frozenset[AttributeUid] | None = field(repr=False)
    requires: Predicate = field(repr=False)
    is_kept: bool
    is_quickly_read: bool
    keys: TransformationKeys = field(repr=False, compare=False)
    of_path: Predicate = field(default=NO_REQUIREMENT, repr=False)
    """What its members ask of the routers on the way."""
    kinds: Kinds | None = field(default=None, repr=False)
    """The kinds of what was made at a border; None for what is made here."""


@dataclass(slots=True)
class _Made:
    """What is made for a class when a frame is first matched by it, and kept for the next one."""

    see: See | None = field(default=None, repr=False)
    see_frame: SeeFrame | None = field(default=None, repr=False)
    read: RowReader | None = field(default=None, repr=False)
    asked: frozenset[AttributeUid] | None = None
    """What rules ask of publishers."""
    parts: Partition | None = field(default=None, repr=False)
    """Its members by identity, once a frame required something of them."""
    summaries: ClassSummaries | None = field(default=None, repr=False)
    """What its frames come to, if its members see nothing else."""


class SubscriberGroup(msgspec.Struct, eq=False, gc=False):
    """Everybody who sees the same of one type version. There may be a million: what is rare is elsewhere."""

    key: bytes
    sort: _Sort
    basis: View
    """What its members see, whatever they select of it."""
    interest: Predicate
    """What they select."""
    routed: Predicate
    """Matched here: admits whatever the View shows, of publishers that meet the requirement."""
    link: LinkId | None = None
    ref: int = 0
    """Link and reference of the one subscriber; most classes have no other."""
    others: dict[LinkId, list[int]] | None = None
    """The references of each link, once there are several; in place of `link` and `ref` then."""
    made: _Made | None = None
    granted: View | None = None
    """What its members' rights show, if what restricts it is asked of answers; `basis` asks them."""

    def __repr__(self) -> str:
        """Show what it is known by: its View may have restrictions that no reader of a log may read."""
        return f"SubscriberGroup(key={self.key.hex()})"

    @property
    def view(self) -> View:
        """Return what its members see."""
        return replace(self.basis, interest=self.interest)

    @property
    def seen(self) -> bytes:
        """Return what its members see, whatever they select, as other brokers are told it."""
        view = self.granted or self.basis
        return _written_view(view.windows, view.recipient)

    @property
    def subscribers(self) -> int:
        """Return how many subscriptions are in it."""
        return 1 if self.others is None else sum(map(len, self.others.values()))

    @property
    def event_type(self) -> VerifiedType:
        """Return the version that its members speak."""
        return self.sort.event_type

    @property
    def shown(self) -> frozenset[AttributeUid] | None:
        """Return the visible columns, if matching alone decides which rows are seen."""
        return self.sort.shown

    @property
    def requires(self) -> Predicate:
        """Return what its members ask of publishers."""
        return self.sort.requires

    @property
    def is_kept(self) -> bool:
        """Return whether its members are served from the event log and not at once."""
        return self.sort.is_kept

    @property
    def is_quickly_read(self) -> bool:
        """Return whether its filter is read down the columns in little time."""
        return self.sort.is_quickly_read

    @property
    def summaries(self) -> ClassSummaries | None:
        """Return what its frames come to, if its members see nothing else."""
        return None if self.made is None else self.made.summaries

    @property
    def reader(self) -> RowReader:
        """Return what reads the matched filter down the columns, made when it is first needed."""
        made = self.making()
        if made.read is None:
            made.read = row_reader(self.routed)
        return made.read

    def making(self) -> _Made:
        """Return the place for what is made when it is first needed."""
        if self.made is None:
            self.made = _Made()
        return self.made

    def admitted(
        self, requires: bytes, identities: LinkIdentities, now: Instant
    ) -> list[Mapping[LinkId, list[int]]]:
        """Return those members that meet what a publisher requires."""
        made = self.making()
        made.parts = identities.partition(self.members, made.parts, now)
        return identities.admitted(requires, made.parts)

    @property
    def asks(self) -> frozenset[AttributeUid]:
        """Return the published attributes that decide what this class sees."""
        windows = self.basis.windows
        made = frozenset.intersection(*map(touched, windows)) if windows else frozenset()
        asked = attributes_of(self.interest) - made
        return asked.union(attributes_of(self.routed), *map(asks_of, windows))

    @property
    def members(self) -> Mapping[LinkId, list[int]]:
        """Return the references of each link; not to be changed by the caller."""
        if self.others is not None:
            return self.others
        return {} if self.link is None else {self.link: [self.ref]}

    def join(self, member: tuple[LinkId, int]) -> None:
        """Add a reference behind those that are here."""
        if self.others is None:
            self.others, self.link = dict(self.members), None
        link, ref = member
        self.others.setdefault(link, []).append(ref)
        self._changed()

    def leave(self, member: tuple[LinkId, int]) -> None:
        """Take a reference out."""
        self._changed()
        if self.others is None:
            self.link = None
            return
        link, ref = member
        self.others[link].remove(ref)
        if not self.others[link]:
            del self.others[link]

    def _changed(self) -> None:
        if self.made is not None:
            self.made.parts = None

    def seen_of(self, transit: Transit, missing: frozenset[AttributeUid]) -> Seen | None:
        """Return what this class sees of a frame that is for one of its members alone; None for nothing.

        A class that asks about an attribute that is `missing` gets nothing of the frame.
        """
        if self.summaries is not None or (missing and not missing.isdisjoint(self.asks)):
            return None
        if self.sort.of_path is not NO_REQUIREMENT:
            return None  # what was kept says nothing of its path
        rows = self.reader(range(transit.frame.rows), transit.matched)
        return self.screened(transit, rows) if rows else None

    def screened(self, transit: Transit, rows: Sequence[int]) -> Seen | None:
        """Return what this class sees of `rows`, in the columns of its version; None for nothing."""
        cut = transit.cut(rows)
        if self.shown is not None:
            author = author_of_part(cut.author, cut.frame, range(cut.frame.rows), self.shown)
            shown = {self.shown: cut.kept or range(cut.frame.rows)}
            return Seen(cut.frame.rows, cut.columns(self.shown), shown, _for_subscribers(author))
        if transforms(self.basis) and len(self.basis.windows) == 1:
            return self._transformed(cut)
        return self._screened_row_by_row(cut)

    def _transformed(self, cut: Transit) -> Seen | None:
        """Return the outcome by column; what no transformation touches goes on as it came."""
        made = self.making()
        see = made.see_frame = made.see_frame or transforming_frames(self.view, self.sort.keys)
        outcome, rows = see(self._as_rules_see(cut))
        if outcome is None:
            return None
        kinds, came = self.kinds, cut.frame.columns
        shown = {uid: column for uid, column in outcome.columns.items() if uid in kinds}
        kept = {uid for uid, column in shown.items() if came.get(uid) is column}
        new = Frame(outcome.rows, {uid: column for uid, column in shown.items() if uid not in kept})
        numbers = [cut.kept[row] for row in rows] if cut.kept else rows
        author = _for_subscribers(without_proof(cut.author))
        columns = [*cut.columns(kept), *frame_to_columns(new)]
        return Seen(outcome.rows, columns, {frozenset(shown): numbers}, author)

    def _as_rules_see(self, cut: Transit) -> Frame:
        """Return a frame with what the conditions of rules ask of its publisher, if they do."""
        made = self.making()
        if made.asked is None:
            made.asked = frozenset(publisher_asked(self.basis))
        return as_rules_see(cut, made.asked)

    def _screened_row_by_row(self, cut: Transit) -> Seen | None:
        made = self.making()
        see = made.see = made.see or to_python(self.view, self.sort.keys)
        numbers = cut.kept or range(cut.frame.rows)
        parts: list[Mapping[AttributeUid, PresentValue]] = []
        shown: dict[frozenset[AttributeUid], list[int]] = {}
        for number, event in zip(numbers, self._as_rules_see(cut).events(), strict=True):
            part = see(event)
            if part is not None:
                part = {uid: value for uid, value in part.items() if is_of_event(uid)}
                parts.append(part)
                shown.setdefault(frozenset(part), []).append(number)
        if not parts:
            return None
        columns = {
            uid: Column(kind, tuple(part.get(uid) for part in parts))
            for uid, kind in self.kinds.items()
            if any(uid in part for part in parts)
        }
        author = _for_subscribers(without_proof(cut.author))
        return Seen(len(parts), frame_to_columns(Frame(len(parts), columns)), shown, author)

    @property
    def kinds(self) -> Kinds:
        """Return the kinds of what is delivered: of the version, or of what transformations make of it."""
        if self.sort.kinds is not None:
            return self.sort.kinds
        windows = self.basis.windows
        if not any(converts_to(window) for window in windows):
            return self.event_type.kinds
        return {uid: kind for one in windows for uid, kind in kinds_shown(one, self.event_type.kinds).items()}


class LocalSubscribers:
    """The local subscribers of one type, by class."""

    __slots__ = (
        "_answers",
        "_behind",
        "_few",
        "_has_whole",
        "_is_released",
        "_keys",
        "_matches",
        "_own",
        "_room",
        "_served",
        "_served_classes",
        "_sorts",
        "_whole",
        "classes",
        "summarising",
    )

    def __init__(self, keys: TransformationKeys = NO_KEYS, room: GroupRoom | None = None) -> None:
        """Begin with no subscriber; `keys` are the secrets of pseudonyms and noise that are at hand.

        `room` is how much summaries may remember, those of other types included.
        """
        self._keys, self._room = keys, GroupRoom() if room is None else room
        self._answers: tuple[Answers, frozenset[AttributeUid | None]] = {}, frozenset()
        """What restricts subscribers of a sealed type by hidden attributes, and what is readable here."""
        self._sorts: BoundedMap[tuple[object, ...], _Sort] = BoundedMap(_SORTS_REMEMBERED)
        self.classes: dict[bytes, SubscriberGroup] = {}
        self._matches: MatchIndex[bytes] | None = None
        """Made when a frame is first matched against many classes."""
        self._few: list[tuple[bytes, RowReader]] | None = None
        """The filters of few classes that are quickly read, until a class comes, goes or changes."""
        self.summarising: dict[bytes, ClassSummaries] = {}
        """The classes whose View summarises."""
        self._behind: dict[bytes, LocalSubscribers] = {}
        """Those who see what was released for a class, once something was (`streams/borders.py`)."""
        self._whole: dict[bytes, None] = {}
        """The classes of those who see everything and select nothing: this broker's own log, for one."""
        self._has_whole = False
        """Whether events have come over a border for these, from which all are served then."""
        self._own: dict[bytes, SubscriberGroup] = {}
        """What this broker is sent for itself, by its own right."""
        self._is_released = False
        """Whether frames come over a border."""
        self._served: dict[bytes, tuple[bytes, View | None]] = {}
        """By group: the class whose frames it is served from, and how, until this broker's own change."""
        self._served_classes: frozenset[bytes] | None = None
        """All of these, until a group comes or goes."""

    def behind(self, view: bytes) -> LocalSubscribers:
        """Return those who see what was released for a class at a border: as it is, if they select it.

        A broker that is sent everything of a type has the events themselves. All its subscribers are served
        from these, each by its own View; what was released for some of them beside that is not needed. So
        it is with what this broker is sent for itself, for all whose rights were made from the same one: a
        member that is away, or comes later, finds in the log what its organisation's broker was sent.
        Other summaries are made at the border, whoever else is here: who is may change within a period.
        """
        self._is_released = True
        if self._whole and view == EVERYTHING:
            if not self._has_whole:
                self._has_whole = True
                self._behind.clear()
            return self
        found = self._behind.get(view)
        if found is None:
            found = LocalSubscribers(self._keys, self._room)
            for group in self.classes.values():
                served_as, rest = self._served_from(group)
                if served_as == view and self._needs_released(group):
                    self._behind[view] = found
                    for link, refs in group.members.items():
                        for ref in refs:
                            found.join_behind(group, (link, ref), rest)
        return found

    def _needs_released(self, group: SubscriberGroup) -> bool:
        """Return whether a group is shown what is released for a class, and not made from whole events."""
        return group.summaries is not None or not self._has_whole

    def _served_from(self, group: SubscriberGroup) -> tuple[bytes, View | None]:
        """Return the class whose frames a group is served from, and its View of these: None for as it is."""
        found = self._served.get(group.key)
        if found is None:
            granted, found = group.granted or group.basis, (class_of(group.seen), None)
            for own in self._own.values():
                rest = refined(own.granted or own.basis, granted)
                if rest is not None and own.seen != group.seen:
                    found = class_of(own.seen), rest
            self._served[group.key] = found
        return found

    def counts(self, group: SubscriberGroup, view: bytes | None) -> bool:
        """Return whether a group's summaries are made of frames of a class here, and not at the border."""
        return view is None or self._served_from(group)[0] == view

    def is_served_from(self, view: bytes) -> bool:
        """Return whether subscribers here are shown what was released for a class."""
        return view == EVERYTHING if self._whole else view in self._released_for

    def is_first_behind(self, group: SubscriberGroup) -> bool:
        """Return whether frames were released for others here, and none for the class of this group yet."""
        return self._is_released and self._served_from(group)[0] not in self._behind

    @property
    def is_mixed(self) -> bool:
        """Return whether frames are released for some of those who are here, and perhaps not for others."""
        return self._is_released and len(self._released_for) > 1

    @property
    def _released_for(self) -> frozenset[bytes]:
        """Return the classes whose frames are shown here."""
        if self._served_classes is None:
            self._served_classes = frozenset(self._served_from(one)[0] for one in self.classes.values())
        return self._served_classes

    def join_behind(self, group: SubscriberGroup, member: tuple[LinkId, int], rest: View | None) -> None:
        """Let a member of a group see what was released for its class, or the rest of its View of that."""
        view = View(_AS_IT_IS if rest is None else rest.windows, interest=group.interest)
        shown = _released_columns(group) if rest is None else _shown_by_the_one_window(view, group.event_type)
        self.join(
            group.key,
            view if rest is None else replace(view, recipient=rest.recipient),
            group.event_type,
            member,
            is_kept=group.is_kept,
            requires=group.requires,
            released=(shown, group.kinds),
        )

    def join(  # noqa: PLR0913 - all but the first are named at the call
        self,
        key: bytes,
        view: View,
        event_type: VerifiedType,
        member: tuple[LinkId, int],
        *,
        is_kept: bool = False,
        requires: Predicate = NO_REQUIREMENT,
        now: Instant = _BEGINNING,
        basis: View | None = None,
        released: tuple[frozenset[AttributeUid] | None, Kinds] | None = None,
    ) -> bool:
        """Add a reference to its class; say whether the class is new.

        `basis` is the View without its interest, which other classes may share. `released` are the visible
        columns and all kinds of what was made at a border, which this View has no part in.
        """
        known = self.classes.get(key)
        is_new = known is None
        if known is None:
            view, granted = self._asking(view), basis or view
            basis = self._asking(granted)
            routed = joined_with_filter(routed_filter(view), requires)
            sort = self._sort(
                event_type,
                _shown_by_the_one_window(view, event_type) if released is None else released[0],
                requires,
                is_kept=is_kept,
                is_quick=is_quickly_read(routed),
                kinds=None if released is None else tuple(released[1].items()),
            )
            known = SubscriberGroup(key, sort, basis, view.interest, routed, *member)
            known.granted = None if basis is granted else granted
            self.classes[key], self._few, self._served_classes = known, None, None
            if routed == ALWAYS and released is None and known.seen == EVERYTHING:
                self._whole[key] = None
            if member[0] == OWN_LINK and released is None and view.interest == ALWAYS:
                self._own[key] = known
                self._forget_served()
            if not is_kept and self._matches is not None:
                self._matches.add(key, routed)
            if is_summarised(view):
                summaries = ClassSummaries.begin(key, view, self._keys, self._room, now)
                summaries.joined[member] = now
                self.summarising[key] = known.making().summaries = summaries
        else:
            known.join(member)
            if known.summaries is not None:
                known.summaries.joined[member] = now
        if self._behind and self._needs_released(known):
            served_as, rest = self._served_from(known)
            if (behind := self._behind.get(served_as)) is not None and not behind.has(key, member):
                behind.join_behind(known, member, rest)
        return is_new

    def has(self, key: bytes, member: tuple[LinkId, int]) -> bool:
        """Return whether a reference is in a class."""
        known = self.classes.get(key)
        return known is not None and member[1] in known.members.get(member[0], ())

    def _forget_served(self) -> None:
        """Find out anew from which frames each group is served."""
        self._served_classes = None
        self._served.clear()
        self._behind.clear()

    def _asking(self, view: View) -> View:
        """Return a View that asks answers for what cannot be read here."""
        answers, readable = self._answers
        return answered(view, answers, readable) if answers else view

    def follow_answers(self, answers: Answers, readable: frozenset[AttributeUid | None]) -> None:
        """Ask these answers from now on, for what is not readable here."""
        if self._answers == (answers, readable):
            return
        self._answers = answers, readable
        for key, known in self.classes.items():
            granted = known.granted or known.basis
            basis = self._asking(granted)
            if basis == known.basis:
                continue
            known.granted, known.basis = None if basis is granted else granted, basis
            known.routed = joined_with_filter(routed_filter(known.view), known.requires)
            if known.made is not None:
                known.made.see = known.made.see_frame = known.made.read = None
            self._few = None
            if not known.is_kept and self._matches is not None:
                self._matches.remove(key)
                self._matches.add(key, known.routed)

    def _sort(
        self,
        event_type: VerifiedType,
        shown: frozenset[AttributeUid] | None,
        requires: Predicate,
        *,
        is_kept: bool,
        is_quick: bool,
        kinds: tuple[tuple[AttributeUid, Kind], ...] | None,
    ) -> _Sort:
        """Return the same object for equal sorts."""
        # By the identity of the type, which the sort keeps from being given to another one.
        asked = id(event_type), shown, requires, is_kept, is_quick, kinds
        found = self._sorts.use(asked)
        if found is None:
            made = None if kinds is None else dict(kinds)
            path = of_path(requires)
            found = _Sort(event_type, shown, requires, is_kept, is_quick, self._keys, path, made)
            self._sorts.put(asked, found)
        return found

    def represents(self, key: bytes, member: tuple[LinkId, int]) -> bool:
        """Return whether others were sent a class on behalf of this reference: the first one is shown."""
        known = self.classes[key]
        if known.others is None:
            return (known.link, known.ref) == member
        link, refs = next(iter(known.others.items()))
        return (link, refs[0]) == member

    def leave(self, key: bytes, member: tuple[LinkId, int]) -> bool:
        """Take a reference out of its class; say whether the class is gone."""
        known = self.classes[key]
        view = self._served_from(known)[0] if self._behind else None
        if view is not None and view in self._behind and self._behind[view].has(key, member):
            self._behind[view].leave(key, member)
            if not self._behind[view].classes:
                del self._behind[view]
        known.leave(member)
        if known.summaries is not None:
            del known.summaries.joined[member]
        if known.link is not None or known.others:
            return False
        del self.classes[key]
        self._served_classes = None
        if key in self._whole:
            del self._whole[key]
            if not self._whole:
                self._has_whole = False
                self._behind.clear()
        self._served.pop(key, None)
        if self._own.pop(key, None) is not None:
            self._forget_served()
        self._few = None
        if known.summaries is not None:
            self.summarising.pop(key).periods.drop()
        if not known.is_kept and self._matches is not None:
            self._matches.remove(key)
        return True

    @property
    def matches(self) -> MatchIndex[bytes]:
        """Return the filters of all classes that are served at once."""
        if self._matches is None:
            self._matches = MatchIndex()
            for key, group in self.classes.items():
                if not group.is_kept:
                    self._matches.add(key, group.routed)
        return self._matches

    def take_left_out(self) -> int:
        """Return how many events were left out of summaries since this was asked last."""
        left_out = 0
        for one in self.summarising.values():
            left_out += one.periods.left_out
            one.periods.left_out = 0
        return left_out

    def closes_after(self, now: Instant) -> Instant | None:
        """Return when the first period of a summary is closed from now on; None without summaries."""
        return min((one.periods.closes_after(now) for one in self.summarising.values()), default=None)

    def close_periods(self, now: Instant) -> Iterator[PeriodDelivery]:
        """Yield what is delivered of summaries whose periods are closed by now."""
        for one in list(self.summarising.values()):
            yield from one.close(now)

    def matched(self, frame: Frame) -> Mapping[bytes, Sequence[int]]:
        """Return the rows that each class may have, in order; classes without any are left out."""
        few = self._few
        if few is None:
            is_few = len(self.classes) <= READ_ONE_BY_ONE
            if not is_few or not all(one.is_quickly_read for one in self.classes.values()):
                return self.matches.match_frame(frame)
            few = self._few = [(key, one.reader) for key, one in self.classes.items() if not one.is_kept]
        all_rows = range(frame.rows)
        return {key: rows for key, reader in few if (rows := reader(all_rows, frame))}


def class_key(view: View, event_type: VerifiedType, requires: Predicate = NO_REQUIREMENT) -> bytes:
    """Return what two subscriptions have in common exactly if they see the same; `until` does not count."""
    windows: tuple[SExpression, ...] = tuple(
        (
            predicate_to_expression(window.admits),
            _attributes_expression(window.attributes),
            *map(transformation_to_expression, window.transformations),
        )
        for window in view.windows
    )
    recipient: tuple[SExpression, ...] = (view.recipient,) if view.recipient else ()
    whole: SExpression = (event_type.id, predicate_to_expression(view.interest), windows, *recipient)
    if requires != NO_REQUIREMENT:
        whole = (b"requires", predicate_to_expression(requires), whole)
    return sha256(write_canonical(whole)).digest()[:CLASS_KEY_BYTES]


def routed_filter(view: View) -> Predicate:
    """Return a filter over whole events that admits whatever the View shows to its holder.

    What the interest asks of an attribute holds of the whole event too where
    some window shows that attribute; a question about its absence may not, so
    an interest over attributes that not every window shows is left to the edge. So is one over an attribute
    that a transformation makes: its author asks about the outcome, and other brokers know the event alone.
    """
    restrictions = tuple(window.admits for window in view.windows)
    opened = restrictions[0] if len(restrictions) == 1 else AnyOf(restrictions)
    asked = attributes_of(view.interest)
    shown_by_all = all(keeps(window, uid) for window in view.windows for uid in asked)
    if not shown_by_all or view.interest in (ALWAYS, opened):
        return simplified(opened)
    return view.interest if opened == ALWAYS else simplified(AllOf((opened, view.interest)))


def _released_columns(group: SubscriberGroup) -> frozenset[AttributeUid] | None:
    """Return the columns of what was made for a class at a border; None if rows differ in these."""
    windows = group.basis.windows
    if group.shown is not None or len(windows) != 1 or is_summarised(group.basis):
        return group.shown
    return _interned(frozenset(kinds_shown(windows[0], group.event_type.kinds)).intersection(group.kinds))


def _shown_by_the_one_window(view: View, event_type: VerifiedType) -> frozenset[AttributeUid] | None:
    """Return the visible columns, if matching alone decides which rows are seen.

    With one window, and an interest that speaks of nothing it hides, the
    matched filter is the View's own condition: no row is left to ask.
    """
    if len(view.windows) != 1:
        return None
    (window,) = view.windows
    if window.transformations:
        return None
    own = frozenset(event_type.kinds)
    shown = own if isinstance(window.attributes, AllAttributes) else own & window.attributes
    in_sight = window.attributes is ALL_ATTRIBUTES or attributes_of(view.interest) <= shown
    return _interned(shown) if in_sight else None


@lru_cache(maxsize=_SETS_REMEMBERED)
def _written_view(windows: tuple[Window, ...], recipient: bytes) -> bytes:
    return view_to_bytes(View(windows, recipient=recipient))


@lru_cache(maxsize=_SETS_REMEMBERED)
def _interned(uids: frozenset[AttributeUid]) -> frozenset[AttributeUid]:
    """Return the same object for equal sets: the classes of a type nearly all show the same columns."""
    return uids


def as_rules_see(cut: Transit, asked: frozenset[AttributeUid]) -> Frame:
    """Return a frame with what is asked of its publisher."""
    if not asked:
        return cut.frame
    columns = {**cut.frame.columns, **cut.matched.only(asked).columns}
    # Without room for them they are missing, and what depends on them is.
    return Frame(cut.frame.rows, columns) if len(columns) <= ATTRIBUTES_MAX else cut.frame


def _for_subscribers(author: Author | None) -> Author | None:
    """Return what subscribers get about a publisher; what it requires of them only under its signature."""
    if author is None or author.proof or not author.requires:
        return author
    return Author(author.statement, b"") if author.statement else None


def _attributes_expression(attributes: frozenset[AttributeUid] | AllAttributes) -> SExpression:
    if isinstance(attributes, AllAttributes):
        return b"*"
    return tuple(uid.encode() for uid in sorted(attributes))


def deliver(labels: Labels, seen: Seen, members: Sequence[Mapping[LinkId, list[int]]], turn: Turn) -> int:
    """Send the same bytes to all members, but for the references at their start; return to how many."""
    ready: dict[tuple[int, ...], bytes] = {}
    whole, before, count = b"", 0, 0
    for part in members:
        for link, refs in part.items():
            same = tuple(refs)
            count += len(same)
            if same not in ready:
                if not whole:
                    whole = encode_known(Deliver(refs, *labels, seen.rows, seen.columns, seen.author))
                    before = len(_ENCODER.encode(refs)) + _BEFORE_REFS
                    ready[same] = whole
                else:
                    ready[same] = whole[:_BEFORE_REFS] + _ENCODER.encode(refs) + whole[before:]
            turn.effects.append(Send(link, ready[same]))
    return count


def summary_deliveries(transit: Transit, delivery: PeriodDelivery, turn: Turn) -> None:
    """Send derived events to the members that get them."""
    seen = Seen(delivery.rows.rows, frame_to_columns(delivery.rows), {})
    deliver(transit.labels, seen, [delivery.members], turn)


class Audiences(dict[bytes, LocalSubscribers]):
    """The local subscribers of each type, by type id."""

    def __init__(self, keys: TransformationKeys, seals: SealingKeys, *, groups_max: int) -> None:
        """Begin without subscribers; summaries may remember so many groups together."""
        super().__init__()
        self.secrets, self._seals, self.room = keys, seals, GroupRoom(groups_max)

    def of(self, type_id: bytes) -> LocalSubscribers:
        """Return the local subscribers of a type, none at first."""
        known = self.get(type_id)
        if known is None:
            known = self[type_id] = LocalSubscribers(self.secrets, self.room)
            if (ring := self._seals.ring_of(type_id)) is not None:
                known.follow_answers(ring.answers, ring.readable)
        return known

    def follow_answers(self, type_id: bytes) -> None:
        """Let subscribers' Views follow the answers and keys of a type that this broker has now."""
        audience, ring = self.get(type_id), self._seals.ring_of(type_id)
        if audience is not None:
            audience.follow_answers(*(({}, frozenset()) if ring is None else (ring.answers, ring.readable)))
