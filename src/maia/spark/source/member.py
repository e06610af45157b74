"""Who connects for a query, with everything that its options name, read from files?

The driver reads the files. Tasks on other machines, under other accounts, have none of them: they are
handed a `Member` as bytes over the driver's desk (`right_desk.py`), and connect as the same principal.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from maia.errors import ProtocolViolation

if TYPE_CHECKING:
    from maia.client.api.blocking_client import BlockingClient
    from maia.client.api.client import Client
    from maia.credentials import VerifiedConstitution
    from maia.types import SignedDefinition, VerifiedType


class Member(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One principal of a network and one type that it reads or writes. It holds a secret key."""

    seed: bytes
    brokers: tuple[str, ...]
    network: str
    coordinator: str
    certificates: tuple[bytes, ...]
    statements: tuple[bytes, ...]
    quorums: tuple[str, ...]
    definitions: tuple[bytes, ...]
    wait_s: float
    brokers_of: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Member(network={self.network!r})"

    def history(self) -> list[SignedDefinition]:
        """Return the type's definition after those it was made from."""
        from maia.types import definition_from_bytes

        return [definition_from_bytes(one) for one in self.definitions]

    def event_type(self) -> VerifiedType:
        """Return the version of the type whose names this job uses, verified."""
        return verified(self.history(), self._constitutions())

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """Connect to the network as the holder of the key."""
        from maia.client.api.client import connect

        return connect(self.brokers, **self._named())

    def connect_blocking(self) -> AbstractContextManager[BlockingClient]:
        """Connect from a thread without an event loop."""
        from maia.client.api.blocking_client import connect_blocking

        return connect_blocking(self.brokers, **self._named())

    # Any: what both ways to connect take by name.
    def _named(self) -> dict[str, Any]:
        from maia.config.input_files import read_owner, read_principal
        from maia.credentials import NetworkName, SigningKey, certificate_from_bytes, statement_from_bytes

        return {
            "key": SigningKey.from_seed(self.seed),
            "network": NetworkName(read_owner(self.coordinator), self.network),
            "credentials": [certificate_from_bytes(one) for one in self.certificates],
            "statements": [statement_from_bytes(one) for one in self.statements],
            "constitutions": self._constitutions(),
            "timeout_s": self.wait_s,
            "brokers_of": [read_principal(one) for one in self.brokers_of] or None,
        }

    def _constitutions(self) -> tuple[VerifiedConstitution, ...]:
        from maia.credentials import evidence_from_text, quorum_of, verify_constitution

        shown = [evidence_from_text(text) for text in self.quorums]
        return tuple(verify_constitution(one, quorum=quorum_of(one)) for one in shown)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Member)


def member_to_bytes(member: Member) -> bytes:
    """Write a member, secret key and all. The caller seals it."""
    return _ENCODER.encode(member)


def member_from_bytes(data: bytes) -> Member:
    """Read what a desk handed out."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # What was wrong is not said: the sentence would be about a key.
        raise ProtocolViolation(
            "PROTOCOL-KEY-HANDOUT", "what the driver's desk handed out cannot be read"
        ) from None


def verified(
    history: list[SignedDefinition], constitutions: tuple[VerifiedConstitution, ...]
) -> VerifiedType:
    """Return the last of some definitions, verified after those that it was made from."""
    from maia.client.entries import known_version
    from maia.clock import system_now

    return known_version(history, at=system_now(), constitutions=constitutions).event_type
