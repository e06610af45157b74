"""A place is a folder or an object store: the same answers, one winner of a race, and no secret in sight."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from maia.errors import BadInput, MaiaError
from maia.places import AlreadyThere, Place, place_of, places_of
from maia.testing import raises
from support.object_store import ACCESS, SECRET, ObjectStore, forgotten_stores


@pytest.fixture(params=["folder", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return (
        place_of(tmp_path / "new") if request.param == "folder" else request.getfixturevalue("bucket") / "new"
    )


def test_what_is_created_is_listed_read_and_removed(place: Place) -> None:
    assert place.listed() == []
    assert not place.exists()
    place.create("b/two", b"22")
    place.create("one", b"1")
    assert [(one.path, one.size) for one in place.listed(is_deep=True)] == [("b/two", 2), ("one", 1)]
    assert [one.path for one in place.listed()] == ["one"]
    assert place.names() == ["b", "one"]
    assert (place / "b").listed()[0].name == "two"
    assert place.read("b/two") == b"22"
    with place.open("b/two") as file:
        assert file.read_at(1, 1) == b"2"
    assert places_of(f"{place}/*") == (place / "b",)
    place.remove("one")
    place.remove("one")
    with pytest.raises(FileNotFoundError):
        place.read("one")


def test_one_of_many_writers_of_a_name_wins_and_what_it_wrote_stays(place: Place) -> None:
    def write(number: int) -> bool:
        try:
            place.create("next", str(number).encode())
        except AlreadyThere:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert sum(won) == 1
    assert place.read("next") == str(won.index(True)).encode()


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("s3://city/log/", "s3://city/log"),
        ("s3a://city/log", "s3://city/log"),
        ("file:///var/log%20s", "/var/log s"),
        ("abfs://box@account.dfs.core.windows.net/log", "abfs://box@account.dfs.core.windows.net/log"),
        ("gs://city/log", "gs://city/log"),
        ("/var/log", "/var/log"),
    ],
)
def test_an_address_has_one_form(written: str, address: str) -> None:
    assert place_of(written).address == address


@pytest.mark.parametrize(
    "secret", ["s3://key:w0rd@city/log", "s3://city/log?secret_key=w0rd", "s3://key@city"]
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(BadInput, match="credentials in the environment") as refused:
        place_of(secret)
    assert refused.value.code == "PLACE-SECRET"
    assert "w0rd" not in str(refused.value)


@pytest.mark.parametrize("address", ["s3://city/../other", "s3:city", "nowhere://x/y"])
def test_an_address_that_means_nothing_is_refused(address: str) -> None:
    with raises("PLACE-ADDRESS"):
        place_of(address).listed()


def test_what_can_only_be_read_is_not_written() -> None:
    with raises("PLACE-READ-ONLY", match="hdfs"):
        place_of("hdfs://name/log").create("x", b"")


def test_credentials_come_from_a_file_as_well(
    bucket: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[logs]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "logs")
    with forgotten_stores():
        bucket.create("x", b"1")
        assert bucket.read("x") == b"1"


def test_no_error_and_no_representation_shows_a_credential(
    object_store: ObjectStore, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-value")
    with forgotten_stores():
        acts = (lambda: bucket.create("x", b""), bucket.listed, lambda: bucket.read("x"))
        for act in (*acts, lambda: bucket.remove("x")):
            with pytest.raises(MaiaError) as refused:
                act()
            assert refused.value.code == "PLACE-UNREACHABLE"
            told = f"{refused.value!r} {refused.value.__cause__!r} {bucket!r} {pickle.dumps(bucket)!r}"
            assert "secret-value" not in told
            assert ACCESS not in told
