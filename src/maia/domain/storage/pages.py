"""How does a long answer come in pages?"""

from __future__ import annotations

from maia.domain.access.refusals import BadPage
from maia.domain.access.settings import AccessLimits

__all__ = ["cursor_bytes", "cursor_number", "page_limit"]

_CURSOR_MAX = 128


def page_limit(limit: int, limits: AccessLimits) -> int:
    """Return the size of a page; refuse one that is none."""
    if not 1 <= limit <= limits.page:
        raise BadPage(f"a page has 1 to {limits.page} rows")
    return limit


def cursor_number(after: str | None) -> int | None:
    """Return the number after which a page begins."""
    if after is None:
        return None
    if not (after.isascii() and after.isdecimal() and len(after) <= 19):
        raise BadPage("this cursor is none of ours")
    return min(int(after), (1 << 63) - 1)


def cursor_bytes(after: str | None) -> bytes | None:
    """Return the key after which a page begins."""
    if after is None:
        return None
    try:
        return bytes.fromhex(after[:_CURSOR_MAX])
    except ValueError:
        raise BadPage("this cursor is none of ours") from None
