"""A hospital's database: a table of prescriptions, its owner, and the database roles of readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import psycopg

from maia.clock import system_now
from maia.credentials import SignedCertificate, SigningKey
from maia.events import Instant, Value
from maia.postgres.view_definitions import DeclaredTable, ViewLedger
from maia.postgres.view_settings import PreparedViews, ViewReader, ViewsConfig
from maia.postgres.views import InstalledViews, ViewOutcome
from maia.spark.governed.reader import Reader
from maia.types import verify_definition
from maia.validity import Monitor
from support.homecare import AUTHORISED, PRESCRIBE

_NUMBERS = count()

ROWS: list[dict[str, Value]] = [
    {"patient": "Ann", "drug": "morphine", "drug_class": "A", "place": "CB3 0FD", "emergency": False},
    {"patient": "Bob", "drug": "aspirin", "drug_class": "C", "place": "CB1 2AB", "emergency": True},
    {"patient": "O'Neil \\ 7%", "drug": "codeine", "drug_class": "B", "place": "NW1 5QT", "emergency": None},
]


@dataclass
class Hospital:
    """The owner's connection, the roles, and the views; the owner is no superuser."""

    server: str
    owner: psycopg.Connection[Any]
    table: DeclaredTable
    views: InstalledViews
    roles: tuple[str, ...]
    name: str

    def role(self, number: int = 0) -> psycopg.Connection[Any]:
        """Connect as a reader."""
        return psycopg.connect(f"{self.server} user={self.roles[number]}", autocommit=True)

    def prepared(
        self,
        *readers: tuple[SigningKey, Sequence[SignedCertificate]],
        table: DeclaredTable | None = None,
    ) -> PreparedViews:
        """Return what the configuration file would say: the first reader has the first role, and so on."""
        config = ViewsConfig(database="", tables=(), readers=())  # type: ignore[arg-type]
        found = tuple(
            ViewReader(role, Reader(key.principal, tuple(certificates)), (table or self.table,))
            for role, (key, certificates) in zip(self.roles, readers, strict=False)
        )
        return PreparedViews(config, found)

    def renew(
        self,
        *readers: tuple[SigningKey, Sequence[SignedCertificate]],
        standing: Monitor | None = None,
        now: Instant | None = None,
        ledger: ViewLedger | None = None,
        **how: Any,
    ) -> list[ViewOutcome]:
        """Decide these readers' rights, and no others."""
        at = system_now() if now is None else now
        prepared = self.prepared(*readers, **how)
        return self.views.renew(prepared, standing or Monitor(), at, ledger)

    def shown(self, number: int = 0, columns: str = "*", where: str = "true") -> list[tuple[Any, ...]]:
        """Return what a role sees, in a session of its own."""
        with self.role(number) as session:
            return session.execute(f"SELECT {columns} FROM {self.view(number)} WHERE {where}").fetchall()

    def view(self, number: int = 0) -> str:
        return f'{self.views.schema}."{self.roles[number]}_prescriptions"'


@contextmanager
def hospital(server: str, *, rows: Sequence[dict[str, Value]] = ROWS, lease_s: int = 0) -> Iterator[Hospital]:
    """Set a database up as an administrator does once, and hand out what its owner needs afterwards."""
    name = f"hospital{next(_NUMBERS)}"
    roles = tuple(f"{name}_reader{number}" for number in range(3))
    version = verify_definition(PRESCRIBE, at=system_now())
    with psycopg.connect(server, autocommit=True) as administrator:
        for role in (name, *roles):
            administrator.execute(f"CREATE ROLE {role} LOGIN")
        administrator.execute(f"CREATE DATABASE {name} OWNER {name}")
    address = server.replace("dbname=postgres", f"dbname={name}")
    try:
        with psycopg.connect(f"{address} user={name}", autocommit=True) as owner:
            owner.execute(
                "CREATE TABLE public.prescriptions (patient text, drug text, drug_class text, place text, "
                "emergency boolean, dose double precision, at timestamptz, published_at timestamptz)"
            )
            for row in rows:
                columns, values = ", ".join(row), [row[column] for column in row]
                marks = ", ".join("%s" for _ in row)
                owner.execute(f"INSERT INTO public.prescriptions ({columns}) VALUES ({marks})", values)
            table = DeclaredTable(
                "prescriptions",
                ("public", "prescriptions"),
                (version,),
                columns={one.uid: one.name for one in version.attributes},
                shown_as=(verify_definition(AUTHORISED, at=system_now()),),
            )
            views = InstalledViews(owner, "shown", lease_s=lease_s)
            views.install()
            yield Hospital(address, owner, table, views, roles, name)
    finally:
        with psycopg.connect(server, autocommit=True) as administrator:
            administrator.execute(f"DROP DATABASE {name} WITH (FORCE)")
            for role in (*roles, name):
                administrator.execute(f"DROP ROLE {role}")


def open_plans(table: DeclaredTable) -> DeclaredTable:
    return replace(table, hides_plans=False)
