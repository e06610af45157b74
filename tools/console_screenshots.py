"""Makes the pictures of docs/console.md: a hospital with its servers, a console, and Chromium looking at it.

.venv/bin/python tools/console_screenshots.py
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    """Write the pictures, one of them in the dark, with as many colours as a small file has."""
    import maia

    # They lie beside the tests, which are not checked for types.
    from support.browser import browser  # type: ignore[import-not-found]
    from support.console import hospital_with_console  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder, hospital_with_console(Path(folder), ward="3") as hospital:
        made = hospital.made
        institute = maia.Organisation.create(Path(folder) / "institute")
        key = institute.folder / "institute.pub"
        (made.folder / "institute.pub").write_text(key.read_text())
        wards, shown = 'ward in ("3", "4")', ["ward", "value"]
        made.grant(key, may="subscribe:LabResult", delegable=True, only=shown, where=wards, days=6)
        with (
            maia.connect(made.folder / "lab.maia") as lab,
            maia.connect(made.folder / "office.maia") as office,
            browser() as chromium,
        ):
            office.subscribe("LabResult")
            with suppress(maia.Refusal):
                office.subscribe("LabResult", 'patient == "P-17"')
            page = chromium.new_page(viewport={"width": 1280, "height": 640}, device_scale_factor=1)
            page.goto(hospital.link())
            page.get_by_role("button").click()
            page.wait_for_url("**/overview")
            _picture(page, "overview")
            page.goto(f"{hospital.url}/who-sees?type=LabResult")
            page.set_viewport_size({"width": 1280, "height": 520})
            _picture(page, "who-sees")
            page.goto(f"{hospital.url}/network")
            for value in range(120):
                lab.publish("LabResult", patient="P-17", ward="3", value=value)
                page.wait_for_timeout(30)
            _picture(page, "network")
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(f"{hospital.url}/rights?type=LabResult&state=valid")
            _picture(page, "rights")


def _picture(page: Page, name: str) -> None:
    from PIL import Image

    path = IMAGES / f"console-{name}.png"
    page.screenshot(path=str(path))
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main()
