"""Under which right was a signed frame published, and does that right hold?

A frame of a signed type names its right by a digest. What the digest is of goes over each link once, before
the first frame that names it (`ShownRight`): the type, the publisher, the broker that signs for it, and the
certificates by which either of them may publish. So every broker on the way can decide again what the
publisher's broker has decided (MAIA'06 3.3), for a type that it has never met, too. A broker without the
right to publish cannot sign: a publisher of a signed type needs a broker that was granted it.

What was proved is kept for all links, and over a restart where frames are recorded. What was not proved is
kept for the link that showed it, a little of it: a statement may be on its way (A89).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import msgspec

from maia.bounded_map import BoundedMap
from maia.broker.interests.entries import new_proof
from maia.broker.interests.proofs import Proofs
from maia.broker.interests.routes import Routes
from maia.broker.links.links import Link
from maia.broker.links.projection import Projections
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.turn import Turn
from maia.credentials import (
    Action,
    Principal,
    TypeName,
    VerifiedChain,
    certificate_to_bytes,
)
from maia.errors import BrokenCredential, MaiaError, Refusal
from maia.events import INSTANT_MAX, SECOND, Frame, Instant
from maia.policy import PolicyRefusal, Request, View
from maia.policy.written import Written, written_by
from maia.types import VerifiedType, type_id
from maia.wire.codec import decode, encode
from maia.wire.effects import Keep, LinkId
from maia.wire.messages import CarriedSigned, ShownRight
from maia.wire.names import type_from_bytes, type_to_bytes

_CANNOT_SIGN: Final = "REFUSED-BROKER-CANNOT-SIGN"
NOT_CONFIRMED: Final = "SIGNED-NOT-CONFIRMED"
_NOT_CONFIRMED: Final = "the right that frames name has no valid statement for this moment"
KEPT_RIGHT: Final = "right/"
"""How the names under which rights are kept begin."""
_PROVED_MAX: Final = 16_384
_PROVED_BYTES_MAX: Final = 32 << 20
_DOUBTED_MAX: Final = 64
"""How many rights that were not proved are remembered of one link."""
_SENT_MAX: Final = 4096
"""How many rights a neighbour is taken to remember."""
_AGAIN_US: Final = SECOND
"""How long a refusal is remembered: a flood of frames must not cost a search each."""
_DIGEST: Final = b"maia/1/publication-right\x00"


class _Named(msgspec.Struct):
    """A right that was shown, and what is known of it."""

    shown: ShownRight
    data: bytes
    until: int = 0
    """Up to when it was found to hold."""
    chains: tuple[tuple[VerifiedChain, ...], ...] = ()
    """Those of the publisher, and those of the signer."""
    problem: MaiaError | None = None
    refused_until: int = 0
    written: tuple[Written, ...] = ()
    """What these let publisher and signer write."""
    is_above: bool = False
    """Whether it was published as a super-type, which has some of its attributes."""


def id_of_right(shown: ShownRight) -> bytes:
    """Return how frames name a right."""
    return sha256(_DIGEST + encode(shown)).digest()


@dataclass(slots=True, eq=False, repr=False)
class NamedRights:
    """The rights that signed frames name."""

    own: Own
    authoriser: Authoriser
    proofs: Proofs
    projections: Projections
    statements: ValidityTracker
    routes: Routes
    recording: Recording | None
    _proved: BoundedMap[bytes, _Named] = field(init=False)
    _doubted: dict[LinkId, BoundedMap[bytes, _Named]] = field(default_factory=dict)
    _sent: dict[LinkId, BoundedMap[bytes, bool]] = field(default_factory=dict)
    _evicted: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with none."""
        self._proved = BoundedMap(
            _PROVED_MAX,
            bytes_max=_PROVED_BYTES_MAX,
            size_of=lambda _, one: len(one.data),
            evicted=lambda name, _: self._evicted.append(name),
        )

    # ------------------------------------------------------------ this broker's own

    def lack(self, event_type: VerifiedType, now: Instant) -> Refusal | None:
        """Say why no other broker would believe this one's signature under frames of a type, if so."""
        try:
            self._own_right(event_type, now)
        except Refusal as problem:
            return problem if self.routes.neighbours else None
        return None

    def holds(self, right: Authorisation, now: Instant) -> bool:
        """Return whether a right of this broker holds as it was decided."""
        return self.authoriser.holds(right, now)

    def naming(self, kind: bytes, right: Authorisation, turn: Turn) -> tuple[bytes, Authorisation | None]:
        """Return how frames name a publisher's right that this broker signs as `kind`, and its own right.

        A broker without neighbours serves its own clients, who ask for no signature.
        """
        event_type = right.event_type
        own: Authorisation | None = None
        try:
            own = self._own_right(event_type, turn.now)
        except Refusal:
            if self.routes.neighbours:
                raise
        offer = self.projections.lineage_of(event_type) if kind != event_type.type_id else ()
        used = {one.id: one for one in (*right.used, *(() if own is None else own.used))}
        credentials = [*offer, *map(certificate_to_bytes, used.values())]
        shown = ShownRight(
            kind, right.principal.key, self.own.principal.key, type_to_bytes(event_type.name), credentials
        )
        name, named = _named(shown)
        if name not in self._proved:
            self._put(name, named, turn)
        return name, own

    def signed_here(self, name: bytes, publisher: Principal, link: LinkId, turn: Turn) -> bytes:
        """Return how a frame names its right that this broker changes and signs itself, as at a border.

        `name` is the right that the frame came with on a link. Of a summary this broker is the publisher,
        and nothing tells of those whose events it counted.
        """
        named = self._find(link, name)
        if named is None:
            raise BrokenCredential("SIGNED-RIGHT-UNKNOWN", "a frame names a right that was not shown")
        shown, me = named.shown, self.own.principal
        of = type_from_bytes(shown.name)
        try:
            chains = self.proofs.chains_to(me, of, turn.now)
        except MaiaError as problem:
            raise _cannot_sign(of, problem) from problem
        own = [certificate_to_bytes(one) for chain in chains for one in chain.certificates]
        its = new_proof(None, shown.credentials).definitions if publisher == me else shown.credentials
        used = list(dict.fromkeys((*its, *own)))
        replaced = {"publisher": publisher.key, "signer": me.key, "credentials": used}
        name, named = _named(msgspec.structs.replace(shown, **replaced))
        if name not in self._proved:
            self._proved.put(name, named)  # not kept: what is recorded here names the publisher's
        return name

    def check_own(self, name: bytes, read: Frame, made_for: View | None, turn: Turn) -> None:
        """Refuse to sign what no other broker would believe under a right that this one has named."""
        named = self._proved.get(name)
        if named is None:
            return
        if turn.now > named.until:
            with suppress(MaiaError):  # then others refuse it for that
                self._find_chains(named, turn.now)
        if not all(one.holds(read, made_for, is_cut=named.is_above) for one in named.written):
            raise Refusal(
                _CANNOT_SIGN,
                "the publisher may say this, and its broker, whose signature counts elsewhere, may not",
            )

    def _own_right(self, event_type: VerifiedType, now: Instant) -> Authorisation:
        request = Request(self.own.principal, Action.PUBLISH, event_type.name, event_type)
        try:
            return self.authoriser.decide(request, self.own.settings.credentials, now)
        except PolicyRefusal as problem:
            raise _cannot_sign(event_type.name, problem) from problem

    # ------------------------------------------------------------ what neighbours show

    def receive(self, link: Link, message: ShownRight, turn: Turn) -> None:
        """Take note of a right that frames on a link are going to name."""
        name, named = _named(message)
        if name in self._proved:
            return
        try:
            self._prove(link.id, named, turn.now)
        except MaiaError as problem:
            turn.refused(problem, link.peer, link=link.id, asked="ShownRight")
            self._doubted.setdefault(link.id, BoundedMap(_DOUBTED_MAX)).put(name, named)
            return
        self._remember(link.id, name, named, turn)

    def _remember(self, link: LinkId, name: bytes, named: _Named, turn: Turn) -> None:
        doubted = self._doubted.get(link)
        if doubted is not None:
            doubted.pop(name)
        self.statements.dependencies.note(link, _certificates(named))
        self._put(name, named, turn)

    def _put(self, name: bytes, named: _Named, turn: Turn) -> None:
        """Know a right from now on, and over a restart where frames that name it are recorded."""
        self._proved.put(name, named)
        if self.recording is not None:
            turn.add(Keep(f"{KEPT_RIGHT}{name.hex()}", named.data))
            turn.add(*[Keep(f"{KEPT_RIGHT}{one.hex()}", None) for one in self._evicted])
        self._evicted.clear()

    def reload(self, kept: Mapping[str, bytes]) -> None:
        """Go on with the rights that recorded frames name; each is proved again when it is asked for."""
        for name, data in kept.items():
            if name.startswith(KEPT_RIGHT):
                shown = decode(data)
                if isinstance(shown, ShownRight):
                    self._proved.put(id_of_right(shown), _Named(shown, data))

    def link_gone(self, link: LinkId) -> None:
        """Forget what a link has shown and was shown."""
        self._doubted.pop(link, None)
        self._sent.pop(link, None)

    def forget(self, certificates: Collection[bytes]) -> None:
        """Prove again, when it is next asked for, what rests on one of these certificates."""
        for some in (self._proved, *self._doubted.values()):
            for named in some.values():
                if named.problem is not None or not _certificates(named).isdisjoint(certificates):
                    named.until = named.refused_until = 0

    # ------------------------------------------------------------ frames

    def check(
        self, link: LinkId, frame: CarriedSigned, read: Frame, made_for: View | None, turn: Turn
    ) -> None:
        """Raise unless the right that frames name is their publisher's and their signer's, and holds now.

        `read` is what is in frames like this one, as a border has made it for a View, if one has.
        """
        name, now = frame.signed.right, turn.now
        named = self._find(link, name)
        if named is None:
            raise BrokenCredential("SIGNED-RIGHT-UNKNOWN", "a frame names a right that was not shown")
        shown = named.shown
        if (shown.type_id, shown.publisher, shown.signer) != (
            frame.type_id,
            frame.publisher,
            frame.signed.signer,
        ):
            raise BrokenCredential("SIGNED-RIGHT-OF-ANOTHER", "a frame names the right of another one")
        if now > named.until:
            if named.problem is not None and now < named.refused_until:
                raise named.problem
            self._prove(link, named, now)
            if name not in self._proved:
                self._remember(link, name, named, turn)
        is_cut = named.is_above or (made_for is None and frame.view is not None)
        if not all(one.holds(read, made_for, is_cut=is_cut) for one in named.written):
            raise BrokenCredential(
                "SIGNED-NOT-ENTITLED", "a frame says something that the right it names does not let it say"
            )

    def show(self, to: LinkId, name: bytes, came_from: LinkId | None, turn: Turn) -> None:
        """Show a neighbour a right before the first frame that names it."""
        sent = self._sent.get(to)
        if sent is None:
            sent = self._sent[to] = BoundedMap(_SENT_MAX)
        if sent.use(name):
            return
        named = self._find(came_from, name)
        if named is not None:  # else the neighbour refuses the frame, as it should
            sent.put(name, True)
            turn.send_bytes(to, named.data)

    def _find(self, link: LinkId | None, name: bytes) -> _Named | None:
        named = self._proved.get(name)
        if named is None and link is not None and link in self._doubted:
            return self._doubted[link].get(name)
        return named

    def _prove(self, link: LinkId, named: _Named, now: Instant) -> None:
        """Find the chains of publisher and signer at this moment, or ask for the statements that it lacks."""
        shown = named.shown
        try:
            self._find_chains(named, now)
        except MaiaError as problem:
            named.problem = BrokenCredential("SIGNED-NOT-ENTITLED", _not_entitled(problem))
            missed = self.proofs.missed_statements(shown, now)
            if missed:
                self.statements.met(missed, ids := frozenset([one.id for one in missed]))
                self.statements.dependencies.note(link, ids)
                named.problem = BrokenCredential(NOT_CONFIRMED, _NOT_CONFIRMED)
            named.until, named.refused_until = 0, now + _AGAIN_US
            raise named.problem from problem

    def _find_chains(self, named: _Named, now: Instant) -> None:
        shown = named.shown
        found, name = self.proofs.prove_right(shown, now), type_from_bytes(shown.name)
        ends = [chain.validity.not_after for chains in found for chain in chains]
        named.chains, named.problem = found, None
        named.until = min([one for one in ends if one is not None], default=INSTANT_MAX)
        named.is_above = type_id(name.owner, name.name) != shown.type_id
        named.written = tuple([written_by([one.authority for one in chains], name) for chains in found])


def _named(shown: ShownRight) -> tuple[bytes, _Named]:
    data = encode(shown)
    return sha256(_DIGEST + data).digest(), _Named(shown, data)


def _certificates(named: _Named) -> frozenset[bytes]:
    return frozenset(one.id for chains in named.chains for chain in chains for one in chain.certificates)


def _cannot_sign(name: TypeName, problem: MaiaError) -> Refusal:
    return Refusal(
        _CANNOT_SIGN,
        f"frames of `{name.name}` are signed, and this broker has no right to publish it [{problem.code}]",
    )


def _not_entitled(problem: MaiaError) -> str:
    return f"the right that frames name does not let their publisher and its broker publish [{problem.code}]"
