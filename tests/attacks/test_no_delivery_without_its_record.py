"""A95: a delivery without its record, a full disk, an account that was rewritten."""

from __future__ import annotations

import asyncio

import pytest

from maia.broker.server.server import run_broker
from maia.broker.settings import LedgerSettings
from maia.clock import system_now
from maia.ledger.files import LedgerFiles, LedgerUnavailable, disclosures_in, verify_ledger
from maia.testing import in_a_loop
from maia.wire.effects import Disclose
from support.live import BROKER, STORY, client, settings


class FullDisk(LedgerFiles):
    """A ledger on a disk that has room for so many writes."""

    left = 1

    def write(self, entries: list[Disclose], /) -> None:
        if self.left <= 0:
            raise LedgerUnavailable("the disk is full")
        self.left -= 1
        super().write(entries)


async def publish_until_full(ledger: LedgerFiles, received: list[str]) -> None:
    """Publish three times over TLS, and put what the office receives into `received`."""
    on_record = settings(ledger=LedgerSettings(of_all_types=True))
    async with (
        run_broker(STORY.keys[BROKER], on_record, ledger=ledger) as running,
        client("billing office", running.address) as office,
        client("camera at Victoria", running.address) as camera,
    ):
        subscription = await office.subscribe(STORY.definition)
        publisher = await camera.advertise(STORY.definition)
        for number in range(3):
            await publisher.publish(numberplate=f"P{number}", location="Victoria", timestamp=system_now())
            received += [str(one["numberplate"]) for one in await subscription.some(9, timeout_s=60)]
        await asyncio.sleep(60)  # the broker stops before


@in_a_loop
async def test_a_broker_that_cannot_write_its_ledger_delivers_nothing_more_and_stops(tmp_path):
    received: list[str] = []
    with FullDisk(tmp_path) as ledger, pytest.raises(LedgerUnavailable):
        await publish_until_full(ledger, received)
    assert received == ["P0"]
    assert len(list(disclosures_in(tmp_path))) == 1


def test_an_account_that_was_rewritten_does_not_have_the_head_that_others_keep(tmp_path):
    """Whoever holds the files can write others that are whole; not others with the same head."""
    with LedgerFiles(tmp_path / "true") as ledger:
        ledger.write([Disclose(True, b"\x90"), Disclose(False, b"\x90")])
        head = ledger.head
    with LedgerFiles(tmp_path / "false") as ledger:
        ledger.write([Disclose(True, b"\x90"), Disclose(False, b"\x91\x93\x03\x01\x90")])
    assert verify_ledger(tmp_path / "false").head.entries == head.entries
    assert verify_ledger(tmp_path / "true", head.check).earlier == head
    assert verify_ledger(tmp_path / "false", head.check).earlier is None
