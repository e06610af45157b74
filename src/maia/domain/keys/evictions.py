"""Whom does this domain believe no more, and how does a restart not forget it?

    evicted/KEY      a principal that was put out
    readmitted/KEY   a principal that was let in again, and since when
    revoked/ID       a certificate that counts no more

What was put out stays out after a restart, and after a crash at any moment:
the record is safe before anybody hears of a new key (A82).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from maia.credentials import Principal, principal_from_bytes
from maia.events import Instant
from maia.sealing.groups.outcomes import Distrusted

__all__ = ["kept_eviction", "kept_readmission", "kept_revocations", "read_distrusted"]

_RECORD: Final = re.compile(r"(evicted|readmitted|revoked)/([0-9a-f]{64})")
_MOMENT: Final = re.compile(rb"-?[0-9]{1,19}")


def kept_eviction(principal: Principal) -> dict[str, bytes | None]:
    """Return the records of an eviction."""
    key = principal.key.hex()
    return {f"evicted/{key}": b"", f"readmitted/{key}": None}


def kept_readmission(principal: Principal, now: Instant) -> dict[str, bytes | None]:
    """Return the records of somebody's return."""
    key = principal.key.hex()
    return {f"evicted/{key}": None, f"readmitted/{key}": b"%d" % now}


def kept_revocations(ids: Iterable[bytes]) -> dict[str, bytes | None]:
    """Return the records of certificates that count no more."""
    return {f"revoked/{one.hex()}": b"" for one in ids}


def read_distrusted(kept: Mapping[str, bytes]) -> Distrusted:
    """Return whom and what was distrusted before a restart."""
    found = Distrusted()
    for name, data in kept.items():
        record = _RECORD.fullmatch(name)
        if record is None:
            continue
        what, key = record[1], bytes.fromhex(record[2])
        match what:
            case "evicted":
                found.evicted.add(principal_from_bytes(key))
            case "revoked":
                found.revoked.add(key)
            case _ if _MOMENT.fullmatch(data):
                found.readmitted[principal_from_bytes(key)] = Instant(int(data))
    return found
