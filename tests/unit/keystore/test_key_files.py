"""A key file is written once, for its owner only, and refused when others could have touched it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from maia.credentials import SigningKey
from maia.errors import MaiaError
from maia.keystore import key_files
from maia.keystore.key_files import (
    WrongPassphrase,
    create_key_file,
    load_signing_key,
    new_signing_key,
    public_half,
)
from maia.testing.refusals import raises

SEED = bytes(range(1, 33))
KEY = SigningKey.from_seed(SEED)
PUBLIC = f"(public (ed25519 #{KEY.principal.key.hex()}#))"
SEALED = "(sealed-seed scrypt-aes-256-gcm (salt a) (nonce b) (box c))"


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spend less on each passphrase than an owner would; the file format does not change."""
    monkeypatch.setattr(key_files, "_SCRYPT_N", 1 << 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pito.key"


def test_a_key_is_read_back(path):
    create_key_file(path, KEY)
    assert load_signing_key(path).principal == KEY.principal
    assert public_half(path) == KEY.principal


def test_a_key_file_belongs_to_its_owner_alone_whatever_the_umask(path):
    before = os.umask(0)
    try:
        create_key_file(path, KEY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_encrypted_key_opens_with_its_passphrase_only(path):
    create_key_file(path, KEY, "correct horse")
    assert SEED.hex() not in path.read_text()
    assert load_signing_key(path, "correct horse").principal == KEY.principal
    assert public_half(path) == KEY.principal
    for wrong in ("Correct horse", "correct horse ", "\ud800", None):
        with pytest.raises(WrongPassphrase) as refused:
            load_signing_key(path, wrong)
        assert "horse" not in refused.value.message


def test_the_same_passphrase_never_gives_the_same_file(path, tmp_path):
    create_key_file(path, KEY, "x")
    create_key_file(tmp_path / "again.key", KEY, "x")
    assert path.read_text() != (tmp_path / "again.key").read_text()


def test_a_passphrase_must_be_wanted_and_not_empty(path):
    with raises("INPUT-KEY-FILE", match="empty"):
        create_key_file(path, KEY, "")
    assert not path.exists()
    create_key_file(path, KEY)
    with raises("INPUT-KEY-FILE", match="not encrypted"):
        load_signing_key(path, "x")


def test_a_key_file_is_never_overwritten(path):
    create_key_file(path, KEY)
    with raises("INPUT-KEY-FILE-EXISTS"):
        create_key_file(path, new_signing_key())
    assert load_signing_key(path).principal == KEY.principal


def test_a_symbolic_link_is_neither_followed_nor_replaced(path, tmp_path):
    real = tmp_path / "real.key"
    create_key_file(real, KEY)
    path.symlink_to(real)
    with raises("CREDENTIAL-KEY-FILE-EXPOSED", match="symbolic link"):
        load_signing_key(path)
    with raises("INPUT-KEY-FILE-EXISTS"):
        create_key_file(path, KEY)
    dangling = tmp_path / "dangling.key"
    dangling.symlink_to(tmp_path / "elsewhere.key")
    with raises("INPUT-KEY-FILE-EXISTS"):
        create_key_file(dangling, KEY)
    assert not (tmp_path / "elsewhere.key").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601, 0o620])
def test_a_file_that_others_could_use_is_refused(path, mode):
    create_key_file(path, KEY)
    path.chmod(mode)
    for read in (load_signing_key, public_half):
        with raises("CREDENTIAL-KEY-FILE-EXPOSED", match=f"{mode:04o}"):
            read(path)


def test_another_users_file_is_refused(path, monkeypatch):
    create_key_file(path, KEY)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with raises("CREDENTIAL-KEY-FILE-EXPOSED", match="another user"):
        load_signing_key(path)


@pytest.mark.parametrize("address", ["s3://keys/office.key", "gs://keys/office.key"])
def test_no_key_is_written_to_an_object_store_or_read_from_one(address):
    """D11: Python's paths make one slash of two."""
    with raises("INPUT-KEY-ADDRESS", match="name such a file"):
        create_key_file(Path(address), new_signing_key())
    with raises("INPUT-KEY-ADDRESS"):
        load_signing_key(Path(address))


def test_folders_pipes_and_missing_files_are_refused(path, tmp_path):
    with raises("UNAVAILABLE-KEY-FILE"):
        load_signing_key(path)
    with raises("UNAVAILABLE-KEY-FILE"):
        create_key_file(tmp_path / "no" / "such" / "folder.key", KEY)
    with raises("CREDENTIAL-KEY-FILE-EXPOSED", match="ordinary"):
        load_signing_key(tmp_path)
    os.mkfifo(path, 0o600)
    with raises("CREDENTIAL-KEY-FILE-EXPOSED", match="ordinary"):
        load_signing_key(path)


def test_a_full_disk_leaves_no_half_written_key(path, monkeypatch):
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises("UNAVAILABLE-KEY-FILE", match="no space left"):
        create_key_file(path, KEY)
    assert not path.exists()


def private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def test_halves_that_do_not_belong_together_are_refused(path):
    other = new_signing_key().principal.key.hex()
    text = f'(maia-key (version "1") (public (ed25519 #{other}#)) (seed #{SEED.hex()}#))'
    with raises("INPUT-KEY-FILE", match="belong together"):
        load_signing_key(private(path, text))


def test_a_sealed_seed_cannot_be_moved_below_another_name(path, tmp_path):
    create_key_file(path, KEY, "x")
    other = new_signing_key().principal.key.hex()
    moved = path.read_text().replace(KEY.principal.key.hex(), other)
    with pytest.raises(WrongPassphrase):
        load_signing_key(private(tmp_path / "moved.key", moved), "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not a key",
        "(maia-key)",
        f'(maia-key (version "2") {PUBLIC} (seed #{SEED.hex()}#))',
        f'(maia-key (version "1") {PUBLIC} (seed #{SEED.hex()}#) extra)',
        f'(maia-key (version "1") {PUBLIC} (seed #{SEED.hex()[2:]}#))',
        f'(maia-key (version "1") (seed #{SEED.hex()}#))',
        f"(maia-key (seed #{SEED.hex()}#",
        f'(maia-key (version "1") (public (ed25519 ##)) {SEALED})',
        f'(maia-key (version "1") {PUBLIC} {SEALED})',
        "(" * 5000,
        "x" * 5000,
        "\u00e9",
    ],
    ids=range(13),
)
def test_other_files_are_refused_without_showing_them(path, text):
    private(path, text)
    for read in (lambda: load_signing_key(path), lambda: load_signing_key(path, "x")):
        with pytest.raises(MaiaError) as refused:
            read()
        assert SEED.hex()[2:] not in refused.value.message
        assert refused.value.__cause__ is None


def test_new_keys_differ():
    assert len({new_signing_key().principal for _ in range(20)}) == 20
