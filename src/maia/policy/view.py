"""What may one principal see, or write, of one event type, and until when?

Every policy of Maia ends in a View. It is plain data: the broker applies it,
Spark compiles it, PostgreSQL installs it, the auditor reads it. Nothing else
decides what a person may see. `see` and `shape` below are the meaning of a
View; the executors in `maia.views` are fast ways to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet
from maia.errors import MaiaError, Refusal
from maia.events import AttributeUid, Event, Instant, PresentValue
from maia.policy.restrictions import conjuncts
from maia.predicates.meaning import admits
from maia.predicates.syntax import ALWAYS, AllOf, AnyOf, Membership, Not, Predicate, attributes_of

__all__ = [
    "WINDOWS_MAX",
    "PublicationRefused",
    "View",
    "Window",
    "parts_of",
    "refusal_of",
    "see",
    "shape",
    "shows",
]

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
    event, hidden attributes included.
    """

    admits: Predicate
    attributes: AttributeSet


@dataclass(frozen=True, slots=True)
class View:
    """What one principal may see of one event type, and until when.

    Several windows add up: an event is seen if any window admits it, and an
    attribute of it is shown if a window that admits it shows that attribute.
    `interest` was written by the subscriber and is asked only of what that
    subscriber may see. `until` is the last moment at which the View holds;
    null means that every certificate behind it is stated as unbounded.

    A View for publishing has exactly one window, and `forced` holds the values
    that its holder's events carry whatever the holder wrote. A View without
    windows shows nothing and publishes nothing (see
    docs/decisions/views.md).
    """

    windows: tuple[Window, ...]
    interest: Predicate = ALWAYS
    forced: Mapping[AttributeUid, PresentValue] = field(default_factory=dict)
    until: Instant | None = None


def shows(window: Window, uid: AttributeUid) -> bool:
    """Say whether a window shows an attribute."""
    return window.attributes is ALL_ATTRIBUTES or uid in window.attributes


def parts_of(predicate: Predicate) -> int:
    """Return how many parts a predicate has, each literal of a list counted."""
    count = 0
    pending = [predicate]
    while pending:
        count += 1
        match pending.pop():
            case Not(inner):
                pending.append(inner)
            case AllOf(parts) | AnyOf(parts):
                pending.extend(parts)
            case Membership(_, literals):
                count += len(literals)
            case _:
                pass
    return count


def see(view: View, event: Event) -> dict[AttributeUid, PresentValue] | None:
    """Return `event` as the View shows it, or None where the View shows nothing.

    This is the meaning that every executor agrees with.
    """
    open_windows = [window for window in view.windows if admits(window.admits, event)]
    if not open_windows:
        return None
    seen = {
        uid: value
        for uid, value in event.items()
        if value is not None and any(shows(window, uid) for window in open_windows)
    }
    return seen if admits(view.interest, seen) else None


def shape(view: View, event: Event) -> dict[AttributeUid, PresentValue]:
    """Return `event` as the View lets its publisher send it; raise PublicationRefused if it may not be sent.

    Attributes without right are nulled, forced values replace whatever was
    given or missing, and what remains must satisfy the rest of the restriction
    (dissertation 5.2.2; docs/decisions/views.md).
    """
    if len(view.windows) != 1:
        raise PublicationRefused(())
    (window,) = view.windows
    written = {uid: value for uid, value in event.items() if value is not None and shows(window, uid)}
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
