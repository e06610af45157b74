"""What could the broker in the middle see, and was anything among it that it must not see?

Computed from what its process wrote down: every message that it received, and
every file that it keeps. Nothing here is taken from what should have
happened. The same search of a broker that may read everything has to find
something, or it would prove nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.credentials import TypePattern
from maia.demo.numberplate import NUMBERPLATE, NUMBERPLATE_ATTRIBUTES, OFFICES, NumberplateStory, is_about
from maia.demo.processes import RECEIVED_FILE
from maia.events import Instant, Value

if TYPE_CHECKING:
    from maia.wire.messages import Sealed


FrameId = str
"""The label of a frame in hexadecimal: the same at every broker."""

_EXCERPT_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class CarriedFrame:
    """One sealed frame as a broker without keys sees it."""

    frame: FrameId
    epoch: int
    rows: int
    uids: tuple[str, ...]
    size: int
    excerpt: str
    """The first bytes of what is sealed of the numberplates, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Carriage:
    """What one broker received and kept, and which words are among it."""

    broker: str
    messages: int
    size: int
    """Bytes of all messages."""
    type_ids: tuple[str, ...]
    frames: tuple[CarriedFrame, ...]
    interests: int
    """Sealed filters that it received."""
    in_clear: int
    """Messages with events that are not sealed, or with plaintext beside them."""
    files: int
    searched: int
    """Bytes of all files, the messages among them."""
    looked_for: int
    found: tuple[str, ...]
    is_whole: bool
    """Whether every message was written down."""

    @property
    def events(self) -> int:
        """Return how many events passed."""
        return sum(one.rows for one in self.frames)

    def broken_claims(self) -> Iterator[str]:
        """Say what a broker that carries and cannot read would not have shown."""
        if not self.is_whole:
            yield f"not everything that the {self.broker} received was recorded"
        if not self.frames or not self.interests:
            yield f"no sealed event or filter passed the {self.broker}"
        if self.in_clear:
            yield f"the {self.broker} was sent {self.in_clear} messages in clear"
        for word in self.found:
            yield f"the {self.broker} could read {word}"


def words_to_look_for(
    story: NumberplateStory, sightings: Iterable[Mapping[str, Value]]
) -> dict[str, tuple[bytes, ...]]:
    """Return what must not be found, by what people call it: each as it could be written."""
    words: dict[str, tuple[bytes, ...]] = {
        name: (name.encode(),) for name in (*_names(story), *_values(sightings))
    }
    for office in OFFICES:
        principal = story.principal(office)
        words[f"the key of the {office}"] = (principal.key, principal.key.hex().encode())
    for sighting in sightings:
        moment = sighting["timestamp"]
        if isinstance(moment, Instant):
            written = (int(moment).to_bytes(8, order, signed=True) for order in ("big", "little"))
            words[str(moment)] = (str(moment).encode(), str(int(moment)).encode(), *written)
    return words


def carriage_of(
    broker: str, home: Path, words: Mapping[str, Sequence[bytes]], *, public: Collection[bytes] = ()
) -> Carriage:
    """Read what a broker received, and search all of its files.

    `public` are the ids of public types, as statements about revoked certificates are.
    """
    from maia.broker.server.server import read_heard
    from maia.wire.codec import decode
    from maia.wire.messages import Carried, Interest, Publish, Sealed, SealedWithPlaintext

    received = read_heard(home / RECEIVED_FILE)
    messages = [decode(one) for one in received.messages]
    sizes = {id(message): len(data) for message, data in zip(messages, received.messages, strict=True)}
    sealed = [one for one in messages if isinstance(one, Sealed)]
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return Carriage(
        broker=broker,
        messages=len(messages),
        size=sum(map(len, received.messages)),
        type_ids=tuple(sorted({one.type_id.hex() for one in sealed})),
        frames=tuple(_carried(one, sizes[id(one)]) for one in sealed),
        interests=sum(
            isinstance(wanted.filter, list)
            for one in messages
            if isinstance(one, Interest)
            for wanted in one.add
        ),
        in_clear=sum(
            isinstance(one, Carried | Publish | SealedWithPlaintext)
            and not (isinstance(one, Carried) and one.type_id in public)
            for one in messages
        ),
        files=len(files),
        searched=sum(map(len, files.values())),
        looked_for=len(words),
        found=tuple(sorted(_found(files.values(), words))),
        is_whole=received.is_whole,
    )


def _carried(message: Sealed, size: int) -> CarriedFrame:
    from maia.wire.columns import frame_label

    columns = {column.uid: column.sealed for column in message.columns}
    excerpt = columns.get(NUMBERPLATE, b"")[:_EXCERPT_BYTES].hex()
    return CarriedFrame(
        frame=frame_label(message.publisher, message.stream, message.sequence).hex(),
        epoch=message.epoch,
        rows=message.rows,
        uids=tuple(columns),
        size=size,
        excerpt=excerpt,
    )


def _found(files: Iterable[bytes], words: Mapping[str, Sequence[bytes]]) -> Iterator[str]:
    contents = list(files)
    for word, ways in words.items():
        if any(way in data for way in ways for data in contents):
            yield word


def _names(story: NumberplateStory) -> Iterator[str]:
    yield story.definition.definition.name.name
    yield from (attribute.name for attribute in NUMBERPLATE_ATTRIBUTES)
    # Names of people and offices are in the comments of certificates; a policy writes no names into them.
    comments = [one.certificate.comment for one in story.certificates if is_about(one, TypePattern)]
    yield from (who for who in ("camera at Victoria", *OFFICES) if any(who in one for one in comments))


def _values(sightings: Iterable[Mapping[str, Value]]) -> Iterator[str]:
    """Yield plates and places; the operands of the story's filters are among them."""
    from maia.demo.numberplate import SUSPECT

    yield from (SUSPECT, "Victoria")
    for sighting in sightings:
        yield from (value for value in sighting.values() if isinstance(value, str))
