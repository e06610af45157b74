"""What does a client's request look like, and what does it show?

A request is signed anew each time it is made, with a fresh moment and a fresh
nonce; it carries the chains that speak for it and no other certificate.
"""

from __future__ import annotations

from maia.client.entries import RequestEntry, Subscribed
from maia.client.wallet import Wallet
from maia.credentials import Action, NetworkName, SigningKey
from maia.events import Instant
from maia.policy import Request
from maia.wire.messages import Advertise, Subscribe, SubscribeDurable
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

__all__ = ["message_asking_for"]


def message_asking_for(
    entry: RequestEntry, *, key: SigningKey, network: NetworkName, wallet: Wallet, nonce: bytes, now: Instant
) -> Advertise | Subscribe | SubscribeDurable:
    """Return the message that asks for an entry, or for its renewal; raise if nothing speaks for it."""
    version = entry.known.event_type
    request = Request(key.principal, entry.action, version.name, version, entry.filter)
    shown = wallet.needed_for(request, now)
    entry.limit = wallet.limit_of(request)
    asked = EdgeRequest(entry.action, network, version.name, entry.filter, entry.stream, now, nonce)
    signed = request_to_bytes(sign_request(asked, key))
    definitions = list(entry.known.definitions) if entry.hands_over else []
    if isinstance(entry, Subscribed) and entry.durable is not None:
        # Acknowledged or not, what the application has had is not to be sent to this client again.
        return SubscribeDurable(entry.ref, signed, shown, definitions, entry.durable, entry.arrived)
    kind = Advertise if entry.action is Action.PUBLISH else Subscribe
    return kind(entry.ref, signed, shown, definitions)
