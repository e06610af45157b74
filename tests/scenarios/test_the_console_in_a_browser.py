"""What people do with the console, in a real browser: sign in, look, ask why, watch a stream, revoke."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import maia
from support.browser import browser, serious_findings
from support.console import Hospital, hospital_with_console

LONG_MS = 60_000
PAGES = (
    "overview",
    "who-sees",
    "network",
    "rights",
    "why?type=LabResult&who=office",
    "streams",
    "revoke",
    "disclosures",
    "what-if",
)
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with hospital_with_console(tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


def signed_in(hospital: Hospital, chromium: Browser, name: str = "") -> tuple[BrowserContext, Page]:
    """Sign in as a person does, with a browser of its own; no page may complain."""
    context = chromium.new_context()
    context.set_default_timeout(LONG_MS)
    page = context.new_page()
    page.on("pageerror", lambda problem: pytest.fail(f"a script failed: {problem}"))
    page.goto(hospital.link(name))
    page.get_by_role("button", name=f"Sign in as {name or 'hospital'}").click()
    page.wait_for_url(lambda url: "/open" not in url)
    return context, page


def test_an_administrator_previews_a_revocation_does_it_and_sees_a_stream_fall(
    hospital: Hospital, chromium: Browser
) -> None:
    desk, admin = signed_in(hospital, chromium)
    other, office = signed_in(hospital, chromium, "office")
    # The office has no page about the network, and watches what it may.
    expect(office.get_by_role("navigation", name="Pages").get_by_role("link")).to_have_text(
        ["Overview", "Who sees what", "Rights", "Why", "Streams"]
    )
    office.get_by_role("link", name="Streams").click()
    office.get_by_label("Type").select_option("LabResult")
    office.get_by_label("Filter").fill("value > 100.0")
    office.get_by_role("button", name="Watch").click()
    state = office.locator("#stream-state")
    expect(state).to_have_text("watching; hidden from you: patient", timeout=LONG_MS)
    with maia.connect(hospital.made.folder / "lab.maia") as lab:
        lab.publish("LabResult", patient="P-17", ward="3", value=142)
        lab.publish("LabResult", patient="P-18", ward="3", value=7)
        lab.publish("LabResult", patient="P-19", ward="<b>4</b>", value=101)
        rows = office.locator("#events tr")
        expect(rows).to_have_count(2, timeout=LONG_MS)
        assert rows.nth(1).locator("td").all_inner_texts()[:4] == ["hidden", "3", "142.0", "–"]
        assert rows.nth(0).locator("td").all_inner_texts()[:3] == ["hidden", "<b>4</b>", "101.0"]
        assert "P-17" not in office.content()
        # The network changes under the eyes of the administrator.
        admin.get_by_role("link", name="Network").click()
        links = admin.get_by_role("region", name="Links")
        expect(links.get_by_role("row").filter(has_text="office")).to_have_count(1, timeout=LONG_MS)
        expect(links.get_by_role("row").filter(has_text="lab")).to_have_count(1, timeout=LONG_MS)

        admin.get_by_role("link", name="Rights").click()
        admin.get_by_label("Person").fill("office")
        admin.get_by_label("Attribute").fill("ward")
        admin.get_by_role("button", name="Filter").click()
        admin.get_by_role("region", name="Certificates").get_by_role("rowheader").get_by_role("link").click()
        expect(admin.get_by_role("definition").filter(has_text="taken, value, ward")).to_be_visible()
        admin.get_by_role("link", name="Revoke this certificate").click()
        preview = admin.get_by_role("region", name="Rights that depend on it")
        expect(preview.get_by_role("row").nth(1)).to_contain_text("everything")
        admin.get_by_label("Reason").fill("moved to another ward")
        admin.get_by_role("button", name="Revoke it now").click()
        fell = admin.get_by_role("region", name="Where it fell").get_by_role("row").nth(1)
        expect(fell).to_contain_text(" ms", timeout=LONG_MS)
        assert fell.locator("td").all_inner_texts()[:2] == ["1", "0"]  # open before, and left
        expect(state).to_contain_text("ended: ", timeout=LONG_MS)
    admin.goto(f"{hospital.url}/why?type=LabResult&who=office")
    expect(admin.get_by_role("heading", level=2)).to_contain_text("No: office")
    expect(admin.get_by_text("POLICY-REVOKED")).to_be_visible()
    admin.goto(f"{hospital.url}/disclosures?recipient=office")
    seen = admin.get_by_role("region", name="Who was shown what").get_by_role("row").nth(1)
    expect(seen).to_contain_text("taken, value, ward")
    desk.close()
    other.close()


def test_every_page_is_for_all_people_and_all_screens(hospital: Hospital, chromium: Browser) -> None:
    context, page = signed_in(hospital, chromium)
    for path in PAGES:
        page.goto(f"{hospital.url}/{path}")
        assert serious_findings(page) == [], path
        wide = page.viewport_size
        page.set_viewport_size(PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        page.set_viewport_size(wide)
    page.goto(f"{hospital.url}/rights")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/who-sees")
    context.close()
