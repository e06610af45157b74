"""Signed requests for hand-made clients, as a good client would make them."""

from __future__ import annotations

import os

from maia.clock import system_now
from maia.credentials import Action, certificate_to_bytes
from maia.predicates import ALWAYS
from maia.types import definition_to_bytes
from maia.wire import EdgeRequest, Subscribe, request_to_bytes, sign_request
from support.live import STORY, TYPE


def subscribe_message(who: str, *, ref: int = 1) -> Subscribe:
    """Return a fresh request of a member of the cast for every event of the story's type."""
    asked = EdgeRequest(
        Action.SUBSCRIBE, STORY.network, TYPE, ALWAYS, os.urandom(16), system_now(), os.urandom(16)
    )
    return Subscribe(
        ref,
        request_to_bytes(sign_request(asked, STORY.keys[who])),
        [certificate_to_bytes(signed) for signed in STORY.certificates],
        [definition_to_bytes(STORY.definition)],
    )
