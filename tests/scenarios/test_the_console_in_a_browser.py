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


def test_the_overview_leads_to_who_sees_what_and_a_refusal_to_its_reason(
    hospital: Hospital, chromium: Browser
) -> None:
    with maia.connect(hospital.made.folder / "office.maia") as office:
        with pytest.raises(maia.Refusal, match=r"refusal [0-9a-f]{12}") as refused:
            office.subscribe("LabResult", 'patient == "P-17"')
        number = str(refused.value).rpartition("refusal ")[2].rstrip(")")
        desk, admin = signed_in(hospital, chromium)
        admin.wait_for_url("**/overview")
        # Organisations, readers, what ends soon, what was refused.
        expect(admin.get_by_role("region", name="Organisations")).to_contain_text("hospital")
        expect(admin.get_by_role("region", name="Readers")).to_contain_text("intern, office")
        expect(admin.get_by_role("region", name="Ends within two weeks")).to_contain_text(
            "topic /admin/register"
        )
        admin.get_by_role("region", name="Refused").get_by_role("link", name=number).click()
        expect(admin.locator("main")).to_contain_text("POLICY-ATTRIBUTE-NOT-READABLE: ")
        expect(admin.locator("dl").first).to_contain_text("office")
        expect(admin.get_by_role("row", name="patient")).to_contain_text("hidden")
        # People and attributes, with one click to the chain and one to the revocation.
        admin.get_by_role("link", name="Who sees what").click()
        row = admin.get_by_role("row").filter(has=admin.get_by_role("rowheader", name="office"))
        marks = row.get_by_role("img")
        expect(marks).to_have_count(4)
        said = [one.get_attribute("aria-label") for one in marks.all()]
        assert said == [
            "patient: hidden",
            *(f"{one}: as it was published" for one in ("ward", "value", "taken")),
        ]
        lonely = admin.get_by_role("row").filter(has=admin.get_by_role("rowheader", name="intern"))
        expect(lonely.locator("code")).to_contain_text("ward ==")
        row.get_by_role("link", name="revoke").click()
        expect(admin.get_by_role("button", name="Revoke it now")).to_be_visible()
        admin.go_back()
        row.get_by_role("link", name="chain").click()
        expect(admin.get_by_role("region", name="The way from the owner to it")).to_contain_text("hospital")
        # The map changes while events pass.
        admin.goto(f"{hospital.url}/network")
        drawn = admin.get_by_role("region", name="Map of brokers and links")
        expect(drawn.locator(".peer .name").filter(has_text="office")).to_have_count(1, timeout=LONG_MS)
        rate = drawn.locator(".here .rate [data-live]")
        assert rate.text_content() == "0"
        with maia.connect(hospital.made.folder / "lab.maia") as lab:
            for _ in range(100):
                lab.publish("LabResult", patient="P-17", ward="3", value=142)
                admin.wait_for_timeout(100)
                if rate.text_content() != "0":
                    break
            assert rate.text_content() != "0"
        desk.close()


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
        admin.get_by_role("link", name="Network", exact=True).click()
        links = admin.get_by_role("region", name="Links")
        expect(links.get_by_role("row").filter(has_text="office")).to_have_count(1, timeout=LONG_MS)
        expect(links.get_by_role("row").filter(has_text="lab")).to_have_count(1, timeout=LONG_MS)

        admin.get_by_role("link", name="Rights", exact=True).click()
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
    for looking, person in ((admin, "office"), (office, "")):  # the office reads its own certificates alone
        looking.goto(f"{hospital.url}/rights?type=LabResult&person={person}&state=revoked")
        expect(looking.locator("td .state")).to_have_text("revoked")
        expect(looking.locator(".as-of")).to_contain_text("Validity as of 20")
    admin.goto(f"{hospital.url}/why?type=LabResult&who=office")
    expect(admin.get_by_role("heading", level=2)).to_contain_text("No: office")
    expect(admin.get_by_text("POLICY-REVOKED", exact=True)).to_be_visible()
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
        for field in page.locator("main input:not([type=hidden])").all():
            offered = page.locator(f"datalist#{field.get_attribute('list')} option")
            assert offered.count() > 0 or field.get_attribute("name") == "refusal", (path, field)
    for path in ("streams", "why", "revoke", "rights?person=x", "disclosures?type=x"):
        page.goto(f"{hospital.url}/{path}")
        assert page.locator(".empty").count() > 0, path  # what to do, where there is nothing to see
    page.set_viewport_size({"width": 1280, "height": 800})
    for path in PAGES:  # no column is cut off: nothing has to be scrolled sideways to be seen
        page.goto(f"{hospital.url}/{path}")
        cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth)"
        assert page.evaluate(f"{cut}.map(e => e.getAttribute('aria-label'))") == [], path
    page.goto(f"{hospital.url}/rights")
    seen = [one.bounding_box() for one in page.locator(".state").all()]
    assert seen and all(one is not None and one["x"] + one["width"] < 1280 for one in seen)  # noqa: PT018
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/who-sees")
    context.close()
