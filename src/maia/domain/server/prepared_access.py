"""What does a domain's access control service need, once everything that its settings name was opened?

Kept apart from the service itself, so that checking a configuration loads no server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from maia.credentials import Principal, SignedCertificate, VerifiedConstitution
from maia.credentials.appointments import ParameterKind
from maia.credentials.names import checked_label
from maia.domain.access.settings import AccessSettings
from maia.domain.server.access_config import AccessConfig
from maia.types import SignedDefinition


@dataclass(frozen=True, slots=True)
class StreamOfFacts:
    """A fact, the type of the events that state it, and which attributes are its arguments."""

    name: str
    definition: SignedDefinition
    columns: tuple[str, ...]
    kinds: tuple[ParameterKind, ...]
    holds: str | None
    stale_s: float


@dataclass(frozen=True, slots=True)
class PreparedAccess:
    """Everything that the service needs, opened and checked."""

    config: AccessConfig
    hear: tuple[Principal, ...] = ()
    held: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    types: tuple[SignedDefinition, ...] = field(default=(), repr=False)
    streams: tuple[StreamOfFacts, ...] = field(default=(), repr=False)
    pushes: tuple[tuple[Principal, Path], ...] = ()
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)

    @property
    def settings(self) -> AccessSettings:
        """Return the settings of the service."""
        config = self.config
        return AccessSettings(
            period_s=config.statements_period_s,
            lead_s=config.statements_lead_s,
            right_s=config.rights_seconds,
            community=None if config.identity_community is None else checked_label(config.identity_community),
            identity_s=config.identity_lifetime_s,
            attested_s=config.identity_attested_s,
            constitutions=self.constitutions,
            locations=() if config.api_public is None else (f"https://{config.api_public}/v1/statements",),
        )
