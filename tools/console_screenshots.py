"""Makes the pictures of docs/console.md: a hospital with its servers, a console, and Chromium looking at it.

.venv/bin/python tools/console_screenshots.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    """Write one picture in the light and one in the dark."""
    import maia

    # They lie beside the tests, which are not checked for types.
    from support.browser import browser  # type: ignore[import-not-found]
    from support.console import hospital_with_console  # type: ignore[import-not-found]

    with tempfile.TemporaryDirectory() as folder, hospital_with_console(Path(folder)) as hospital:
        made = hospital.made
        with (
            maia.connect(made.folder / "lab.maia") as lab,
            maia.connect(made.folder / "office.maia") as office,
            browser() as chromium,
        ):
            office.subscribe("LabResult")
            page = chromium.new_page(viewport={"width": 1100, "height": 620}, device_scale_factor=1)
            page.goto(hospital.link())
            page.get_by_role("button").click()
            for value in range(50):
                lab.publish("LabResult", patient="P-17", ward="3", value=value)
            page.wait_for_timeout(3500)  # a few updates
            page.screenshot(path=str(IMAGES / "console-network.png"))
            page.emulate_media(color_scheme="dark")
            page.goto(f"{hospital.url}/rights?type=LabResult&state=valid")
            page.screenshot(path=str(IMAGES / "console-rights.png"))


if __name__ == "__main__":
    main()
