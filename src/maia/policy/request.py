"""Who wants to do what, with which resource?

A client, a broker or a type manager asks; the broker that has checked the
asker's key hands the request to `decide`. A request that exists makes sense:
the action fits the resource, the event type is the one that was named, and
the filter is of bounded size. Whether it is permitted is another matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from maia.canonical import SExpression, write_canonical
from maia.credentials.authority import (
    EVENT_ACTIONS,
    FITTING_ACTIONS,
    Action,
    NetworkPattern,
    TopicPattern,
    TypePattern,
)
from maia.credentials.encoding.authority import owner_to_expression
from maia.credentials.keys import Principal
from maia.credentials.names import NetworkName, ResourceName, TopicName, TypeName, is_reserved
from maia.errors import BadInput
from maia.predicates.encoding import predicate_to_expression
from maia.predicates.syntax import ALWAYS, Predicate, checked_size
from maia.types import VerifiedType

_FITTING: Final[Mapping[type[ResourceName], tuple[frozenset[Action], str]]] = {
    NetworkName: (FITTING_ACTIONS[NetworkPattern], "a network"),
    TypeName: (FITTING_ACTIONS[TypePattern], "an event type"),
    TopicName: (FITTING_ACTIONS[TopicPattern], "a topic"),
}


class BadRequest(BadInput):
    """A request's action, resource, event type and filter do not fit together."""

    code = "INPUT-REQUEST"


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
            raise BadRequest(f"a request to `{self.action.value}` has no filter")
        # The id of a definition is a digest of its signed bytes: one id, one set of attributes.
        type_id = None if self.event_type is None else self.event_type.id
        validity = None if self.event_type is None else self.event_type.validity
        key = (self.principal, self.action, self.resource, type_id, validity, self.filter)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "fingerprint", hash(key))

    def __eq__(self, other: object) -> bool:
        """Say whether both ask for the same thing."""
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
    owner = owner_to_expression(resource.owner)
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
        raise BadRequest(f"`{action.value}` cannot be done with {thing}")


def _check_event_type(action: Action, resource: ResourceName, event_type: VerifiedType | None) -> None:
    if event_type is not None and event_type.name != resource:
        raise BadRequest("the event type is not the resource that was named")
    if event_type is None and action in EVENT_ACTIONS and isinstance(resource, TypeName):
        raise BadRequest(f"a request to `{action.value}` needs the definition of its event type")
