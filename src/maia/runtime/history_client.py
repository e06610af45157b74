"""How does a pipeline fetch the keys with which it reads the past?

    keys = asyncio.run(fetch_history_keys(key, settings, [event_type], credentials=mine))

The type says who its key manager is and where. The reader proves its key in
the handshake, shows its certificates, and gets what they opened at the time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from maia.credentials import SignedCertificate, SigningKey
from maia.events import Instant
from maia.pipeline.keys import PastKeys
from maia.runtime.clock import system_now
from maia.runtime.node_runner import NodeRunner
from maia.sealing.history_asker import HistoryAsker, ManagerUnreachable
from maia.sealing.key_ring import DEFAULT_TERMS
from maia.sealing.member_settings import MemberSettings
from maia.types import VerifiedType

__all__ = ["fetch_history_keys"]


async def fetch_history_keys(
    key: SigningKey,
    settings: MemberSettings,
    versions: Sequence[VerifiedType],
    *,
    credentials: Sequence[SignedCertificate],
    since: Instant | None = None,
    until: Instant | None = None,
    timeout_s: float = 60.0,
) -> PastKeys:
    """Ask the type's key manager; raise its refusal, or that it does not answer."""
    asker = HistoryAsker(
        key, settings, versions, credentials=credentials, random=os.urandom, since=since, until=until
    )
    done = asyncio.Event()

    def look() -> None:
        if asker.is_done:
            done.set()

    runner = NodeRunner(asker, key, after_inputs=look)
    async with runner.running():
        runner.perform(asker.start(system_now()))
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            raise ManagerUnreachable(f"the key manager did not answer in {timeout_s:g} seconds") from None
    if asker.problem is not None:
        raise asker.problem
    return PastKeys(asker.answer, asker.terms or DEFAULT_TERMS)
