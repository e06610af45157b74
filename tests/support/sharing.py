"""A hospital that shares tables of its log with partners, for tests that read them as partners do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import delta_sharing
import httpx
import pandas as pd
import pyarrow.parquet as pq

import maia
from maia.testing import Server, free_port, wait_until
from support.processes import forked
from support.processes import maia as command

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SETTINGS = "refresh_s = 1\n"
PATIENTS = ("P-Quentin-17", "P-Xanthippe-18", "P-Zebedee-19")
"""What no partner may see, and no other word of the tests contains."""
VALUES = (142, 7, 101)


@dataclass
class Hospital:
    """A hospital with its servers, a sealed type and a plain one, and what partners do."""

    made: maia.Organisation
    server: Server
    port: int
    _stack: ExitStack = field(repr=False)
    http: httpx.Client = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.http = self._stack.enter_context(httpx.Client(trust_env=False, timeout=60))

    # ------------------------------------------------------------ the hospital

    @property
    def data(self) -> Path:
        """Return the folder of the sharing server."""
        return self.made.folder / "share-data"

    def share(self, *words: object) -> dict[str, Any]:
        """Run a command of `maia share`, and return its answer."""
        said = command("share", *words, "--json", cwd=self.made.folder)
        assert said.returncode == 0, said.stderr
        found: dict[str, Any] = json.loads(said.stdout)
        return found

    def partner(self, name: str, member: str, *words: object) -> Partner:
        """Add a recipient that reads under the right of a member."""
        file = self.made.folder / f"{name}.share"
        file.unlink(missing_ok=True)
        self.share("add", name, "--as", member, *words)
        return Partner(self, file)

    def publish(self, *rows: tuple[str, int], type_name: str = "LabResult") -> None:
        """Publish results of patients in ward 3."""
        with maia.connect(self.made.folder / "lab.maia") as lab:
            for patient, value in rows:
                lab.publish(type_name, patient=patient, ward="3", value=value, taken=NOON)

    def files(self) -> list[Path]:
        """Return the files that were written for partners."""
        return sorted((self.data / "files").glob("*.parquet"))

    def on_record(self) -> list[dict[str, Any]]:
        """Return what the ledger of reads says, each in words of its own."""
        said = command("ledger", "show", self.data / "ledger", "--json", cwd=self.made.folder)
        assert said.returncode == 0, said.stderr
        return [json.loads(line) for line in said.stdout.splitlines()]


@dataclass
class Partner:
    """One recipient, by its profile file."""

    hospital: Hospital
    file: Path

    @property
    def profile(self) -> Mapping[str, Any]:
        """Return what the profile file says."""
        found: Mapping[str, Any] = json.loads(self.file.read_text())
        return found

    @property
    def bearer(self) -> str:
        """Return the token."""
        return str(self.profile["bearerToken"])

    def client(self) -> delta_sharing.SharingClient:
        """Return PyPI's client."""
        return delta_sharing.SharingClient(str(self.file))

    def frame(self, table: str, **words: object) -> pd.DataFrame:
        """Read a table as a user of pandas does."""
        return delta_sharing.load_as_pandas(f"{self.file}#hospital.types.{table}", **words)

    def rows(self, table: str, **words: object) -> list[dict[str, Any]]:
        """Read a table, and return its rows in the order of their values."""
        found = [dict(one) for one in self.frame(table, **words).to_dict("records")]
        return sorted(found, key=repr)

    def asked(self, path: str, method: str = "GET", **words: Any) -> httpx.Response:
        """Ask for a page of the protocol."""
        headers = {"Authorization": f"Bearer {self.bearer}"} | words.pop("headers", {})
        endpoint = self.profile["endpoint"]
        return self.hospital.http.request(method, f"{endpoint}{path}", headers=headers, **words)

    def query(self, table: str = "LabResult", **asked: object) -> httpx.Response:
        """Ask for the files of a table."""
        return self.asked(f"/shares/hospital/schemas/types/tables/{table}/query", "POST", json=asked)

    def addresses(self, table: str = "LabResult", **asked: object) -> list[str]:
        """Return the addresses of a table's files."""
        answer = self.query(table, **asked)
        assert answer.status_code == 200, answer.text
        _, _, *files = map(json.loads, answer.text.splitlines())
        return [one["file"]["url"] for one in files]

    def version(self, table: str = "LabResult") -> int:
        """Return the version of a table."""
        answer = self.asked(f"/shares/hospital/schemas/types/tables/{table}/version")
        assert answer.status_code == 200, answer.text
        return int(answer.headers["delta-table-version"])

    def code(self, answer: httpx.Response) -> tuple[int, str]:
        """Return with which status and code a call was refused."""
        return answer.status_code, answer.json()["errorCode"]

    def until_rows(self, number: int, table: str = "LabResult") -> None:
        """Wait until the table has so many rows: a journal becomes a segment within seconds."""
        wait_until(lambda: self.counted(table) == number, f"{number} rows", within_s=120)

    def counted(self, table: str) -> int:
        """Return how many rows the files of a table have, as the answer to a query says."""
        answer = self.query(table)
        if answer.status_code != 200:
            return -1
        files = [json.loads(line)["file"] for line in answer.text.splitlines()[2:]]
        return sum(json.loads(one["stats"])["numRecords"] for one in files)


def names_in(file: Path) -> list[str]:
    """Return the columns of a Parquet file."""
    return list(pq.read_schema(file).names)


@contextmanager
def sharing_hospital(folder: Path, settings: str = SETTINGS) -> Iterator[Hospital]:
    """Run a hospital's broker, its domain's server and its sharing server while the body runs."""
    made = maia.Organisation.create(folder / "hospital")
    columns = {"patient": "string", "ward": "string", "value": "int", "taken": "timestamp"}
    made.define("LabResult", sealed=True, **columns)
    made.define("Notice", text="string", urgent="bool", weight="float")
    made.define("Visit", **columns)
    made.add_member("lab", may=["publish:LabResult", "publish:Notice", "publish:Visit"])
    terms = {"only": ["ward", "value", "taken"], "where": "value > 100"}
    made.add_member("office", may="subscribe:LabResult", **terms)
    made.add_member("office", may="subscribe:Notice")
    made.add_member("clinic", may=["subscribe:LabResult", "subscribe:Visit"], only=["patient", "value"])
    made.add_member("temp", may="subscribe:LabResult", only=["value"])
    port = free_port()
    (made.folder / "share.toml").write_text(f'listen = "127.0.0.1:{port}"\n{settings}')
    with ExitStack() as stack:
        for name, words in (
            ("domain", ("domain", "serve", "--config", made.folder / "domain.toml")),
            ("broker", ("broker", "--config", made.folder / "broker.toml")),
            ("share", ("share", "serve", "--org", made.folder)),
        ):
            server = Server(words, made.folder / f"{name}-output", forked)
            stack.callback(server.kill)
            server.ready("listening")
        hospital = Hospital(made, server, port, stack)
        hospital.publish(*zip(PATIENTS, VALUES, strict=True))
        with maia.connect(made.folder / "lab.maia") as lab:
            lab.publish("Notice", text="hello", weight=0.5)
        yield hospital
