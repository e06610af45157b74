"""Which versions of types has a node verified, and what have those of each type agreed on?

A broker and a key server are handed definitions, oldest first, and keep them as bytes that are verified
again after a restart. A version is verified by the one that it was made from, which is handed over with it or
known before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from maia.credentials import Budget, NetworkName, TypeName, VerificationCache, VerifiedConstitution
from maia.errors import MaiaError
from maia.events import Instant
from maia.types.definition import SignedDefinition
from maia.types.verification import verify_definition
from maia.types.verified import TypeHistory, VerifiedType, VerifiedTypeCache


class KnownVersions:
    """Verified versions by name, and the history of each type."""

    __slots__ = ("_by_name", "_cache", "_constitutions", "_histories", "_network")

    def __init__(
        self,
        most: int,
        certificates: VerificationCache,
        network: NetworkName | None,
        constitutions: tuple[VerifiedConstitution, ...],
    ) -> None:
        """Begin with none; with a network, a type's signer must be allowed to install types on it."""
        self._network, self._constitutions = network, constitutions
        self._cache = VerifiedTypeCache(most, certificates)
        self._by_name: dict[TypeName, VerifiedType] = {}
        self._histories: dict[bytes, TypeHistory] = {}

    def __len__(self) -> int:
        """Return how many versions are known."""
        return len(self._by_name)

    def agreed(self, versions: Iterable[VerifiedType]) -> dict[bytes, TypeHistory]:
        """Return the histories with these versions in them; refuse those that contradict what is known."""
        histories = dict(self._histories)
        for version in versions:
            histories[version.type_id] = history_with(version, histories)
        return histories

    def _verified(
        self,
        definitions: Iterable[bytes],
        now: Instant,
        budget: Callable[[bytes], Budget | None] = lambda _data: None,
    ) -> tuple[VerifiedType, ...]:
        """Verify definitions that were handed over, oldest first; each has the budget that it is given."""
        verified: list[VerifiedType] = []
        for data in definitions:
            verified.append(self._verify(self._cache.read(data), verified, now, budget(data)))
        return tuple(verified)

    def _verify(
        self, signed: SignedDefinition, given: Sequence[VerifiedType], now: Instant, budget: Budget | None
    ) -> VerifiedType:
        name, before = signed.definition.name, signed.definition.previous
        previous: VerifiedType | None = None
        if before is not None:
            wanted = TypeName(name.owner, name.name, before)
            previous = next((one for one in given if one.name == wanted), None) or self._by_name.get(wanted)
        return verify_definition(
            signed,
            at=now,
            previous=previous,
            network=self._network,
            constitutions=self._constitutions,
            cache=self._cache,
            budget=budget,
        )


def history_with(version: VerifiedType, histories: Mapping[bytes, TypeHistory]) -> TypeHistory:
    """Return the history of a type with a version in it; refuse one that contradicts it."""
    return (histories.get(version.type_id) or TypeHistory(version.type_id)).remember(version)


def reload_kept(
    kept: Mapping[str, bytes], begins: str, remember: Callable[[bytes], object]
) -> dict[str, MaiaError]:
    """Remember what was kept under names that begin so; return why the others do not hold any more."""
    waiting = {name: data for name, data in kept.items() if name.startswith(begins)}
    problems: dict[str, MaiaError] = {}
    is_moving = True
    while waiting and is_moving:  # a version may have to wait for the one that it was made from
        is_moving = False
        for name, data in list(waiting.items()):
            try:
                remember(data)
            except MaiaError as problem:
                problems[name] = problem
            else:
                is_moving = True
                del waiting[name]
    return {name: problems[name] for name in waiting}
