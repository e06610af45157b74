"""Which version of a type does an application mean?

It may hand a definition over, or a definition after those it was made from, or
name a type that the client knows already; of a full name that the client does
not know, the broker is asked. Whatever it is, the client verifies it itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from maia.client import KnownVersion, TypeTold, UnknownToClient, known_version
from maia.credentials import TypeName, VerifiedConstitution
from maia.events import Instant
from maia.predicates import Predicate, parse_predicate
from maia.types import SignedDefinition, check_predicate, definition_from_bytes

__all__ = ["AskForType", "EventType", "KnownTypes", "predicate_for"]

EventType: TypeAlias = SignedDefinition | Sequence[SignedDefinition] | TypeName | str
"""A definition, a definition after those it was made from, or the name of one that is known."""

AskForType: TypeAlias = Callable[[TypeName], Awaitable[TypeTold]]
"""Ask the broker for the definitions of a type version."""


class KnownTypes:
    """The type versions that one client has verified."""

    def __init__(self, clock: Callable[[], Instant], constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Know nothing yet."""
        self._clock, self._constitutions = clock, constitutions
        self._by_name: dict[TypeName, KnownVersion] = {}

    def learn(self, history: Sequence[SignedDefinition]) -> KnownVersion:
        """Verify a version after those it was made from; it can be named from now on."""
        known = known_version(history, at=self._clock(), constitutions=self._constitutions)
        self._by_name[known.event_type.name] = known
        return known

    async def meant(self, event_type: EventType, ask: AskForType) -> KnownVersion:
        """Return the version that an application means; `ask` is for full names that nobody has explained."""
        match event_type:
            case SignedDefinition():
                return self.learn((event_type,))
            case str():
                return self._named(event_type)
            case TypeName():
                return self._by_name.get(event_type) or self._told(event_type, await ask(event_type))
            case _:
                return self.learn(event_type)

    def _named(self, name: str) -> KnownVersion:
        found = [known for known in self._by_name.values() if known.event_type.name.name == name]
        if len(found) != 1:
            shown = name[:64].encode("unicode_escape").decode()
            raise UnknownToClient(
                f"`{shown}` names {len(found)} of the types that this client was given; "
                "say which with a definition or a full name"
            )
        return found[0]

    def _told(self, name: TypeName, told: TypeTold) -> KnownVersion:
        history = [definition_from_bytes(data) for data in told.definitions]
        if not history or history[-1].definition.name != name:
            raise UnknownToClient(f"the broker does not know version `{name.version}` of `{name.name}`")
        return self.learn(history)


def predicate_for(filter_: str | Predicate, known: KnownVersion) -> Predicate:
    """Return a filter that speaks of what the version has; raise if it speaks of anything else."""
    version = known.event_type
    predicate = parse_predicate(filter_, version.vocabulary) if isinstance(filter_, str) else filter_
    check_predicate(predicate, version)
    return predicate
