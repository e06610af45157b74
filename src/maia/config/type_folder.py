"""Which event types does this folder hold, and do they hold what they promise?

The type registry of a domain can be a folder of `*.type` files: brokers answer
type queries from it, and people fetch from it. A file's name means nothing;
what counts is the signed name inside. Nothing is handed out that was not
verified when it was read, and a file that changed is verified anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from maia.config.input_files import BadFile, read_definition
from maia.credentials import Owner, TypeName, VerifiedConstitution, Version
from maia.credentials.names import type_id
from maia.errors import MaiaError, Unavailable
from maia.events import INSTANT_MAX, Instant
from maia.types import SignedDefinition, VerifiedType, content_digest, verify_definition
from maia.types.verified import TypeHistory

FILES_MAX: Final = 4096
LINEAGE_MAX: Final = 256
"""How many versions may lie between the first one and the one that is asked for."""


class TypeNotFound(Unavailable):
    """No definition of this type is there, or the versions it was made from are missing."""

    code = "UNAVAILABLE-TYPE"


class TypeFolder:
    """A folder of definitions, read once and again when a file changes."""

    def __init__(self, folder: Path, constitutions: Sequence[VerifiedConstitution] = ()) -> None:
        """Look into `folder`; owners that are quorums are known by their constitutions."""
        self._folder = folder
        self._constitutions = tuple(constitutions)
        self._read: dict[Path, tuple[tuple[int, int], SignedDefinition]] = {}
        self.broken: dict[Path, MaiaError] = {}
        """Files that could not be read when the folder was last looked at, and why."""

    def definitions(self) -> tuple[SignedDefinition, ...]:
        """Return every definition in the folder, as it was read: nothing is verified yet."""
        files = sorted(self._folder.glob("*.type")) if self._folder.is_dir() else []
        if not self._folder.is_dir():
            raise TypeNotFound(f"there is no folder `{self._folder}`")
        if len(files) > FILES_MAX:
            raise BadFile(
                f"`{self._folder}` has {len(files)} definitions, more than the {FILES_MAX} that are read"
            )
        self.broken = {}
        self._read = {file: found for file in files if (found := self._definition(file)) is not None}
        return tuple(definition for _, definition in self._read.values())

    def find(
        self, *, owner: Owner, name: str, version: Version | None, at: Instant
    ) -> tuple[VerifiedType, ...]:
        """Return a version with all it was made from, oldest first, each verified at `at`."""
        return verified_lineage(
            self.definitions(),
            owner=owner,
            name=name,
            version=version,
            at=at,
            constitutions=self._constitutions,
        )

    def _definition(self, file: Path) -> tuple[tuple[int, int], SignedDefinition] | None:
        try:
            found = file.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            known = self._read.get(file)
            return known if known is not None and known[0] == stamp else (stamp, read_definition(file))
        except (OSError, MaiaError) as problem:
            self.broken[file] = (
                problem if isinstance(problem, MaiaError) else BadFile(f"`{file}` cannot be read")
            )
            return None


def verified_lineage(
    definitions: Iterable[SignedDefinition],
    *,
    owner: Owner,
    name: str,
    version: Version | None,
    at: Instant,
    constitutions: Sequence[VerifiedConstitution] = (),
) -> tuple[VerifiedType, ...]:
    """Verify a version and those it was made from, oldest first; `None` asks for the newest.

    The source of the definitions is not trusted: what is about another
    type is left aside, and the rest is checked against the owner's key.
    """
    mine = same_version_once(
        one for one in definitions if (one.definition.name.owner, one.definition.name.name) == (owner, name)
    )
    by_version = {one.definition.name.version: one for one in mine}
    if not by_version:
        raise TypeNotFound(f"`{name[:200]}` of this owner is not there")
    wanted = latest(mine) if version is None else by_version.get(version)
    if wanted is None:
        raise TypeNotFound(f"version `{version}` of `{name[:200]}` is not there")
    lineage = [wanted]
    while (before := lineage[0].definition.previous) is not None:
        if before not in by_version or len(lineage) >= LINEAGE_MAX:
            raise TypeNotFound(f"version `{before}`, which `{name[:200]}` was made from, is not there")
        lineage.insert(0, by_version[before])
    verified: list[VerifiedType] = []
    for one in lineage:
        previous = verified[-1] if verified else None
        verified.append(verify_definition(one, at=at, previous=previous, constitutions=tuple(constitutions)))
    return tuple(verified)


def verified_versions(
    definitions: Iterable[SignedDefinition],
    *,
    owner: Owner,
    name: str,
    at: Instant,
    constitutions: Sequence[VerifiedConstitution] = (),
) -> tuple[VerifiedType, ...]:
    """Verify all versions of a type that can be, each behind the one that it was made from.

    What was made up on the way, or lacks a version before it, hides nothing beside it: it is left out.
    Two definitions of one version that both verify are refused: their owner has signed both.
    """
    waiting = [
        one for one in definitions if (one.definition.name.owner, one.definition.name.name) == (owner, name)
    ]
    verified: dict[Version | None, VerifiedType] = {}
    history, is_moving = TypeHistory(type_id(owner, name)), True
    while is_moving:
        ready = [one for one in waiting if (before := one.definition.previous) is None or before in verified]
        waiting, is_moving = [one for one in waiting if one not in ready], bool(ready)
        for one in ready:
            previous = verified.get(one.definition.previous)
            try:
                found = verify_definition(one, at=at, previous=previous, constitutions=tuple(constitutions))
            except MaiaError:
                continue
            history = history.remember(found)
            if found.replaces(verified.get(found.name.version)):
                verified[found.name.version] = found
    return tuple(verified.values())


def lineage_in(versions: Sequence[VerifiedType], version: Version | None) -> tuple[VerifiedType, ...]:
    """Return a version of a type behind those it was made from; None asks for the newest."""
    by_version = {one.name.version: one for one in versions}
    newest = latest([one.signed for one in versions]) if version is None else None
    wanted: Version | None = version if newest is None else newest.definition.name.version
    found = list[VerifiedType]()
    while wanted is not None:
        if wanted not in by_version:
            raise TypeNotFound(f"version `{wanted}` is not there")
        found.insert(0, by_version[wanted])
        wanted = found[0].definition.previous
    return tuple(found)


def same_version_once(definitions: Iterable[SignedDefinition]) -> list[SignedDefinition]:
    """Return each version once where it was signed again: with the certificates inside that end last."""
    best: dict[tuple[TypeName, bytes], SignedDefinition] = {}
    for one in definitions:
        key = (one.definition.name, content_digest(one.definition))
        known = best.get(key)
        if known is None or _ends(one) > _ends(known):
            best[key] = one
    return list(best.values())


def _ends(one: SignedDefinition) -> int:
    ends = (each.certificate.validity.not_after for each in one.definition.credentials)
    return max((INSTANT_MAX if end is None else end for end in ends), default=0)


def latest(definitions: Sequence[SignedDefinition]) -> SignedDefinition:
    """Return the version that no other one was made from; refuse to choose between two."""
    older: set[TypeName | Version | None] = {one.definition.previous for one in definitions}
    newest = [one for one in definitions if one.definition.name.version not in older]
    if not newest:
        raise TypeNotFound("no version of this type is there")
    if len(newest) != 1:
        raise TypeNotFound("there are several newest versions; say which one with --version")
    return newest[0]


def in_order_of_making(definitions: Iterable[SignedDefinition]) -> tuple[SignedDefinition, ...]:
    """Return definitions so that a version follows the one that it was made from, where both are there."""
    waiting, ordered = list(definitions), list[SignedDefinition]()
    while waiting:
        names = {one.definition.name for one in waiting}
        ready = [one for one in waiting if _name_before(one) not in names]
        ordered += ready or waiting  # a circle stays in the order in which it was found; none of it verifies
        waiting = [one for one in waiting if one not in ready] if ready else []
    return tuple(ordered)


def _name_before(one: SignedDefinition) -> TypeName | None:
    name, previous = one.definition.name, one.definition.previous
    return None if previous is None else TypeName(name.owner, name.name, previous)
