"""Which requests of this client has the broker accepted, which are pending, and which are to be repeated?

The book outlives links. It knows no link: it returns the messages to be sent,
and the session sends them if it can. When things are asked for again is in
`renewal.py`, what answers change in `replies.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from maia.client.authors import AuthorReader
from maia.client.entries import Advertised, EntryStage, RequestEntry, Subscribed
from maia.client.notices import CredentialsAdded, Notice
from maia.client.renewal import Alarms, Renewing, Wanted
from maia.client.replies import Answering
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import SignedStatement, SigningKey, TypeName
from maia.credentials.requirements import requirement_to_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request, request_digest
from maia.predicates import Predicate
from maia.sealing.frames.authorship import SEED_BYTES, Publishing, sign_as_author
from maia.sessions.challenges import CONNECTION, OwnChallenges
from maia.wire.codec import encode, encode_known
from maia.wire.columns import columns_to_frame, frame_label
from maia.wire.messages import (
    Challenge,
    Identify,
    Publish,
    Seen,
    Show,
    SignedByPublisher,
    TypeQuery,
)
from maia.wire.messages import Column as WireColumn
from maia.wire.names import type_to_bytes


class Book:
    """The advertisements, subscriptions and questions of one client."""

    def __init__(
        self,
        key: SigningKey,
        settings: ClientSettings,
        wallet: Wallet,
        alarms: Alarms,
        random: Callable[[int], bytes],
    ) -> None:
        self._key, self._settings, self._random = key, settings, random
        self._wallet = wallet
        self._challenges = OwnChallenges()
        self._wanted = Wanted(alarms, self._challenges)
        self._renewing = Renewing(key, settings, wallet, self._wanted, random)
        authors = AuthorReader(settings.trust)
        self._answering = Answering(self._wanted, self._renewing, key.principal, wallet, authors)
        self.told = self._answering.told
        """Handles an answer of the broker; refuses a message that no client receives."""
        self.notices = self._wanted.notices
        """What the application has not taken yet, oldest first; always this very list."""

    @property
    def lease_s(self) -> int:
        """Return how long the present broker lets things stand that are not renewed."""
        return self._renewing.lease_s

    @property
    def bytes_under_way(self) -> int:
        """Return the size of all frames that the broker has not answered for."""
        return self._wanted.bytes_under_way

    def next_number(self) -> int:
        """Return a number that this client has not used."""
        return self._wanted.next_number()

    def note(self, notice: Notice) -> None:
        """Queue a notice for the application."""
        self._wanted.notices.append(notice)

    # -------------------------------------------------------- what the application wants

    def add(self, entry: RequestEntry, now: Instant, *, is_ready: bool) -> list[bytes]:
        """Want something from now on; raise, and want nothing, if no credential speaks for it."""
        asking = self._renewing.message_for(entry, now)
        self._wanted.entries[entry.ref] = entry
        if not is_ready:
            return []
        entry.stage = EntryStage.ASKED
        return [asking]

    def withdraw(self, entry: RequestEntry, *, is_ready: bool, forget: bool = False) -> list[bytes]:
        """Want something no longer; `forget` takes a durable subscription's cursor along."""
        if self._wanted.find(entry.ref) is None:
            return []
        if not is_ready or entry.stage is EntryStage.WAITING:
            self._wanted.end_withdrawal(entry.ref)
            return []
        entry.stage = EntryStage.WITHDRAWING
        return [self._wanted.withdrawal(entry, forget=forget)]

    def ask_for_type(self, number: int, name: TypeName) -> list[bytes]:
        """Want to know a type."""
        asking = self._answering.questions[number] = encode(TypeQuery(number, type_to_bytes(name)))
        return [asking]

    def show(
        self, number: int, certificates: list[bytes], statements: list[bytes], *, is_ready: bool
    ) -> list[bytes]:
        """Show the broker what was put into the wallet; without a link, the next requests show it."""
        if not is_ready:
            self.note(CredentialsAdded(number))
            return []
        self._answering.showings.add(number)
        return [encode(Show(number, certificates, statements))]

    def identify(self, number: int, statement: bytes, *, is_ready: bool) -> list[bytes]:
        """Show the broker an identity statement; without a link, the next one is opened with it."""
        if not is_ready:
            self.note(CredentialsAdded(number))
            return []
        self._answering.showings.add(number)
        return [encode(Identify(number, statement))]

    def acknowledge(self, entry: Subscribed, position: bytes) -> list[bytes]:
        """Say that the application has had everything up to a position, if that is news."""
        is_wanted = entry.ref in self._wanted.entries
        if entry.durable is None or position == entry.acknowledged or not is_wanted:
            return []
        entry.acknowledged = position
        return [encode(Seen(entry.ref, position))] if entry.stage is EntryStage.ACCEPTED else []

    # -------------------------------------------------------- frames

    def has_room(self, entry: Advertised) -> bool:
        """Say whether another frame may be under way."""
        return (
            entry.stage is EntryStage.ACCEPTED
            and len(entry.under_way) < self._settings.frames_under_way
            and (not entry.under_way or self.bytes_under_way < self._settings.bytes_under_way)
        )

    def publish(
        self,
        entry: Advertised,
        rows: int,
        columns: list[WireColumn],
        now: Instant,
        requires: Predicate | None = None,
    ) -> bytes | None:
        """Number a frame and remember it until the broker has taken it on; return what is sent now."""
        sequence = entry.next_sequence
        # The plus makes an int of an Instant.
        said = (entry.ref, sequence, +now, rows, columns)
        required = None if requires is None else requirement_to_bytes(requires)
        message = Publish(*said, required)
        if entry.signs:
            message = Publish(*said, required, self._signed(entry, message))
        data = encode_known(message) if rows and message.is_bare else encode(message)
        entry.next_sequence += 1
        entry.under_way[sequence] = data
        self._wanted.bytes_under_way += len(data)
        return data if entry.stage is EntryStage.ACCEPTED else None

    def _signed(self, entry: Advertised, message: Publish) -> SignedByPublisher:
        version = entry.known.event_type
        frame = columns_to_frame(message.columns, message.rows, entry.written_type.kinds)
        requires = requirement_to_bytes(entry.requires) if message.requires is None else message.requires
        label = frame_label(self._key.principal.key, entry.stream, message.sequence)
        about = Publishing(version.type_id, label, message.published_at, requires)
        seed = self._random(SEED_BYTES)
        return SignedByPublisher(sign_as_author(frame, about, self._key, seed), seed)

    # -------------------------------------------------------- links come and go

    def ask_for_everything(
        self, lease_s: int, now: Instant, *, is_another_broker: bool = False
    ) -> list[bytes]:
        """Return what to say to a broker that has just welcomed this client."""
        if is_another_broker:
            self._forget_positions()
        self._renewing.begin(lease_s, now)
        statements = self._wallet.statements_for(now)
        asking = [encode(Show(self.next_number(), [], statements))] if statements else []
        asking += self._answering.questions.values()
        for entry in list(self._wanted.entries.values()):
            asking += self._renewing.ask(entry, now)
        return asking

    def _forget_positions(self) -> None:
        """Forget where the last broker's event log stood: another broker cannot read it."""
        for entry in self._wanted.entries.values():
            if isinstance(entry, Subscribed):
                entry.arrived, entry.acknowledged = None, None

    def link_lost(self) -> None:
        """Remember that nothing is accepted any more; what was to be withdrawn is."""
        self._answering.link_lost()
        self._renewing.link_lost()
        self._wanted.link_lost()

    def give_everything_up(self, problem: MaiaError) -> None:
        """Want nothing any more: the right to be part of the network was taken away."""
        for entry in list(self._wanted.entries.values()):
            self._wanted.give_up(entry, problem)

    def renew_everything(self, now: Instant) -> list[bytes]:
        """Return what says that all is still wanted."""
        return self._renewing.renew_everything(now)

    def look(self, ref: int, now: Instant) -> list[bytes]:
        """Renew what is accepted, or ask again for what could not be had."""
        return self._renewing.look(ref, now)

    # -------------------------------------------------------- answers of the broker

    def was_accepted(self, ref: int) -> bool:
        """Say whether a broker has accepted an entry, on this link or on one before."""
        entry = self._wanted.find(ref)
        return entry is not None and entry.was_accepted

    def challenged_to_connect(self, message: Challenge, asked: Request, *, is_ready: bool) -> None:
        """Have the application get answers about the right to connect; raise if they are not ours to get."""
        number, digest = self.next_number(), request_digest(asked)
        self.note(self._challenges.open(number, message, digest, self._wallet.find, is_standing=is_ready))

    def why_unconnected(self, problem: MaiaError) -> MaiaError:
        """Return why a broker has left, which may be known better here."""
        return self._challenges.reason(CONNECTION, problem.code) or problem

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> list[bytes]:
        """Return what brings the answers to a challenge; `problem` says why there are not more of them."""
        message = self._challenges.answer(number, answers, problem)
        return [] if message is None else [encode(message)]
