"""What may one principal see, or write, of one event type, and until when?

Every policy of Maia ends in a View. It is plain data: the broker applies it,
Spark compiles it, PostgreSQL installs it, the auditor reads it. Nothing else
decides what a person may see. `see` and `shape` below are the meaning of a
View; the executors in `maia.views` are fast ways to the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from maia.credentials.authority import (
    ALL_ATTRIBUTES,
    Action,
    AllAttributes,
    AttributeSet,
    Authority,
    Transformation,
    both_attributes,
)
from maia.credentials.names import TypeName
from maia.errors import MaiaError, Refusal
from maia.events import PUBLISHER_PREFIX, AttributeUid, Event, Instant, Kind, Kinds, PresentValue
from maia.expressions.meaning import NO_KEYS, TransformationKeys, after_rules
from maia.expressions.summaries import (
    Group,
    GroupKey,
    Summary,
    derived_event,
    group_key,
    period_of,
    summary_size,
)
from maia.expressions.syntax import Scope, assigned_kinds, reads_of, rules_size
from maia.predicates.meaning import admits
from maia.predicates.syntax import (
    ALWAYS,
    Exists,
    Predicate,
    TextMatch,
    atoms,
    attributes_of,
    conjuncts,
    size_of,
)

WINDOWS_MAX: Final = 256
"""Windows of a View that the executors compile; its predicates have NODES_MAX parts together."""


class PublicationRefused(Refusal):
    """The event lies outside what the publisher's credential, or a bound on it, lets through.

    The sentence is for the publisher. It names attributes the publisher may
    write and never the values that would have been accepted.
    """

    code = "POLICY-PUBLICATION-REFUSED"

    def __init__(self, attributes: tuple[AttributeUid, ...]) -> None:
        self.attributes = attributes
        super().__init__(_publication_sentence(attributes))

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, the attributes among them."""
        return {**MaiaError.as_record(self), "attributes": list(self.attributes)}


@dataclass(frozen=True, slots=True)
class Window:
    """One grant of a View: which events it opens, and which of their attributes it shows.

    `admits` was written by those who own the policy and is asked of the whole
    event, hidden attributes included. With transformations, `attributes` is what the first of them
    reads, and each of them says what is shown of its outcome.
    """

    admits: Predicate
    attributes: AttributeSet
    transformations: tuple[Transformation, ...] = ()


_NOTHING_FORCED: Final[Mapping[AttributeUid, PresentValue]] = {}
"""One for all: it is never changed."""


@dataclass(frozen=True, slots=True)
class View:
    """What one principal may see of one event type, and until when.

    Several windows add up: an event is seen if any window admits it, and an
    attribute of it is shown if a window that admits it shows that attribute; where
    several do, with a value that the first of them has.
    `interest` was written by the subscriber and is asked only of what that
    subscriber may see. `until` is the last moment at which the View holds;
    null means that every certificate behind it is stated as unbounded.

    A View for publishing has exactly one window, and `forced` holds the values
    that its holder's events carry whatever the holder wrote. What its holder writes passes through the
    transformations `on_publication` first: window and forced values are about the outcome. A View without
    windows shows nothing and publishes nothing (see
    docs/decisions/views.md).
    """

    windows: tuple[Window, ...]
    interest: Predicate = ALWAYS
    forced: Mapping[AttributeUid, PresentValue] = field(default_factory=lambda: _NOTHING_FORCED)
    until: Instant | None = None
    recipient: bytes = b""
    """The holder's public key, where a transformation depends on it; empty elsewhere."""
    on_publication: tuple[Transformation, ...] = ()


def publisher_asked(view: View) -> dict[AttributeUid, frozenset[Kind]]:
    """Return what rules ask of the publisher of an event, and as which kinds."""
    asked: dict[AttributeUid, frozenset[Kind]] = {}
    steps = (step for window in view.windows for step in window.transformations)
    for rule in (rule for step in steps for rule in step.rules):
        for atom in atoms(rule.condition):
            if atom.uid.startswith(PUBLISHER_PREFIX) and not isinstance(atom, Exists):
                kind = Kind.STRING if isinstance(atom, TextMatch) else atom.kind
                asked[atom.uid] = asked.get(atom.uid, frozenset()) | {kind}
    return asked


def window_of(authority: Authority, action: Action) -> Window:
    """Return what a grant opens, before anything is decided about it."""
    # What is set on publication is set before: the window of a publisher is about the outcome.
    steps = () if action is Action.PUBLISH else authority.transformations
    return Window(authority.restriction, authority.attributes, steps)


def shows(window: Window, uid: AttributeUid) -> bool:
    """Return whether a window may show an attribute, transformed or as it was published."""
    shown = is_among(uid, window.attributes)
    for step in window.transformations:
        is_left = shown and step.result is None and uid not in _always_removed(step)
        shown = (is_left or _assigned(step).get(uid) is not None) and is_among(uid, step.attributes)
    return shown


def _assigned(step: Transformation) -> Mapping[AttributeUid, Kind | None]:
    return assigned_kinds(step.rules) if step.summary is None else step.summary.kinds


def _always_removed(step: Transformation) -> frozenset[AttributeUid]:
    return frozenset(rule.uid for rule in step.rules if rule.value is None and rule.condition == ALWAYS)


def keeps(window: Window, uid: AttributeUid) -> bool:
    """Return whether a window shows an attribute exactly as it was published, whenever it is open.

    What is asked of such an attribute can be asked of the whole event. Keys
    of sealed attributes are for holders of windows that keep them.
    """
    return is_among(uid, window.attributes) and all(
        step.result is None and is_among(uid, step.attributes) and all(rule.uid != uid for rule in step.rules)
        for step in window.transformations
    )


def touched(window: Window) -> frozenset[AttributeUid]:
    """Return the attributes that transformations assign or remove."""
    return frozenset(rule.uid for step in window.transformations for rule in step.rules)


def kinds_shown(window: Window, kinds: Kinds) -> dict[AttributeUid, Kind]:
    """Return the kinds of what a window shows of events whose attributes have these kinds."""
    shown = {uid: kind for uid, kind in kinds.items() if is_among(uid, window.attributes)}
    for step in window.transformations:
        gone = _always_removed(step)
        after = {} if step.result else {uid: kind for uid, kind in shown.items() if uid not in gone}
        after |= {uid: kind for uid, kind in _assigned(step).items() if kind is not None}
        shown = {uid: kind for uid, kind in after.items() if is_among(uid, step.attributes)}
    return shown


def attributes_told(windows: Iterable[Window]) -> AttributeSet:
    """Return of which published attributes these windows tell something, as they are or transformed.

    A further step tells of no more: it makes its attributes of what the steps before it show.
    """
    told = [_told(one) for one in windows]
    if any(one is ALL_ATTRIBUTES for one in told):
        return ALL_ATTRIBUTES
    return frozenset[AttributeUid]().union(*(one for one in told if not isinstance(one, AllAttributes)))


def _told(window: Window) -> AttributeSet:
    left, made = window.attributes, dict[AttributeUid, frozenset[AttributeUid]]()
    nothing = frozenset[AttributeUid]()

    def of(uids: Iterable[AttributeUid]) -> frozenset[AttributeUid]:
        own = (made[uid] if uid in made else frozenset({uid} if is_among(uid, left) else ()) for uid in uids)
        return nothing.union(*own)

    for step in window.transformations:
        if step.summary is not None:
            new = dict.fromkeys(step.summary.kinds, of(step.summary.reads))
        else:
            new = {rule.uid: nothing for rule in step.rules}
            for rule in step.rules:  # where its condition is false, the attribute stays what it was
                before = () if rule.condition == ALWAYS else (rule.uid,)
                new[rule.uid] |= of((*reads_of((rule,)), *before))
        is_of_these_alone = step.summary is not None or step.result is not None
        left, made = (nothing, new) if is_of_these_alone else (left, made | new)
        left = both_attributes(left, step.attributes)
        made = {uid: sources for uid, sources in made.items() if is_among(uid, step.attributes)}
    if isinstance(left, AllAttributes):
        return left
    return nothing.union(left - made.keys(), *made.values())


def has_as_many(held: AttributeSet, told: AttributeSet, defined: Iterable[AttributeUid]) -> bool:
    """Return whether one right is about all attributes that another one is, of a type that has these."""
    if isinstance(held, AllAttributes):
        return True
    return held >= (frozenset(defined) if isinstance(told, AllAttributes) else told)


def converts_to(window: Window) -> TypeName | None:
    """Return the type that a window converts events into; null where it leaves them of their own."""
    results = (step.result for step in reversed(window.transformations))
    return next((result for result in results if result is not None), None)


def written_type(view: View) -> TypeName | None:
    """Return the type whose events a publisher writes, where they are converted into its right's type."""
    return next((step.result for step in view.on_publication if step.result is not None), None)


def asks_of(window: Window) -> frozenset[AttributeUid]:
    """Return the published attributes that decide what a window shows, besides those that it keeps.

    What a rule assigns under a condition is shown as it was published where that condition is false. What
    one step has made, the next does not read of what was published.
    """
    asked, made = set(attributes_of(window.admits)), set[AttributeUid]()
    for step in window.transformations:
        shown = {rule.uid for rule in step.rules if rule.condition != ALWAYS}
        taken = frozenset[AttributeUid]() if step.summary is None else step.summary.reads
        asked |= (reads_of(step.rules) | attributes_of(step.restriction) | taken | shown) - made
        made |= {rule.uid for rule in step.rules}
    return frozenset(asked)


def window_size(window: Window) -> int:
    """Return how many parts a window's predicates and expressions have."""
    return size_of(window.admits) + sum(
        rules_size(step.rules)
        + size_of(step.restriction)
        + (0 if step.summary is None else summary_size(step.summary))
        for step in window.transformations
    )


def is_for_one(window: Window) -> bool:
    """Return whether what a window shows depends on who its holder is."""
    return any(step.is_keyed(Scope.RECIPIENT) for step in window.transformations)


def is_among(uid: AttributeUid, attributes: AttributeSet) -> bool:
    """Return whether a set of attributes has one, or whether it is for conditions alone: of the publisher."""
    return attributes is ALL_ATTRIBUTES or uid in attributes or uid.startswith(PUBLISHER_PREFIX)


def see(
    view: View, event: Event, keys: TransformationKeys = NO_KEYS
) -> dict[AttributeUid, PresentValue] | None:
    """Return `event` as the View shows it, or None where the View shows nothing.

    This is the meaning that every executor agrees with. `keys` are the secrets of the issuers whose
    pseudonyms and noise are in the View; what needs another is missing.
    """
    seen: dict[AttributeUid, PresentValue] | None = None
    for window in view.windows:
        through = _through(window, event, view.recipient, keys)
        if through is not None:
            # The first window that has a value for an attribute decides.
            seen = through if seen is None else {**through, **seen}
    return seen if seen is not None and admits(view.interest, seen) else None


def _through(
    window: Window, event: Event, recipient: bytes, keys: TransformationKeys
) -> dict[AttributeUid, PresentValue] | None:
    if not admits(window.admits, event):
        return None
    return _after_steps(window.transformations, _screened(event, window.attributes), recipient, keys)


def _after_steps(
    steps: tuple[Transformation, ...], event: Event, recipient: bytes, keys: TransformationKeys
) -> dict[AttributeUid, PresentValue] | None:
    shown = _screened(event, ALL_ATTRIBUTES)
    for step in steps:
        if step.summary is not None or not admits(step.restriction, shown):
            return None  # one event by itself shows nothing of a summary
        step_keys = keys.of(step.by.key, recipient, step.holder)
        after = after_rules(step.rules, shown, step_keys, converts=step.result is not None)
        shown = _screened(after, step.attributes)
    return shown


def _screened(event: Event, attributes: AttributeSet) -> dict[AttributeUid, PresentValue]:
    return {uid: value for uid, value in event.items() if value is not None and is_among(uid, attributes)}


def shape(view: View, event: Event, keys: TransformationKeys = NO_KEYS) -> dict[AttributeUid, PresentValue]:
    """Return `event` as the View lets its publisher send it; raise PublicationRefused if it may not be sent.

    Transformations come first, with what is at hand of the `keys`. Then attributes without right are
    nulled, forced values replace whatever was given or missing, and what remains must satisfy the rest of
    the restriction (dissertation 5.2.2; docs/decisions/views.md).
    """
    if len(view.windows) != 1:
        raise PublicationRefused(())
    (window,) = view.windows
    made = _after_steps(view.on_publication, event, view.recipient, keys)
    if made is None:
        raise PublicationRefused(())
    written = {uid: value for uid, value in made.items() if shows(window, uid)}
    written.update(view.forced)
    if not admits(window.admits, written):
        raise refusal_of(window, written)
    return written


def refusal_of(window: Window, written: Event) -> PublicationRefused:
    """Say which writable attributes keep `written` outside the window; for the publisher's eyes."""
    broken = (part for part in conjuncts(window.admits) if not admits(part, written))
    first = next(broken, ALWAYS)
    return PublicationRefused(tuple(sorted(uid for uid in attributes_of(first) if shows(window, uid))))


def _publication_sentence(attributes: tuple[AttributeUid, ...]) -> str:
    if not attributes:
        return "the event lies outside what you may publish"
    named = ", ".join(f"`{uid}`" for uid in attributes)
    return f"the event lies outside what you may publish: the restriction on {named} does not hold"


# Views that summarise many events.
#
# Such a View has one window. It is three Views in one: what is taken from each event (`front`), what many
# of these come to in a period (`summary`), and what is shown of the outcome (`behind`, with the subscriber's
# interest). The first and the last are ordinary Views, so that every executor adds a group-by between
# two things that it has already. `summarised` is the meaning, plain and slow.


@dataclass(frozen=True, slots=True)
class SummarisedView:
    """A View that summarises, in its three parts."""

    front: View
    summary: Summary
    behind: View


def summary_of(view: View) -> Summary | None:
    """Return what many events come to, where a View shows that; None where it shows events."""
    steps = (step for window in view.windows for step in window.transformations)
    return next((step.summary for step in steps if step.summary is not None), None)


def is_summarised(view: View) -> bool:
    """Return whether a View shows what many events come to, and no single one of them."""
    return summary_of(view) is not None


def split(view: View) -> SummarisedView:
    """Return the three parts of a View that summarises."""
    (window,) = view.windows
    steps = window.transformations
    (at,) = (place for place, step in enumerate(steps) if step.summary is not None)
    step, summary = steps[at], steps[at].summary
    assert summary is not None  # noqa: S101 - it was looked for
    taken = replace(step, rules=summary.inputs, attributes=ALL_ATTRIBUTES, summary=None)
    shown = Transformation(step.by, (), step.attributes)
    front = replace(window, transformations=(*steps[:at], taken))
    behind = Window(ALWAYS, ALL_ATTRIBUTES, (shown, *steps[at + 1 :]))
    return SummarisedView(
        replace(view, windows=(front,), interest=ALWAYS), summary, replace(view, windows=(behind,))
    )


def summarised(
    view: View,
    events: Iterable[tuple[Instant, Event]],
    *,
    closed_at: Instant,
    keys: TransformationKeys = NO_KEYS,
) -> list[tuple[Instant, dict[AttributeUid, PresentValue]]]:
    """Return what a View shows of events, each with its moment of publication.

    For each period that is closed at a moment there is an event for each group, with the beginning of
    the period beside it. Their order says nothing.
    """
    parts = split(view)
    groups: dict[tuple[Instant, GroupKey], Group] = {}
    for published_at, event in events:
        start = period_of(parts.summary, published_at)
        taken = see(parts.front, event, keys)
        key = None if taken is None else group_key(parts.summary, taken)
        if taken is not None and key is not None and parts.summary.closes_at(start) <= closed_at:
            groups.setdefault((start, key), Group()).add(parts.summary, taken)
    shown: list[tuple[Instant, dict[AttributeUid, PresentValue]]] = []
    for (start, key), group in groups.items():
        derived = derived_event(parts.summary, start, key, group)
        seen = None if derived is None else see(parts.behind, derived, keys)
        if seen is not None:
            shown.append((start, seen))
    return shown
