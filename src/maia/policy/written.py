"""May the holder of a right to publish have written this?

A View for publishing says what its holder may send, and its own broker applies it. Here the same View is
asked of what was sent, by those who read it: of rows and attributes, of what is forced and what is set on
publication. A frame may show less than was published: it was cut to a super-type, some of it is sealed, or a
border has made it of what was published, for a class of subscribers. What does not show is no reason to
refuse a frame, and what shows has to be so. What a View makes is taken from those who may write what it is
made from.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from maia.credentials.authority import (
    ALL_ATTRIBUTES,
    AllAttributes,
    AttributeSet,
    Authority,
    both_attributes,
)
from maia.credentials.names import TypeName
from maia.events import AttributeUid, Event, Frame, Kind, is_of_event
from maia.expressions.meaning import after_rules
from maia.expressions.syntax import Arithmetic, Call, Coalesce, Expression, Rule, Take, is_keyed, reads_of
from maia.policy.evidence import passes_for_notifications
from maia.policy.grants import conjoined
from maia.policy.restrictions import forced_values, with_super_topics
from maia.policy.view import View, Window, is_among, is_summarised, keeps, shows
from maia.predicates.meaning import RowReader, row_reader
from maia.predicates.syntax import ALWAYS, NEVER, attributes_of, where_possible, with_missing
from maia.types.definition import TOPIC, tree_root

_Asks: TypeAlias = Callable[[AttributeUid], bool | None]


class _Test(NamedTuple):
    """Which attributes, in which rows, one right lets its holder have written."""

    uids: frozenset[AttributeUid]
    rows: RowReader | None
    settled: tuple[Rule, ...]


class Written:
    """What the rights of one principal let it have written; several add up, row by row."""

    __slots__ = ("_about", "_is_open", "_tests", "_views")

    def __init__(self, views: Callable[[frozenset[AttributeUid]], Sequence[View]]) -> None:
        """Ask the Views for publishing that there are for the attributes of a frame."""
        self._views = views
        self._about: tuple[object, ...] = ()
        self._tests: list[_Test] = []
        self._is_open = False

    def holds(
        self, frame: Frame, shown: View | None = None, *, is_cut: bool = False, hidden: Container[str] = ()
    ) -> bool:
        """Return whether it may have written a frame, as far as that shows.

        `shown` is what a border has made the frame for. A frame that is cut may lack attributes, and those
        that are `hidden` may be in it.
        """
        uids = frozenset(frame.columns)
        return self.holds_whatever(uids, shown, is_cut=is_cut, hidden=hidden) or _may(frame, self._tests)

    def holds_whatever(
        self,
        uids: frozenset[AttributeUid],
        shown: View | None = None,
        *,
        is_cut: bool = False,
        hidden: Container[str] = (),
    ) -> bool:
        """Return whether it may have written every frame with these attributes, whatever their values are."""
        if (uids, shown, is_cut, hidden) != self._about:  # most frames are like the one before
            is_known = _known(uids, shown, is_cut=is_cut, hidden=hidden)
            self._tests = [_test(one, uids, shown, is_known) for one in self._views(uids)]
            self._is_open = any(one == _Test(uids, None, ()) for one in self._tests)
            self._about = uids, shown, is_cut, hidden
        return self._is_open


def written_by(authorities: Iterable[Authority], name: TypeName) -> Written:
    """Return what the rights at the ends of some chains let their holder have written of a type.

    The type need not be known here: bounds are asked about the attributes that a frame has.
    """
    given, root = tuple(authorities), tree_root(name.name)
    return Written(lambda uids: [_view(one, root, uids) for one in given])


def written_under(views: Sequence[View]) -> Written:
    """Return what its Views for publishing let a principal have written."""
    return Written(lambda _: views)


def may_write(view: View, uid: AttributeUid) -> bool:
    """Return whether events may have an attribute that are published under a View."""
    published = Window(ALWAYS, ALL_ATTRIBUTES, view.on_publication)
    is_open = any(is_among(uid, one.attributes) for one in view.windows)
    return uid in view.forced or (is_open and shows(published, uid))


def asked_of_writers(views: Iterable[View]) -> frozenset[AttributeUid] | None:
    """Return the attributes that rights which add up ask about; None if about all that a frame has."""
    asked: set[AttributeUid] = set()
    shown: set[AttributeSet] = set()
    for view in views:
        for window in view.windows:
            asked |= attributes_of(window.admits)
            shown.add(window.attributes)
        asked |= view.forced.keys()
        for step in view.on_publication:
            asked |= reads_of(step.rules) | {rule.uid for rule in step.rules}
    return frozenset(asked) if len(shown) <= 1 or not asked else None


def _view(authority: Authority, root: str | None, uids: frozenset[AttributeUid]) -> View:
    bounds = (passes_for_notifications(one, dict.fromkeys(uids, Kind.STRING)) for one in authority.bounds)
    admits = conjoined((authority.restriction, *bounds))
    if root is not None:
        admits = with_super_topics(admits, TOPIC.uid, root)
    forced, steps = forced_values(authority.restriction), authority.transformations
    return View((Window(admits, authority.attributes),), forced=forced, on_publication=steps)


def _known(
    uids: frozenset[AttributeUid], shown: View | None, *, is_cut: bool, hidden: Container[str]
) -> _Asks:
    """Return which attributes a frame shows as they were published, or shows to be missing.

    None for what it shows as it was where it has a value: a border may have left it out.
    """

    def is_known(uid: AttributeUid) -> bool | None:
        if uid in hidden or (is_cut and uid not in uids):
            return False
        if shown is None:
            return True
        if is_summarised(shown):
            return False
        if all(keeps(one, uid) for one in shown.windows):
            return True
        return None if all(keeps(one, uid) or not shows(one, uid) for one in shown.windows) else False

    return is_known


def _test(view: View, uids: frozenset[AttributeUid], shown: View | None, is_known: _Asks) -> _Test:
    (window,) = view.windows
    if shown is None:
        may = frozenset(uid for uid in uids if may_write(view, uid))
    else:
        is_all = window.attributes is ALL_ATTRIBUTES and not view.on_publication
        spoken = uids.union(*map(_spoken_of, shown.windows))
        own = ALL_ATTRIBUTES if is_all else frozenset(uid for uid in spoken if may_write(view, uid))
        come = [(one, brought_about(one, own)) for one in shown.windows]
        may = frozenset(uid for uid in uids if any(shows(one, uid) and is_among(uid, of) for one, of in come))
    admits = where_possible(window.admits, is_known)
    rows = None if admits == ALWAYS else row_reader(admits)
    return _Test(may, rows, _settled(view, is_known))


# ------------------------------------------------------------ what a View makes of what one may write


def brought_about(window: Window, writes: AttributeSet) -> AttributeSet:
    """Return which attributes of what a window shows can come from one who may write these alone.

    All others are missing in what this one publishes.
    """
    if writes is not ALL_ATTRIBUTES and with_missing(window.admits, writes) == NEVER:
        return frozenset()
    found = both_attributes(writes, window.attributes)
    for step in window.transformations:
        made = frozenset(rule.uid for rule in step.rules if _is_possible(rule, found))
        if step.summary is not None:
            is_read = found is ALL_ATTRIBUTES or step.summary.reads <= found
            found = frozenset(step.summary.kinds if is_read else ())
        elif step.result is not None:
            found = made
        elif not isinstance(found, AllAttributes):
            found = made | (found - {rule.uid for rule in step.rules if rule.condition == ALWAYS})
        found = both_attributes(found, step.attributes)
    return found


def _spoken_of(window: Window) -> frozenset[AttributeUid]:
    """Return the attributes that a window asks about or makes something of."""
    found = set(attributes_of(window.admits))
    for step in window.transformations:
        found |= reads_of(step.rules) | (frozenset() if step.summary is None else step.summary.reads)
    return frozenset(found)


def _is_possible(rule: Rule, found: AttributeSet) -> bool:
    """Return whether a rule can give its attribute a value, where no other attributes can be there."""
    if rule.value is None or found is ALL_ATTRIBUTES:
        return rule.value is not None
    about = found | {uid for uid in attributes_of(rule.condition) if not is_of_event(uid)}
    return with_missing(rule.condition, about) != NEVER and _has_value(rule.value, found)


def _has_value(expression: Expression, found: frozenset[AttributeUid]) -> bool:
    match expression:
        case Take(uid):
            return uid in found
        case Coalesce(parts):
            return any(_has_value(part, found) for part in parts)
        case Arithmetic(_, left, right):
            return _has_value(left, found) and _has_value(right, found)
        case Call(_, inner):
            return _has_value(inner, found)
        case _:
            return True


# ------------------------------------------------------------ what is set on publication


def _settled(view: View, is_known: _Asks) -> tuple[Rule, ...]:
    """Return the rules that give again what they have given, since all that they read is as it was."""
    found: list[Rule] = []
    touched, left = set(view.forced), view.windows[0].attributes
    for step in reversed(view.on_publication):
        later = frozenset(touched)
        touched |= {rule.uid for rule in step.rules}
        left = both_attributes(left, step.attributes)
        for uid in {rule.uid for rule in step.rules} - later:
            rules = [rule for rule in step.rules if rule.uid == uid]
            asked = {one for rule in rules for one in attributes_of(rule.condition)}
            read = reads_of(rules)
            is_as_it_was = not read & touched and all(is_among(one, left) for one in (uid, *read))
            is_plain = all(map(is_of_event, asked)) and not any(is_keyed(rule.value) for rule in rules)
            if is_as_it_was and is_plain and all(map(is_known, (uid, *read))):
                found += rules if step.result is None or not read else ()
        if step.result is not None:
            break  # before that they were events of another type
    return tuple(found)


def _is_settled(rules: tuple[Rule, ...], event: Event) -> bool:
    after = after_rules(rules, event)
    return all(after.get(rule.uid) == event.get(rule.uid) for rule in rules)


# ------------------------------------------------------------ frames


def _may(frame: Frame, tests: Sequence[_Test]) -> bool:
    """Return whether each row, and each value in it, is one that some right lets its holder write."""
    passing = [(test.uids, _rows(test, frame)) for test in tests]
    if _left(frame, [rows for _, rows in passing]):
        return False
    for uid, column in frame.columns.items():
        outside = _left(frame, [rows for uids, rows in passing if uid in uids])
        if any(column.values[row] is not None for row in outside):
            return False
    return True


def _left(frame: Frame, passing: Sequence[Sequence[int]]) -> set[int]:
    """Return the rows that pass nowhere."""
    if any(len(rows) == frame.rows for rows in passing):
        return set()
    return set(range(frame.rows)).difference(*passing)


def _rows(test: _Test, frame: Frame) -> Sequence[int]:
    every: Sequence[int] = range(frame.rows)
    rows = every if test.rows is None else test.rows(every, frame)
    if test.settled and rows:
        events = list(frame.events())
        rows = [row for row in rows if _is_settled(test.settled, events[row])]
    return rows
