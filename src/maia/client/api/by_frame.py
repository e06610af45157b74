"""How do gateways and servers publish and receive whole frames, without waiting for each?

They are called when there is room for a frame, or when one has arrived. Applications have `Client`,
`Publisher` and `Subscription`, which show none of this.
"""

from __future__ import annotations

from collections.abc import Callable

from maia.client import Delivered
from maia.client.api.connected_client import Client
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import Subscription
from maia.client.batch import Outbox
from maia.client.entries import SeenPublications
from maia.wire.effects import LinkId


def link_of(client: Client) -> LinkId | None:
    """Return the link that a client has now, if it has one: another number is another link."""
    return client._session.link


# ------------------------------------------------------------ publishing


def take_over(publisher: Publisher, outbox: Outbox) -> None:
    """Have a publisher send what waits in an outbox of the caller's own, and no other events."""
    publisher._outbox = outbox


def send(publisher: Publisher) -> None:
    """Send what may leave now."""
    publisher._pump()


async def abandon(publisher: Publisher, timeout_s: float) -> None:
    """Take an advertisement back at once: what is under way is not sent again on a later link."""
    await publisher._client._withdraw(publisher._entry, timeout_s)


def label_of(publisher: Publisher, sequence: int) -> bytes:
    """Return what subscribers recognise a frame by."""
    return publisher._session.label_of(publisher._entry, sequence)


def stream_of(publisher: Publisher) -> bytes:
    """Return the stream that every event of a publisher belongs to."""
    return publisher._entry.stream


# ------------------------------------------------------------ receiving


async def frames_of(subscription: Subscription, most: int) -> list[Delivered]:
    """Return frames that have arrived, at most so many; wait for one.

    Nothing is returned only when the subscription or the client has been closed.
    """
    try:
        arrived = [await subscription._next_frame()]
        while subscription._frames and len(arrived) < most:
            arrived.append(await subscription._next_frame())
    except StopAsyncIteration:
        return []
    return arrived


def next_frame(subscription: Subscription) -> Delivered | None:
    """Return the next frame if one has arrived."""
    return subscription._take_frame() if subscription._frames else None


def is_full(subscription: Subscription) -> bool:
    """Return whether so much waits that the client stops reading, and hears of no end either."""
    return not subscription._has_room


def call_on_arrival(subscription: Subscription, call: Callable[[], None] | None) -> None:
    """Have something called when a frame has arrived, or the end; `next_frame` has it."""
    subscription._on_arrival = call


def call_on_waiting(subscription: Subscription, call: Callable[[int], None] | None) -> None:
    """Have something told how many bytes wait for `next_frame`, and of every change; None ends that."""
    if subscription._on_waiting is not None:
        subscription._on_waiting(-subscription._bytes)
    subscription._on_waiting = call
    if call is not None:
        call(subscription._bytes)


def share_publications(subscription: Subscription, seen: SeenPublications) -> None:
    """Let what was seen in one subscription count in others: a publication on several topics comes once."""
    if subscription._seen is not None:
        subscription._seen = seen
