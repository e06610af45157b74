"""Which rules does a time zone have?

The rules come from the `tzdata` package, which is locked like every other
dependency, and never from the machine: two brokers of one domain must agree
on when a working day ends (docs/decisions/role-policies.md).
"""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["packaged_zone"]

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,32}){0,2}", re.ASCII)


@lru_cache(maxsize=1024)
def packaged_zone(name: str) -> tzinfo | None:
    """Return the zone called `name`, such as `Europe/London`; None if there is none."""
    if not _NAME.fullmatch(name):
        return None
    found = resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    if not found.is_file():
        return None
    with found.open("rb") as rules:
        try:
            return ZoneInfo.from_file(rules, key=name)
        except ValueError:  # a table of names lies beside the zones
            return None
