"""How is a broker configured, and how much does it take on?

The operator's configuration ends here as one frozen value. Every number that
a peer could drive up has a maximum with a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from maia.credentials import NetworkName, SignedCertificate, VerifiedConstitution
from maia.credentials.identity import IdentityTrust
from maia.errors import BadInput
from maia.events import Instant, seconds_after
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.policy import CHAINS_COUNTED, CHAINS_MAX, BoundRule
from maia.policy.facts import WorldFunction
from maia.predicates import ALWAYS, Predicate
from maia.routing.aggregation.budget import BudgetRange


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The largest numbers that a broker accepts; beyond them it refuses and says so."""

    SETTINGS: ClassVar = frozenset({
        "links", "links_before_welcome", "subscriptions_per_client", "summaries_per_client",
        "advertisements_per_client", "requests_per_minute", "work_per_request", "work_per_minute_and_broker",
        "types", "interests_per_peer", "bytes_per_peer", "wait_for_keys_s", "durable_names",
        "durable_names_per_principal", "durable_frames_under_way", "chains_per_request", "catch_up_s",
    })  # fmt: skip
    """What an operator chooses, under `[limits]`. The others bound what one peer may cost: a smaller number
    refuses good peers, a larger one helps strangers only (docs/decisions/limits-of-a-peer.md).
    """
    links: int = 4096
    """Connections at one time, those that have not said hello included."""
    links_before_welcome: int = 512
    """Connections at one time whose right to connect is not known yet; the oldest of the busiest goes."""
    subscriptions_per_client: int = 4096
    """Subscriptions of one client at one time."""
    summaries_per_client: int = 8
    """Subscriptions of one client to summaries, which are counted for it."""
    summary_groups: int = 200_000
    """Groups in the open periods of all summaries; an event that would begin another is left out."""
    advertisements_per_client: int = 1024
    """Advertisements of one client at one time."""
    requests_per_minute: int = 6000
    """Advertisements, subscriptions, renewals and withdrawals of one principal, over all its links."""
    work_before_welcome: int = 4096
    """Steps that the search for a peer's right to connect may take; a signature check counts for some."""
    work_per_request: int = 200_000
    """Steps that the search for the right behind one request of a client may take."""
    work_per_message: int = 40_000
    """Steps that one message of another broker may cost: interests and offers, and their proofs."""
    work_per_minute_and_broker: int = 1_500_000
    """Steps that the messages of one other broker may cost in a minute; beyond them it is read later."""
    requests_remembered: int = 1 << 18
    """Requests within the window of clock skew, all of which are remembered."""
    requests_remembered_per_principal: int = 1 << 14
    """How many of these are of one principal."""
    rows_per_frame: int = 65_536
    """Events in one frame."""
    types: int = 4096
    """Type versions that are remembered; of types not in use, the least recently accepted go first."""
    interests_per_peer: int = 100_000
    """Filters and offers that one neighbouring broker may have registered here."""
    bytes_per_peer: int = 128 << 20
    """What one neighbouring broker may make this one keep: interests, offers, replicas, refusals."""
    bytes_before_welcome: int = 512 << 10
    """What a peer may say, in all its messages, before its right to connect is known."""
    handshake_s: int = 10
    """How long a connection may take to prove its right to connect."""
    streams: int = 65_536
    """Publishers' streams whose numbers are remembered to recognise duplicates."""
    numbers_per_stream: int = 256
    """Runs of numbers of one stream that are remembered; a stream without gaps is one run."""
    frames_waiting_per_type: int = 1024
    """Frames of one sealed type that wait for a key."""
    bytes_waiting_per_type: int = 16 << 20
    """How many bytes these have."""
    wait_for_keys_s: int = 10
    """How long a frame waits for its key, or its signer's certificates; a recorded one: once asked for."""
    durable_names: int = 4096
    """Durable subscriptions that are remembered, whether their owners are here or not."""
    durable_names_per_principal: int = 64
    """How many of these are of one principal."""
    durable_frames_under_way: int = 256
    """Frames of one durable subscription that were delivered and not acknowledged."""
    durable_bytes_under_way: int = 4 << 20
    """How many bytes these have."""
    statement_issuers: int = 1024
    """Issuers whose validity streams are subscribed to, because certificates demand their statements."""
    statements_shown: int = 64
    """Statements of a peer that are held until it shows certificates that they are about."""
    chains_per_request: int = CHAINS_COUNTED
    """Chains of one principal to one type that add up; beyond them it is warned that some do not count."""
    statement_bytes_shown: int = 1 << 20
    """How many bytes these have, the newest first."""
    certificates_shown: int = 512
    """Certificates that a peer may show within a session, beside those of its requests."""
    certificate_bytes_shown: int = 4 << 20
    """How many bytes these have."""
    one_time_s: int = 20
    """How long an answer to a one-time question is waited for."""
    one_time_questions: int = 4096
    """One-time questions that are open at one time."""
    one_time_questions_per_request: int = 8
    """How many of these one request may ask."""
    one_time_requests_per_principal: int = 256
    """Requests and standing entries of one principal that wait for one-time answers, over all its links."""
    catch_up_s: int = 7 * 86_400
    """How long ago something may have been recorded that is still sent to a broker that has missed it."""
    recorded_frames_reread: int = 100_000
    """Frames of the event log that are read at the start, to recognise what is published again."""


class Routing(Enum):
    """How interests spread between the brokers of a network; all of them route in the same way."""

    RENDEZVOUS = "rendezvous"
    MESH = "mesh"


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """What a broker records."""

    types: frozenset[str] | None = None
    """Names of types, or their ids in hexadecimal digits; None for all whose definition is known here."""
    durable: bool = True
    """Whether a publisher is answered only when its frame is safe."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Which deliveries a broker puts on record."""

    of_all_types: bool = False
    """Also of types whose owner does not demand it."""


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """One broker of one network: where it listens, who it can show itself to be, whom it joins."""

    network: NetworkName
    address: str
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    seeds: tuple[str, ...] = ()
    routing: Routing = Routing.RENDEZVOUS
    neighbours: tuple[str, ...] = ()
    """Where the neighbours of a router of a mesh listen."""
    processes: tuple[str, ...] = ()
    """Where the processes of this broker listen, this one among them, if there are several."""
    key_managers: tuple[str, ...] = ()
    """Where managers of keys may be found, beside the addresses that definitions name."""
    lease_s: int = 60
    skew_s: int = 30
    proof_age_s: int = 900
    """How long a signed request counts at other brokers (C15); clients sign again in half that time."""
    verify_in_transit: float = 1.0
    """The fraction of interests and offers from other brokers whose proof is verified here (C9), and of
    frames of signed types that this broker only passes on (C14)."""
    open_borders: bool = False
    """Whether brokers of other domains get events as they are, and not what is seen behind them (X7)."""
    share_plaintext: bool = False
    """Whether neighbours that may read a sealed attribute get its plaintext beside the ciphertext (K4)."""
    require_install: bool = True
    """Whether the signer of a type must be allowed to install types on this network."""
    aggregation: BudgetRange | None = field(default_factory=BudgetRange)
    """How many bytes of filters of one type are announced; None to merge nothing."""
    recording: RecordingSettings | None = None
    """What is written to the event log; None for a broker without one."""
    ledger: LedgerSettings | None = None
    """Which deliveries are on record; None for a broker without a ledger."""
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    identity: IdentityTrust | None = None
    """Whose identity statements are believed; None for a broker that takes none."""
    paths: bool = False
    """Whether neighbours are told over which routers streams come."""
    demand: Predicate = ALWAYS
    """What the identity statements of neighbours have to say."""
    transformation_keys: TransformationKeys = field(default=NO_KEYS, repr=False)
    """The secrets of pseudonyms and noise; what needs another is missing."""
    functions: tuple[WorldFunction, ...] = field(default=(), repr=False)
    """What conditions may ask beside facts: functions of what is known when a right is decided."""

    @property
    def request_age_s(self) -> int:
        """Return how long a signed request counts in transit: it is signed again with a renewal only."""
        return max(self.proof_age_s, 4 * self.lease_s)

    def is_to_be_signed_again(self, signed_at: Instant, now: Instant) -> bool:
        """Return whether half of the time is over for which a request counts in transit."""
        return now >= seconds_after(signed_at, self.request_age_s / 2)

    def process_of(self, type_id: bytes) -> str:
        """Return where the process of this broker listens that serves the clients of a type."""
        if not self.processes:
            return self.address
        return self.processes[int.from_bytes(type_id[:8], "big") % len(self.processes)]

    def __post_init__(self) -> None:
        """Refuse settings that no broker can keep."""
        if self.lease_s < 1 or self.proof_age_s < 1 or self.skew_s < 0:
            raise BadInput(
                "INPUT-BROKER-SETTINGS",
                "a lease lasts at least one second, as a proof does, and a skew is not negative",
            )
        if not 0.0 <= self.verify_in_transit <= 1.0:
            raise BadInput(
                "INPUT-BROKER-SETTINGS", f"`{self.verify_in_transit}` is not a fraction between 0 and 1"
            )
        if not 1 <= self.limits.chains_per_request <= CHAINS_MAX:
            raise BadInput("INPUT-BROKER-SETTINGS", f"a decision counts 1 to {CHAINS_MAX} chains")
        if not self.address or len(self.address) > 256:
            raise BadInput(
                "INPUT-BROKER-SETTINGS",
                "a broker's address has 1 to 256 characters, such as `127.0.0.1:7400`",
            )
