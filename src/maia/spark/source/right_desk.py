"""How do the tasks of a query get its principal's right, each row's once, and none for a stale run?

Spark makes sources and sinks in processes that it starts and ends as it likes. So the desk is in the
driver's own process: `register_spark` opens it, and the registered class knows the way in. Whoever plans a
query lays its options out there and gets a pass for them, which travels to tasks in place of a key. A task
asks the driver, which reads the key and certificates anew, and hands them out sealed to that task
(`keys/key_server.py`). Neither plan, option nor checkpoint ever has them.

A task of a streaming sink says first what it is about to publish: query, run, batch, partition and the
digest of its rows. Beside the query's checkpoint there is a folder `maia` with two kinds of empty files:

- `runs/NUMBER-RUN`: the last one is the run that may publish. Another, of a driver that was cut off and
  comes back, is refused (`PIPELINE-SINK-STALE`);
- `batches/BATCH/PARTITION-DIGEST`: which rows have the numbers of that batch and partition. Other rows
  under the same numbers would be dropped as repeated, so they are refused (`INPUT-SPARK-OTHER-ROWS`).

Files are only ever made and listed, so any file system of a checkpoint serves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from maia.errors import BadInput, ProtocolViolation, Refusal, Unavailable
from maia.spark.keys.key_server import DeskPass, JobDesk
from maia.spark.session.cluster import is_connect
from maia.spark.session.private_handles import checkpoint_root, files_at
from maia.spark.source.member import Member, member_from_bytes, member_to_bytes
from maia.spark.source.options import JobOptions, job_options, known_options, resolved
from maia.spark.source.recorded import LOG, OpenLogs, RecordedRight, recorded_right

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from maia.types import VerifiedType

_BATCHES_KEPT: Final = 2
"""One that runs, and the one before: Spark runs no earlier one again."""
_SHOWN: Final = 16


class Claim(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What one task of a streaming sink is about to publish."""

    query: Annotated[str, Meta(max_length=64)]
    run: Annotated[str, Meta(pattern=r"^[0-9A-Za-z-]{1,64}$")]
    batch: Annotated[int, Meta(ge=0)]
    partition: Annotated[str, Meta(pattern=r"^[0-9a-z.]{1,64}$")]
    """The partition's number; behind the digest of a job's name, where a batch writes several tables."""
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


_ENCODER: Final = msgspec.msgpack.Encoder()
_CLAIM: Final = msgspec.msgpack.Decoder(Claim)
_OPTIONS: Final = msgspec.msgpack.Decoder(dict[str, str])
_PASS: Final = msgspec.msgpack.Decoder(tuple[bytes, bytes, dict[str, str]])


# ------------------------------------------------------------ in the processes of sources, sinks and tasks


@dataclass(frozen=True, slots=True)
class Right:
    """The right of one source or sink, as its tasks ask for it."""

    options: JobOptions
    desk: DeskPass | None = None
    """None where the driver has no desk: then each task reads the files on its own machine."""

    def member(self, claim: Claim | None = None) -> Member:
        """Return who connects; raise why not."""
        if self.desk is None:
            return self.options.member()
        return member_from_bytes(self.desk.call(b"" if claim is None else _ENCODER.encode(claim)))

    def event_type(self) -> VerifiedType:
        """Return the version of the type whose names this job uses, verified."""
        return self.member().event_type() if self.desk is not None else self.options.event_type()


def laid_out(given: Mapping[str, str], entrance: DeskPass | None) -> Right | RecordedRight:
    """Check options, and lay them out at the driver's desk, if it has one: it has the files they name."""
    is_recorded = any(name.lower() == LOG for name in given)
    if entrance is None:
        if is_recorded:
            raise BadInput(
                "INPUT-SPARK-OPTION", "option `log`: say `register_spark(spark)` in the program that asks"
            )
        return Right(job_options(given))
    if is_recorded:
        return recorded_right(entrance.call(_ENCODER.encode(dict(given))))
    grant, token, words = _PASS.decode(entrance.call(_ENCODER.encode(dict(given))))
    options = job_options(words, has_files=False)
    return Right(options, DeskPass(entrance.host, entrance.port, grant, token))


# ------------------------------------------------------------ in the driver's own process


class RightDesk:
    """The desk of one driver for the sources and sinks of its queries."""

    def __init__(
        self,
        host: str,
        checkpoint_of: Callable[[str, str], Folder],
        *,
        bind: str | None = None,
        cores: Callable[[], int] = lambda: 1,
    ) -> None:
        """Listen; `checkpoint_of` returns where a run of a query keeps what the sink has to remember."""
        self._desk, self._checkpoint_of = JobDesk(host, bind), checkpoint_of
        self._logs = OpenLogs(host, bind or host, cores)
        self._passes: dict[tuple[tuple[str, str], ...], DeskPass] = {}
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self.entrance = self._desk.open_call(self._lay_out)
        """What a process needs that plans queries; tasks never have it."""

    def close(self) -> None:
        """Answer no task any more."""
        self._desk.close()

    def _lay_out(self, data: bytes) -> bytes:
        given = _decoded(_OPTIONS, data)
        if LOG in (words := known_options(given)):
            return self._logs.lay_out(words)
        words = resolved(given)
        options = job_options(words)
        with self._lock:
            known = tuple(sorted(words.items()))
            found = self._passes.get(known)
            if found is None:
                found = self._passes[known] = self._desk.open_call(partial(self._hand_out, options))
        return _ENCODER.encode((found.grant, found.token, words))

    def _hand_out(self, options: JobOptions, data: bytes) -> bytes:
        if data:
            claim = _decoded(_CLAIM, data)
            with self._lock:
                run = self._runs.get(claim.run)
                if run is None:
                    folder = self._checkpoint_of(claim.query, claim.run)
                    run = self._runs[claim.run] = _Run(folder, claim.run)
                run.admit(claim)
        return member_to_bytes(options.member())


def _decoded(decoder: Any, data: bytes) -> Any:
    # Any: one function for all that is asked.
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ProtocolViolation("PROTOCOL-JOB-DESK", "a question to the desk cannot be read") from None


@dataclass(slots=True)
class _Run:
    """One run of a query, from its first claim on."""

    folder: Folder
    run: str
    _name: str = field(init=False)
    _batch: int = -1

    def __post_init__(self) -> None:
        """Take over from the run before."""
        last = max((int(one.partition("-")[0]) for one in self.folder.names("runs")), default=0)
        self._name = f"{last + 1:010}-{self.run}"
        self.folder.make("runs", self._name)

    def admit(self, claim: Claim) -> None:
        """Let a task publish; refuse a stale run, and other rows under numbers that are taken."""
        if max(self.folder.names("runs")) != self._name:
            raise Refusal(
                "PIPELINE-SINK-STALE",
                "a later run of this query has taken over its checkpoint; this one publishes nothing more",
            )
        batch = f"batches/{claim.batch:010}"
        if claim.batch > self._batch:
            self._batch = claim.batch
            for old in self.folder.names("batches"):
                if int(old) <= claim.batch - _BATCHES_KEPT:
                    self.folder.remove(f"batches/{old}")
        mine = f"{claim.partition}-{claim.digest}"
        if mine in (known := self.folder.names(batch)):
            return
        if not any(one.startswith(f"{claim.partition}-") for one in known):
            self.folder.make(batch, mine)
            known = self.folder.names(batch)
        if [one for one in known if one.startswith(f"{claim.partition}-")] != [mine]:
            raise BadInput(
                "INPUT-SPARK-OTHER-ROWS",
                f"batch {claim.batch} runs again, and its partition {claim.partition} has other rows than "
                "before: give the query partitions that are the same each time, `.repartition(8, COLUMN)`",
            )


class Folder:
    """A folder beside a checkpoint, wherever Spark keeps that, through Spark's own file systems."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        """Take the root of a checkpoint."""
        self._root = f"{root.rstrip('/')}/maia"
        self._path, self._files = files_at(spark, root)

    def names(self, folder: str) -> list[str]:
        """Return what lies in a folder; nothing, if it is not there."""
        path = self._path(f"{self._root}/{folder}")
        if not self._files.exists(path):
            return []
        return sorted(one.getPath().getName() for one in self._files.listStatus(path))

    def make(self, folder: str, name: str) -> None:
        """Make an empty file."""
        self._files.create(self._path(f"{self._root}/{folder}/{name}")).close()

    def remove(self, folder: str) -> None:
        """Remove a folder with what is in it."""
        self._files.delete(self._path(f"{self._root}/{folder}"), True)


def checkpoints_of(spark: SparkSession) -> Callable[[str, str], Folder]:
    """Return what finds the checkpoint of a query that runs in this driver."""
    if is_connect(spark):
        return _out_of_reach

    def checkpoint_of(query: str, run: str) -> Folder:
        root = checkpoint_root(spark, query, run)
        if root is None:
            raise Unavailable("UNAVAILABLE-SPARK-QUERY", f"run `{run[:_SHOWN]}` of a query has ended here")
        return Folder(spark, root)

    return checkpoint_of


def _out_of_reach(query: str, run: str) -> Folder:
    del query, run
    raise Unavailable(
        "UNAVAILABLE-SPARK-CONNECT",
        "a stream that publishes keeps beside its checkpoint what it has published, and a client of Spark "
        "Connect does not reach that: run it in a program that starts Spark itself, or by `spark-submit`",
    )
