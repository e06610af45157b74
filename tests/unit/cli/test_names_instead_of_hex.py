"""What people read has names in place of keys; what programs read has the whole ids, and the names beside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.config.input_files import read_principal
from maia.credentials.names import type_id
from maia.profile.address_book import load_book
from maia.types.verified import validity_type_id
from support.processes import maia

WHOLE = re.compile(r"ed25519:[0-9a-f]{64}")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hospital that has granted an institute half of a type, and the institute's dashboard."""
    folder = tmp_path_factory.mktemp("named")
    for words in (
        ("org", "new", "hospital"),
        ("type", "define", "LabResult", "patient:string", "ward:string"),
        ("member", "add", "lab", "--may", "publish:LabResult"),
        ("org", "new", "institute"),
        ("grant", "institute/institute.pub", "--org", "hospital", "--may", "subscribe:LabResult", "--only",
         "ward", "--where", 'ward in ("3", "4")', "--delegable", "-o", "institute.grant"),
        ("org", "join", "institute.grant", "--org", "institute"),
        ("member", "add", "dashboard", "--org", "institute", "--may", "subscribe:LabResult"),
    ):  # fmt: skip
        answer = maia(*words, cwd=folder)
        assert answer.returncode == 0, answer.stderr
    return folder


@pytest.fixture(autouse=True)
def own_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "maia"


def test_a_certificate_is_shown_verified_and_found_by_names(home: Path) -> None:
    inside = home / "hospital"
    shown = maia("cert", "show", *sorted((inside / "issued").glob("*.cert")), cwd=inside).stdout
    assert "subject      institute (ed25519:" in shown
    assert 'attributes   ward\nwhere        ward in ("3", "4")' in shown
    asked = ("cert", "find", "issued", "--root", "hospital", "--subject", "lab", "--action", "publish")
    found = maia(*asked, "--type", "LabResult", cwd=inside).stdout
    assert "subject      lab (ed25519:" in found
    for text in (shown, found):
        assert not WHOLE.search(text)
        assert not UID.search(text)
    record = json.loads(maia(*asked, "--type", "LabResult", "--json", cwd=inside).stdout)
    assert WHOLE.fullmatch(record["subject"])
    assert record["names"][record["subject"]] == {"name": "lab", "chosen_by": "you"}
    assert "ward" in record["attribute_names"].values()


def test_a_refusal_and_an_explanation_name_both_sides(home: Path) -> None:
    asked = ("explain", "LabResult", "--as", "dashboard", "--action", "publish")
    answer = maia(*asked, cwd=home / "institute").stdout
    assert "no chain lets `dashboard` (ed25519:" in answer
    assert 'of `self-named "hospital"` (ed25519:' in answer
    refused = maia("org", "join", "institute.grant", "--org", "hospital", cwd=home).stderr
    assert "was granted to `institute` (ed25519:" in refused
    assert not WHOLE.search(refused)


def test_a_key_is_remembered_under_a_name_of_the_users_own(home: Path, own_book: Path) -> None:
    inside, key = home / "institute", (home / "hospital" / "hospital.pub").read_text().strip()
    assert maia("key", "remember", key, "--name", "St. Mary", cwd=inside).returncode == 0
    (certificate, *_) = sorted((inside / "certs").glob("*.cert"))
    assert "issuer       St. Mary (ed25519:" in maia("cert", "show", certificate, cwd=inside).stdout
    assert maia("key", "show", "St. Mary", cwd=inside).stdout == f"{key}\n"
    known = maia("key", "known", cwd=inside).stdout
    assert f"St. Mary     {key}  by you  {own_book / 'St. Mary.pub'}\n" in known
    again = maia("key", "remember", inside / "institute.pub", "--name", "St. Mary", cwd=inside)
    assert "is already there; `--force` replaces it" in again.stderr
    unusable = maia("key", "remember", key, cwd=inside)
    assert "is no name" in unusable.stderr
    assert unusable.returncode == 2


def test_two_keys_of_one_name_are_called_by_their_folders(home: Path) -> None:
    answer = maia("key", "show", "broker", cwd=home)
    assert "`broker` means several keys: `hospital/broker`, `institute/broker`" in answer.stderr
    shown = maia("key", "show", "institute/broker", cwd=home)
    assert shown.stdout == (home / "institute" / "broker.pub").read_text()
    missing = maia("key", "show", "institut", cwd=home)
    assert "no key that you know by this name; did you mean `institute`?" in missing.stderr
    assert missing.returncode == 2


def test_types_in_lists_and_logs_are_called_by_name(home: Path) -> None:
    """Whatever prints the id of a type, such as `maia log list` and logs, goes through the same book."""
    inside = home / "hospital"
    owner = read_principal(str(inside / "hospital.pub"))
    book = load_book([inside], own=home / "none", at=system_now())
    known, stream = type_id(owner, "LabResult").hex(), validity_type_id(owner).hex()
    assert (
        book.named(f"type         {known}: 3 events")
        == f"type         LabResult (type {known[:8]}…): 3 events"
    )
    assert book.named(f"statement links at {owner}@127.0.0.1:1") == f"statement links at {owner}@127.0.0.1:1"
    assert book.named(f"type={stream}") == f"type=maia.validity of hospital (type {stream[:8]}…)"
    assert (
        book.named(f"certificate {owner.key.hex()}, quorum:{known}")
        == f"certificate {owner.key.hex()}, quorum:{known}"
    )
