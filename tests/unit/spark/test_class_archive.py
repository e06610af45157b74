"""Java loads Spark's classes from an archive that was made for it, and from no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.spark.session.java_home import find_class_archive, find_java_home, new_class_archive


@pytest.fixture
def made(tmp_path):
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    archive = new_class_archive(find_java_home(), environment)
    archive.file.touch(0o444)
    return archive, environment


def test_an_archive_is_found_by_the_java_and_the_spark_that_it_was_made_with(made):
    archive, environment = made
    assert find_class_archive(find_java_home(), environment) == archive
    assert list(archive.settings.iterdir()) == []  # or Java would leave the archive alone


def test_another_java_does_not_find_it(made):
    archive, environment = made
    assert find_class_archive(replace(find_java_home(), version=99), environment) != archive


def test_an_archive_that_others_can_change_is_not_used(made):
    archive, environment = made
    archive.file.chmod(0o666)
    assert find_class_archive(find_java_home(), environment) != archive
    archive.file.chmod(0o444)
    archive.folder.chmod(0o777)
    assert find_class_archive(find_java_home(), environment) != archive


def test_a_session_uses_the_archive_that_is_there(spark):
    runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    named = [str(option) for option in runtime.getInputArguments() if "SharedArchiveFile" in str(option)]
    archive = find_class_archive(find_java_home())
    assert named == ([f"-XX:SharedArchiveFile={archive.file}"] if archive else [])
