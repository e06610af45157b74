"""What may happen to the proof that a check has made?

A check returns its proof as a type of its own, and functions that rely on the
check take nothing else. A proof is made by its verifier alone: it has no
sub-classes, which could leave the check out, and it is never read from bytes.
"""

from __future__ import annotations

from typing import NoReturn, Self


class Proof:
    """The base of every proof. Each keeps a `seal` of its own that only its verifier holds."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Refuse a class below a proof."""
        if Proof not in cls.__bases__:
            raise TypeError(f"a {cls.__bases__[0].__name__} has no sub-classes")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled: bytes from elsewhere are no proof."""
        name = type(self).__name__
        raise TypeError(f"a {name} cannot be pickled; send what it was made from and verify that again")

    def __copy__(self) -> Self:
        """Return the same proof: it cannot change."""
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        """Return the same proof: it cannot change."""
        return self
