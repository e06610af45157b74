"""What happens to a node and what it asks for can be compared, taken apart, and printed without its bytes."""

from __future__ import annotations

import pytest

from maia.wire.effects import Keep, LinkId, Received, Send

LINK = LinkId(7)


@pytest.mark.parametrize("made", [Send(LINK, b"secret"), Received(LINK, b"secret"), Keep("7", b"secret")])
def test_bytes_are_never_printed(made):
    assert "secret" not in repr(made)
    assert "7" in repr(made)


def test_equal_fields_are_not_enough_to_be_equal():
    assert Send(LINK, b"data") == Send(LINK, b"data")
    assert Send(LINK, b"data") != Received(LINK, b"data")


def test_nobody_changes_one_on_its_way():
    with pytest.raises(AttributeError):
        Send(LINK, b"data").data = b"other"
