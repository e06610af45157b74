"""X10: a connector whose broker is lost goes on at another one, and loses and repeats nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from maia.log.disk.event_log import EventLog
from maia.testing import wait_until
from maia.types import type_id
from maia.wire.codec import decode_recorded
from maia.wire.messages import signer_of
from support.postgres_clinic import RELEASE, STORE, Clinic, clinic

__all__ = ["clinic"]

PAUSE_S = 0.01


class Hospital:
    """An application that writes rows, and a doctor at the second broker who prescribes, side by side."""

    def __init__(self, clinic: Clinic) -> None:
        self._clinic = clinic
        self.written = self.prescribed = 0
        self._stop = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._stop.clear()
        threads = [threading.Thread(target=one) for one in (self._write, self._prescribe)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def write(self) -> None:
        """Write one row."""
        self.written += 1
        self._clinic.sql(f"INSERT INTO prescriptions VALUES ('P1', 'aspirin', {self.written})")

    def _write(self) -> None:
        while not self._stop.is_set():
            self.write()
            time.sleep(PAUSE_S)

    def _prescribe(self) -> None:
        while not self._stop.is_set():
            some = range(self.prescribed + 1, self.prescribed + 4)
            self._clinic.prescribe(*({"doctor": "D1", "patient": "P1", "dose": one} for one in some))
            self.prescribed += 3

    def has_arrived(self) -> bool:
        """Return whether everything is stored, and has left."""
        stored = self._clinic.sql("SELECT count(*) FROM prescribed") == [(self.prescribed,)]
        return stored and waiting(self._clinic) == 0


def waiting(clinic: Clinic) -> int:
    """Return how many rows have not left."""
    return int(json.loads(clinic.postgres("check", "--json").stdout)["waiting"]["prescriptions"])


def publications(clinic: Clinic, folder: str) -> list[tuple[bytes, int, int, bytes]]:
    """Return stream, number, moment and signer of what a log holds of prescriptions."""
    name = clinic.definition("Prescription").definition.name
    with EventLog.open(clinic.home / folder) as log:
        frames = [decode_recorded(one.message) for one in log.read()]
    found = [one for one in frames if one.type_id == type_id(name.owner, name.name)]
    return [(one.stream, one.sequence, one.published_at, signer_of(one)) for one in found]


def test_a_connector_moves_to_another_broker_of_its_organisation(clinic: Clinic) -> None:
    clinic.sql("CREATE TABLE prescriptions (patient text, drug text, dose integer)")
    clinic.add_broker("second")
    clinic.install(STORE + RELEASE)
    hospital = Hospital(clinic)
    with ExitStack() as first, ExitStack() as second:
        second.enter_context(clinic.broker("second"))
        first.enter_context(clinic.broker())
        with clinic.connector():
            clinic.subscribe()
            with hospital.at_work():
                time.sleep(1)
                first.close()  # as `kill -9` does, and it does not come back for now
                time.sleep(3)
            wait_until(hospital.has_arrived)
            read = clinic.read(hospital.written)
            assert "moved" in clinic.errors("connector")
            first.enter_context(clinic.broker())
            with hospital.at_work():
                time.sleep(2)
            wait_until(hospital.has_arrived)
            read += clinic.read(hospital.written - len(read), more_s=2)
        first.close()
        ((begun,),) = clinic.sql("SELECT next_frame FROM maia.releases")
        with clinic.connector():  # which begins while its first broker is away
            with hospital.at_work():
                time.sleep(0.5)
            wait_until(hospital.has_arrived)
            read += clinic.read(hospital.written - len(read))
            stored = clinic.sql("SELECT dose FROM prescribed ORDER BY maia_position, maia_row")
            # What the second broker has taken on meanwhile, the first one never got: it leaves again there.
            second.close()
            first.enter_context(clinic.broker())
            hospital.write()
            wait_until(lambda: waiting(clinic) == 0)
            second.enter_context(clinic.broker("second"))
            hospital.write()
            read += clinic.read(hospital.written - len(read), more_s=2)
    logs = [publications(clinic, name) for name in ("log", "second-log")]
    both = [frame for log in logs for frame in log]
    numbers = {frame[:2] for frame in both}
    assert [len(log) for log in logs] == [len(numbers)] * 2, "each publication is recorded, and once"
    assert len({(*frame[:2], frame[3]) for frame in both}) > len(numbers), "some by two signers"
    moved = [frame[1:3] for frame in both if frame[1] >= begun]
    assert len(set(moved)) == len(moved) // 2, (
        "copies have one moment, by which tables over both logs find them"
    )
    assert [one["dose"] for one in read] == list(range(1, hospital.written + 1))
    assert [dose for (dose,) in stored] == list(range(1, hospital.prescribed + 1))
