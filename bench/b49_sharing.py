"""What does it cost to read a governed table by Delta Sharing, against reading the same files?

A sharing server runs as a process of its own, over a log of plain frames, for a recipient whose right
shows six attributes of ten. Ours is what a partner does: PyPI's client asks for the table, which asks
the right again and puts the read on record, fetches the files over HTTP and makes a pandas table. The
peer is told where the very same files lie on this disk, and makes the same pandas table of them with
pyarrow. Another case leaves pandas and the client out: calls by httpx, and Arrow tables on both sides.
The files were written before the clock runs.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from governed_log import OWNER, READER, grant, record
from harness import Benchmark, Case, NotMeasured, Race, Ratio, Side, at_least
from live_network import ATTRIBUTES
from maia.clock import system_now
from maia.credentials import Action, certificate_to_text
from maia.keystore.key_files import create_key_file
from maia.profile.profile import write_profile
from maia.share.recipients import RecipientFolder, profile_text
from maia.testing import free_port
from maia.types import definition_to_text

SHOWN = ("numberplate", "timestamp", "location", "camera", "speed", "confidence")
UIDS = {one.name: one.uid for one in ATTRIBUTES}
TABLE = "bench.types.uk_gov_Numberplate"


def cases(quick: bool) -> Iterator[Case]:
    """Yield both races."""
    rows = 8_192 if quick else 2_000_000
    try:
        import delta_sharing
    except ModuleNotFoundError:
        yield NotMeasured("a shared table in pandas", "install `delta-sharing`", at_least(0.7))
        return
    with TemporaryDirectory() as folder, served(Path(folder), rows) as partner:
        url = f"{partner.file}#{TABLE}"
        ours: Any = lambda: delta_sharing.load_as_pandas(url)  # noqa: E731 - one way of doing the job
        assert ours().equals(partner.plain().to_pandas(date_as_object=True))
        assert partner.fetched().equals(partner.plain())
        assert partner.plain().num_rows == rows
        for what, run, peer in (
            ("a shared table in pandas, against its files", ours, lambda: partner.plain().to_pandas()),
            ("a shared table in Arrow, against its files", partner.fetched, partner.plain),
        ):
            yield Race(
                what,
                ours=Side(run=run, operations=rows, calls=1),
                peer=Side(run=peer, operations=rows, calls=1),
                ratio=Ratio.PEER_OVER_OURS,
                target=at_least(0.7),
            )


class Partner:
    """A recipient, and what lies on the server's disk for it."""

    def __init__(self, file: Path, data: Path) -> None:
        self.file, self._data = file, data
        said = json.loads(file.read_text())
        headers = {"Authorization": f"Bearer {said['bearerToken']}"}
        self._client = httpx.Client(headers=headers, trust_env=False, timeout=600)
        share, schema, table = TABLE.split(".")
        self._query = f"{said['endpoint']}/shares/{share}/schemas/{schema}/tables/{table}/query"
        self._names = [Path(urlsplit(one).path).name for one in self._addresses()]

    def _addresses(self) -> list[str]:
        answer = self._client.post(self._query, json={})
        assert answer.status_code == 200, answer.text
        return [json.loads(line)["file"]["url"] for line in answer.text.splitlines()[2:]]

    def fetched(self) -> pa.Table:
        """Fetch the table."""
        files = (self._client.get(one).content for one in self._addresses())
        return pa.concat_tables(pq.read_table(io.BytesIO(one)) for one in files)

    def plain(self) -> pa.Table:
        """Read the same files where they lie."""
        return pa.concat_tables(pq.read_table(self._data / "files" / f"{one}.parquet") for one in self._names)


@contextmanager
def served(folder: Path, rows: int) -> Iterator[Partner]:
    """Record a log, and share it with one recipient while the body runs."""
    log = record(folder / "log", rows=rows, frame_rows=1024, level=None)
    member, data, port = folder / "reader.maia", folder / "data", free_port()
    for name in ("certs", "types"):
        (member / name).mkdir(parents=True)
    member.chmod(0o700)
    create_key_file(member / "reader.key", READER)
    right = grant(READER, Action.SUBSCRIBE, [UIDS[name] for name in SHOWN])
    (member / "certs" / "right.cert").write_text(certificate_to_text(right))
    (member / "types" / "plate.type").write_text(definition_to_text(log.event_type.signed))
    write_profile(
        member,
        {"key": "reader.key", "credentials": ["certs"], "types": ["types"], "network": "bench",
         "coordinator": str(OWNER.principal)},
    )  # fmt: skip
    data.mkdir(mode=0o700)
    made, token = RecipientFolder(data).add(
        "partner", member, str(READER.principal), days=1, now=system_now()
    )
    file = folder / "partner.share"
    file.write_text(profile_text(made, token, f"http://127.0.0.1:{port}/delta-sharing"))
    settings = folder / "share.toml"
    settings.write_text(
        f'log = "log"\ndata = "data"\nshare = "bench"\nlisten = "127.0.0.1:{port}"\nlog_level = "error"\n'
    )
    words = [sys.executable, "-m", "maia", "share", "serve", "--config", str(settings)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            assert re.search("listening", server.stdout.readline())
            yield Partner(file, data)
        finally:
            server.terminate()


BENCH = Benchmark(
    number=49,
    name="sharing",
    about="a governed table read by Delta Sharing, against reading the same files",
    cases=cases,
    stood="a partner without Maia could be handed copies alone",
    peer_lacks="the peer reads a disk, as whoever may, asks for no right and puts nothing on record",
)
