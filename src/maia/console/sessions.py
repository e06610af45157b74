"""Who is signed in, and in which browser?

A key asks for a link by a signed call (`maia console open`). The first browser that opens
the link is the only one that can sign in by it, once, and soon. It gets a cookie for a
session of that key, which ends after a while, or when the person signs out. A change
needs, beside the cookie, the token that is in the form.

Time and random bytes are handed in. What is kept of a secret is its digest.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal
from maia.credentials.keys import same_secret
from maia.errors import Refusal
from maia.events import SECOND, Instant

LINK_S: Final = 120
"""How long a link waits for a browser."""
SESSION_S: Final = 8 * 3600
LINKS_MAX: Final = 64
SESSIONS_MAX: Final = 256
_SECRET_BYTES: Final = 32


class NotSignedIn(Refusal):
    """A page of the console was asked for without a session that is valid."""

    code = "CONSOLE-NOT-SIGNED-IN"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One browser in which one key is signed in."""

    principal: Principal
    ends_at: Instant
    id: bytes = field(repr=False)
    token: str = field(repr=False)
    """What every form of the session carries (CSRF)."""


@dataclass(slots=True)
class _Link:
    principal: Principal
    ends_at: Instant
    browser: bytes | None = None


class Sessions:
    """The links and sessions of one run of a console; none of them outlives it."""

    def __init__(self, random: Callable[[int], bytes]) -> None:
        """Draw secrets from `random`."""
        self._random = random
        self._links: BoundedMap[bytes, _Link] = BoundedMap(LINKS_MAX)
        self._sessions: BoundedMap[bytes, BrowserSession] = BoundedMap(SESSIONS_MAX)

    def new_link(self, principal: Principal, now: Instant) -> str:
        """Return the secret part of a link for a key that has signed for it."""
        secret = self._random(_SECRET_BYTES).hex()
        self._links.put(_digest(secret), _Link(principal, Instant(now + LINK_S * SECOND)))
        return secret

    def open_link(self, secret: str, browser: str | None, now: Instant) -> tuple[Principal, str]:
        """Return whose link it is, and what its browser is known by; the first browser keeps it."""
        link = self._valid(secret, now)
        if link.browser is None:
            browser = self._random(_SECRET_BYTES).hex()
            link.browser = _digest(browser)
        elif browser is None or not same_secret(_digest(browser), link.browser):
            raise Refusal(
                "CONSOLE-LINK-SPENT",
                "this link was opened in another browser; `maia console open` makes a new one",
            )
        return link.principal, browser

    def sign_in(self, secret: str, browser: str | None, now: Instant) -> tuple[BrowserSession, str]:
        """Use a link up, in the browser that has opened it; return the session and its cookie."""
        link = self._valid(secret, now)
        if link.browser is None or browser is None or not same_secret(_digest(browser), link.browser):
            raise Refusal(
                "CONSOLE-LINK-SPENT",
                "this link was opened in another browser; `maia console open` makes a new one",
            )
        self._links.pop(_digest(secret))
        cookie = self._random(_SECRET_BYTES).hex()
        token = hmac.new(bytes.fromhex(cookie), b"form", sha256).hexdigest()
        ends_at = Instant(now + SESSION_S * SECOND)
        session = BrowserSession(link.principal, ends_at, _digest(cookie), token)
        self._sessions.put(session.id, session)
        return session, cookie

    def session(self, cookie: str | None, now: Instant) -> BrowserSession:
        """Return the session of a cookie."""
        found = None if cookie is None else self._sessions.use(_digest(cookie))
        if found is None or found.ends_at <= now:
            raise NotSignedIn("nobody is signed in here: `maia console open` prints a link that signs you in")
        return found

    def check_form(self, session: BrowserSession, token: str) -> None:
        """Raise unless a form came from a page of this session."""
        if not same_secret(token.encode(), session.token.encode()):
            raise Refusal(
                "CONSOLE-NOT-FROM-THIS-PAGE",
                "this change did not come from a page of your session; open the page again",
            )

    def sign_out(self, session: BrowserSession) -> None:
        """End a session."""
        self._sessions.pop(session.id)

    def _valid(self, secret: str, now: Instant) -> _Link:
        link = self._links.use(_digest(secret))
        if link is None or link.ends_at <= now:
            raise Refusal(
                "CONSOLE-LINK-SPENT", "this link was used, or is too old; `maia console open` makes a new one"
            )
        return link


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
