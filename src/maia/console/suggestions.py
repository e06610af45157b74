"""What could go into the fields of a form? Names, types and ids that its reader may see anyway.

They are suggestions (`datalist`): every field takes another text as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from maia.console.principal import RegisterEntry
from maia.console.rights import ShownNames, people_in, record_of, state_of
from maia.events import SECOND, Instant, Kind

SHOWN_MAX: Final = 200
_AGO: Final = {"an hour ago": 3600, "yesterday": 86_400, "a week ago": 7 * 86_400}
_REASONS: Final = ("left the organisation", "no longer needed", "the key was lost", "granted by mistake")
_EXAMPLES: Final = {
    Kind.STRING: '{} in ("")', Kind.INT: "{} > 0", Kind.FLOAT: "{} > 0.0", Kind.BOOL: "{} == true",
}  # fmt: skip

Suggestions = Mapping[str, Sequence[tuple[str, str]]]
"""By the kind of field, texts and what each is."""


def suggestions(
    entries: Sequence[RegisterEntry], names: ShownNames, now: Instant
) -> dict[str, list[tuple[str, str]]]:
    """Return what fields offer, from the certificates and types that a reader sees."""
    people = people_in(entries)
    types = names.by_label
    attributes = {one.name: (one.kind, label) for label, found in types.items() for one in found.attributes}
    valid = [one for one in entries if state_of(one, now) == "valid"][:SHOWN_MAX]
    return {
        "person": sorted((names.label(one), names.key(one)) for one in map(str, people))[:SHOWN_MAX],
        "type": [(label, f"of {names.key(str(one.name.owner))}") for label, one in types.items()][:SHOWN_MAX],
        "attribute": [(name, f"of {of}") for name, (_, of) in attributes.items()][:SHOWN_MAX],
        "where": [
            (_EXAMPLES[kind].format(name), of) for name, (kind, of) in attributes.items() if kind in _EXAMPLES
        ][:SHOWN_MAX],
        "certificate": [
            (str(one["id"])[:16], f"{one['subject_name']}: {_grants(one)}")
            for one in (record_of(entry, names, now) for entry in valid)
        ],
        "at": [(str(Instant((now - ago * SECOND) // SECOND * SECOND)), label) for label, ago in _AGO.items()],
        "reason": [(one, "") for one in _REASONS],
    }


def _grants(record: Mapping[str, object]) -> str:
    actions = record["actions"]
    return f"{', '.join(actions) if isinstance(actions, list) else ''} {record['resource']}"
