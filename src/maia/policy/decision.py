"""Who wants to do what, with which resource, and what was decided?

A permit carries a View; a denial carries a code. Both carry reasons for two
audiences and the period in which the same evidence leads to the same answer.
Neither is ever sent to a requester as it is: `as_refusal` makes what may be
sent.

A client, a broker or a type manager asks; the broker that has checked the
asker's key hands the request to `decide`. A request that exists makes sense:
the action fits the resource, the event type is the one that was named, and
the filter is of bounded size. Whether it is permitted is another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Final, TypeAlias

from maia.canonical import SExpression, write_canonical
from maia.credentials.authority import (
    EVENT_ACTIONS,
    FITTING_ACTIONS,
    Action,
    NetworkPattern,
    TopicPattern,
    TypePattern,
)
from maia.credentials.certificate import Validity
from maia.credentials.documents import OWNER
from maia.credentials.keys import Principal
from maia.credentials.names import NetworkName, ResourceName, TopicName, TypeName, is_reserved
from maia.errors import BadInput, Refusal
from maia.events import AttributeUid, Instant
from maia.policy.view import View
from maia.predicates.encoding import predicate_to_expression
from maia.predicates.syntax import ALWAYS, Predicate, checked_size
from maia.types import VerifiedType

# Reasons, and who may know them.


SENTENCE_MAX: Final = 1000
_SHOWN_ID_DIGITS: Final = 12
_NO_NAMES: Final[Mapping[AttributeUid, str]] = {}


class Audience(Enum):
    """Who reads an explanation."""

    OWNER = "owner"
    REQUESTER = "requester"


@dataclass(frozen=True, slots=True)
class Reason:
    """One step of a decision: a rule that held or failed, and where it is written."""

    rule: str
    sentence: str
    certificate: bytes | None = None
    field: str | None = None
    attribute: AttributeUid | None = None

    def __post_init__(self) -> None:
        """Shorten a sentence that quotes a very long literal."""
        if len(self.sentence) > SENTENCE_MAX:
            object.__setattr__(self, "sentence", self.sentence[: SENTENCE_MAX - 1] + "…")

    def line(self, names: Mapping[AttributeUid, str] = _NO_NAMES) -> str:
        """Return the reason for people: the sentence, then where to look; attributes as `names` call them."""
        places = [
            f"certificate {self.certificate.hex()[:_SHOWN_ID_DIGITS]}" if self.certificate else "",
            f"field {self.field}" if self.field else "",
            f"attribute {names.get(self.attribute, self.attribute)}" if self.attribute else "",
        ]
        where = ", ".join(place for place in places if place)
        return f"{self.sentence} ({where})" if where else self.sentence

    def record(self) -> dict[str, str]:
        """Return the reason for programs: named fields, those that say nothing left out."""
        fields = {
            "rule": self.rule,
            "sentence": self.sentence,
            "certificate": self.certificate.hex() if self.certificate else None,
            "field": self.field,
            "attribute": self.attribute,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a decision, once for each audience."""

    # Kept out of repr: a decision that is logged or printed by accident shows the requester's list only.
    owner: tuple[Reason, ...] = field(default=(), repr=False)
    requester: tuple[Reason, ...] = ()

    def __add__(self, other: Explanation) -> Explanation:
        """Return the reasons of both, in order."""
        return Explanation(self.owner + other.owner, self.requester + other.requester)

    def reasons(self, audience: Audience) -> tuple[Reason, ...]:
        """Return what `audience` may read."""
        return self.owner if audience is Audience.OWNER else self.requester

    def lines(self, audience: Audience, names: Mapping[AttributeUid, str] = _NO_NAMES) -> tuple[str, ...]:
        """Return the reasons as lines for people, who call attributes by `names`."""
        return tuple(reason.line(names) for reason in self.reasons(audience))

    def records(self, audience: Audience) -> list[dict[str, str]]:
        """Return the reasons as named fields for programs."""
        return [reason.record() for reason in self.reasons(audience)]


def for_both(reason: Reason) -> Explanation:
    """Explain to both audiences in the same words."""
    return Explanation(owner=(reason,), requester=(reason,))


def for_owner(reason: Reason, *, instead: Reason | None = None) -> Explanation:
    """Explain to the owner alone; the requester reads `instead`, or nothing."""
    return Explanation(owner=(reason,), requester=() if instead is None else (instead,))


# The ways in which policy says no.


class PolicyRefusal(Refusal):
    """The kernel's `decide` denied a request; carries the requester's reasons."""

    code = "POLICY-REFUSED"

    def __init__(self, code: str, reasons: tuple[Reason, ...]) -> None:
        """Keep the requester's reasons; together they are the sentence."""
        self.reasons = reasons
        said = "; ".join(reason.line() for reason in reasons)
        super().__init__(code, said or "the request is not permitted")

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, with the requester's reasons."""
        return {
            "code": self.code,
            "message": self.message,
            "reasons": [reason.record() for reason in self.reasons],
        }


class GrantStale(PolicyRefusal):
    """A certificate of the chain has no valid statement for this moment."""

    code = "POLICY-STALE"


class GrantTestedOnce(PolicyRefusal):
    """A certificate of the chain must be confirmed anew for each request, and was not for this one."""

    code = "POLICY-ONE-TIME"


class TooMuchToSearch(PolicyRefusal):
    """No chain was found within the work that is done for one answer; fewer certificates may do."""

    code = "POLICY-SEARCH-LIMIT"


_CAUGHT: Final[Mapping[str, type[PolicyRefusal]]] = {one.code: one for one in (GrantStale, GrantTestedOnce)}


@dataclass(frozen=True, slots=True)
class Permit:
    """Yes, within `view` and until `view.until`.

    A permit to connect, install, extend or manage has a View without windows:
    it shows nothing. `stable` is the period in which `decide` gives this same
    answer from the same evidence and facts. `limit` says, to the requester
    too, that some of its grants were not counted, if that is so.
    """

    # Kept out of repr: a View holds restrictions that its holder may not read.
    view: View = field(repr=False)
    # Most permits are explained to nobody, and to write the sentences takes longer than to decide.
    explain: Callable[[], Explanation] = field(repr=False, compare=False)
    stable: Validity
    limit: Reason | None = None

    @property
    def explanation(self) -> Explanation:
        """Return the reasons, written when they are asked for; equal permits have the same ones."""
        return self.explain()

    @property
    def until(self) -> Instant | None:
        """Return the last moment of the permit; None if everything behind it is unbounded."""
        return self.view.until


@dataclass(frozen=True, slots=True)
class Denial:
    """No; `code` says in which way, in terms that the requester may know."""

    code: str
    explanation: Explanation
    stable: Validity

    def as_refusal(self) -> PolicyRefusal:
        """Return the error for the requester: its code and the requester's reasons, nothing else."""
        return _CAUGHT.get(self.code, PolicyRefusal)(self.code, self.explanation.requester)


Decision: TypeAlias = Permit | Denial


_FITTING: Final[Mapping[type[ResourceName], tuple[frozenset[Action], str]]] = {
    NetworkName: (FITTING_ACTIONS[NetworkPattern], "a network"),
    TypeName: (FITTING_ACTIONS[TypePattern], "an event type"),
    TopicName: (FITTING_ACTIONS[TopicPattern], "a topic"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """`principal`, whose key has been proved, asks for `action` on `resource`.

    `filter` is a subscriber's filter or a publisher's advertisement; it
    names attributes by uid. Two requests are equal if they ask for the
    same thing with the same version of the type.
    """

    principal: Principal
    action: Action
    resource: ResourceName
    event_type: VerifiedType | None = None
    filter: Predicate = ALWAYS
    # Decisions are remembered by request, so the hash is worked out once. It differs from run to run.
    _key: Hashable = field(init=False, repr=False)
    fingerprint: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        checked_size(self.filter)
        _check_resource(self.action, self.resource)
        _check_event_type(self.action, self.resource, self.event_type)
        if self.filter != ALWAYS and self.action not in EVENT_ACTIONS:
            raise BadInput("INPUT-REQUEST", f"a request to `{self.action.value}` has no filter")
        # The id of a definition is a digest of its signed bytes: one id, one set of attributes.
        type_id = None if self.event_type is None else self.event_type.id
        validity = None if self.event_type is None else self.event_type.validity
        key = (self.principal, self.action, self.resource, type_id, validity, self.filter)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "fingerprint", hash(key))

    def __eq__(self, other: object) -> bool:
        """Return whether both ask for the same thing."""
        return isinstance(other, Request) and self._key == other._key

    def __hash__(self) -> int:
        """Return a hash of what is asked."""
        return self.fingerprint


def request_digest(request: Request) -> bytes:
    """Return 32 bytes that name what is asked, the same in every process: one-time questions carry them."""
    asked: SExpression = (
        b"maia/1/request-digest",
        request.principal.key,
        request.action.value.encode(),
        _resource_words(request.resource),
        b"" if request.event_type is None else request.event_type.id,
        predicate_to_expression(request.filter),
    )
    return sha256(write_canonical(asked)).digest()


def _resource_words(resource: ResourceName) -> SExpression:
    owner: SExpression = OWNER.write(resource.owner)
    match resource:
        case NetworkName(name=name):
            return (b"network", owner, name.encode())
        case TypeName(name=name, version=version):
            return (b"type", owner, name.encode(), version.encode())
        case TopicName(path=path):
            return (b"topic", owner, path.encode())


def resources_needed(request: Request) -> tuple[ResourceName, ...]:
    """Return every name that the request needs a right to.

    A publication on a topic reaches the subscribers of its super-topics,
    and needs the right to publish there too (dissertation 5.5). To administer
    is no event, and reaches no subscriber.
    """
    resource = request.resource
    if (
        request.action is Action.PUBLISH
        and isinstance(resource, TopicName)
        and not is_reserved(resource.path)
    ):
        return (*_topics_above(resource), resource)
    return (resource,)


def _topics_above(topic: TopicName) -> tuple[TopicName, ...]:
    """Return the super-topics of `topic`, the root first; the root has none."""
    if topic.path == "/":
        return ()
    words = topic.path[1:].split("/")
    return tuple(TopicName(topic.owner, "/" + "/".join(words[:depth])) for depth in range(len(words)))


def _check_resource(action: Action, resource: ResourceName) -> None:
    fitting, thing = _FITTING[type(resource)]
    if action not in fitting:
        raise BadInput("INPUT-REQUEST", f"`{action.value}` cannot be done with {thing}")


def _check_event_type(action: Action, resource: ResourceName, event_type: VerifiedType | None) -> None:
    if event_type is not None and event_type.name != resource:
        raise BadInput("INPUT-REQUEST", "the event type is not the resource that was named")
    if event_type is None and action in EVENT_ACTIONS and isinstance(resource, TypeName):
        raise BadInput(
            "INPUT-REQUEST", f"a request to `{action.value}` needs the definition of its event type"
        )
