"""Plans, event logs, checkpoints, scratch files and error sentences of a job: no key is in any of them."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from maia.sealing.groups.key_group import GroupId
from maia.types import SealingLevel
from support.governed import Recorded, secret_of

TESTS = Path(__file__).parent.parent


def forms(key: bytes) -> list[bytes]:
    """Return the ways in which bytes end up in files: as they are, as digits, in base 64, escaped."""
    inner = b64encode(key)[:40]
    return [key, key.hex().encode(), key.hex().upper().encode(), inner, repr(key)[2:-1].encode()]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    done = subprocess.run(
        [sys.executable, "-m", "support.governed_job", str(folder)],
        cwd=TESTS,
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    (folder / "output.txt").write_bytes(done.stdout + done.stderr)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_no_file_of_a_job_holds_a_key(job, tmp_path):
    """A70: group secrets, content keys and what grows from them are in no file that a job leaves behind."""
    log = Recorded(tmp_path, SealingLevel.ATTRIBUTE)
    found = files_of(job)
    # What was looked through is what it should be: the type is named in plans, the event log and offsets.
    named = log.event_type.type_id.hex().encode()
    for part in ("said.txt", "events/", "checkpoint/", "scratch-copy/"):
        assert any(name.startswith(part) for name in found), part
    assert named in found["said.txt"]
    assert any(name.startswith("events/") and named in data for name, data in found.items())
    secrets = []
    for epoch in (1, 2):
        for uid in (None, *log.event_type.kinds):
            content = log.ring.key(GroupId(log.event_type.type_id, uid), epoch)
            secrets += [secret_of(epoch, uid).reveal(), content.reveal()]
    for name, data in found.items():
        for secret in secrets:
            for form in forms(secret):
                assert form not in data, name


def test_error_sentences_say_what_happened(job):
    """The three failures are told in words; nothing of ours is printed beside them."""
    said = (job / "said.txt").read_text(encoding="utf-8")
    for word in ("ZeroDivisionError", "USER_RAISED_EXCEPTION", "the right behind this table was taken back"):
        assert word in said
    assert "DeskPass" not in said
    assert "token" not in said
