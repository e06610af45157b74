"""X4, A94: broker, connector and database are killed at random moments; nothing is lost, nothing comes twice.

`MAIA_POSTGRES_KILLS=1000 pytest …` kills often in place of a few times.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from maia.testing import wait_until
from support.postgres_clinic import DERIVE, RELEASE, STORE, Clinic, KillableServer, killable_server, prepare

__all__ = ["killable_server"]

KILLS = int(os.environ.get("MAIA_POSTGRES_KILLS", "5"))
ABORTED = 10**9
"""Doses of transactions that are rolled back begin here."""


class Writers:
    """Applications that write rows, and roll some transactions back, while anything may fail."""

    def __init__(self, clinic: Clinic, seed: int) -> None:
        self._clinic, self._seed, self._stop = clinic, seed, threading.Event()
        self.published: list[int] = []
        """What the doctor has published, and the broker has recorded."""

    @contextmanager
    def working(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(number,)) for number in (1, 2)]
        threads.append(threading.Thread(target=lambda: asyncio.run(self._prescribe())))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _write(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")  # noqa: S311 - a test case
        dose = number * 10**6
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._clinic.database, connect_timeout=2) as connection:
                    while not self._stop.is_set():
                        rows, is_kept = chance.randint(1, 5), chance.random() < 0.7
                        for _ in range(rows):
                            dose += 1
                            connection.execute(
                                "INSERT INTO prescriptions VALUES ('P1', 'aspirin', %s)",
                                [dose if is_kept else dose + ABORTED],
                            )
                        if is_kept:
                            connection.commit()
                        else:
                            connection.rollback()
                        time.sleep(0.002)
            except psycopg.Error:
                time.sleep(0.05)  # it was killed; whether the last commit took place, the table says

    async def _prescribe(self) -> None:
        dose = 0
        async with self._clinic.member("doctor") as doctor:
            publisher = await doctor.advertise("Prescribe")
            while not self._stop.is_set():
                doses = [dose + 1, dose + 2, dose + 3]
                dose += 3
                await publisher.publish_many(
                    {"doctor": f"D{one % 2}", "patient": "P1", "drug": "aspirin", "dose": one}
                    for one in doses
                )
                await publisher.flush(timeout_s=180)
                self.published += doses
                await asyncio.sleep(0.005)


def test_every_committed_row_and_every_event_is_there_once_whatever_was_killed(
    tmp_path, killable_server: KillableServer
) -> None:
    """A94: no event of an aborted transaction leaves, and none leaves twice; X4: nothing is lost."""
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)  # noqa: S311 - a test case
    clinic = prepare(tmp_path, killable_server.address)
    clinic.sql(
        "CREATE TABLE prescriptions (patient text, drug text, dose bigint)",
        "CREATE TABLE treats (doctor text, patient text)",
        "INSERT INTO treats VALUES ('D1', 'P1')",
    )
    clinic.install(STORE + RELEASE + DERIVE[DERIVE.index("[[derive]]") :])
    writers = Writers(clinic, seed)
    with ExitStack() as broker, ExitStack() as connector:
        broker.enter_context(clinic.broker())
        connector.enter_context(clinic.connector())
        clinic.subscribe()
        with writers.working():
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.05, 0.8))
                match chance.choice(["broker", "connector", "connector", "database"]):
                    case "broker":
                        broker.close()  # ends it as `kill -9` does
                        broker.enter_context(clinic.broker())
                    case "connector":
                        connector.close()
                        connector.enter_context(clinic.connector(ready=chance.random() < 0.5))
                    case "database":
                        killable_server.kill()
                        killable_server.start()
        wait_until(lambda: clinic.sql("SELECT count(*) FROM prescribed") == [(len(writers.published),)])
        wait_until(lambda: clinic.sql("SELECT count(*) FROM maia.out_prescriptions") == [(0,)])
        stored = clinic.sql("SELECT dose FROM prescribed ORDER BY maia_position, maia_row")
        rows = [dose for (dose,) in clinic.sql("SELECT dose FROM prescriptions")]
        derived = [dose for dose in writers.published if dose % 2]
        read = [event["dose"] for event in clinic.read(len(rows) + len(derived))]
    assert [dose for (dose,) in stored] == writers.published, f"seed {seed}"
    assert sorted(read) == sorted(rows + derived), f"seed {seed}"
    for first in (0, 10**6, 2 * 10**6):  # each writer's transactions commit one after the other
        of_writer = [dose for dose in read if first < dose < first + 10**6]
        assert of_writer == sorted(of_writer), f"seed {seed}"
    assert len(rows) > KILLS, "the writers wrote nothing"
