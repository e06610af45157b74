"""`maia pipeline run --stream` reads for as long as a client confirms its reader, and not a batch longer.

The command runs on the suite's session, and a domain's real server beside it, which the job
itself asks where its certificate says; no client renews the wallet. A44.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from deltalake import DeltaTable

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.clock import system_now
from maia.keystore.key_files import create_key_file
from maia.keystore.wallet_folder import WalletFolder
from maia.testing import wait_until
from maia.types import definition_to_text, verify_definition
from support.domain_server import DomainAtWork, key_of
from support.governed import Recorded, sightings
from support.processes import Answer, maia
from support.tested_rights import NUMBERPLATE, domain_with_locations, logged_in

PATIENCE_S = 600
ATTEMPTS = 3
SEGMENTS = 120
"""One for each batch: a batch takes Spark a good part of a second, so there is always much left to read."""


@pytest.fixture
def met(tmp_path: Path) -> Iterator[DomainAtWork]:
    (tmp_path / "met").mkdir()
    with domain_with_locations(tmp_path / "met") as found:
        yield found


def prepared(home: Path, met: DomainAtWork, who: str) -> None:
    """Lay out a key, a type, a log, and a wallet without a single statement."""
    create_key_file(home / f"{who}.key", key_of(who))
    (home / "np.type").write_text(definition_to_text(NUMBERPLATE), encoding="utf-8")
    wallet = WalletFolder(home / "wallet")
    wallet.keep(logged_in(met, who), domain=met.key.principal, address=met.address, now=system_now())
    for file in wallet.folder.glob("*.statement"):
        file.unlink()
    log = Recorded(home / "log", event_type=verify_definition(NUMBERPLATE, at=system_now()))
    for number in range(SEGMENTS):
        log.publish(sightings(20, first=20 * number), published_at=system_now())
        log.write()


def run_without_end(home: Path, who: str) -> Answer:
    return maia(
        "pipeline", "run", "statistics", "--follow", "--every", 0.1, "--batch-bytes", 1, "--log", "log", "-d",
        "np.type", "-k", f"{who}.key", "--credentials", "wallet", "--out", "table", "--checkpoint", "kept",
        "--json", cwd=home,
    )  # fmt: skip


def run_stream(home: Path, who: str) -> Answer:
    return maia(
        "pipeline", "run", "statistics", "--stream", "--batch-bytes", 1, "--log", "log", "-d", "np.type",
        "-k", f"{who}.key", "--credentials", "wallet", "--out", "result", "--json", cwd=home,
    )  # fmt: skip


def batches(home: Path) -> int:
    """Return how many batches of the run have been written so far, beside its result."""
    return len(list(home.glob(".maia-stream-*/updates/*=*/_SUCCESS")))


def dismissed(met: DomainAtWork, who: str, fact: str) -> None:
    """Take back the fact that a client's role, and so its right, depends on."""
    row = bodies.FactBody(fact, [bodies.TypedArgument(principal=str(key_of(who).principal))])
    with met.admin() as admin:
        admin.call("POST", "/v1/facts/retraction", row, answer=answers.RevokedAnswer)


def test_a_stream_whose_right_is_taken_back_midway_ends_with_a_code_and_leaves_nothing(
    sparkling, met: DomainAtWork, tmp_path: Path
) -> None:
    """A44, A30: an auditor's right is on a timed list, and the domain is asked about it for each table."""
    prepared(tmp_path, met, "ada")
    ended = Event()

    def dismiss_midway() -> bool:
        wait_until(lambda: batches(tmp_path) >= 2 or ended.is_set(), within_s=PATIENCE_S)
        if ended.is_set():
            return False
        dismissed(met, "ada", "auditor")
        return True

    for _ in range(ATTEMPTS):
        ended.clear()
        with ThreadPoolExecutor(1) as beside:
            dismissal = beside.submit(dismiss_midway)
            try:
                ran = run_stream(tmp_path, "ada")
            finally:
                ended.set()
        # Where a machine is so busy that the domain's answers come too late, the run has to end, too.
        assert ran.returncode != 0
        told = json.loads(ran.stderr.splitlines()[-1])
        assert told["error"]["code"] == "PIPELINE-GRANT-ENDED", told
        if dismissal.result():
            break
    else:
        pytest.fail("no run came as far as two batches")
    assert not (tmp_path / "result").exists()
    left = [*tmp_path.glob(".result-*"), *tmp_path.glob(".maia-stream-*")]
    assert not left, "what was half written is gone too"


def test_a_run_without_an_end_ends_with_its_right_and_keeps_what_was_said_before(
    sparkling, met: DomainAtWork, tmp_path: Path
) -> None:
    prepared(tmp_path, met, "ada")
    ended = Event()

    def dismiss_midway() -> None:
        commits = tmp_path / "table" / "_delta_log"
        wait_until(lambda: len(list(commits.glob("*.json"))) >= 3 or ended.is_set(), within_s=PATIENCE_S)
        dismissed(met, "ada", "auditor")

    with ThreadPoolExecutor(1) as beside:
        dismissal = beside.submit(dismiss_midway)
        try:
            ran = run_without_end(tmp_path, "ada")
        finally:
            ended.set()
        dismissal.result()
    assert ran.returncode != 0
    told = json.loads(ran.stderr.splitlines()[-1])
    assert told["error"]["code"] == "PIPELINE-GRANT-ENDED", told
    said = DeltaTable(tmp_path / "table")
    # What a batch said is there whole, and of the batch that was refused there is nothing.
    assert (
        sum(said.to_pyarrow_table()["sightings"].to_pylist())
        == 20 * said.transaction_version(query(tmp_path)) + 20
    )


def query(home: Path) -> str:
    return json.loads((home / "kept" / "metadata").read_text())["id"]
