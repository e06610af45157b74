"""Which version of a type does an application mean?

It may hand a definition over, or a definition after those it was made from, or
name a type that the client knows already; of a full name that the client does
not know, the broker is asked, and of `NAME@OWNER` for the newest version.
Whatever it is, the client verifies it itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from maia.client import KnownVersion, TypeReceived, known_version
from maia.config.type_folder import TypeNotFound, in_order_of_making, lineage_in, verified_versions
from maia.credentials import FIRST_VERSION, Owner, TopicName, TypeName, VerifiedConstitution, Version
from maia.credentials.requirements import checked_requirement, parse_requirement
from maia.errors import BadInput
from maia.events import Instant
from maia.predicates import ALWAYS, AllOf, Predicate, parse_predicate
from maia.predicates.path_patterns import PathPattern, parse_path_pattern
from maia.types import SignedDefinition, VerifiedType, check_predicate, definition_from_bytes
from maia.types.definition import on_topics, tree_meant, tree_name

EventType: TypeAlias = SignedDefinition | Sequence[SignedDefinition] | TypeName | TopicName | str
"""A definition, a definition after those it was made from, or the name of one that is known.

A topic, or a pattern such as `/news/+/sport@OWNER`, means these topics, and those below, of a known tree.
"""


class AskForType(Protocol):
    """Ask the broker for a version of a type and those before it, or for all versions."""

    def __call__(self, name: TypeName, /, *, every: bool = False) -> Awaitable[TypeReceived]: ...


_ANSWERS_MAX: Final = 256


async def definitions_of(
    name: TypeName, ask: AskForType, *, every: bool = False
) -> tuple[SignedDefinition, ...]:
    """Ask for a version, or for all, and for what they were made from; nothing of the answers is verified."""
    found: dict[bytes, SignedDefinition] = {}
    wanted, asked = [name.version], set[Version]()
    while wanted and len(asked) < _ANSWERS_MAX:
        asked.add(wanted[-1])
        told = await ask(TypeName(name.owner, name.name, wanted[-1]), every=every and len(asked) == 1)
        read = [definition_from_bytes(data) for data in told.definitions]
        found |= {
            one.id: one
            for one in read
            if (one.definition.name.owner, one.definition.name.name) == (name.owner, name.name)
        }
        there = {one.definition.name.version for one in found.values()} | asked
        before = (one.definition.previous for one in found.values())
        wanted = [one for one in before if one is not None and one not in there]
    return in_order_of_making(found.values())


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
                word = event_type if topics is None else tree_meant(event_type)[0]
                return self._named(word) if "@" not in word else await self._found_or_told(word, ask)
            case TopicName(owner, path):
                return await self.meant(tree_name(owner, path), ask)
            case TypeName():
                known = self._by_name.get(event_type)
                return known or self._told(event_type, await definitions_of(event_type, ask))
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

    async def _found_or_told(self, word: str, ask: AskForType) -> KnownVersion:
        """Return what NAME@OWNER means; of a type that is not known, the newest version that is told."""
        from maia.profile.type_names import owner_named

        try:
            return self._named(word)
        except BadInput:
            name, _, whose = word.partition("@")
            owner = owner_named(whose, folders=self._folders)
            if owner is None:
                raise
            await self.versions(owner, name, ask)
            return self._named(f"{name}@{owner}")

    async def versions(self, owner: Owner, name: str, ask: AskForType) -> tuple[VerifiedType, ...]:
        """Ask for all versions of a type; return those that verify, and those known before, in order."""
        told = await definitions_of(TypeName(owner, name, FIRST_VERSION), ask, every=True)
        known = [
            definition_from_bytes(data)
            for version, one in self._by_name.items()
            if (version.owner, version.name) == (owner, name)
            for data in one.definitions
        ]
        pool = {one.id: one for one in (*known, *told)}
        found = verified_versions(
            pool.values(), owner=owner, name=name, at=self._clock(), constitutions=self._constitutions
        )
        for one in found:
            self.learn([each.signed for each in lineage_in(found, one.name.version)])
        return found

    def _told(self, name: TypeName, told: tuple[SignedDefinition, ...]) -> KnownVersion:
        found = verified_versions(
            told, owner=name.owner, name=name.name, at=self._clock(), constitutions=self._constitutions
        )
        try:
            return self.learn([one.signed for one in lineage_in(found, name.version)])
        except TypeNotFound as problem:
            if any(one.definition.name == name for one in told):
                return self.learn(told)  # which says why it does not verify
            raise BadInput(
                "INPUT-UNKNOWN-TYPE", f"the broker does not know version `{name.version}` of `{name.name}`"
            ) from problem


def topic_pattern(event_type: EventType) -> PathPattern | None:
    """Return which topics are meant, where an application names topics: a node includes those below it."""
    match event_type:
        case str() if event_type.startswith("/"):
            return replace(parse_path_pattern(tree_meant(event_type)[1]), has_rest=True)
        case TopicName(_, path):
            return replace(parse_path_pattern(path), has_rest=True)
        case _:
            return None


def predicate_for(filter_: str | Predicate, known: KnownVersion, *topics: PathPattern | None) -> Predicate:
    """Return a filter that speaks of what the version has; raise if it speaks of anything else."""
    version = known.event_type
    predicate = parse_predicate(filter_, version.vocabulary) if isinstance(filter_, str) else filter_
    if named := [one for one in topics if one is not None]:
        wanted = on_topics(named)
        predicate = wanted if predicate == ALWAYS else AllOf((wanted, predicate))
    check_predicate(predicate, version)
    return predicate


def requirement_for(requires: str | Predicate) -> Predicate:
    """Return what the other side has to meet; raise with the column if it cannot be read."""
    return parse_requirement(requires) if isinstance(requires, str) else checked_requirement(requires)
