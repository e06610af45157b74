"""A real browser for tests: Chromium of the machine, driven by Playwright, and axe to judge pages.

Where there is no Chromium, the tests that need one are skipped and say so; `apt install chromium`
brings it on Debian. `MAIA_CHROMIUM` names another one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["browser", "serious_findings"]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser while the body runs."""
    found = os.environ.get("MAIA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no browser is tested: there is no Chromium on this machine (apt install chromium)")
    with sync_playwright() as playwright:
        # Its own sandbox does not work for root, in a container.
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


def serious_findings(page: Page) -> list[str]:
    """Return what axe finds on a page that keeps people from using it; contrast also in the dark."""
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    page.evaluate(axe)  # as the debugger does: the page's own policy lets no other script in
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    page.emulate_media(color_scheme="dark")
    found += page.evaluate("axe.run({resultTypes: ['violations'], runOnly: ['color-contrast']})")[
        "violations"
    ]
    page.emulate_media(color_scheme="light")
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
