"""How does a pipeline fetch the keys with which it reads a log, and who may have written it?

    found = asyncio.run(fetch_reading_keys(key, settings, [event_type], credentials=mine))
    keys = Keys(found.source, desk, found.signers)

The type says who its key manager is and where. The reader proves its key in
the handshake, shows its certificates, and gets what they opened at the time.
Keys of the present are for members of the type's groups, so the reader joins
them for a moment: then its leaving, and the end of its right, make new keys as
they do for every member.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from maia.clock import system_now
from maia.credentials import Principal, SignedCertificate, SigningKey, Witness
from maia.events import Instant
from maia.net.node_runner import NodeRunner
from maia.sealing.keys.history_client import HistoryAsker, ManagerUnreachable
from maia.sealing.keys.key_ring import DEFAULT_TERMS
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import Challenged, KeysRefused, MemberSettings
from maia.spark.keys.content_keys import HeldKeys, KeySource, PastKeys, SeveralSources
from maia.types import VerifiedType
from maia.validity.revalidation import AskingTesters, Revalidator


@dataclass(frozen=True, slots=True)
class ReadingKeys:
    """What opens a log for one reader, and the certificates of those whose frames may be in it."""

    source: KeySource = field(repr=False)
    signers: Mapping[Principal, tuple[SignedCertificate, ...]] = field(repr=False)


async def fetch_reading_keys(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    credentials: Sequence[SignedCertificate],
    standing: Witness | None = None,
    timeout_s: float = 60.0,
) -> ReadingKeys:
    """Ask the type's key manager for keys of the past and of this hour, and for who has published.

    `standing` shows the manager that certificates still count which demand it.
    """
    present = await _present(key, settings, versions, standing=standing, timeout_s=timeout_s)
    past = await _asked(
        key, settings, versions, credentials=credentials, standing=standing, timeout_s=timeout_s
    )
    before = PastKeys(past.answer, past.terms or DEFAULT_TERMS)
    return ReadingKeys(before if present is None else SeveralSources((present, before)), past.writers)


async def _asked(  # noqa: PLR0913 - every one is named at the call
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    credentials: Sequence[SignedCertificate],
    since: Instant | None = None,
    until: Instant | None = None,
    standing: Witness | None = None,
    timeout_s: float,
) -> HistoryAsker:
    asker = HistoryAsker(
        key,
        settings,
        versions,
        credentials=credentials,
        random=os.urandom,
        since=since,
        until=until,
        standing=standing,
    )
    done = asyncio.Event()

    def look() -> None:
        for challenged in asker.take_challenges():
            revalidator.take(challenged)
        if asker.is_done:
            done.set()

    runner = NodeRunner(asker, key, after_inputs=look)
    revalidator = Revalidator(
        AskingTesters(key),
        lambda asked, answers, problem: runner.perform(asker.vouch(asked.id, answers, problem)),
    )
    async with runner.running():
        try:
            runner.perform(asker.start(system_now()))
            await _waited(done, timeout_s)
        finally:
            await revalidator.stop()
    if asker.problem is not None:
        raise asker.problem
    return asker


async def _present(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    standing: Witness | None,
    timeout_s: float,
) -> HeldKeys | None:
    """Return the keys of this hour; None if the reader has no right today."""
    member = KeyMember(key, settings, random=os.urandom, standing=standing)
    type_id, done, refused = versions[-1].type_id, asyncio.Event(), False

    def look() -> None:
        nonlocal refused
        for notice in member.take_notices():
            refused = refused or isinstance(notice, KeysRefused)
            if isinstance(notice, Challenged):
                revalidator.take(notice)
        if refused or member.groups(type_id):
            done.set()

    runner = NodeRunner(member, key, after_inputs=look)
    revalidator = Revalidator(
        AskingTesters(key), lambda asked, answers, _problem: runner.perform(member.vouch(asked.id, answers))
    )
    async with runner.running():
        try:
            runner.perform(member.need(versions, system_now()))
            await _waited(done, timeout_s)
        finally:
            await revalidator.stop()
        ring = member.ring(type_id)
        wanted = frozenset({None, *(uid for version in versions for uid in version.kinds)})
        found = None if refused or ring is None else HeldKeys.of(ring, wanted)
        runner.perform(member.leave())
    return found


async def _waited(done: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        raise ManagerUnreachable(f"the key manager did not answer in {timeout_s:g} seconds") from None
