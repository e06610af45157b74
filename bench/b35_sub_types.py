"""What does it cost that events come from a hundred sub-types, and not from one flat type?

A publisher, its broker, the subscriber's broker, a subscriber to the
super-type, as in `sealed_path.py`. On one side the frames are of a hundred
sub-types in turn, each with an attribute of its own and with the consent of
the super-type's owner; on the other side they are of the super-type itself.
The subscriber gets the same events, row by row. Blinded types, the second half
of this benchmark, are not there yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count, cycle

from broker_row import REF, Row, world_of
from harness import Benchmark, Case, Race, Ratio, Side, at_least
from live_network import World
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    certificate_to_bytes,
    exact_name,
    issue,
    parse_name_pattern,
)
from maia.events import Attribute, AttributeUid, Column, Frame, Kind
from maia.predicates import ALWAYS
from maia.types import SignedDefinition, TypeDefinition, definition_to_bytes, sign_definition
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.messages import Advertise, Deliver, Publish
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

SUB_TYPES, ATTRIBUTES, CHARACTERS = 100, 10, 14
FRAMES_A_TURN = 8
TARGET = 0.9


def cases(quick: bool) -> Iterator[Case]:
    """Yield frames of several sizes."""
    for rows in (16,) if quick else (256, 32, 1):
        yield _case(rows, sub_types=5 if quick else SUB_TYPES)


def _case(rows: int, *, sub_types: int) -> Race:
    below, flat = Line(rows, sub_types), Line(rows, 0)
    assert below.carry() == flat.carry(), "readers of the super-type see other events"
    what = f"frames of {rows}" if rows > 1 else "single events"
    return Race(
        f"{sub_types} sub-types with an attribute more, {what}, over one flat type",
        ours=Side(run=below.carry, operations=rows * FRAMES_A_TURN),
        peer=Side(run=flat.carry, operations=rows * FRAMES_A_TURN),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(TARGET),
    )


class Line:
    """A publisher of so many sub-types, or of the type itself; `carry` takes frames to the subscriber."""

    def __init__(self, rows: int, sub_types: int) -> None:
        """Make up the events, and connect publisher and subscriber."""
        self.world: World = world_of(ATTRIBUTES, None)
        self.row = Row(self.world)
        self.rows, self.sequences = rows, {REF: count(0)}
        self.kinds = self.world.event_type.kinds
        columns = {
            uid: Column(Kind.STRING, tuple(f"{at * rows + row:0{CHARACTERS}d}" for row in range(rows)))
            for at, uid in enumerate(self.kinds)
        }
        if sub_types:
            columns[AttributeUid("own")] = Column(Kind.INT, tuple(range(rows)))
            self._advertise(sub_types)
        self.columns = frame_to_columns(Frame(rows, columns))
        self.turns = cycle([ref for ref in self.sequences if not sub_types or ref != REF])

    def carry(self) -> Sequence[Frame]:
        """Take the frames of one read from the publisher to the subscriber."""
        sent = self.row.at_first([self._publish(next(self.turns)) for _ in range(FRAMES_A_TURN)])
        return [self._receive(data) for data in self.row.at_last(sent)]

    def _publish(self, ref: int) -> bytes:
        sequence = next(self.sequences[ref])
        return encode(Publish(ref, sequence, int(self.row.now), self.rows, self.columns))

    def _receive(self, data: bytes) -> Frame:
        message = decode(data)
        assert isinstance(message, Deliver)
        return columns_to_frame(message.columns, message.rows, self.kinds)

    def _advertise(self, sub_types: int) -> None:
        """Let the publisher advertise sub-types, to which alone it has a right there."""
        world, publisher = self.world, self.world.key("publisher")
        owner = world.key("owner of sub-types")
        pattern = TypePattern(owner.principal, parse_name_pattern("bench.sub.*"), None)
        right = self._issued(owner, publisher, Authority(pattern, frozenset({Action.PUBLISH})))
        for number in range(sub_types):
            definition = self._sub_type(owner, number)
            ref = REF + 1 + number
            request = EdgeRequest(
                action=Action.PUBLISH,
                network=world.network,
                event_type=definition.definition.name,
                stream=os.urandom(16),
                at=self.row.now,
                nonce=os.urandom(16),
                filter=ALWAYS,
            )
            asked = request_to_bytes(sign_request(request, publisher))
            credentials = [certificate_to_bytes(right)]
            said = Advertise(ref, asked, credentials, [definition_to_bytes(definition)])
            self.row._say(0, self.row.publisher_link, said)
            self.sequences[ref] = count(0)
        self.row._settle()

    def _sub_type(self, owner: SigningKey, number: int) -> SignedDefinition:
        world = self.world
        above = world.event_type.signed
        install = NetworkPattern(world.owner.principal, exact_name(world.network.name))
        extend = TypePattern(world.owner.principal, exact_name(world.event_type.name.name), None)
        credentials = (
            self._issued(world.owner, owner, Authority(install, frozenset({Action.INSTALL}))),
            self._issued(world.owner, owner, Authority(extend, frozenset({Action.EXTEND}))),
        )
        own = Attribute("own", AttributeUid("own"), Kind.INT)
        name = TypeName(owner.principal, f"bench.sub.Type{number}", "0")
        shape = (*above.definition.attributes, own)
        return sign_definition(TypeDefinition(name, None, shape, credentials, None, (above,)), owner)

    def _issued(self, issuer: SigningKey, subject: SigningKey, authority: Authority) -> SignedCertificate:
        certificate = AuthorisationCertificate(
            issuer.principal, subject.principal, False, authority, self.world.validity, "bench"
        )
        return issue(certificate, issuer)


BENCH = Benchmark(
    number=35,
    name="sub-types",
    about="events of 100 sub-types seen as their super-type, over the same traffic of one flat type",
    cases=cases,
    stood="the same path: one frame is cut to the super-type's columns and sent on",
    peer_lacks="the flat type has no attribute that its readers may not see",
    floor="a frame of a sub-type is read with a column more, and its consents are compared with the moment",
)
