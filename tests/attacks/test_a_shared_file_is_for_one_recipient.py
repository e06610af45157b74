"""A127: a recipient, or anyone else, reaches for what another right shows, or keeps what it had."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest

from maia.share.addresses import AddressBook, FileAddress
from support.processes import maia as command
from support.sharing import SETTINGS, Hospital, Partner, sharing_hospital

SHORT = SETTINGS + "address_s = 10\ncalls_per_recipient = 4\n"
TABLE = "/shares/hospital/schemas/types/tables/LabResult"


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with sharing_hospital(tmp_path_factory.mktemp("home"), SHORT) as running:
        running.partner("institute", "office").until_rows(2)
        running.partner("clinic-partner", "clinic").until_rows(3)
        yield running


@pytest.fixture
def institute(hospital: Hospital) -> Partner:
    return Partner(hospital, hospital.made.folder / "institute.share")


@pytest.fixture
def clinic(hospital: Hospital) -> Partner:
    return Partner(hospital, hospital.made.folder / "clinic-partner.share")


def raw(hospital: Hospital, request: bytes) -> bytes:
    """Send bytes as no library does, and return the first line that comes back."""
    with socket.create_connection(("127.0.0.1", hospital.port), timeout=30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


def test_an_address_opens_its_own_file_alone(hospital: Hospital, institute: Partner, clinic: Partner) -> None:
    """A127: another right's file by its name, under an address of one's own."""
    (mine, *_), (theirs, *_) = institute.addresses(), clinic.addresses()
    own, other = (urlsplit(one).path.rpartition("/")[2] for one in (mine, theirs))
    assert own != other
    for url in (
        mine.replace(own, other),
        theirs.replace(other, own),
        mine.partition("?")[0],
        f"{mine.partition('?')[0]}?address=",
        mine.replace(own, "0" * 64),
        mine + "A" * 8,
        mine[:-1] + ("A" if mine[-1] != "A" else "B"),
    ):
        answer = hospital.http.get(url)
        assert (answer.status_code, len(answer.content) < 400) == (403, True), url
    with_bearer = hospital.http.get(
        mine.replace(own, other), headers={"Authorization": f"Bearer {institute.bearer}"}
    )
    assert with_bearer.status_code == 403
    assert hospital.http.get(mine).status_code == hospital.http.get(theirs).status_code == 200


def test_an_address_cannot_be_made_by_whoever_knows_how_they_are_made(
    hospital: Hospital, institute: Partner
) -> None:
    """A127: guessed addresses, and one that was changed to end later or to be of another class."""
    (url, *_) = institute.addresses()
    file = urlsplit(url).path.rpartition("/")[2]
    text = parse_qs(urlsplit(url).query)["address"][0]
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    said = msgspec.msgpack.decode(data[32:], type=FileAddress)
    longer = msgspec.structs.replace(said, expires_at=said.expires_at * 2)
    for forged in (
        AddressBook(bytes(32)).write(file, longer),
        base64.urlsafe_b64encode(data[:32] + msgspec.msgpack.encode(longer)).decode().rstrip("="),
        base64.urlsafe_b64encode(bytes(32) + data[32:]).decode().rstrip("="),
        "é" * 10,
        "A" * 4096,
        "%00",
    ):
        answer = hospital.http.get(url.partition("?")[0], params={"address": forged})
        assert institute.code(answer) == (403, "REFUSED-SHARE-ADDRESS"), forged


def test_an_address_ends_in_time(hospital: Hospital, institute: Partner) -> None:
    """A127: an address that was kept, forwarded or found in a log."""
    answer = institute.query()
    (about, *_) = [json.loads(line)["file"] for line in answer.text.splitlines()[2:]]
    assert about["expirationTimestamp"] / 1000 <= time.time() + 11
    assert hospital.http.get(about["url"]).status_code == 200
    time.sleep(max(0.0, about["expirationTimestamp"] / 1000 - time.time()) + 0.1)
    assert institute.code(hospital.http.get(about["url"])) == (403, "REFUSED-SHARE-ADDRESS")


def test_tables_without_a_right_look_like_tables_that_are_not_there(
    hospital: Hospital, institute: Partner
) -> None:
    """A127: foreign tables and shares, and listing what there is."""
    hospital.made.define("Secret", word="string")
    wanted = [
        f"/shares/{share}/schemas/{schema}/tables/{table}"
        for share, schema, table in (
            ("hospital", "types", "Secret"),
            ("hospital", "types", "Visit"),
            ("hospital", "types", "Nothing"),
            ("hospital", "other", "LabResult"),
            ("clinic", "types", "LabResult"),
        )
    ]
    answers = [institute.asked(f"{one}/query", "POST", json={}) for one in wanted]
    answers += [institute.asked(f"{one}/{what}") for one in wanted for what in ("version", "metadata")]
    answers += [institute.asked(one) for one in ("/shares/clinic", "/shares/clinic/schemas", "/nothing")]
    answers.append(institute.asked("/shares/hospital/schemas/other/tables"))
    assert {(one.status_code, one.text) for one in answers} == {(404, answers[0].text)}
    tables = [one["name"] for one in institute.asked("/shares/hospital/all-tables").json()["items"]]
    assert tables == ["LabResult", "Notice"]


@pytest.mark.parametrize(
    "path",
    [
        "/files/../../recipients/x.json",
        "/files/..%2f..%2frecipients",
        "/files/%2e%2e/%2e%2e/lock",
        "/files/" + "a" * 64 + "%00.parquet",
        "/files/" + "A" * 64,
        "/files/" + "0" * 63 + "/",
        "/files//etc/passwd",
        "/shares/hospital/schemas/types/tables/..%2f..%2flog/metadata",
        "/shares/hospital/schemas/%2e%2e/tables/LabResult/metadata",
        "/shares/..%5c..%5clog/all-tables",
        "/shares/" + "x" * 60_000,
        "/../../../share-data/recipients",
    ],
)
def test_nothing_that_is_asked_for_becomes_a_path(hospital: Hospital, institute: Partner, path: str) -> None:
    """A127: path traversal, in every place of a path that a stranger or a recipient writes."""
    bearer = institute.bearer.encode()
    for head in (b"", b"Authorization: Bearer " + bearer + b"\r\n"):
        line = raw(
            hospital,
            b"GET /delta-sharing"
            + path.encode()
            + b" HTTP/1.1\r\nHost: x\r\n"
            + head
            + b"Connection: close\r\n\r\n",
        )
        assert re.match(rb"HTTP/1.1 40[0134] ", line), line


def test_ranges_are_of_the_file_alone(hospital: Hospital, institute: Partner) -> None:
    """A127: ranges before, behind and all over a file, and more of them than it has bytes."""
    (url, *_) = institute.addresses()
    whole = hospital.http.get(url).content
    size = len(whole)
    for said, part in {
        "bytes=0-3": whole[:4],
        "bytes=4-": whole[4:],
        "bytes=-8": whole[-8:],
        f"bytes=0-{size * 10}": whole,
        f"bytes=-{size * 10}": whole,
    }.items():
        answer = hospital.http.get(url, headers={"Range": said})
        assert (answer.status_code, answer.content) == (206, part), said
    for said in ("bytes=0-0," * 2000 + "0-1", "bytes=--1", "items=0-1", "bytes=a-b", "bytes=-"):
        assert hospital.http.get(url, headers={"Range": said}).content == whole, said[:40]
    for said in (f"bytes={size}-", "bytes=9-3", f"bytes={size + 5}-{size + 9}", "bytes=" + "9" * 18 + "-"):
        assert hospital.http.get(url, headers={"Range": said}).status_code == 400, said
    head = hospital.http.head(url)
    assert (head.status_code, int(head.headers["content-length"]), head.content) == (200, size, b"")


def test_a_token_is_right_or_opens_nothing(hospital: Hospital, institute: Partner, clinic: Partner) -> None:
    """A127: no token, a part of one, one that was put together of two, in another case or scheme."""
    (mine, theirs) = (one.bearer.rpartition("-") for one in (institute, clinic))
    answers = set()
    for header in (
        "",
        "Bearer",
        f"Bearer {institute.bearer[:-1]}",
        f"Bearer {institute.bearer.upper()}",
        f"Bearer {mine[0]}-{theirs[2]}",
        f"Bearer {mine[2]}",
        f"Bearer maia-share-../../x-{mine[2]}",
        f"Bearer maia-share--{mine[2]}",
        "Bearer " + "A" * 20_000,
        f"Basic {institute.bearer}",
    ):
        answer = hospital.http.get(
            f"{institute.profile['endpoint']}/shares", headers={"Authorization": header} if header else {}
        )
        answers.add((answer.status_code, answer.text))
    assert len(answers) == 1
    assert answers.pop()[0] == 401
    twice = [("Authorization", f"Bearer {institute.bearer}"), ("Authorization", f"Bearer {clinic.bearer}")]
    both = httpx.get(f"{institute.profile['endpoint']}/shares", headers=twice, trust_env=False)
    assert both.status_code == 400


def test_nothing_that_is_sent_is_decompressed_and_bodies_are_bounded(
    hospital: Hospital, institute: Partner
) -> None:
    """A127: a small body that becomes a large one, and large, deep and wrong ones."""
    bomb = gzip.compress(b" " * (64 << 20))
    for encoding in ("gzip", "deflate", "br", "GZIP, identity"):
        answer = institute.asked(
            f"{TABLE}/query", "POST", content=bomb, headers={"Content-Encoding": encoding}
        )
        assert institute.code(answer) == (400, "INPUT-SHARE-CALL")
    for body in (b"[" * 200_000, b"{", b"\xff", b'{"version":-1}', b'{"version":"1"}', b"[]"):
        answer = institute.asked(f"{TABLE}/query", "POST", content=body)
        assert institute.code(answer) == (400, "INPUT-SHARE-CALL"), body[:20]
    assert institute.asked(f"{TABLE}/query", "POST", content=b" " * (1 << 20)).status_code == 413
    answer = institute.asked("/shares", headers={"Accept-Encoding": "gzip, zstd"})
    assert "content-encoding" not in answer.headers
    hints = {"predicateHints": ["1=1; DROP TABLE x"] * 64, "jsonPredicateHints": "{" * 100, "limitHint": 0}
    assert institute.query(**hints).status_code == 200


def test_versions_and_pages_that_no_server_gave_are_refused(institute: Partner) -> None:
    """A127: versions of another table, of the past and of the future, page tokens that were made up."""
    for asked in ({"version": 0}, {"version": 2**62}, {"timestamp": "1990-01-01"}):
        assert institute.code(institute.query(**asked)) == (404, "UNAVAILABLE-SHARE-GONE"), asked
    for asked in ({"timestamp": "never"}, {"version": 1, "timestamp": "2026-01-01"}):
        assert institute.code(institute.query(**asked)) == (400, "INPUT-SHARE-CALL"), asked
    assert institute.code(institute.query(startingVersion=1)) == (400, "INPUT-SHARE-CHANGES")
    for words in ({"pageToken": "x"}, {"maxResults": "-1"}, {"maxResults": "x"}, {"page": "1"}):
        assert institute.asked("/shares", params=words).status_code == 400, words


def test_an_older_version_of_another_right_is_no_version(institute: Partner, clinic: Partner) -> None:
    """A127: the version that another recipient sees, under the same name."""
    theirs = clinic.version()
    if theirs != institute.version():
        assert institute.code(institute.query(version=theirs)) == (404, "UNAVAILABLE-SHARE-GONE")


def test_one_recipient_leaves_room_for_others(
    hospital: Hospital, institute: Partner, clinic: Partner
) -> None:
    """A127: calls that never end, of one recipient, keep no other out."""
    held = []
    (url, *_) = institute.addresses()
    target = urlsplit(url)
    for _ in range(6):
        connection = socket.create_connection(("127.0.0.1", hospital.port), timeout=30)
        body = (
            b"POST /delta-sharing" + TABLE.encode() + b"/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
        )
        connection.sendall(body + institute.bearer.encode() + b"\r\nContent-Length: 1000\r\n\r\n{")
        held.append(connection)
    time.sleep(0.5)
    refused = httpx.get(f"http://{target.netloc}{target.path}?{target.query}", trust_env=False)
    assert institute.code(refused) == (429, "REFUSED-SHARE-CALLS")
    assert clinic.query().status_code == 200
    for connection in held:
        connection.close()


def test_a_bearer_that_was_revoked_reads_nothing_by_any_way(hospital: Hospital) -> None:
    """A127: the right is revoked, the profile has another key, or is gone."""
    made = hospital.made
    partner = hospital.partner("temp-partner", "temp")
    (url, *_) = partner.addresses()
    version = partner.version()
    made.revoke("temp")
    deadline = time.monotonic() + 30
    while hospital.http.get(url).status_code == 200:
        assert time.monotonic() < deadline
    assert partner.query().status_code == 403
    assert partner.query(version=version).status_code == 403
    assert hospital.http.get(url, headers={"Range": "bytes=0-3"}).status_code == 403
    assert hospital.http.head(url).status_code == 403
    # A member of the same name with a new key is another one.
    made.add_member("temp", may="subscribe:LabResult")
    assert partner.code(partner.query()) == (403, "REFUSED-SHARE-RIGHT")
    made.add_member("moved", may="subscribe:Notice")
    other = hospital.partner("moved-partner", "moved")
    assert other.query("Notice").status_code == 200
    shutil.rmtree(made.folder / "moved.maia")
    refused = other.query("Notice")
    assert partner.code(refused) == (403, "REFUSED-SHARE-RIGHT")
    assert str(made.folder) not in refused.text


def test_an_error_of_the_servers_own_tells_no_path(hospital: Hospital, institute: Partner) -> None:
    """A127: a damaged log, a profile that cannot be read."""
    visit = hospital.partner("visits", "clinic")
    file = hospital.made.folder / "clinic.maia" / "profile.toml"
    text = file.read_text()
    file.write_text("nonsense")
    try:
        refused = visit.query("Visit")
        assert (refused.status_code, str(hospital.made.folder) in refused.text) == (403, False)
    finally:
        file.write_text(text)
    assert visit.query("Visit").status_code == 200


def test_a_recipients_days_end(hospital: Hospital) -> None:
    """A127: a profile file that was kept."""
    partner = hospital.partner("past", "office", "--days", 1)
    assert partner.query().status_code == 200
    (url, *_) = partner.addresses()
    (file,) = (
        one
        for one in (hospital.data / "recipients").glob("*.json")
        if json.loads(one.read_text())["name"] == "past"
    )
    said = json.loads(file.read_text())
    file.write_text(json.dumps(said | {"expires_at": said["added_at"]}))
    assert partner.code(partner.query()) == (401, "REFUSED-SHARE-EXPIRED")
    assert partner.code(hospital.http.get(url)) == (401, "REFUSED-SHARE-EXPIRED")


def test_what_cannot_be_put_on_record_is_not_handed_out(hospital: Hospital, institute: Partner) -> None:
    """A127, A95: the ledger of reads is on a disk that takes nothing."""
    reads = hospital.data / "ledger" / "reads"
    aside = reads.with_name("aside")
    reads.rename(aside)
    reads.write_text("no folder")
    try:
        answer = institute.query()
        assert institute.code(answer) == (503, "UNAVAILABLE-LEDGER")
        assert "files/" not in answer.text
    finally:
        reads.unlink()
        aside.rename(reads)
    assert institute.query().status_code == 200


def test_names_and_days_of_recipients_are_bounded(hospital: Hospital) -> None:
    """A127: a recipient whose name is a path, or whose password never ends."""
    for words in (("../x",), ("a" * 64,), ("x", "--days", "0"), ("x", "--days", "100000"), ("institute",)):
        out = Path(hospital.made.folder / "new.share")
        said = command("share", "add", *words, "--as", "office", "--out", out, cwd=hospital.made.folder)
        assert (said.returncode, "INPUT-SHARE-NAME" in said.stderr, out.exists()) == (2, True, False), words
