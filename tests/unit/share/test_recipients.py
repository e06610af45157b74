"""Recipients are found by their tokens, end in time, and keep no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.errors import BadInput, Refusal
from maia.events import SECOND, Instant
from maia.share.recipients import DAYS_MAX, RecipientFolder, profile_text

NOW = Instant.parse("2026-11-15T12:00:00Z")
DAY = 86_400 * SECOND


@pytest.fixture
def recipients(tmp_path: Path) -> RecipientFolder:
    return RecipientFolder(tmp_path)


def test_a_token_opens_its_recipient_until_its_days_are_over(recipients: RecipientFolder) -> None:
    made, token = recipients.add("institute", Path("office.maia"), "ed25519:aa", days=2, now=NOW)
    assert recipients.by_token(token, NOW) == made == recipients.by_id(made.id, NOW)
    assert recipients.by_token(token, Instant(NOW + 2 * DAY - 1)) == made
    for find in (recipients.by_token(token, NOW).id, token):
        with pytest.raises(Refusal) as refused:
            (recipients.by_id if find == made.id else recipients.by_token)(find, Instant(NOW + 2 * DAY))
        assert refused.value.code == "REFUSED-SHARE-EXPIRED"


def test_a_token_of_none_is_refused_like_any_other(recipients: RecipientFolder) -> None:
    _, token = recipients.add("institute", Path("office.maia"), "ed25519:aa", days=2, now=NOW)
    said = set()
    for wrong in ("", token[:-1], token + "A", token.removeprefix("maia-"), "maia-share-x-y", "é", token * 9):
        with pytest.raises(Refusal) as refused:
            recipients.by_token(wrong, NOW)
        said.add((refused.value.code, refused.value.message))
    assert len(said) == 1


def test_a_recipient_that_is_removed_is_none(recipients: RecipientFolder) -> None:
    made, token = recipients.add("institute", Path("office.maia"), "ed25519:aa", days=2, now=NOW)
    assert recipients.remove("institute") == made
    assert recipients.all() == []
    for find, word in ((recipients.by_token, token), (recipients.by_id, made.id)):
        with pytest.raises(Refusal):
            find(word, NOW)
    with pytest.raises(BadInput):
        recipients.remove("institute")


def test_nothing_that_is_kept_or_shown_opens_a_table(recipients: RecipientFolder, tmp_path: Path) -> None:
    made, token = recipients.add("institute", Path("office.maia"), "ed25519:aa", days=2, now=NOW)
    (file,) = (tmp_path / "recipients").iterdir()
    assert token.rpartition("-")[2] not in file.read_text() + repr(made)
    assert "digest" not in repr(made)
    said = json.loads(profile_text(made, token, "https://share.example/delta-sharing"))
    assert said == {
        "shareCredentialsVersion": 1,
        "endpoint": "https://share.example/delta-sharing",
        "bearerToken": token,
        "expirationTime": "2026-11-17T12:00:00.0Z",
    }


@pytest.mark.parametrize(
    ("name", "days"),
    [("", 1), ("../x", 1), ("a" * 64, 1), (".x", 1), ("ok", 0), ("ok", DAYS_MAX + 1), ("taken", 1)],
)
def test_names_and_days_are_bounded(recipients: RecipientFolder, name: str, days: int) -> None:
    recipients.add("taken", Path("office.maia"), "ed25519:aa", days=1, now=NOW)
    with pytest.raises(BadInput) as refused:
        recipients.add(name, Path("office.maia"), "ed25519:aa", days=days, now=NOW)
    assert refused.value.code == "INPUT-SHARE-NAME"


def test_a_damaged_file_is_refused_and_not_overlooked(recipients: RecipientFolder, tmp_path: Path) -> None:
    made, token = recipients.add("institute", Path("office.maia"), "ed25519:aa", days=2, now=NOW)
    file = tmp_path / "recipients" / f"{made.id}.json"
    file.write_text("{")
    with pytest.raises(BadInput) as refused:
        recipients.by_token(token, NOW)
    assert refused.value.code == "INPUT-SHARE-FILE"
