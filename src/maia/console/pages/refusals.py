"""What have the brokers of this machine refused lately? Their records, in words; *Why* takes the ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.console.network import BrokerRow
from maia.console.pages.page import Data
from maia.console.rights import ShownNames

_WORDS: Final = {
    "Connect": "to connect", "Subscribe": "to subscribe",
    "Advertise": "to publish", "Publish": "to publish", "Interest": "to subscribe, for its clients",
    "Offer": "to publish, for its clients",
}  # fmt: skip
ACTIONS: Final = {
    "Subscribe": "subscribe", "Advertise": "publish", "Publish": "publish",
}  # fmt: skip


def refusals_seen(rows: Iterable[BrokerRow], names: ShownNames) -> list[Data]:
    """Return the refusals that brokers remember, the latest first."""
    found = [
        {
            "id": one["id"],
            "broker": names.key(row.status["principal"]),
            "principal": one["principal"],
            "name": names.key(one["principal"]),
            "code": one["code"],
            "asked": _asked(one, names),
            "action": ACTIONS.get(one["asked"] or ""),
            "type": None if one["type"] is None else names.type(one["type"]),
            "first": one["first"],
            "last": one["last"],
            "times": one["times"],
        }
        for row in rows
        if row.status is not None
        for one in row.status.get("refusals") or ()
    ]
    return sorted(found, key=lambda one: one["last"], reverse=True)


def _asked(one: Data, names: ShownNames) -> str:
    said = _WORDS.get(one["asked"] or "", one["asked"] or "to go on")
    return said if one["type"] is None else f"{said}: {names.type(one['type'])}"
