"""How do SQL views follow the rights that they show?

Certificates, definitions and statements are read again each time, testers are asked where certificates
say, and every right is decided again. What was once received of an issuer's statements is kept for as long
as the watch runs, so that no older list undoes a newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final

from maia.api.testers import ask_testers
from maia.back_off import doubled
from maia.config.input_files import read_principal
from maia.errors import MaiaError
from maia.events import Instant
from maia.ledger.files import LedgerFiles
from maia.postgres.view_definitions import ViewLedger
from maia.postgres.view_settings import PreparedViews, ViewsConfig, prepare_views, read_views_config
from maia.postgres.views import InstalledViews, ViewOutcome, connected
from maia.spark.governed.right_watch import read_statements
from maia.validity import Monitor

TESTERS_S: Final = 10.0
"""How long testers are waited for, each time."""
_AGAIN_MAX_S: Final = 60.0


@contextmanager
def view_ledger(config: ViewsConfig) -> Iterator[ViewLedger | None]:
    """Open the ledger, if the settings name one."""
    if config.ledger is None or config.owner is None:
        yield None
        return
    with LedgerFiles(config.ledger) as files:
        yield ViewLedger(files, read_principal(config.owner))


class ViewWatch:
    """The views of one configuration file, decided whenever `renew` is called."""

    def __init__(self, file: Path, clock: Callable[[], Instant]) -> None:
        """Begin without statements."""
        self._file, self._clock = file, clock
        self._monitor = Monitor()

    def install(self) -> list[ViewOutcome]:
        """Make the schema, and the views that readers have a right to."""
        return self._with_views(install=True)

    def renew(self) -> list[ViewOutcome]:
        """Decide every right again, and make, renew and remove views accordingly."""
        return self._with_views(install=False)

    def run(
        self,
        over: Event,
        on_outcomes: Callable[[list[ViewOutcome]], None],
        on_problem: Callable[[MaiaError], None],
    ) -> None:
        """Renew again and again until `over` is set; try again after a failure.

        Views that are not renewed meanwhile end with their lease, or with their right.
        """
        failures = 0
        while not over.is_set():
            try:
                on_outcomes(self.renew())
                failures = 0
                over.wait(read_views_config(self._file).every_s)
            except MaiaError as problem:
                on_problem(problem)
                failures += 1
                over.wait(doubled(1.0, failures, most=_AGAIN_MAX_S))

    def _with_views(self, *, install: bool) -> list[ViewOutcome]:
        config = read_views_config(self._file)
        prepared = prepare_views(config, now=self._clock())
        self._hear(prepared)
        with connected(config.database) as connection, view_ledger(config) as ledger:
            views = InstalledViews(connection, config.schema, lease_s=config.lease_s)
            if install:
                views.install()
            # Decided as of a moment after everything was read: what is revoked then is gone from the views.
            return views.renew(prepared, self._monitor, self._clock(), ledger)

    def _hear(self, prepared: PreparedViews) -> None:
        """Take in the statements in files, and what testers say; those that do not answer say nothing."""
        now = self._clock()
        folders = [path for one in prepared.config.readers for path in one.credentials if path.is_dir()]
        received = read_statements((*folders, *prepared.config.statements))
        asked = asyncio.run(ask_testers(prepared.certificates, now=now, within_s=TESTERS_S))
        for signed in (*received, *asked.statements):
            self._monitor.receive(signed, now)
        self._monitor.advance(now)
