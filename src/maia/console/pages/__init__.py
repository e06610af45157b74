"""The pages of the console; each is its data, which the JSON twin shows, and what is drawn of it."""

from typing import Final

from maia.console.pages.disclosures import DISCLOSURES
from maia.console.pages.network import NETWORK
from maia.console.pages.overview import OVERVIEW
from maia.console.pages.page import Page
from maia.console.pages.revoke import REVOCATION, REVOKE
from maia.console.pages.rights import CERTIFICATE, RIGHTS
from maia.console.pages.streams import STREAMS
from maia.console.pages.what_if import REPLAY, WHAT_IF
from maia.console.pages.who_sees import WHO_SEES
from maia.console.pages.why import WHY

__all__ = ["PAGES"]

PAGES: Final[dict[str, Page]] = {
    one.path: one
    for one in (
        OVERVIEW,
        WHO_SEES,
        RIGHTS,
        CERTIFICATE,
        NETWORK,
        WHY,
        STREAMS,
        REVOKE,
        REVOCATION,
        DISCLOSURES,
        WHAT_IF,
        REPLAY,
    )
}
"""Every page by its path, in the order of the menu."""
