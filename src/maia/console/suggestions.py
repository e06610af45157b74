"""What could go into the fields of a form? Names, types and ids that its reader may see anyway.

They are suggestions (`datalist`): every field takes another text as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from maia.console.principal import Entry
from maia.console.rights import Names, record_of, state_of
from maia.credentials import Principal
from maia.events import SECOND, Instant, Kind

SHOWN_MAX: Final = 200
_AGO: Final = {"an hour ago": 3600, "yesterday": 86_400, "a week ago": 7 * 86_400}
_REASONS: Final = ("left the organisation", "no longer needed", "the key was lost", "granted by mistake")
_EXAMPLES: Final = {
    Kind.STRING: '{} in ("")', Kind.INT: "{} > 0", Kind.FLOAT: "{} > 0.0", Kind.BOOL: "{} == true",
}  # fmt: skip

Suggestions = Mapping[str, Sequence[tuple[str, str]]]
"""By the kind of field, texts and what each is."""


def suggestions(entries: Sequence[Entry], names: Names, now: Instant) -> dict[str, list[tuple[str, str]]]:
    """Return what fields offer, from the certificates and types that a reader sees."""
    found = people_in(entries)
    types = sorted(names.types.values(), key=lambda one: one.name.name)
    attributes = {one.name: (one.kind, event_type) for event_type in types for one in event_type.attributes}
    valid = [record_of(one, names, now) for one in entries if state_of(one, now) == "valid"]
    return {
        "person": sorted((names.label(one), names.key(one)) for one in map(str, found))[:SHOWN_MAX],
        "type": [(one.name.name, f"of {names.key(str(one.name.owner))}") for one in types][:SHOWN_MAX],
        "attribute": [(name, f"of {of.name.name}") for name, (_, of) in attributes.items()][:SHOWN_MAX],
        "where": [
            (_EXAMPLES[kind].format(name), of.name.name)
            for name, (kind, of) in attributes.items()
            if kind in _EXAMPLES
        ][:SHOWN_MAX],
        "certificate": [
            (str(one["id"])[:16], f"{one['subject_name']}: {_grants(one)}") for one in valid[:SHOWN_MAX]
        ],
        "at": [(str(Instant((now - ago * SECOND) // SECOND * SECOND)), label) for label, ago in _AGO.items()],
        "reason": [(one, "") for one in _REASONS],
    }


def people_in(entries: Sequence[Entry]) -> list[Principal]:
    """Return the principals that grant something, or that something was granted to."""
    found: dict[Principal, None] = {}
    for entry in entries:
        said = entry.signed.certificate
        for one in (said.issuer, said.subject):
            if isinstance(one, Principal):
                found[one] = None
    return list(found)


def _grants(record: Mapping[str, object]) -> str:
    actions = record["actions"]
    return f"{', '.join(actions) if isinstance(actions, list) else ''} {record['resource']}"
