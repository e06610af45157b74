"""Fixed bytes: quotes, keys, certificates and logs, which next year's verifier must still judge the same.

Those of `swtpm.json` were recorded from swtpm 0.7.1 with tpm2-tools 5.4, those of `quotes.json` from
the TPM in software of `maia.testing`. None is from hardware.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.credentials.attestation import attestation_key_from_bytes, verify_endorsement, verify_quote
from maia.errors import MaiaError
from maia.events import Instant

FOLDER = Path(__file__).parent / "attestation"
VECTORS = [one for file in ("quotes.json", "swtpm.json") for one in json.loads((FOLDER / file).read_text())]


@pytest.mark.parametrize("vector", VECTORS, ids=[one["name"] for one in VECTORS])
def test_a_recorded_quote_is_judged_as_it_was(vector: dict) -> None:
    data = {name: bytes.fromhex(value) for name, value in vector["bytes"].items()}
    now = Instant.parse("2026-11-16T12:00:00Z")
    try:
        endorsement = verify_endorsement(data["endorsement"], [], [data["root"]], now=now)
        key = attestation_key_from_bytes(data["attestation_key"])
        boot = verify_quote(
            data["quoted"], data["signature"], data["log"], key=key, nonce=data["nonce"], pcrs=vector["pcrs"]
        )
        found = [endorsement.digest.hex(), key.name.hex(), boot.resets, boot.clock_ms]
        found += [boot.values[pcr].hex() for pcr in vector["pcrs"]]
    except MaiaError as problem:
        found = [problem.code]
    assert found == vector["judged"]
