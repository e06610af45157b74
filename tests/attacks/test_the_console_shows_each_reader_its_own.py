"""A102, A70: links used twice, requests of other sites, framing, stored scripts, and pages without the right.

A console holds the keys of several people, so whatever gets into one session with the help
of another, or of a page elsewhere, would have their rights. All of it is tried over HTTP.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from html.parser import HTMLParser

import httpx
import pytest

from maia.clock import system_now
from maia.console.config import held_by
from maia.console.pages import PAGES
from maia.console.server import OPEN_PATH, STREAMS_PER_SESSION
from maia.credentials import SigningKey
from maia.profile import read_profile
from maia.testing import wait_until
from maia.wire.api_requests import ApiCall, ApiRequest, api_request_to_bytes, sign_api_request
from support.console import SCRIPT, Hospital, hospital_with_console

ADDRESSES = [
    f"/{page.path}{end}" for page in PAGES.values() for end in ("", ".json", *(["/events"] * page.is_live))
]
"""Every page, its JSON twin and its stream."""
GUARDED = [one for one in ADDRESSES if PAGES[one.strip("/").partition(".")[0].partition("/")[0]].act]


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with hospital_with_console(tmp_path_factory.mktemp("home")) as running:
        yield running


def test_a_link_signs_in_once_and_in_the_browser_that_opened_it(hospital: Hospital) -> None:
    """A102: the link is copied from a history, a log or over a shoulder."""
    link = hospital.link("office")
    secret = {"link": link.partition("link=")[2]}
    mine, theirs = hospital.browser(), hospital.browser()
    assert mine.get(link).status_code == 200
    assert theirs.get(link).status_code == 403
    assert theirs.post("/open", data=secret, headers=hospital.origin).status_code == 403
    assert mine.post("/open", data=secret, headers=hospital.origin).status_code == 303
    assert mine.get("/rights.json").status_code == 200
    for browser in (mine, theirs, hospital.browser()):
        again = browser.post("/open", data=secret, headers=hospital.origin)
        assert again.status_code == 403
        assert "CONSOLE-LINK-SPENT" in again.text
    assert theirs.get("/rights.json").status_code == 401
    assert hospital.browser().get("/open?link=" + "0" * 64).status_code == 403


def test_a_link_is_made_for_a_key_that_signs_for_this_run(hospital: Hospital) -> None:
    """A102: a link for somebody else's key, or by a call that was captured."""
    held = held_by(read_profile(hospital.made.folder / "office.maia"))
    instance = bytes.fromhex(json.loads(held.door.read_text())["instance"])
    assert held.door.stat().st_mode & 0o077 == 0

    def asked(key: SigningKey, audience: SigningKey, run: bytes) -> bytes:
        call = ApiCall.of("POST", OPEN_PATH, body=b"", credentials=b"", once="")
        request = ApiRequest(audience.principal, run, call, system_now(), os.urandom(16))
        return api_request_to_bytes(sign_api_request(request, key))

    def code(signed: bytes) -> object:
        header = {"Authorization": f"Maia {base64.b64encode(signed).decode()}"}
        return hospital.browser().post(OPEN_PATH, headers=header).json().get("code")

    stranger = SigningKey.from_seed(b"s" * 32)
    good = asked(held.key, held.key, instance)
    assert code(good) is None
    assert code(good) == "REQUEST-REPLAYED"
    assert code(asked(held.key, held.key, bytes(16))) == "REQUEST-ANOTHER-RUN"
    assert code(asked(stranger, stranger, instance)) == "CONSOLE-NOT-ALLOWED"
    assert code(asked(stranger, held.key, instance)) == "CONSOLE-NOT-ALLOWED"
    assert hospital.browser().post(OPEN_PATH).status_code == 401


def test_a_change_comes_from_a_form_of_the_same_session(hospital: Hospital) -> None:
    """A102: another site, or another session, has the browser revoke something."""
    admin = hospital.signed_in()
    (right,) = rights_of(admin, "intern", "subscribe")
    token, other = (
        token_of(one.get(f"/revoke?id={right['id']}").text) for one in (admin, hospital.signed_in())
    )
    form = {"id": right["id"], "reason": "cross-site"}
    foreign = {"Origin": "http://evil.example"}
    for data, headers in (
        (form, hospital.origin),
        (form | {"token": ""}, hospital.origin),
        (form | {"token": other}, hospital.origin),
        (form | {"token": token}, foreign),
        (form | {"token": token}, {"Origin": "null"}),
        (form | {"token": token}, {}),
    ):
        refused = admin.post("/revoke", data=data, headers=headers)
        assert (refused.status_code, "CONSOLE-NOT-FROM-THIS-PAGE" in refused.text) == (403, True)
    assert admin.get(f"/revoke?id={right['id']}&token={token}").status_code == 200  # reading changes nothing
    assert (
        hospital.browser().post("/revoke", data=form | {"token": token}, headers=hospital.origin).status_code
        == 401
    )
    reader = hospital.signed_in("auditor")
    own = token_of(reader.get("/rights").text)
    denied = reader.post("/revoke", data=form | {"token": own}, headers=hospital.origin)
    assert (denied.status_code, "CONSOLE-NOT-ALLOWED" in denied.text) == (403, True)
    assert [one["state"] for one in rights_of(admin, "intern", "subscribe")] == ["valid"]


def test_no_page_is_framed_or_runs_a_script_that_a_person_has_written(hospital: Hospital) -> None:
    """A102: framing, scripts in filters and names, hosts that were pointed at this machine."""
    admin = hospital.signed_in()
    (right,) = rights_of(admin, "intern", "subscribe")
    seen = 0
    for address in (
        *(f"/{one.path}" for one in PAGES.values()),
        f"/certificate?id={right['id']}",
        f"/rights?person={SCRIPT}&type={SCRIPT}",
        f"/why?type=LabResult&who=intern&refusal={SCRIPT}",
        f"/open?link={SCRIPT}",
        f"/{SCRIPT}",
    ):
        answer = admin.get(address)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy  # noqa: PT018 - one claim
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        drawn = Drawn()
        drawn.feed(answer.text)
        assert drawn.scripts == ["/static/console.js"]
        assert not drawn.strange, address
        seen += "&lt;script&gt;" in answer.text
    assert seen >= 3  # the script was on these pages, as text
    for name in ("console.js", "console.css"):
        assert "://" not in admin.get(f"/static/{name}").text
    assert admin.get("/rights", headers={"Host": "evil.example"}).status_code == 421
    link = hospital.link()
    cookies = hospital.browser().get(link).headers["set-cookie"]
    assert "HttpOnly" in cookies and "SameSite=strict" in cookies  # noqa: PT018 - one claim


def test_a_reader_without_a_right_sees_nothing_of_it_by_any_address(hospital: Hospital) -> None:
    """A70, A102: every page, twin and stream, as members who may read about themselves alone."""
    admin = hospital.signed_in()
    others = [one for name in ("intern", "auditor") for one in rights_of(admin, name)]
    secrets = {one[name] for one in others for name in ("id", "subject")} | {"ward =="}
    office, lab = hospital.signed_in("office"), hospital.signed_in("lab")
    for browser in (office, lab):
        for address in GUARDED:
            assert browser.get(address).status_code == 403, address
        for address in (*ADDRESSES, "/certificate?id=" + others[0]["id"], "/rights.json?person=intern"):
            if "/events" not in address:
                text = browser.get(address).text
                assert not [one for one in secrets if one in text], address
        there, nowhere = (browser.get(f"/certificate.json?id={one}") for one in (others[0]["id"], "0" * 64))
        assert (there.status_code, there.text) == (nowhere.status_code, nowhere.text) == (404, there.text)
        asked = [browser.get(f"/why.json?type=LabResult&who={one}") for one in ("intern", "no-such-person")]
        assert [one.status_code for one in asked] == [403, 403]
        assert asked[0].text == asked[1].text
    for address in ADDRESSES:
        assert hospital.browser().get(address).status_code == 401
    refused = lab.get("/streams/events?type=LabResult").text
    assert "event: ended" in refused
    assert "POLICY-NO-CHAIN" in refused
    assert "event: event" not in refused


def test_one_session_does_not_take_all_streams(hospital: Hospital) -> None:
    """A74, A102: a browser opens page after page, and leaves nothing to others."""
    busy, other = hospital.signed_in(), hospital.signed_in()
    with ExitStack() as stack:
        for _ in range(STREAMS_PER_SESSION):
            stream = stack.enter_context(busy.stream("GET", "/network/events"))
            assert stream.status_code == 200
        refused = busy.get("/network/events")
        assert (refused.status_code, refused.json()["code"]) == (503, "CONSOLE-STREAMS")
        assert stack.enter_context(other.stream("GET", "/network/events")).status_code == 200
    wait_until(lambda: _status(busy, "/network/events") == 200, within_s=60)


def _status(browser: httpx.Client, address: str) -> int:
    with browser.stream("GET", address) as answer:
        return answer.status_code


def test_a_page_that_changes_by_itself_ends_with_the_right_to_read_it(hospital: Hospital) -> None:
    """A102: a stream that was opened in time goes on after the right has ended."""
    auditor = hospital.signed_in("auditor")
    with auditor.stream("GET", "/network/events", timeout=60) as stream:
        assert stream.status_code == 200
        certificate = hospital.made.folder / "auditor.maia" / "certs" / "network.cert"
        hospital.made.revoke(certificate, reason=SCRIPT)
        ended = stream.read().decode()
    assert "event: ended" in ended
    assert "CONSOLE-NOT-ALLOWED" in ended
    for address in ("/network", "/network.json", "/network/events"):
        assert auditor.get(address).status_code == 403
    assert auditor.get("/rights.json").status_code == 200  # the register is another right
    out = auditor.post(
        "/sign-out", data={"token": token_of(auditor.get("/rights").text)}, headers=hospital.origin
    )
    assert out.status_code == 200
    assert auditor.get("/rights.json").status_code == 401


def test_a_replay_is_begun_by_a_form_and_shown_to_the_one_who_began_it(hospital: Hospital) -> None:
    """A70, A102: *what if* runs a command with the reader's own key, and its answer is for that reader."""
    admin, auditor = hospital.signed_in(), hospital.signed_in("auditor")
    form = {"type": "LabResult", "policy": "this is no policy"}
    assert admin.post("/what-if", data=form, headers=hospital.origin).status_code == 403
    form["token"] = token_of(admin.get("/what-if").text)
    for missing in ("type", "policy"):
        nothing = admin.post("/what-if", data=form | {missing: ""}, headers=hospital.origin)
        assert (nothing.status_code, "CONSOLE-NO-CHANGE" in nothing.text) == (400, True)
    begun = admin.post("/what-if", data=form, headers=hospital.origin)
    assert begun.status_code == 303, begun.text
    page, _, number = begun.headers["location"].partition("?id=")
    assert page == "/replay"
    wait_until(lambda: admin.get(f"/replay.json?id={number}").json()["state"] != "running", within_s=60)
    found = admin.get(f"/replay.json?id={number}").json()
    assert (found["state"], "ROLE-" in found["problem"]) == ("refused", True), found
    assert "maia-console-" not in found["problem"]  # the folder that the command read
    assert auditor.get(f"/replay.json?id={number}").status_code == 404


class Drawn(HTMLParser):
    """What a browser makes of a page: its scripts, and whatever the console itself never writes."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str | None] = []
        self.strange: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "script":
            self.scripts.append(found.get("src"))
        leads = [found[one] or "" for one in ("href", "src", "action", "formaction") if one in found]
        if (
            tag in ("img", "iframe", "object", "embed", "base", "style")
            or any(name.startswith("on") or name in ("style", "srcdoc") for name in found)
            or any(not re.match(r"/(?!/)|#", one) for one in leads)
        ):
            self.strange.append((tag, found))


def rights_of(browser: httpx.Client, name: str, action: str = "") -> list[dict[str, str]]:
    """Return the certificates of a person that the console shows."""
    found = browser.get("/rights.json", params={"person": name}).json()["certificates"]
    return [one for one in found if action in ("", *one["actions"])]


def token_of(page: str) -> str:
    """Return what the forms of a page carry."""
    found = re.search(r'name="token" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found[1]
