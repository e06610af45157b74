"""What are the settings and the limits of an access control service?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from maia.credentials import VerifiedConstitution
from maia.errors import BadInput, Unavailable


@dataclass(frozen=True, slots=True)
class AccessLimits:
    """The largest numbers that an access control service accepts; beyond them it refuses and says so."""

    page: int = 500
    """Rows in one page of an answer."""
    page_bytes: int = 1 << 20
    """Bytes of statements in one page, beyond its first."""
    looked_at: int = 5_000
    """Rows that one page may read before it is handed out, full or not."""
    policy_bytes: int = 1 << 20
    shown: int = 64
    """Appointment certificates that one request may show."""
    memberships_each: int = 256
    """Active memberships of one principal."""
    rights_each: int = 1_024
    """Rights of one principal that are valid at one time."""
    held: int = 1_024
    """Certificates that lead from owners to this domain."""
    types: int = 1_024
    facts: int = 1_000_000
    fact_rows: int = 200_000
    """Rows that a source may hand over at once."""
    reason: int = 200
    """Characters of a reason."""
    revoked_in_a_list: int = 20_000
    """Ids in one statement. Beyond it the service signs nothing more: everything it issued goes stale."""
    statements_kept: int = 256
    remembered_answers: int = 100_000
    answers_each: int = 10_000
    """Answers that are remembered for one principal, so that no principal uses up the room of all."""
    answer_bytes: int = 1 << 20
    subjects: int = 1_000_000
    providers: int = 1_024
    """Identity providers of other domains that this one trusts."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """How long statements and rights last, and the limits."""

    period_s: int = 30
    """How long one timed list holds."""
    lead_s: int = 10
    """How long before the end of a list the next one is signed: what a busy machine has to deliver it."""
    right_s: int = 86_400
    """How long a right is issued for, where the rule behind it does not end it sooner."""
    answers_kept_s: int = 86_400
    """How long an answer is remembered under its idempotency key."""
    kept_s: int = 7 * 86_400
    """How long after its end something is still kept, so that no clock set back brings it to life."""
    community: str | None = None
    """The community of interest that identity statements are for; without one the domain issues none."""
    identity_s: int = 3_600
    """How long an identity statement holds at most: what is removed from a subject is gone by then."""
    attested_s: int = 900
    """How long a verified quote counts: a statement with its level ends then, too."""
    authorities: tuple[bytes, ...] = field(default=(), repr=False)
    """X.509 authorities (DER): subjects are registered by certificates that lead to one. Without, by keys."""
    revocation_lists: Callable[[], Sequence[bytes]] = field(default=tuple, repr=False)
    """Reads the revocation lists of these authorities, each time a certificate is verified."""
    locations: tuple[str, ...] = ()
    """Where statements can be asked for; written into the certificates."""
    name_folders: tuple[str, ...] = ()
    """The profile and the organisation whose names of owners a policy may use."""
    limits: AccessLimits = field(default_factory=AccessLimits)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    """Who speaks for the quorums that own networks and types."""

    def __post_init__(self) -> None:
        """Refuse settings that no service can keep."""
        if not 1 <= self.period_s <= 86_400:
            raise BadInput("INPUT-DOMAIN-SETTINGS", "a timed list holds for one second to one day")
        if not 0 <= self.lead_s < self.period_s:
            raise BadInput(
                "INPUT-DOMAIN-SETTINGS", "the next list is signed within the period of the present one"
            )
        if not 1 <= self.identity_s <= 86_400:
            raise BadInput("INPUT-DOMAIN-SETTINGS", "an identity statement holds for one second to one day")
        if not 1 <= self.attested_s <= 86_400:
            raise BadInput("INPUT-DOMAIN-SETTINGS", "a verified quote counts for one second to one day")
        if self.right_s < 1 or self.answers_kept_s < 1:
            raise BadInput("INPUT-DOMAIN-SETTINGS", "rights and remembered answers last at least one second")


def check_room(count: int, most: int, sentence: str) -> None:
    """Raise that the service is full if there would be more than `most`; the sentence has that for `{}`."""
    if count > most:
        raise Unavailable("UNAVAILABLE-ACCESS-CONTROL-FULL", sentence.format(most))
