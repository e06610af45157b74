"""Links and sessions end, are counted, and are worth nothing without their secrets."""

from __future__ import annotations

import os

import pytest

from maia.console.pages.page import el, to_html
from maia.console.sessions import LINK_S, LINKS_MAX, SESSION_S, NotSignedIn, Sessions
from maia.credentials import SigningKey
from maia.events import SECOND, Instant
from maia.testing.refusals import raises

NOW = Instant.parse("2026-11-16T12:00:00Z")
LAB = SigningKey.from_seed(b"l" * 32).principal


def later(seconds: float) -> Instant:
    return Instant(NOW + int(seconds * SECOND))


def test_a_link_ends_soon_and_a_session_in_the_evening() -> None:
    sessions = Sessions(os.urandom)
    late = sessions.new_link(LAB, NOW)
    with raises("CONSOLE-LINK-SPENT"):
        sessions.open_link(late, None, later(LINK_S))
    link = sessions.new_link(LAB, NOW)
    principal, browser = sessions.open_link(link, None, later(LINK_S - 1))
    assert sessions.open_link(link, browser, later(LINK_S - 1)) == (LAB, browser)  # the page, opened again
    session, cookie = sessions.sign_in(link, browser, later(LINK_S - 1))
    assert session.principal == principal == LAB
    for again in (sessions.open_link, sessions.sign_in):  # by the very browser that it signed in
        with raises("CONSOLE-LINK-SPENT"):
            again(link, browser, later(LINK_S - 1))
    assert sessions.session(cookie, later(SESSION_S)) is session
    for shown, moment in ((cookie, later(LINK_S - 1 + SESSION_S)), (None, NOW), ("0" * 64, NOW), ("ü", NOW)):
        with pytest.raises(NotSignedIn):
            sessions.session(shown, moment)
    for secret in (link, browser, cookie, session.token):
        assert secret not in repr(session)
    with raises("CONSOLE-NOT-FROM-THIS-PAGE"):
        sessions.check_form(session, "ü" + session.token)
    sessions.sign_out(session)
    with pytest.raises(NotSignedIn):
        sessions.session(cookie, NOW)


def test_the_oldest_link_makes_room_when_there_are_too_many() -> None:
    sessions = Sessions(os.urandom)
    links = [sessions.new_link(LAB, NOW) for _ in range(LINKS_MAX + 1)]
    with raises("CONSOLE-LINK-SPENT"):
        sessions.open_link(links[0], None, NOW)
    assert sessions.open_link(links[1], None, NOW)[0] == LAB


def test_a_text_never_becomes_markup_and_a_link_leads_nowhere_else() -> None:
    hostile = "\"><script>alert('1')</script>"
    drawn = to_html(el("a", hostile, title=hostile, href="/rights?person=x"))
    assert drawn.count("<") == drawn.count(">") == 2
    assert drawn.count('"') == 4
    for address in ("//evil.example", "https://evil.example", "javascript:alert(1)", " /", ""):
        with pytest.raises(ValueError, match="nowhere else"):
            el("a", "click", href=address)
