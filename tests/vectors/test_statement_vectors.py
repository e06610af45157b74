"""Fixed bytes: this year's statements on validity, which next year's verifiers must still understand."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from maia.credentials import (
    FactList,
    OneTimeAnswer,
    Revalidation,
    RevocationList,
    SigningKey,
    check_statement,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.events import Instant
from maia.validity import Monitor, answer_question, question_from_bytes, question_to_bytes

FOLDER = Path(__file__).parent / "statements"
VECTORS = json.loads((FOLDER / "statements.json").read_text())
NOON = Instant.parse("2026-11-15T12:00:00Z")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_statement_is_read_written_and_verified_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    signed = statement_from_bytes(data)
    assert statement_to_bytes(signed) == data
    assert signed.id.hex() == vector["id"] == sha256(signed.body).hexdigest()
    check_statement(signed)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_saying_it_again_gives_the_same_bytes(vector):
    signed = statement_from_bytes(bytes.fromhex(vector["bytes"]))
    key = SigningKey.from_seed(bytes.fromhex(vector["issuer_seed"]))
    assert statement_to_bytes(sign_statement(signed.statement, key)).hex() == vector["bytes"]


def test_every_kind_of_statement_has_its_bytes_here():
    kinds = {type(statement_from_bytes(bytes.fromhex(one["bytes"])).statement) for one in VECTORS}
    assert kinds == {RevocationList, Revalidation, FactList, OneTimeAnswer}


def test_a_one_time_question_and_its_answer():
    data = bytes.fromhex((FOLDER / "question.hex").read_text())
    question = question_from_bytes(data)
    assert question_to_bytes(question) == data
    key = SigningKey.from_seed(bytes.fromhex(VECTORS[-1]["issuer_seed"]))
    assert statement_to_bytes(answer_question(question, key)).hex() == VECTORS[-1]["bytes"]


def test_what_a_verifier_wrote_down_is_read_again():
    """A82: an update of the software must not make a verifier forget."""
    record = bytes.fromhex((FOLDER / "standing.hex").read_text())
    standing = Monitor.reloaded([record])
    assert standing.exported() == (record,)
    (by,) = standing
    assert standing.sequence_of(by) == 8
    assert len(standing.revoked_by(by)) == 3
    assert standing.fresh_until(by, NOON) == NOON + 30_000_000 - 1
