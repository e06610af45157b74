"""A table that is written to, and what a partner's replica of it has to hold."""

from __future__ import annotations

import random
from collections.abc import Sequence

from support.postgres_clinic import Clinic

TABLE = "CREATE TABLE beds (ward text, patient text, note text, bed integer)"
WARD_3 = (
    *("--where", 'ward == "3"'),
    *(word for one in ("operation", "ward", "patient") for word in ("--attribute", one)),
)
"""A right to the rows of one ward, without the notes."""
_WARDS, _PATIENTS = ("3", "3", "4", "5"), ("Ann", "Bob", "Cas", None)


class Writer:
    """An application that writes to the table: with a seed, the same statements each time."""

    def __init__(self, clinic: Clinic, *, seed: int) -> None:
        self._clinic, self._chance = clinic, random.Random(seed)  # noqa: S311 - a test case

    def write(self, statements: int) -> None:
        """Insert, change, delete and truncate."""
        for _ in range(statements):
            self._clinic.sql(self._statement())

    def _statement(self) -> str:
        chance = self._chance
        ward, patient = chance.choice(_WARDS), chance.choice(_PATIENTS)
        word = "NULL" if patient is None else f"'{patient}'"
        some = f"ward = '{chance.choice(_WARDS)}' AND bed % 3 = {chance.randrange(3)}"
        rows = f"SELECT '{ward}', {word}, 'note', n FROM generate_series(1, {chance.randint(1, 4)}) n"
        return chance.choices(
            [
                f"INSERT INTO beds {rows}",
                f"UPDATE beds SET ward = '{ward}' WHERE {some}",
                f"UPDATE beds SET patient = {word}, note = 'changed' WHERE {some}",
                f"DELETE FROM beds WHERE {some}",
                "TRUNCATE beds",
            ],
            [6, 2, 2, 2, 0.3],
        )[0]

    def shown(self) -> list[tuple[object, ...]]:
        """Return what the partner may see of the table now."""
        rows = self._clinic.sql("SELECT ward, patient, NULL FROM beds WHERE ward = '3'")
        return sorted(rows, key=repr)


def replica_of(clinic: Clinic) -> Sequence[tuple[object, ...]]:
    """Return what the partner's replica holds."""
    return sorted(clinic.sql("SELECT ward, patient, note FROM beds", at=clinic.partner), key=repr)
