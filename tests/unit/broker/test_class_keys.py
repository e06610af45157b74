"""A class of subscribers is known by its key, here and at other brokers."""

from __future__ import annotations

from maia.broker.audiences.local_subscribers import CLASS_KEY_BYTES
from maia.broker.interests.interests import kept_class


def test_who_is_served_from_the_log_is_told_apart_from_who_is_served_at_once():
    served_at_once = b"k" * CLASS_KEY_BYTES
    assert kept_class(served_at_once) != served_at_once
    assert len(kept_class(served_at_once)) == CLASS_KEY_BYTES
    assert kept_class(served_at_once) != kept_class(b"o" * CLASS_KEY_BYTES)
