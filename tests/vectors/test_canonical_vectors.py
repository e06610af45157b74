"""Fixed bytes: what an independent implementation made of the same texts, and what nobody may accept.

`advanced_to_canonical.json` holds the answers of Nettle's `sexp-conv`, frozen.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.canonical import read_advanced, read_canonical, write_advanced, write_canonical
from maia.testing.refusals import raises

VECTORS = Path(__file__).parent / "canonical"
AGREED = json.loads((VECTORS / "advanced_to_canonical.json").read_text())
REFUSED = json.loads((VECTORS / "not_canonical.json").read_text())


@pytest.mark.parametrize("vector", AGREED, ids=lambda vector: vector["advanced"][:24])
def test_another_implementation_reads_the_same(vector):
    canonical = bytes.fromhex(vector["canonical"])
    expression = read_advanced(vector["advanced"])
    assert write_canonical(expression) == canonical
    assert read_canonical(canonical) == expression
    assert read_advanced(write_advanced(expression)) == expression


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector["because"])
def test_bytes_that_nobody_may_accept(vector):
    with raises("INPUT-SEXP-NOT-CANONICAL"):
        read_canonical(bytes.fromhex(vector["bytes"]))
