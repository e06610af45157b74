"""Which version of a type does an application mean?

It may hand a definition over, or a definition after those it was made from, or
name a type that the client knows already; of a full name that the client does
not know, the broker is asked. Whatever it is, the client verifies it itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from maia.client import KnownVersion, TypeReceived, known_version
from maia.credentials import TopicName, TypeName, VerifiedConstitution
from maia.credentials.requirements import checked_requirement, parse_requirement
from maia.errors import BadInput
from maia.events import Instant
from maia.predicates import ALWAYS, AllOf, Predicate, parse_predicate
from maia.predicates.path_patterns import PathPattern, parse_path_pattern
from maia.types import SignedDefinition, check_predicate, definition_from_bytes
from maia.types.definition import on_topics, tree_label, tree_name

EventType: TypeAlias = SignedDefinition | Sequence[SignedDefinition] | TypeName | TopicName | str
"""A definition, a definition after those it was made from, or the name of one that is known.

A topic, or a pattern such as `/news/+/sport`, means these topics, and those below, of a tree that is known.
"""

AskForType: TypeAlias = Callable[[TypeName], Awaitable[TypeReceived]]
"""Ask the broker for the definitions of a type version."""


_DEFINITIONS_MAX: Final = 4096


async def whole_lineage(name: TypeName, ask: AskForType) -> tuple[SignedDefinition, ...]:
    """Ask for a version and all that it was made from, oldest first; nothing of the answers is verified."""
    lineage: tuple[SignedDefinition, ...] = ()
    wanted: TypeName | None = name
    while wanted is not None and len(lineage) < _DEFINITIONS_MAX:
        told = [definition_from_bytes(data) for data in (await ask(wanted)).definitions]
        if not told or told[-1].definition.name != wanted:
            break
        lineage = (*told, *lineage)
        first = told[0].definition
        before = first.previous
        wanted = None if before is None else TypeName(first.name.owner, first.name.name, before)
    return lineage


class KnownTypes:
    """The type versions that one client has verified."""

    def __init__(
        self,
        clock: Callable[[], Instant],
        constitutions: tuple[VerifiedConstitution, ...],
        folders: Sequence[Path] = (),
    ) -> None:
        """Know nothing yet; owners are called what these profiles and organisations call them."""
        self._clock, self._constitutions, self._folders = clock, constitutions, folders
        self._by_name: dict[TypeName, KnownVersion] = {}
        self._by_word: dict[str, KnownVersion] = {}

    def learn(self, history: Sequence[SignedDefinition]) -> KnownVersion:
        """Verify a version after those it was made from; it can be named from now on."""
        known = known_version(history, at=self._clock(), constitutions=self._constitutions)
        self._by_name[known.event_type.name] = known
        self._by_word.clear()
        return known

    async def meant(self, event_type: EventType, ask: AskForType) -> KnownVersion:
        """Return the version that an application means; `ask` is for full names that nobody has explained."""
        topics = topic_pattern(event_type)
        match event_type:
            case SignedDefinition():
                return self.learn((event_type,))
            case str():
                return self._named(event_type if topics is None else tree_label(topics))
            case TopicName(owner, path):
                return await self.meant(tree_name(owner, path), ask)
            case TypeName():
                known = self._by_name.get(event_type)
                return known or self._told(event_type, await whole_lineage(event_type, ask))
            case _:
                return self.learn(event_type)

    def _named(self, name: str) -> KnownVersion:
        """Return the newest version of the type that a word means: its name, or NAME@OWNER."""
        known = self._by_word.get(name)
        if known is None:
            known = self._by_word[name] = self._found(name)
        return known

    def _found(self, name: str) -> KnownVersion:
        from maia.profile.files import UnknownTypeName
        from maia.profile.type_names import type_meant

        every = [(known, known.event_type.name) for known in self._by_name.values()]
        try:
            meant = type_meant(name, [(one.owner, one.name) for _, one in every], folders=self._folders)
        except UnknownTypeName as problem:
            raise BadInput("INPUT-UNKNOWN-TYPE", problem.message) from problem
        found = [known for known, one in every if (one.owner, one.name) == meant]
        older = {known.event_type.definition.previous for known in found}
        newest = [known for known in found if known.event_type.name.version not in older]
        if len(newest) != 1:
            raise BadInput(
                "INPUT-UNKNOWN-TYPE",
                f"`{name[:64]}` has several newest versions: say which with a definition",
            )
        return newest[0]

    def _told(self, name: TypeName, told: tuple[SignedDefinition, ...]) -> KnownVersion:
        history = list(told)
        if not history or history[-1].definition.name != name:
            raise BadInput(
                "INPUT-UNKNOWN-TYPE", f"the broker does not know version `{name.version}` of `{name.name}`"
            )
        return self.learn(history)


def topic_pattern(event_type: EventType) -> PathPattern | None:
    """Return which topics are meant, where an application names topics: a node includes those below it."""
    match event_type:
        case str() if event_type.startswith("/"):
            return replace(parse_path_pattern(event_type), has_rest=True)
        case TopicName(_, path):
            return replace(parse_path_pattern(path), has_rest=True)
        case _:
            return None


def predicate_for(
    filter_: str | Predicate, known: KnownVersion, topics: PathPattern | None = None
) -> Predicate:
    """Return a filter that speaks of what the version has; raise if it speaks of anything else."""
    version = known.event_type
    predicate = parse_predicate(filter_, version.vocabulary) if isinstance(filter_, str) else filter_
    if topics is not None:
        wanted = on_topics([topics])
        predicate = wanted if predicate == ALWAYS else AllOf((wanted, predicate))
    check_predicate(predicate, version)
    return predicate


def requirement_for(requires: str | Predicate) -> Predicate:
    """Return what the other side has to meet; raise with the column if it cannot be read."""
    return parse_requirement(requires) if isinstance(requires, str) else checked_requirement(requires)
