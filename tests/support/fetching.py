"""What do testers say of certificates, for tests that need an answer?"""

from __future__ import annotations

from collections.abc import Iterable

from maia.api.testers import ask_testers
from maia.credentials import SignedCertificate, SignedStatement
from maia.events import Instant


async def fetch_statements(
    certificates: Iterable[SignedCertificate], *, now: Instant
) -> tuple[SignedStatement, ...]:
    """Return what the testers of these certificates say now; raise the first problem if none answered."""
    found = await ask_testers(certificates, now=now)
    for problem in found.problems.values() if not found.statements else ():
        raise problem
    return found.statements
