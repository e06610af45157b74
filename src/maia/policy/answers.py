"""How does a right reach a reader of a sealed type whose broker must not have the keys of all it is about?

A grant may show `value` of the events of two wards, and not the ward; or the value, rounded. Then the
reader's broker can neither ask the restriction nor make the value. A broker that seals an event knows all
of it, so it answers: the frame has one more sealed column, the *answer*. Of a restriction it is true where
the row is admitted and null elsewhere. Of a right that transforms, there is one answer for each attribute
that a transformation makes, with its values, and one that is true where the right shows the row. Each has a
key group like any attribute, of those who may read all that it is about, and of those whose right it is
(docs/decisions/hidden-restrictions.md).

Where events are sealed as a whole, such a right has no key of them. All that it shows, with what says whether
it shows the row, is sealed as a whole too, beside the event: a *part* of the frame, with a key group of its
own. The columns in it are the answers of the right, one for each attribute that it shows.

Here is what all have to agree on: which right needs answers, and what becomes of a View that is answered.
No holder gets what it may not read by restricting a right that it passes on: a restriction is about
what its issuer is shown (`credentials/authority.py::composed`, A104).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, TypeAlias

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet, Transformation, both_attributes
from maia.errors import BadInput
from maia.events import AttributeUid, Frame, Kind, Kinds, attribute_uid, is_of_event
from maia.expressions.syntax import Rule, Take
from maia.policy.grants import conjoined
from maia.policy.view import View, Window, asks_of, is_for_one, kinds_shown, shows, touched
from maia.policy.view_bytes import view_from_bytes, view_to_bytes
from maia.predicates import (
    AllOf,
    AnyOf,
    Exists,
    Not,
    Predicate,
    attributes_of,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.predicates.meaning import admitted_rows
from maia.predicates.syntax import DEPTH_MAX, conjuncts

ANSWER_PREFIX: Final = "answer-"
"""Begins the uid of an answer; the rest is a hash that only the key server of the type can make."""
PART_PREFIX: Final = ANSWER_PREFIX + "of-"
"""Begins the uid of a part; what is in a part has the uid of the part, and a number behind it."""
_PART_LENGTH: Final = len(PART_PREFIX) + 32
ANSWERS_MAX: Final = 64
"""Answers that are given for one type."""
SAID_BYTES_MAX: Final = 1 << 15
_SEEN_BYTES_MAX: Final = SAID_BYTES_MAX - 512
_LIMITS: Final = Limits(size_max=SAID_BYTES_MAX, depth_max=DEPTH_MAX + 3, atom_max=SAID_BYTES_MAX)
_SHOWN: Final = b"shown"
_PART: Final = b"part"
_NOT_WRITTEN: Final = "what an answer shows is not written as it has to be"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a right that transforms shows in one attribute; in none: whether it shows an event at all."""

    seen: bytes = field(repr=False)
    """The View of the right, with one window (`maia.policy.view_bytes`)."""
    uid: AttributeUid | None
    kind: Kind
    made: tuple[tuple[AttributeUid, Kind], ...] | None = None
    """The attributes in a part; None for what is sealed by itself."""

    @property
    def window(self) -> Window:
        """Return the window that shows it."""
        return view_from_bytes(self.seen).windows[0]


Said: TypeAlias = Predicate | Shown
"""What an answer is about."""
Answers: TypeAlias = Mapping[AttributeUid, Said]
"""What is answered, by the uid of the answer."""


def needed_answers(
    window: Window, readable: Collection[AttributeUid], kinds: Kinds, recipient: bytes
) -> tuple[Said, ...]:
    """Return what a window needs answered for a holder that reads so much; nothing if that cannot be.

    `kinds` are those of the type, and `recipient` is who holds the View.
    """
    if not window.transformations:
        hidden = hidden_restriction(window, readable)
        return () if hidden is None else (hidden,)
    if not is_answerable(window) or _read_by(window) <= frozenset(readable):
        return ()
    seen, after = _seen(window, recipient), kinds_shown(window, kinds)
    if len(seen) > _SEEN_BYTES_MAX:
        return ()
    made = (Shown(seen, uid, after[uid]) for uid in sorted(touched(window)) if uid in after)
    return (Shown(seen, None, Kind.BOOL), *made)


def needed_part(window: Window, kinds: Kinds, recipient: bytes) -> tuple[Said, ...]:
    """Return the part that a window needs for a holder that must not read whole events.

    `kinds` and `recipient` are as above.
    """
    if not window.transformations or not is_answerable(window):
        return ()
    made = tuple(sorted(kinds_shown(window, kinds).items()))
    said = Shown(_seen(window, recipient), None, Kind.BOOL, made)
    return (said,) if len(said_to_bytes(said)) <= SAID_BYTES_MAX else ()


def part_of(uid: str) -> AttributeUid:
    """Return in which part of a frame of whole events a column is: an empty uid is the event itself."""
    return AttributeUid(uid[:_PART_LENGTH] if uid.startswith(PART_PREFIX) else "")


def with_columns(answers: Answers) -> Answers:
    """Return answers, and beside each part those of its columns."""
    found = dict(answers)
    for uid, said in answers.items():
        if isinstance(said, Shown) and said.made is not None:
            for number, (name, kind) in enumerate(said.made):
                found[AttributeUid(f"{uid}-{number}")] = Shown(said.seen, name, kind)
    return found


def may_read(said: Said, held: Collection[AttributeUid | None]) -> bool:
    """Return whether a holder of these keys (None: the type's own) reads all that an answer is made of."""
    if isinstance(said, Shown) and said.made is not None:
        return None in held
    return read_for(said) <= frozenset(held)


def is_answerable(window: Window) -> bool:
    """Return whether brokers answer for a window: it makes no events of another type, and no summary."""
    return all(step.summary is None and step.result is None for step in window.transformations)


def hidden_restriction(window: Window, readable: Collection[AttributeUid | None]) -> Predicate | None:
    """Return what a window asks of attributes that its holder cannot read, in one form; None for nothing.

    Nor is there anything that could be answered if it is too long to be told to those who answer.
    """
    terms = _hidden(window, readable)
    if not terms or window.transformations:
        return None
    found = conjoined(sorted(terms, key=said_to_bytes))
    return found if len(said_to_bytes(found)) <= SAID_BYTES_MAX else None


def read_for(said: Said) -> frozenset[AttributeUid]:
    """Return the attributes that an answer is made of."""
    if not isinstance(said, Shown):
        return attributes_of(said)
    kept = frozenset(() if said.uid is None else (said.uid,)) - touched(said.window)
    return _read_by(said.window) | kept


def kind_of_answer(said: Said) -> Kind:
    """Return the kind of an answer's column."""
    return said.kind if isinstance(said, Shown) else Kind.BOOL


def answered(view: View, answers: Answers, readable: Collection[AttributeUid | None]) -> View:
    """Return a View that asks answers in place of what cannot be read, where all of that is answered.

    A window shows no more by that: an answer takes the place of exactly what it is about. Whoever holds the
    type's own key (None) needs no part.
    """
    windows = tuple(_answered(window, answers, readable, view.recipient) for window in view.windows)
    return view if windows == view.windows else replace(view, windows=windows)


def _answered(
    window: Window, answers: Answers, readable: Collection[AttributeUid | None], recipient: bytes
) -> Window:
    taking = _taking(window, answers, readable, recipient) if window.transformations else window
    if taking != window:
        return taking
    # A member may be shown less by a transformation than its organisation, which is restricted alone.
    hidden = _hidden(window, readable)
    if not hidden:
        return window
    terms = dict.fromkeys(conjuncts(window.admits))
    used = {
        uid: about
        for uid, said in answers.items()
        if not isinstance(said, Shown)
        and (about := frozenset(conjuncts(said))) <= terms.keys()
        and not hidden.isdisjoint(about)
    }
    if not hidden <= frozenset().union(*used.values()):
        return window  # it asks what no broker answers, and shows nothing
    left = [term for term in terms if term not in hidden]
    return replace(window, admits=conjoined((*left, *map(Exists, sorted(used)))))


def _taking(
    window: Window, answers: Answers, readable: Collection[AttributeUid | None], recipient: bytes
) -> Window:
    """Return a window that takes from answers what its first steps make; the rest is made of that.

    A member may be shown less than its organisation, whose broker has the answers for what that is shown.
    """
    steps, is_whole = window.transformations, None in readable
    of_it = [
        (uid, said)
        for uid, said in answers.items()
        if isinstance(said, Shown) and not (is_whole and part_of(uid))
    ]
    is_in_part = any(part_of(uid) for uid, _ in of_it)
    if not is_answerable(window) or (_read_by(window) <= frozenset(readable) and not is_in_part):
        return window
    for count in range(len(steps), 0, -1):
        first = replace(window, transformations=steps[:count])
        seen = _seen(first, recipient)
        made = {said.uid: Take(uid, said.kind) for uid, said in of_it if said.seen == seen}
        of_steps, rules = touched(first), (rule for step in steps[:count] for rule in step.rules)
        assigned = {rule.uid for rule in rules if rule.value is not None}
        if made.keys() >= {None, *(uid for uid in assigned if shows(first, uid))}:
            names = frozenset(uid for uid in made if uid is not None)
            taken = [Rule(uid, made.get(uid)) for uid in sorted(of_steps | names)]
            taken += [Rule(take.uid, None) for take in made.values()]  # they are no attributes of the type
            read = _with(window.attributes, frozenset(take.uid for take in made.values()))
            step = Transformation(steps[0].by, tuple(taken), _with(_left_by(first), names))
            return Window(Exists(made[None].uid), read, (step, *steps[count:]))
    return window  # no broker answers, and it shows nothing


def _seen(window: Window, recipient: bytes) -> bytes:
    return view_to_bytes(View((window,), recipient=recipient if is_for_one(window) else b""))


def _left_by(window: Window) -> AttributeSet:
    """Return which attributes pass every transformation, if they were there."""
    left: AttributeSet = ALL_ATTRIBUTES
    for step in window.transformations:
        left = both_attributes(left, step.attributes)
    return left


def _with(attributes: AttributeSet, more: frozenset[AttributeUid]) -> AttributeSet:
    return ALL_ATTRIBUTES if attributes is ALL_ATTRIBUTES else attributes | more


def _read_by(window: Window) -> frozenset[AttributeUid]:
    """Return what of an event decides what a window makes, besides what it keeps."""
    return frozenset(filter(is_of_event, asks_of(window)))


def _hidden(window: Window, readable: Collection[AttributeUid | None]) -> frozenset[Predicate]:
    return frozenset(
        term for term in conjuncts(window.admits) if not all(uid in readable for uid in attributes_of(term))
    )


def unanswered(
    view: View, answers: Answers, readable: Collection[AttributeUid | None]
) -> frozenset[AttributeUid]:
    """Return hidden attributes because of which a window shows nothing."""
    asked = map(_read_by, answered(view, answers, readable).windows)
    return frozenset(uid for uids in asked for uid in uids if uid not in readable and uid not in answers)


def spelt_out(predicate: Predicate, answers: Answers) -> Predicate:
    """Return a filter with every answer in it replaced by what has to be so for it to be there."""
    match predicate:
        case Exists(uid) if uid in answers:
            said = answers[uid]
            return said.window.admits if isinstance(said, Shown) else said
        case Not(inner):
            return Not(spelt_out(inner, answers))
        case AllOf(parts):
            return AllOf(tuple(spelt_out(part, answers) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(spelt_out(part, answers) for part in parts))
        case atom:
            return atom


def asked_about(uids: Iterable[AttributeUid], answers: Answers) -> frozenset[AttributeUid]:
    """Return all attributes of which a frame with these columns says something: answers speak of several."""
    named = frozenset(uids)
    return named.union(*(read_for(answers[uid]) for uid in named if uid in answers))


def answer_to(restriction: Predicate, frame: Frame) -> tuple[bool | None, ...]:
    """Return the column of an answer: true for the rows that a restriction admits."""
    rows = frozenset(admitted_rows(restriction, frame))
    return tuple([True if row in rows else None for row in range(frame.rows)])


def said_to_bytes(said: Said) -> bytes:
    """Write what an answer is about in its one form."""
    if isinstance(said, Shown) and said.made is not None:
        made = tuple((uid.encode(), kind.value.encode()) for uid, kind in said.made)
        return write_canonical((_PART, said.seen, made))
    if isinstance(said, Shown):
        return write_canonical((_SHOWN, said.seen, (said.uid or "").encode(), said.kind.value.encode()))
    return write_canonical(predicate_to_expression(said))


def said_from_bytes(data: bytes) -> Said:
    """Read what an answer is about; whatever is not its one form is refused as bad input."""
    match read_canonical(data, _LIMITS):
        case (b"shown", bytes() as seen, bytes() as uid, bytes() as kind):
            return _shown(seen, uid, kind)
        case (b"part", bytes() as seen, tuple() as made):
            return _part_shown(seen, made)
        case expression:
            return predicate_from_expression(expression)


def _shown(seen: bytes, uid: bytes, kind: bytes) -> Shown:
    try:
        name = attribute_uid(uid.decode()) if uid else None
        return _checked(Shown(seen, name, Kind(kind.decode())))
    except ValueError as problem:
        raise BadInput("INPUT-VIEW", _NOT_WRITTEN) from problem


def _part_shown(seen: bytes, written: tuple[SExpression, ...]) -> Shown:
    made: list[tuple[AttributeUid, Kind]] = []
    try:
        for one in written:
            match one:
                case (bytes() as uid, bytes() as kind):
                    made.append((attribute_uid(uid.decode()), Kind(kind.decode())))
                case _:
                    raise BadInput("INPUT-VIEW", _NOT_WRITTEN)
    except ValueError as problem:
        raise BadInput("INPUT-VIEW", _NOT_WRITTEN) from problem
    if any(b[0] <= a[0] for a, b in pairwise(made)):
        raise BadInput("INPUT-VIEW", _NOT_WRITTEN)
    return _checked(Shown(seen, None, Kind.BOOL, tuple(made)))


def _checked(found: Shown) -> Shown:
    windows = view_from_bytes(found.seen).windows
    if len(windows) != 1 or not windows[0].transformations or not is_answerable(windows[0]):
        raise BadInput("INPUT-VIEW", "an answer is about one right that transforms events")
    return found
