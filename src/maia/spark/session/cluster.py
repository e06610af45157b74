"""How does a session run on a cluster that is there already?

`spark_session(cluster=...)` and `maia pipeline` ask. A cluster is an address,
the address of this driver as its machines see it, and a shared secret. The
package travels with the job as a zip, so that the machines of a cluster need
Spark, Python and the libraries, and nothing of Maia. The secret is handed to
Java through a pipe and is never on a command line (docs/cluster.md).
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from maia.errors import BadInput

__all__ = ["BadCluster", "Cluster", "cluster_of", "cluster_settings", "package_zip"]

_MASTER: Final = re.compile(
    r"spark://[A-Za-z0-9.-]{1,253}:\d{1,5}(,[A-Za-z0-9.-]{1,253}:\d{1,5}){0,8}", re.ASCII
)
_SECRET_MIN: Final = 16
_SECRET_MAX: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# The same for every file, so that the same package makes the same zip.
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)


class BadCluster(BadInput):
    """A cluster was named in a way that cannot be used."""

    code = "INPUT-SPARK-CLUSTER"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A standalone cluster, and how this driver meets it."""

    master: str
    secret: str = field(repr=False)
    driver_host: str = "127.0.0.1"
    """The address under which executors reach this process."""
    executor_memory_mib: int = 1024
    python: str | None = None
    """The interpreter on the cluster's machines; this process's own if they share it."""

    def __post_init__(self) -> None:
        """Refuse an address that is none, and a secret that could be guessed."""
        if not _MASTER.fullmatch(self.master):
            raise BadCluster(
                f"`{ascii(self.master)[1:81]}` is not the address of a cluster: spark://HOST:PORT"
            )
        if not _SECRET_MIN <= len(self.secret) <= _SECRET_MAX:
            raise BadCluster(f"the secret of a cluster has {_SECRET_MIN} to {_SECRET_MAX} characters")


def cluster_of(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Return the cluster that the environment names; None if it names none.

    `MAIA_SPARK_MASTER` is its address and `MAIA_SPARK_SECRET_FILE` the file
    with its secret; `MAIA_SPARK_DRIVER_HOST`, `MAIA_SPARK_PYTHON` and
    `MAIA_SPARK_EXECUTOR_MIB` are optional.
    """
    master = environment.get("MAIA_SPARK_MASTER")
    if not master:
        return None
    named = environment.get("MAIA_SPARK_SECRET_FILE")
    if not named:
        raise BadCluster(
            "a cluster needs a shared secret: set `MAIA_SPARK_SECRET_FILE` to the file that holds it"
        )
    memory = environment.get("MAIA_SPARK_EXECUTOR_MIB", "1024")
    if not memory.isascii() or not memory.isdigit() or not 512 <= int(memory[:8]) <= 1_048_576:
        raise BadCluster("`MAIA_SPARK_EXECUTOR_MIB` is a number from 512 to 1048576")
    return Cluster(
        master,
        _secret(Path(named)),
        driver_host=environment.get("MAIA_SPARK_DRIVER_HOST") or "127.0.0.1",
        executor_memory_mib=int(memory),
        python=environment.get("MAIA_SPARK_PYTHON") or None,
    )


def _secret(file: Path) -> str:
    try:
        if file.stat().st_mode & _OTHERS:
            raise BadCluster(f"`{file}` can be read by others: run `chmod 600` on it")
        with file.open(encoding="utf-8") as opened:
            return opened.read(_SECRET_MAX + 2).strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise BadCluster(f"the secret in `{file}` cannot be read") from problem


def cluster_settings(cluster: Cluster) -> tuple[dict[str, str], dict[str, str]]:
    """Return Spark's settings for a cluster: public and secret ones."""
    seen = {
        "spark.master": cluster.master,
        "spark.driver.host": cluster.driver_host,
        "spark.driver.bindAddress": cluster.driver_host,
        "spark.executor.memory": f"{cluster.executor_memory_mib}m",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        # What executors spill and shuffle lies on their disks.
        "spark.io.encryption.enabled": "true",
    }
    return seen, {"spark.authenticate.secret": cluster.secret}


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
