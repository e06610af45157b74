"""What does Maia ask of a folder that may lie on this machine, in an object store, or in HDFS?

    place = place_of("s3://city-logs/north")
    place.create("segment-1.parquet", data)      # AlreadyThere if it is there: one of two writers wins
    place.listed()                               # names and sizes
    with place.open("segment-1.parquet") as file: ...

Everything that takes the folder of a log or a table takes a place. It is listed and read
by Arrow, and written in one way only: a file is created whole if there is none of that name, and never
changed afterwards. All that is shared between writers is built from that. A place is
an address; it holds no credentials, which are found in the environment, or in the file that
`AWS_SHARED_CREDENTIALS_FILE` names, by each process that uses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from configparser import Error as BadIni
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from maia.errors import BadInput, ExtraMissing, Unavailable
from maia.private_files import create_private, make_private_folder, sync_folder

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_S3: Final = frozenset({"s3", "s3a", "s3n"})
_WRITTEN: Final = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az"})
"""The stores that create an object only if there is none of its name."""
_REASON: Final = re.compile(r"<Code>(\w+)</Code>|AWS Error (\w+)|status code: (\d{3})")
_CONNECT_S: Final = 5
_REQUEST_S: Final = 30
_ATTEMPTS: Final = 3


class AlreadyThere(BadInput):
    """A file was to be created under a name that is taken."""

    code = "PLACE-TAKEN"


@dataclass(frozen=True, slots=True)
class Found:
    """A file in a place: its path inside it, its size, and when it was made, in microseconds."""

    path: str
    size: int
    made_at: int

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Place:
    """A folder by its address: an absolute path, or one such as `s3://bucket/folder`. Made by `place_of`."""

    address: str

    def __str__(self) -> str:
        """Return the address."""
        return self.address

    def __fspath__(self) -> str:
        """Return the address, so that a place is taken wherever an address is."""
        return self.address

    def __truediv__(self, path: str) -> Place:
        """Return a folder inside this one."""
        return Place(f"{self.address.rstrip('/')}/{path.strip('/')}")

    @property
    def local(self) -> Path | None:
        """Return the folder of this machine, if it is one."""
        return None if is_address(self.address) else Path(self.address)

    @property
    def name(self) -> str:
        """Return the last part of the address."""
        return self.address.rstrip("/").rpartition("/")[2]

    # -------------------------------------------------------- reading

    def listed(self, folder: str = "", *, is_deep: bool = False) -> list[Found]:
        """Return the files in a folder, or below it, by name; none if there is no such folder."""
        root = _files(self.address)[1]
        found = [
            Found(one.path[len(root) :].lstrip("/"), one.size or 0, (one.mtime_ns or 0) // 1000)
            for one in self._infos(folder, is_deep=is_deep)
            if one.is_file
        ]
        return sorted(found, key=lambda one: one.path)

    def names(self, folder: str = "") -> list[str]:
        """Return the names of files and folders in a folder."""
        return sorted(one.base_name for one in self._infos(folder))

    def folders(self) -> list[Place]:
        """Return the folders in this one."""
        return [self / one.base_name for one in self._infos("") if not one.is_file]

    # Any: pyarrow is not typed.
    def _infos(self, folder: str, *, is_deep: bool = False) -> list[Any]:
        from pyarrow import fs

        files, root = _files(self.address)
        wanted = fs.FileSelector(f"{root}/{folder}".rstrip("/"), recursive=is_deep, allow_not_found=True)
        with self._reached("listed"):
            return list(files.get_file_info(wanted))

    def sizes(self, paths: list[str]) -> list[int | None]:
        """Return the size of each of some files; None for one that is not there."""
        files, root = _files(self.address)
        with self._reached("read"):
            found = files.get_file_info([f"{root}/{one}" for one in paths])
        return [one.size if one.is_file else None for one in found]

    def exists(self) -> bool:
        """Return whether anything is there: a folder, a file, or objects whose names begin so."""
        from pyarrow import fs

        files, root = _files(self.address)
        with self._reached("read"):
            return bool(files.get_file_info([root])[0].type is not fs.FileType.NotFound)

    def is_file(self) -> bool:
        """Return whether the address is that of one file."""
        files, root = _files(self.address)
        with self._reached("read"):
            return bool(files.get_file_info([root])[0].is_file)

    def open(self, path: str = "") -> Any:
        """Return a file to be read in any part; raises `FileNotFoundError`."""
        files, root = _files(self.address)
        with self._reached("read"):
            return files.open_input_file(f"{root}/{path}" if path else root)

    def read(self, path: str) -> bytes:
        """Return all of a file; raises `FileNotFoundError`."""
        with self._reached("read"), self.open(path) as file:
            data: bytes = file.read()
            return data

    # Any: pyarrow is not typed.
    @contextmanager
    def dataset(self, paths: list[str]) -> Iterator[Any]:
        """Hand out Parquet files of the place as one table of Arrow, which reads what it is asked for."""
        from pyarrow import dataset

        files, root = _files(self.address)
        with self._reached("read"):
            yield dataset.dataset([f"{root}/{one}" for one in paths], format="parquet", filesystem=files)

    # -------------------------------------------------------- writing

    def create(self, path: str, data: bytes) -> None:
        """Make a file, whole and safe when this returns; raises `AlreadyThere` and then changes nothing.

        Where the answer of a store is lost, the file may be there although this raises.
        """
        if (folder := self.local) is not None:
            with self._reached("written"):
                _create_local(folder / path, data)
            return
        import obstore

        store, prefix = _store(self.address)
        try:
            obstore.put(store, f"{prefix}{path}", data, mode="create")
        except obstore.exceptions.AlreadyExistsError:
            raise _taken(path) from None
        except obstore.exceptions.BaseError as problem:
            raise self._unreachable("written", problem) from None

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        if (folder := self.local) is not None:
            with self._reached("changed"):
                (folder / path).unlink(missing_ok=True)
            return
        import obstore

        store, prefix = _store(self.address)
        try:
            with suppress(FileNotFoundError):
                obstore.delete(store, f"{prefix}{path}")
        except obstore.exceptions.BaseError as problem:
            raise self._unreachable("changed", problem) from None

    # -------------------------------------------------------- problems

    @contextmanager
    def _reached(self, done: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, AlreadyThere):
            raise
        except OSError as problem:
            raise self._unreachable(done, problem) from None

    def _unreachable(self, done: str, problem: Exception) -> Unavailable:
        # What a store's library says may hold headers and keys; the name of the error does not.
        named = _REASON.search(str(problem))
        reason = next((one for one in named.groups() if one), "") if named else ""
        if not reason and isinstance(problem, OSError):
            reason = (os.strerror(problem.errno) if problem.errno else "") or type(problem).__name__
        shown = reason or type(problem).__name__
        return Unavailable("PLACE-UNREACHABLE", f"`{self.address}` cannot be {done}: {shown}")


# ------------------------------------------------------------ addresses


def is_address(place: str) -> bool:
    """Return whether a place is an address such as `s3://bucket/log` or `file:/log`, and not a path."""
    return _ADDRESS.match(place) is not None


def place_of(given: str | os.PathLike[str]) -> Place:
    """Return the place of a path or an address; refuse one that holds a secret, or means nothing."""
    text = os.fspath(given)
    if not is_address(text):
        return Place(str(Path(text).absolute()))
    parts = urlsplit(text)
    scheme = "s3" if parts.scheme in _S3 else parts.scheme
    is_account = scheme.startswith("abfs") and ":" not in parts.netloc  # abfs://container@account
    if ("@" in parts.netloc and not is_account) or parts.query or parts.fragment:
        raise BadInput(
            "PLACE-SECRET",
            f"an address such as `{scheme}://bucket/folder` has no user, password or options: give "
            "credentials in the environment, or in the file that `AWS_SHARED_CREDENTIALS_FILE` names",
        )
    if scheme == "file":
        return Place(str(Path(unquote(parts.path)).absolute()))
    if ".." in parts.path.split("/") or not parts.netloc:
        raise _bad_address(text)
    return Place(f"{scheme}://{parts.netloc}{parts.path}".rstrip("/"))


def places_of(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[Place, ...]:
    """Return the places of one or several addresses; one that ends in `/*` means every folder there."""
    if not isinstance(given, str | os.PathLike):
        found = [place for one in given for place in places_of(one)]
        return tuple(dict.fromkeys(found))
    text = os.fspath(given)
    if not text.endswith("/*"):
        return (place_of(text),)
    return tuple(sorted(place_of(text[:-2]).folders(), key=str))


def _bad_address(text: str) -> BadInput:
    return BadInput("PLACE-ADDRESS", f"`{ascii(text[:128])[1:-1]}` is no place that can be read here")


# ------------------------------------------------------------ stores


# Any: pyarrow is not typed.
@lru_cache(maxsize=64)
def _files(address: str) -> tuple[Any, str]:
    """Return Arrow's file system for an address, and the path in it."""
    import pyarrow as pa
    from pyarrow import fs

    if not is_address(address):
        return fs.LocalFileSystem(), address.rstrip("/")
    parts = urlsplit(address)
    if parts.scheme == "s3":
        return fs.S3FileSystem(**_s3_options()), f"{parts.netloc}{parts.path}"
    try:
        files, root = fs.FileSystem.from_uri(address)
    except (pa.ArrowException, OSError):
        files, root = _by_fsspec(address)
    return files, root.rstrip("/")


def _by_fsspec(address: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs

        files, root = url_to_fs(address)
    except (ImportError, ValueError, OSError):
        raise _bad_address(address) from None
    return fs.PyFileSystem(fs.FSSpecHandler(files)), root


def _s3_options() -> dict[str, Any]:
    from pyarrow import fs

    key, endpoint = _s3_key(), os.environ.get("AWS_ENDPOINT_URL", "")
    options: dict[str, Any] = {
        "connect_timeout": _CONNECT_S,
        "request_timeout": _REQUEST_S,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    }
    if endpoint:
        parts = urlsplit(endpoint)
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme, "region": _region()}
    elif "AWS_REGION" in os.environ or "AWS_DEFAULT_REGION" in os.environ:
        options["region"] = _region()
    if key:
        options |= {"access_key": key[0], "secret_key": key[1], "session_token": key[2]}
    return options


@lru_cache(maxsize=64)
def _store(address: str) -> tuple[ObjectStore, str]:
    """Return the store of an address, for writing, and what names in it begin with."""
    parts = urlsplit(address)
    _check_written(parts.scheme)
    try:
        from obstore.store import S3Store, from_url
    except ImportError:
        raise ExtraMissing(
            "what writes to object stores is not installed: pip install 'maia-pubsub[objects]'"
        ) from None
    from datetime import timedelta

    prefix = f"{parts.path.strip('/')}/" if parts.path.strip("/") else ""
    limits: dict[str, Any] = {
        "client_options": {
            "allow_http": os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"),
            "connect_timeout": timedelta(seconds=_CONNECT_S),
            "timeout": timedelta(seconds=_REQUEST_S),
        },
        "retry_config": {"max_retries": _ATTEMPTS - 1, "retry_timeout": timedelta(seconds=_REQUEST_S)},
    }
    if parts.scheme != "s3":
        return from_url(f"{parts.scheme}://{parts.netloc}", **limits), prefix
    key = _s3_key()
    named: dict[str, Any] = {"access_key_id": key[0], "secret_access_key": key[1]} if key else {}
    named |= {"session_token": key[2]} if key and key[2] else {}
    named |= {"endpoint": os.environ["AWS_ENDPOINT_URL"]} if "AWS_ENDPOINT_URL" in os.environ else {}
    return S3Store(parts.netloc, region=_region(), **named, **limits), prefix


def store_options(place: Place) -> dict[str, str] | None:
    """Return what a library that is built on Rust's `object_store` is told of the store of a place.

    None for a folder. Credentials are among it: it is handed to a library, and nowhere else.
    """
    if place.local is not None:
        return None
    parts = urlsplit(place.address)
    _check_written(parts.scheme)
    options = {"connect_timeout": f"{_CONNECT_S}s", "timeout": f"{_REQUEST_S}s"}
    if parts.scheme != "s3":
        return options
    options |= {"aws_region": _region(), "aws_conditional_put": "etag"}
    if key := _s3_key():
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        options |= {name: value for name, value in zip(names, key, strict=True) if value}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        options |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
    return options


def _check_written(scheme: str) -> None:
    if scheme not in _WRITTEN:
        raise BadInput(
            "PLACE-READ-ONLY",
            f"nothing is written to `{scheme}:` places: name a folder, or one of s3, gs and abfs",
        )


def _region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _s3_key() -> tuple[str, str, str] | None:
    """Return id, secret and token from the environment or a file; None lets the libraries look further."""
    found: Any = os.environ
    if "AWS_ACCESS_KEY_ID" not in found:
        path = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
        read = ConfigParser(interpolation=None)
        with suppress(BadIni, OSError):
            read.read(path)
        profile = os.environ.get("AWS_PROFILE", "default")
        found = {name.upper(): value for name, value in read[profile].items()} if profile in read else {}
    if "AWS_ACCESS_KEY_ID" not in found or "AWS_SECRET_ACCESS_KEY" not in found:
        return None
    return (
        found["AWS_ACCESS_KEY_ID"],
        found["AWS_SECRET_ACCESS_KEY"],
        found.get("AWS_SESSION_TOKEN", ""),
    )


# ------------------------------------------------------------ a folder of this machine


def _create_local(path: Path, data: bytes) -> None:
    """Write a file beside its name and link it there, which fails where the name is taken."""
    make_private_folder(path.parent)
    beside = path.with_name(f".{path.name}.{token_hex(8)}.new")
    try:
        with create_private(beside) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
        sync_folder(path.parent)
    except FileExistsError:
        raise _taken(path.name) from None
    finally:
        beside.unlink(missing_ok=True)


def _taken(path: str) -> AlreadyThere:
    return AlreadyThere(f"`{path}` is already there, and is not written again")
