"""A plain outbox poller, as people write it: take rows, publish them, wait for the broker, delete, commit.

Run as a program with a clinic's folder, its database and its broker: it prints one line when it is ready.
It has the same durability as our connector, and repeats a batch if it is killed before its commit.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psycopg

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.postgres_clinic import Clinic

ROWS = 10_000
PAUSE_S = 0.005
TAKE = """
DELETE FROM plain_outbox WHERE id IN (SELECT id FROM plain_outbox ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
RETURNING id, payload
"""


async def poll(clinic: Clinic) -> None:
    """Publish whatever is in the outbox, for as long as the process lives."""
    async with (
        clinic.member("doctor") as client,
        await psycopg.AsyncConnection.connect(clinic.database) as connection,
    ):
        publisher = await client.advertise("Prescription")
        print("ready", flush=True)
        while True:
            found = await (await connection.execute(TAKE, [ROWS])).fetchall()
            if found:
                found.sort()
                await publisher.publish_many(payload for _, payload in found)
                await publisher.flush()
            await connection.commit()
            if not found:
                await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(poll(Clinic(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
