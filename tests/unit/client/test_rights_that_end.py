"""A client warns two weeks before something that is granted to it ends, and two days before."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from contextlib import suppress

import maia
from maia.client import ClientSession, ClientSettings, RightEnds
from maia.credentials import (
    Action,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    Validity,
    parse_name_pattern,
)
from maia.events import SECOND, Instant
from maia.testing import free_ports, grant
from maia.wire import Note, Tick
from support.numberplate import tell_numberplate_story

DAY = 86_400 * SECOND
NOW = Instant.parse("2026-11-16T12:00:00Z")
ISSUER, MEMBER = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2))
NETWORK = tell_numberplate_story(b"ends", now=NOW).network


def at(days: float) -> Instant:
    return Instant(NOW + int(days * DAY))


def right(ends: float, *, begins: float = 0) -> SignedCertificate:
    about = NetworkPattern(ISSUER.principal, parse_name_pattern("city"))
    return grant(ISSUER, MEMBER, about, Action.CONNECT, validity=Validity(at(begins), at(ends)))


class Living:
    """A client that lives for months, and what it says of ends."""

    def __init__(self, *held: SignedCertificate) -> None:
        settings = ClientSettings(NETWORK, ("127.0.0.1:7400",), held)
        self.session, self.lines = ClientSession(MEMBER, settings, random=os.urandom), list[Note]()
        self._started = False

    def on_day(self, day: float) -> Sequence[str]:
        """Return what the client warns of at this moment."""
        now = at(day)
        effects = self.session.handle(Tick(), now) if self._started else self.session.start(now)
        self._started = True
        self.lines += [one for one in effects if isinstance(one, Note) and one.event == "expiring"]
        return [str(one.problem) for one in self.session.take_notices() if isinstance(one, RightEnds)]


def test_a_client_warns_two_weeks_and_two_days_before_a_right_of_it_ends() -> None:
    held = right(90)
    client = Living(held)
    assert [bool(client.on_day(day)) for day in (0, 75.9, 76.1, 80, 87.9, 88.1, 89)] == [
        False, False, True, False, False, True, False,
    ]  # fmt: skip
    assert [dict(one.fields) for one in client.lines] == [
        {
            "certificate": held.id.hex()[:24], "right": "connect to network city",
            "until": at(90), "issuer": ISSUER.principal, "actions": ["connect"],
        }
    ] * 2  # fmt: skip


def test_a_client_that_starts_shortly_before_an_end_names_the_certificate_and_whom_to_ask() -> None:
    held = right(90)
    (said,) = Living(held).on_day(89)
    for part in (
        "`connect to network city`",
        str(at(90)),
        f"ask {ISSUER.principal} to renew it",
        held.id.hex()[:12],
    ):
        assert part in said


def test_a_client_is_not_warned_of_what_was_renewed_or_was_given_for_some_days() -> None:
    assert not Living(right(90), right(170, begins=80)).on_day(85)
    assert not Living(right(7)).on_day(1)
    client = Living(right(90))
    client.session.show([right(170, begins=80)], [])
    assert not client.on_day(85)


def test_what_has_ended_is_no_news() -> None:
    assert not Living(right(90)).on_day(91)


async def _connect_until(told: asyncio.Event, *held: SignedCertificate, day: float) -> None:
    """Look for a broker, which there is not, until the client has told of something."""

    async def connected() -> None:
        (port,) = free_ports(1)
        options = {"key": MEMBER, "network": NETWORK, "credentials": held, "clock": lambda: at(day)}
        async with maia.connect(f"127.0.0.1:{port}", **options):
            pass

    task = asyncio.create_task(connected())
    await asyncio.wait_for(told.wait(), 60)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_the_log_of_a_program_has_a_warning_with_fields() -> None:
    held, told = right(90), asyncio.Event()
    found = list[logging.LogRecord]()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "POLICY-ENDS-SOON" in record.getMessage():
                found.append(record)
                told.set()

    handler = Told()
    logging.getLogger("maia").addHandler(handler)
    try:
        asyncio.run(_connect_until(told, held, day=89))
    finally:
        logging.getLogger("maia").removeHandler(handler)
    (reason,) = found[0].maia["reasons"]  # type: ignore[attr-defined]  # what the client adds
    assert (found[0].levelname, reason["certificate"]) == ("WARNING", held.id.hex())
