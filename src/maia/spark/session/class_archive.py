"""Where is the archive from which Java loads Spark's classes?

Sessions ask when they start, and `maia pipeline prepare` makes one. A session
loads thousands of classes from a hundred jars; with Java's own class-data
archive it starts in less than half the time. Java uses an archive only while
jars, class path and Java are those that it was made from, so a folder holds
the archive and the Spark home that belongs to it, under a name that changes
with each of them. Without one, everything works, later. See
docs/decisions/spark-session.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from maia.errors import Unavailable
from maia.spark.session.java_home import JavaHome, cache_folders, only_owner_changes


class NoClassArchive(Unavailable):
    """The archive of Spark's classes could not be made."""

    code = "UNAVAILABLE-CLASS-ARCHIVE"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """A folder with a home for Spark, an empty folder for its settings, and the archive of its classes."""

    folder: Path

    @property
    def home(self) -> Path:
        """Return what Spark calls its home."""
        return self.folder / "home"

    @property
    def settings(self) -> Path:
        """Return the folder of settings. It is on the class path, where Java accepts empty folders only."""
        return self.folder / "conf"

    @property
    def file(self) -> Path:
        """Return the archive itself."""
        return self.folder / "classes.jsa"

    @property
    def draft(self) -> Path:
        """Return where this process writes the archive, until it is whole."""
        return self.folder / f"draft-{os.getpid()}.jsa"


def find_class_archive(java: JavaHome, environment: Mapping[str, str] = os.environ) -> ClassArchive | None:
    """Return the archive that was made for this Java and this Spark, if only its owner can change it."""
    for archive in _places(java, environment):
        if all(only_owner_changes(part) for part in (archive.folder, archive.file)):
            return archive
    return None


def new_class_archive(java: JavaHome, environment: Mapping[str, str] = os.environ) -> ClassArchive:
    """Make the folder for an archive, in the best place that can be written; its file is not there yet."""
    for archive in _places(java, environment):
        try:
            archive.settings.mkdir(parents=True, exist_ok=True)
            if not archive.home.exists():
                spark_home(archive.home)
        except OSError:
            continue
        return archive
    raise NoClassArchive("no folder can be written for the archive; set `XDG_CACHE_HOME` to one that can")


def spark_home(home: Path) -> Path:
    """Make a home for Spark that has its scripts and jars, and not its zips of Python.

    Workers put the zips first, and a module in a zip is compiled at every start: that takes a
    worker three times as long as the installed package, and Spark gives it ten seconds.
    """
    home.mkdir()
    for part in ("bin", "sbin", "jars"):
        (home / part).symlink_to(_installed() / part)
    return home


def _places(java: JavaHome, environment: Mapping[str, str]) -> Iterator[ClassArchive]:
    summed = sha256()
    jars = sorted(
        (jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in _installed().glob("jars/*")
    )
    for part in (java.path, java.version, _release(java), _installed(), jars):
        summed.update(f"{part}\0".encode())
    name = "spark-" + summed.hexdigest()[:16]
    return (ClassArchive(cache / name) for cache in cache_folders(environment))


def _installed() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _release(java: JavaHome) -> str:
    """Return what changes when the machine's Java is upgraded in place; a wrapper is named by its content."""
    try:
        changed = (java.path / "bin" / "java").resolve().stat()
    except OSError:
        return ""
    return f"{changed.st_size} {changed.st_mtime_ns}"
