"""Which readers share a key?

The owner of a type chooses: one group for whole events, or one for each
attribute and one for the type itself (dissertation 7.6). Code that seals, opens
or hands out keys names a group in this one way. No two types and no two
attributes share a group, and so none share a key (A48).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from maia.errors import BadInput
from maia.events import AttributeUid

TYPE_ID_BYTES: Final = 32


class BadGroup(BadInput):
    """A key group is named by something that is not the id of a type."""

    code = "SEALING-GROUP"


@dataclass(frozen=True, slots=True)
class GroupId:
    """The readers of one attribute of a type; with `uid` None, all who publish or subscribe to it at all."""

    type_id: bytes
    uid: AttributeUid | None = None

    def __post_init__(self) -> None:
        """Refuse what is no type."""
        if len(self.type_id) != TYPE_ID_BYTES:
            raise BadGroup(f"the id of a type has {TYPE_ID_BYTES} bytes")

    @property
    def order(self) -> tuple[bool, str]:
        """Return the place of the group among those of its type: the type's own comes first."""
        return (self.uid is not None, self.uid or "")

    def __str__(self) -> str:
        """Name the group as logs do: the beginning of the type's id, and the attribute."""
        return f"{self.type_id.hex()[:12]}/{self.uid or '*'}"
