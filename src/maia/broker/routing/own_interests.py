"""What does a recording broker want for its own log, and may it?

It wants everything of the types that it records, under its own right to
subscribe, and proves that to other brokers as any client's broker does. A
type for which it has no right is recorded as far as its frames pass by.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from maia.broker.access.authorisation import Authorisation
from maia.broker.durable.recording import OWN_LINK, Recording
from maia.broker.routing.interests import class_gone, class_joined
from maia.broker.sessions.links import Subscription
from maia.broker.state import BrokerState
from maia.broker.subscriptions.local_subscribers import CLASS_KEY_BYTES, class_key
from maia.credentials import Action
from maia.events import INSTANT_MAX, Instant
from maia.policy import PolicyRefusal, Request
from maia.predicates import ALWAYS
from maia.wire.effects import Effect, Note
from maia.wire.requests import EdgeRequest, framed_request, request_to_bytes, sign_request


def kept_class(view_class: bytes) -> bytes:
    """Return the key of a class whose members are served from the log, beside the one served at once."""
    return sha256(b"maia/1/kept-class\x00" + view_class).digest()[:CLASS_KEY_BYTES]


def recheck_own_interests(state: BrokerState, now: Instant) -> list[Effect]:
    """Ask again about each type: a right may have begun, ended or changed."""
    if state.recording is None:
        return []
    return [effect for type_id in state.types.type_ids() for effect in want_to_record(state, type_id, now)]


def redecide_own_interests(state: BrokerState, certificates: Collection[bytes], now: Instant) -> list[Effect]:
    """Decide again what this broker wants by one of these certificates, or would if it counted."""
    own = {signed.id for signed in state.settings.credentials}
    if state.recording is None or own.isdisjoint(certificates):
        return []
    types = state.types.type_ids()
    return [effect for one in types for effect in want_to_record(state, one, now, is_touched=True)]


def want_to_record(
    state: BrokerState, type_id: bytes, now: Instant, *, is_touched: bool = False
) -> list[Effect]:
    """Want all that this broker may see of a type, from now on, if it records the type."""
    log = state.recording
    versions = state.types.versions(type_id)
    if log is None or not versions or not log.records(type_id):
        return []
    own = log.link.subscriptions.values()
    before = next((one for one in own if one.right.event_type.type_id == type_id), None)
    if before is not None and not is_touched and state.authoriser.holds(before.right, now):
        return []
    version = versions[-1]
    request = Request(state.principal, Action.SUBSCRIBE, version.name, version, ALWAYS)
    try:
        right = state.authoriser.decide(request, state.settings.credentials, now)
    except PolicyRefusal as problem:
        if before is None:
            return []
        noted = Note("recording-only-what-passes", {"type": type_id.hex(), "code": problem.code})
        return [*_taken_back(state, log, before, now), noted]
    return _placed(state, log, right, before, now)


def _placed(
    state: BrokerState, log: Recording, right: Authorisation, before: Subscription | None, now: Instant
) -> list[Effect]:
    version = right.event_type
    ref = before.ref if before is not None else len(log.link.subscriptions) + 1
    key = kept_class(class_key(right.view, version))
    asked = EdgeRequest(
        Action.SUBSCRIBE,
        state.settings.network,
        version.name,
        ALWAYS,
        state.random(16),
        now,
        state.random(16),
    )
    proof = request_to_bytes(sign_request(asked, state.key))
    entry = Subscription(ref, OWN_LINK, right, key, Instant(INSTANT_MAX), *framed_request(proof))
    log.link.subscriptions[ref] = entry
    if before is not None and before.view_class == key:
        return []
    audience, effects = state.audience(version.type_id), list[Effect]()
    if audience.join(key, right.view, version, (OWN_LINK, ref), is_kept=True):
        effects += class_joined(state, version.type_id, audience.classes[key], now)
    if before is not None and audience.leave(before.view_class, (OWN_LINK, ref)):
        effects += class_gone(state, version.type_id, before.view_class, now)
    return [*effects, Note("recording", {"type": version.type_id.hex(), "name": version.name.name})]


def _taken_back(state: BrokerState, log: Recording, entry: Subscription, now: Instant) -> list[Effect]:
    del log.link.subscriptions[entry.ref]
    type_id = entry.right.event_type.type_id
    audience = state.audiences[type_id]
    is_gone = audience.leave(entry.view_class, (OWN_LINK, entry.ref))
    if not audience.classes:
        del state.audiences[type_id]
    return class_gone(state, type_id, entry.view_class, now) if is_gone else []
