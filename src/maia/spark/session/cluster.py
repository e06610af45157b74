"""On which cluster does a session run, how does it find this process, and what travels there?

Programs and `maia pipeline` ask. A cluster is named by a master, as Spark names
them: `local[4]`, `spark://`, `yarn`, `k8s://`, or `sc://` for a server of Spark
Connect. Nodes share the log, the result and the network with this process, and
nothing on its disk; their accounts may be others (docs/cluster.md).
"""

from __future__ import annotations

import os
import re
import socket
import stat
import zipfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.errors import BadInput, Unavailable
from maia.spark.errors import BROUGHT_BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Cluster",
    "check_master",
    "cluster_of",
    "cluster_settings",
    "desk_place",
    "is_connect",
    "is_here",
    "package_zip",
    "parallelism",
]

_HOST: Final = r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])"
_MASTERS: Final = {
    name: re.compile(pattern, re.ASCII)
    for name, pattern in {
        "local": r"local(?:\[(?:\*|[1-9]\d{0,3})\])?",
        "spark": rf"spark://({_HOST}):\d{{1,5}}(?:,{_HOST}:\d{{1,5}}){{0,8}}",
        "yarn": "yarn",
        "k8s": rf"k8s://(?:https?://)?({_HOST})(?::\d{{1,5}})?",
        "sc": rf"sc://({_HOST})(?::\d{{1,5}})?(?:/(?:;(?!token=)[A-Za-z0-9_.-]{{1,64}}=[^;\s]{{1,256}}){{0,8}})?",
    }.items()
}
_HAS_SECRET: Final = ("spark", "sc")
"""The others make a secret for each job."""
_ADDRESS: Final = re.compile(rf"({_HOST})(?::(\d{{1,5}}))?", re.ASCII)
_CONNECT_PORT: Final = 15002
_ANSWERS_S: Final = 5.0
_SECRET_MIN: Final = 16
_SECRET_MAX: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LOOPBACK: Final = "127.0.0.1"
_ELSEWHERE: Final = "192.0.2.1"
"""An address that is on no network: the way to it is the way to any other machine."""
# The same for every file, so that the same package makes the same zip.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A master, and how its executors and this process find each other."""

    master: str
    secret: str | None = field(default=None, repr=False)
    """The shared secret of a standalone cluster, or the token of a server of Spark Connect."""
    driver_host: str = ""
    """The address under which executors reach this process; by default the one that leads to the master."""
    executor_memory_mib: int = 1024
    python: str | None = None
    """The interpreter on the cluster's machines; this process's own if they share it."""
    bind: str = ""
    """Where this process listens, if not at `driver_host`: behind a NAT, or in a container."""
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        """Refuse an address that is none, and a secret that could be guessed."""
        found = {name: one for name, pattern in _MASTERS.items() if (one := pattern.fullmatch(self.master))}
        if not found:
            raise BadInput(
                "INPUT-SPARK-CLUSTER",
                f"`{ascii(self.master)[1:81]}` names no cluster: local[N], spark://HOST:PORT, yarn, "
                "k8s://HOST:PORT, or sc://HOST:PORT (its token is in `MAIA_SPARK_SECRET_FILE`)",
            )
        ((kind, master),) = found.items()
        if kind in _HAS_SECRET and self.secret is None:
            raise BadInput(
                "INPUT-SPARK-CLUSTER",
                f"`{kind}://` needs a shared secret: set `MAIA_SPARK_SECRET_FILE` to the file that holds it",
            )
        if self.secret is not None and not _SECRET_MIN <= len(self.secret) <= _SECRET_MAX:
            raise BadInput(
                "INPUT-SPARK-CLUSTER",
                f"the secret of a cluster has {_SECRET_MIN} to {_SECRET_MAX} characters",
            )
        named = master.groups()[0] if master.re.groups else None
        host = self.driver_host or (_LOOPBACK if kind == "local" else _way_to(named or _ELSEWHERE))
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "driver_host", host)
        object.__setattr__(self, "bind", self.bind or host)


def cluster_of(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Return the cluster that the environment names; None if it names none.

    `MAIA_SPARK_MASTER` is its master and `MAIA_SPARK_SECRET_FILE` the file with its secret;
    `MAIA_SPARK_DRIVER_HOST`, `MAIA_SPARK_BIND`, `MAIA_SPARK_PYTHON` and
    `MAIA_SPARK_EXECUTOR_MIB` are optional.
    """
    master = environment.get("MAIA_SPARK_MASTER")
    if not master:
        return None
    named = environment.get("MAIA_SPARK_SECRET_FILE")
    memory = environment.get("MAIA_SPARK_EXECUTOR_MIB", "1024")
    if not memory.isascii() or not memory.isdigit() or not 512 <= int(memory[:8]) <= 1_048_576:
        raise BadInput("INPUT-SPARK-CLUSTER", "`MAIA_SPARK_EXECUTOR_MIB` is a number from 512 to 1048576")
    return Cluster(
        master,
        _secret(Path(named)) if named else None,
        driver_host=environment.get("MAIA_SPARK_DRIVER_HOST", ""),
        executor_memory_mib=int(memory),
        python=environment.get("MAIA_SPARK_PYTHON") or None,
        bind=environment.get("MAIA_SPARK_BIND", ""),
    )


def _secret(file: Path) -> str:
    try:
        if file.stat().st_mode & _OTHERS:
            raise BadInput("INPUT-SPARK-CLUSTER", f"`{file}` can be read by others: run `chmod 600` on it")
        with file.open(encoding="utf-8") as opened:
            return opened.read(_SECRET_MAX + 2).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput("INPUT-SPARK-CLUSTER", f"the secret in `{file}` cannot be read") from problem


def _way_to(host: str) -> str:
    """Return the address of this machine from which packets to another leave; none is sent."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 9, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with closing(socket.socket(family, kind, protocol)) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK


def check_master(cluster: Cluster) -> None:
    """Refuse a master, or a server of Connect, at whose address nobody listens: Spark tries for a minute."""
    if cluster.kind not in _HAS_SECRET:
        return
    _, _, rest = cluster.master.partition("://")
    problems = []
    for host, port in _ADDRESS.findall(rest.partition("/")[0]):
        try:
            socket.create_connection(
                (host.strip("[]"), int(port or _CONNECT_PORT)), timeout=_ANSWERS_S
            ).close()
        except (OSError, OverflowError) as problem:
            problems.append(f"{host}: {problem}")
        else:
            return
    raise Unavailable(
        "UNAVAILABLE-SPARK",
        f"nobody listens at `{cluster.master.partition('/;')[0]}` ({', '.join(problems)})",
    )


def cluster_settings(cluster: Cluster) -> tuple[dict[str, str], dict[str, str]]:
    """Return Spark's settings for a cluster: public and secret ones."""
    if cluster.kind == "local":
        return {"spark.master": cluster.master}, {}
    seen = {
        "spark.master": cluster.master,
        "spark.driver.host": cluster.driver_host,
        "spark.driver.bindAddress": cluster.bind,
        "spark.driver.maxResultSize": str(BROUGHT_BYTES_MAX),
        "spark.executor.memory": f"{cluster.executor_memory_mib}m",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # What executors spill and shuffle lies on their disks.
        "spark.io.encryption.enabled": "true",
    }
    return seen, {} if cluster.secret is None else {"spark.authenticate.secret": cluster.secret}


def package_zip(folder: Path) -> Path:
    """Write this package as a zip that executors import, the same bytes for the same package."""
    root = Path(__file__).parents[2]
    made = folder / "maia-package.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = f"maia/{file.relative_to(root).as_posix()}"
                packed.writestr(zipfile.ZipInfo(name, _MOMENT), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return made


# ------------------------------------------------------------ where a session that is there runs


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, whose Spark runs in another process."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_here(spark: SparkSession) -> bool:
    """Return whether tasks run on this machine under this account, and so find what lies on its disk."""
    return not is_connect(spark) and str(spark.sparkContext.master).startswith("local")


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once; of a server of Connect, how many partitions it makes."""
    if is_connect(spark):
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(spark.sparkContext.defaultParallelism)


def desk_place(spark: SparkSession) -> tuple[str, str]:
    """Return the address at which the workers of a session reach this process, and where it listens."""
    if is_here(spark):
        return _LOOPBACK, _LOOPBACK
    if not is_connect(spark):
        host = str(spark.conf.get("spark.driver.host"))
        return host, spark.conf.get("spark.driver.bindAddress", None) or host
    if (named := cluster_of()) is not None:
        return named.driver_host, named.bind
    session: Any = spark  # Any: the session of Connect is another class, which has a client
    host = _way_to(session.client.host)
    return host, host
