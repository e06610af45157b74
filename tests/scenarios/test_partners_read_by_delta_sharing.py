"""D19: partners read governed tables with a client of Delta Sharing, and without Maia."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from random import Random

import httpx
import pyarrow.parquet as pq
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import maia
from support.processes import maia as command
from support.sharing import NOON, PATIENTS, SETTINGS, Hospital, names_in, sharing_hospital


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    with sharing_hospital(tmp_path_factory.mktemp("home")) as running:
        running.partner("institute", "office").until_rows(2)
        yield running


def test_a_partner_reads_what_one_right_shows_with_pypis_client(hospital: Hospital) -> None:
    """D19: rows and columns of the right, of a sealed type and of a plain one, to the value."""
    institute = hospital.partner("north", "office")
    client = institute.client()
    assert [one.name for one in client.list_shares()] == ["hospital"]
    assert [(one.share, one.name) for one in client.list_schemas(client.list_shares()[0])] == [
        ("hospital", "types")
    ]
    assert [(one.schema, one.name) for one in client.list_all_tables()] == [
        ("types", "LabResult"),
        ("types", "Notice"),
    ]
    rows = institute.rows("LabResult")
    assert rows == [{"ward": "3", "value": value, "taken": NOON} for value in (101, 142)]
    assert institute.rows("labresult", limit=1) == rows[1:]
    (notice,) = institute.rows("Notice")
    assert notice == {"text": "hello", "urgent": None, "weight": 0.5}


def test_each_partner_reads_under_its_own_right(hospital: Hospital) -> None:
    clinic = hospital.partner("clinic-partner", "clinic")
    clinic.until_rows(3)
    assert [(one["patient"], one["value"]) for one in clinic.rows("LabResult")] == list(
        zip(PATIENTS, (142, 7, 101), strict=True)
    )
    assert [one.name for one in clinic.client().list_all_tables()] == ["LabResult", "Visit"]
    assert clinic.frame("Visit").empty
    assert list(clinic.frame("Visit").columns) == ["patient", "value"]


def test_what_a_right_hides_is_not_in_the_files(hospital: Hospital) -> None:
    """D19 (#132, #754 at Delta Sharing): neither values nor names of hidden columns, nor hidden rows."""
    institute = hospital.partner("east", "office")
    for url in institute.addresses():
        data = hospital.http.get(url).content
        file = hospital.data / "files" / f"{url.partition('/files/')[2].partition('?')[0]}.parquet"
        assert file.read_bytes() == data
        assert names_in(file) == ["ward", "value", "taken"]
        assert pq.ParquetFile(file).metadata.metadata is None
        assert {row["value"] for row in pq.read_table(file).to_pylist()} <= {101, 142}
        assert not any(word.encode() in data for word in (*PATIENTS, "patient"))


def test_recipients_whose_rights_show_the_same_share_files_and_are_each_on_record(
    hospital: Hospital,
) -> None:
    first, second = hospital.partner("one", "office"), hospital.partner("two", "office")
    first.version()
    before, files = hospital.on_record(), hospital.files()
    assert first.rows("LabResult") == second.rows("LabResult")
    assert hospital.files() == files
    after = hospital.on_record()[len(before) :]
    assert {one["names"][one["recipient"]]["name"] for one in after} == {"office"}
    assert {tuple(sorted(one["attributes"])) for one in after} == {("taken", "value", "ward")}
    ids = {one["id"]: one["name"] for one in hospital.share("list")["recipients"]}
    reads = (hospital.data / "ledger" / "reads").iterdir()
    assert {ids.get(one.name.split("-")[1]) for one in reads} >= {"one", "two"}
    checked = command("ledger", "verify", hospital.data / "ledger", cwd=hospital.made.folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_table_grows_and_says_nothing_of_what_is_hidden(hospital: Hospital) -> None:
    """A91: no version, no count and no gap is made by rows that the right hides."""
    west, clinic = hospital.partner("west", "office"), hospital.partner("south", "clinic")
    before, rows, all_rows = west.version(), west.counted("LabResult"), clinic.counted("LabResult")
    whole = clinic.version()
    hospital.publish(("P-hidden", 3))
    clinic.until_rows(all_rows + 1)
    assert clinic.version() > whole
    assert (west.version(), west.counted("LabResult")) == (before, rows)
    hospital.publish(("P-shown", 333))
    west.until_rows(rows + 1)
    now = west.version()
    assert now > before
    assert [one["value"] for one in west.rows("LabResult", version=before)] == [101, 142]
    moment = "2100-01-01 00:00:00"
    assert len(west.rows("LabResult", timestamp=moment)) == rows + 1
    assert west.code(west.query(version=before + 1)) == (404, "UNAVAILABLE-SHARE-GONE")
    assert west.code(west.query(timestamp="2020-01-01T00:00:00Z")) == (404, "UNAVAILABLE-SHARE-GONE")


def test_metadata_is_of_the_protocol(hospital: Hospital) -> None:
    partner = hospital.partner("meta", "office")
    answer = partner.asked("/shares/HOSPITAL/schemas/Types/tables/labresult/metadata")
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "application/x-ndjson; charset=utf-8",
    )
    protocol, metadata = map(json.loads, answer.text.splitlines())
    assert protocol == {"protocol": {"minReaderVersion": 1}}
    fields = json.loads(metadata["metaData"]["schemaString"])["fields"]
    assert [(one["name"], one["type"]) for one in fields] == [
        ("ward", "string"),
        ("value", "long"),
        ("taken", "timestamp"),
    ]
    assert int(answer.headers["delta-table-version"]) == metadata["metaData"]["version"]
    page = partner.asked("/shares/hospital/all-tables", params={"maxResults": 1}).json()
    assert [one["name"] for one in page["items"]] == ["LabResult"]
    rest = partner.asked("/shares/hospital/all-tables", params={"pageToken": page["nextPageToken"]}).json()
    assert rest == {"items": [{"name": "Notice", "schema": "types", "share": "hospital"}]}
    refused = partner.asked("/shares/hospital/schemas/types/tables/LabResult/changes?startingVersion=0")
    assert partner.code(refused) == (400, "INPUT-SHARE-CHANGES")


def test_a_right_that_is_revoked_ends_within_a_second(hospital: Hospital) -> None:
    made = hospital.made
    partner = hospital.partner("temp-partner", "temp")
    assert partner.counted("LabResult") >= 3
    (address, *_) = partner.addresses()
    assert hospital.http.get(address).status_code == 200
    made.revoke("temp")
    time.sleep(1)
    assert hospital.http.get(address).status_code == 403
    assert partner.query().status_code == 403
    assert hospital.http.get(address).status_code == 403
    assert partner.asked("/shares/hospital/all-tables").json() == {"items": []}


def test_a_recipient_that_is_removed_has_ended_with_the_next_call(hospital: Hospital) -> None:
    partner = hospital.partner("gone", "office")
    (address, *_) = partner.addresses()
    assert "gone" in [one["name"] for one in hospital.share("list")["recipients"]]
    assert hospital.share("remove", "gone") == {"removed": "gone"}
    assert partner.code(partner.query()) == (401, "REFUSED-SHARE-BEARER")
    assert partner.code(hospital.http.get(address)) == (401, "REFUSED-SHARE-BEARER")
    assert "gone" not in [one["name"] for one in hospital.share("list")["recipients"]]


def test_a_right_that_begins_later_or_has_ended_shows_what_it_covers(hospital: Hospital) -> None:
    made = hospital.made
    folder = made.add_member("later").path
    for name, words in {
        "begins": ("--not-before", "2099-01-01T00:00:00Z", "--not-after", "2099-02-01T00:00:00Z"),
        "ended": ("--not-before", "2020-01-01T00:00:00Z", "--not-after", "2020-02-01T00:00:00Z"),
    }.items():
        said = command(
            "cert", "issue", "-k", "hospital.key", "--subject", folder / "later.pub",
            "-d", "types/Notice.type", "--action", "subscribe", *words,
            "-o", folder / "certs" / f"{name}.cert", cwd=made.folder,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
    types = folder / "types"
    types.mkdir(exist_ok=True)
    source = next((made.folder / "types").glob("Notice*.type"))
    (types / source.name).write_bytes(source.read_bytes())
    partner = hospital.partner("later-partner", "later")
    assert partner.counted("Notice") == 0
    again = command(
        "cert", "issue", "-k", "hospital.key", "--subject", folder / "later.pub",
        "-d", "types/Notice.type", "--action", "subscribe",
        "--not-before", "2020-01-01T00:00:00Z", "--not-after", "2099-01-01T00:00:00Z",
        "-o", folder / "certs" / "now.cert", cwd=made.folder,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert partner.counted("Notice") == 1


def test_summaries_and_converted_events_are_refused_in_one_sentence(hospital: Hospital) -> None:
    hospital.made.define("Visits", visits="int")
    terms = {"set": ["visits := count()"], "every": "5 minutes at least 5", "shown_as": "Visits"}
    hospital.made.add_member("public", may="subscribe:Visit", **terms)
    partner = hospital.partner("newspaper", "public")
    assert partner.code(partner.query("Visit")) == (400, "INPUT-SHARE-SHOWN-AS")


def test_no_token_and_no_key_is_in_what_the_server_keeps_or_writes(hospital: Hospital) -> None:
    partner = hospital.partner("secret", "office")
    token = partner.bearer
    assert partner.rows("LabResult")
    assert partner.asked("/shares", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
    secret = token.rpartition("-")[2].encode()
    kept = [one for one in hospital.data.rglob("*") if one.is_file()]
    written = [*kept, *(hospital.made.folder / "share-output").glob("*.log")]
    assert len(written) > 5
    assert not [one for one in written if secret in one.read_bytes() or token.encode() in one.read_bytes()]
    assert {one.stat().st_mode & 0o077 for one in kept} == {0}
    assert partner.file.stat().st_mode & 0o077 == 0


def test_a_download_ends_in_the_middle_with_its_right(hospital: Hospital) -> None:
    random = Random(17)  # noqa: S311 - a text that cannot be compressed
    partner = hospital.partner("reader", "clinic")
    with maia.connect(hospital.made.folder / "lab.maia") as lab:
        visits = lab.advertise("Visit")
        for _ in range(2_000):
            visits.publish(patient=random.randbytes(4_000).hex(), ward="3", value=1, taken=NOON)
        visits.flush()
    partner.until_rows(2_000, "Visit")
    (url, *_) = partner.addresses("Visit")
    with hospital.http.stream("GET", url) as answer:
        parts = answer.iter_raw(1 << 16)
        size = int(answer.headers["content-length"])
        assert size > 6_000_000
        got = len(next(parts))
        hospital.share("remove", "reader")
        time.sleep(1)
        with pytest.raises(httpx.RemoteProtocolError):
            got += sum(map(len, parts))
    assert got < size


def test_a_server_with_a_certificate_is_read_over_tls(tmp_path: Path) -> None:
    certificate, key = web_certificate(tmp_path)
    settings = f'{SETTINGS}[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    with sharing_hospital(tmp_path, settings) as hospital:
        partner = hospital.partner("institute", "office")
        assert partner.profile["endpoint"] == f"https://127.0.0.1:{hospital.port}/delta-sharing"
        context = ssl.create_default_context(cafile=certificate)
        hospital.http = httpx.Client(trust_env=False, verify=context, timeout=60)
        partner.until_rows(2)
        (url, *_) = partner.addresses()
        assert hospital.http.get(url).content[:4] == b"PAR1"
        hospital.http.close()


def web_certificate(folder: Path) -> tuple[Path, Path]:
    """Write an ordinary certificate for this machine, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "share.example")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(17)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, SHA256())
    )
    files = folder / "share.crt", folder / "share.pem"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def test_metrics_count_and_a_server_that_is_stopped_ends_well(tmp_path: Path) -> None:
    with sharing_hospital(tmp_path) as hospital:
        partner = hospital.partner("institute", "office")
        partner.until_rows(2)
        assert len(partner.rows("LabResult")) == 2
        kept = [one.read_bytes() for one in hospital.data.rglob("*") if one.is_file()]
        assert len(kept) > 5
        assert not [one for one in kept for word in PATIENTS if word.encode() in one]
        assert {tuple(names_in(one)) for one in hospital.files()} == {("ward", "value", "taken")}
        door = json.loads((hospital.data / "status.door").read_text())
        text = hospital.http.get(f"http://{door['address']}/metrics").text
        numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("maia_share_"))
        assert float(numbers["maia_share_rows"]) >= 2
        assert float(numbers["maia_share_cache_bytes"]) > 0
        (address, *_) = partner.addresses()
        hospital.server.process.terminate()
        assert hospital.server.process.wait(30) == 0
        hospital.server.begin()
        hospital.server.ready("listening")
        assert partner.code(hospital.http.get(address)) == (403, "REFUSED-SHARE-ADDRESS")
        files = hospital.files()
        assert len(partner.rows("LabResult")) == 2
        assert hospital.files() == files, "the files of the run before are used"
