"""What is remembered within a limit, and what is forgotten first?

Every memory that a peer could fill is one of these: at most so many entries,
where it matters at most so many bytes, and of too many the least recently
used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterator, ValuesView
from typing import Generic, TypeVar

__all__ = ["BoundedMap"]

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """A map of at most `entries_max` entries.

    With `size_of` their sizes add up to at most `bytes_max`. `evicted` is called
    with each entry that makes room for another one, and not for one that is
    popped or replaced.
    """

    __slots__ = ("_bytes_max", "_entries", "_entries_max", "_evicted", "_size_of", "bytes", "get")

    def __init__(
        self,
        entries_max: int,
        *,
        bytes_max: int = 0,
        size_of: Callable[[K, V], int] | None = None,
        evicted: Callable[[K, V], None] | None = None,
    ) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._size_of, self._evicted = size_of, evicted
        self.bytes = 0
        self.get: Callable[[K], V | None] = self._entries.get
        """Return the value of a key, or None; its turn to be forgotten stays as it was."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def values(self) -> ValuesView[V]:
        """Return the values, the least recently used first."""
        return self._entries.values()

    def items(self) -> ItemsView[K, V]:
        """Return keys and values, the least recently used first."""
        return self._entries.items()

    def use(self, key: K) -> V | None:
        """Return the value of a key, or None, and make it the last to be forgotten."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember a value as the most recently used, and forget others until all is within the limits."""
        entries, size_of = self._entries, self._size_of
        if size_of is not None:
            before = entries.get(key)
            self.bytes += size_of(key, value) - (0 if before is None else size_of(key, before))
        entries[key] = value
        entries.move_to_end(key)
        while len(entries) > self._entries_max or (size_of is not None and self.bytes > self._bytes_max):
            gone, lost = entries.popitem(last=False)
            if size_of is not None:
                self.bytes -= size_of(gone, lost)
            if self._evicted is not None:
                self._evicted(gone, lost)

    def pop(self, key: K) -> V | None:
        """Forget a key; return what it had, or None."""
        found = self._entries.pop(key, None)
        if found is not None and self._size_of is not None:
            self.bytes -= self._size_of(key, found)
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.bytes = 0
