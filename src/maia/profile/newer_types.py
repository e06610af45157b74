"""Has a domain's server newer versions of the types that a participant knows?

What it answers is trusted for nothing: a version counts if its lineage leads
back to one that the participant has, and each step verifies against the owner's key. Types
that the participant does not know are left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from maia.api import endpoints
from maia.api.client import DomainClient
from maia.config.input_files import read_principal
from maia.config.type_folder import in_order_of_making, verified_lineage
from maia.errors import MaiaError
from maia.profile.profile import Profile
from maia.types import definition_from_bytes

if TYPE_CHECKING:
    from maia.credentials import Principal, SigningKey
    from maia.events import Instant
    from maia.types import SignedDefinition


_PAGES_MAX: Final = 64
_ANSWER_S: Final = 1.5


def newer_definitions(
    profile: Profile, held: Sequence[SignedDefinition], key: SigningKey, now: Instant
) -> tuple[SignedDefinition, ...]:
    """Return what is held, with newer versions of the same types that the domain's server has."""
    settings = profile.settings
    if settings.server is None or settings.domain is None or not held:
        return tuple(held)
    found = told_by(settings.server, read_principal(settings.domain), key)
    known = {one.id: one for one in held}
    for owner, name in {(one.definition.name.owner, one.definition.name.name) for one in held}:
        pool = {**{one.id: one for one in found}, **known}
        try:
            lineage = verified_lineage(
                pool.values(), owner=owner, name=name, version=None, at=now,
                constitutions=profile.constitutions(),
            )  # fmt: skip
        except MaiaError:
            continue  # a fork, or versions that do not verify: what is held counts
        known |= {one.signed.id: one.signed for one in lineage}
    return in_order_of_making(known.values())


def told_by(server: str, domain: Principal, key: SigningKey) -> list[SignedDefinition]:
    """Return the definitions that a domain's server tells, of which nothing is verified yet."""
    with DomainClient(server, domain=domain, key=key, timeout_s=_ANSWER_S) as client:
        told = client.every(endpoints.TYPES, pages_max=_PAGES_MAX)
        return [definition_from_bytes(one.definition) for one in told]
