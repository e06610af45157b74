"""How does a pipeline fetch the keys with which it reads a log, and who may have written it?

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

from maia.api.revalidation import AskingTesters, Revalidator
from maia.clock import system_now
from maia.credentials import Principal, SignedCertificate, SigningKey
from maia.errors import BadInput, Unavailable
from maia.net.node_runner import NodeRunner
from maia.policy.answers import Answers
from maia.sealing.keys.key_ring import KeyRing
from maia.sealing.member.member import KeyMember
from maia.sealing.member.past import PastReading
from maia.sealing.member.settings import KeysRefused, MemberSettings
from maia.sessions.challenges import Challenged
from maia.spark.keys.content_keys import HeldKeys, KeysBegin, KeySource, SeveralSources
from maia.types import VerifiedType
from maia.validity import Monitor


@dataclass(frozen=True, slots=True)
class ReadingKeys:
    """What opens a log for one reader, and the certificates of those whose frames may be in it."""

    source: KeySource = field(repr=False)
    signers: Mapping[Principal, tuple[SignedCertificate, ...]] = field(repr=False)
    answers: Answers = field(default_factory=dict, repr=False)
    """What the answers are about of which there are keys."""
    begins: tuple[KeysBegin, ...] = ()


async def fetch_reading_keys(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    standing: Monitor | None = None,
    timeout_s: float = 60.0,
) -> ReadingKeys:
    """Ask the type's key manager for keys of the past and of this hour, and for who has published.

    `standing` shows the manager that certificates still count which demand it.
    """
    if versions[-1].sealing is None:
        raise BadInput("INPUT-NOT-SEALED", f"`{versions[-1].name.name}` is not sealed, and has no keys")
    ring, past = await _asked(key, settings, versions, standing=standing, timeout_s=timeout_s)
    before = HeldKeys.of_past(past.epochs, past.terms)
    begins = [KeysBegin(one.since, frozenset(one.keys)) for one in past.epochs]
    if ring is None:
        return ReadingKeys(before, past.writers, past.answers, tuple(begins))
    for epoch in ring.epochs:
        period, groups = ring.period(epoch), ring.groups(epoch)
        assert period is not None  # noqa: S101 - it is one of the ring's
        begins.append(KeysBegin(period[0], frozenset(group.uid for group in groups)))
    answers = {**past.answers, **ring.answers}
    wanted = frozenset({None, *(uid for version in versions for uid in version.kinds), *answers})
    source = SeveralSources((HeldKeys.of_ring(ring, wanted), before))
    return ReadingKeys(source, past.writers, answers, tuple(begins))


async def _asked(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    standing: Monitor | None,
    timeout_s: float,
) -> tuple[KeyRing | None, PastReading]:
    """Return the keys of this hour, None if the reader has no right today, and those of the past."""
    member = KeyMember(key, settings, random=os.urandom, standing=standing)
    type_id, answered, done = versions[-1].type_id, asyncio.Event(), asyncio.Event()
    past, refused = PastReading(type_id), False

    def look() -> None:
        nonlocal refused
        for notice in member.take_notices():
            refused = refused or isinstance(notice, KeysRefused)
            if isinstance(notice, Challenged):
                revalidator.take(notice)
        if refused or member.groups(type_id):
            answered.set()
        if past.is_done:
            done.set()

    runner = NodeRunner(member, key, after_inputs=look)
    revalidator = Revalidator(
        AskingTesters(key),
        lambda asked, answers, problem: runner.perform(member.vouch(asked.id, answers, problem)),
    )
    async with runner.running():
        try:
            runner.perform(member.need(versions, system_now()))
            await _waited(answered, timeout_s)
            ring = None if refused else member.ring(type_id)
            present = None if ring is None else ring.copy()
            runner.perform(member.read_past(past, system_now()))
            await _waited(done, timeout_s)
        finally:
            await revalidator.stop()
        runner.perform(member.leave())
    if past.problem is not None:
        raise past.problem
    return present, past


async def _waited(done: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        raise Unavailable(
            "UNAVAILABLE-HISTORY-KEYS", f"the key manager did not answer in {timeout_s:g} seconds"
        ) from None
