"""Fixed bytes: this year's sealed filters, which next year's code must still open, no more and no less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.broker.interests.entries import entry_of
from maia.canonical import write_canonical
from maia.events import AttributeUid
from maia.predicates import predicate_to_expression
from maia.sealing.filters.proofs import OpenedProof, check_made_by_a_member, open_proof
from maia.sealing.filters.sealed_filters import open_filter
from maia.wire import decode
from support.sealed_filters import ring

VECTORS = json.loads((Path(__file__).parent / "sealed-filters.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_sealed_filter_opens_as_ever(vector):
    message = decode(bytes.fromhex(vector["bytes"]))
    heard = entry_of(message.key, message.add[0]).baggage
    assert heard.sealed.digest.hex() == vector["digest"]
    for case in vector["opened"]:
        groups = [None if name == "*" else AttributeUid(name) for name in case["groups"]]
        opened = open_filter(heard.sealed, ring(*groups))
        assert write_canonical(predicate_to_expression(opened.opened)).hex() == case["opened"]
        assert sorted(mark.hex() for mark in opened.unopened) == case["unopened"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_sealed_proof_opens_as_ever(vector):
    message = decode(bytes.fromhex(vector["bytes"]))
    heard = entry_of(message.key, message.add[0]).baggage
    keys = ring(None, *heard.proof.uids)
    assert check_made_by_a_member(heard.sealed, heard.proof, keys)
    assert open_proof(heard.sealed, heard.proof, keys) == OpenedProof(b"a signed request", (b"one", b"two"))
