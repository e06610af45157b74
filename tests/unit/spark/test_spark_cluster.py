"""Which cluster a session runs on: what the environment may say, and what travels there."""

from __future__ import annotations

import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from maia.spark.session.cluster import Cluster, check_master, cluster_of, cluster_settings, package_zip
from maia.spark.session.session import spark_session
from maia.testing.refusals import raises

MASTER = "spark://10.0.0.1:7077"
SECRET = "s" * 32


def secret_file(folder: Path, text: str = SECRET, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_text(text + "\n")
    file.chmod(mode)
    return file


def named(folder: Path, **others: str) -> dict[str, str]:
    return {"MAIA_SPARK_MASTER": MASTER, "MAIA_SPARK_SECRET_FILE": str(secret_file(folder)), **others}


def test_without_a_master_there_is_no_cluster():
    assert cluster_of({}) is None


def test_a_cluster_is_read_from_the_environment(tmp_path):
    found = cluster_of(named(tmp_path, MAIA_SPARK_DRIVER_HOST="10.0.0.9", MAIA_SPARK_EXECUTOR_MIB="4096"))
    assert found == Cluster(MASTER, SECRET, driver_host="10.0.0.9", executor_memory_mib=4096)


def test_a_secret_shows_in_no_repr_and_in_no_setting_that_is_seen(tmp_path):
    cluster = Cluster(MASTER, SECRET)
    seen, secret = cluster_settings(cluster)
    assert SECRET not in repr(cluster)
    assert SECRET not in str(seen)
    assert list(secret.values()) == [SECRET]
    assert seen["spark.authenticate"] == seen["spark.network.crypto.enabled"] == "true"


@pytest.mark.parametrize(
    "master",
    [
        *(
            "local[0]",
            "spark://",
            "spark://a b:1",
            "spark://h:1 --conf x=y",
            "k8s://",
            "yarn ",
            "mesos://h:1",
        ),
        *("sc://h:1/;token=secret", "sc://h:1/;use_ssl=true;token=secret"),
    ],
)
def test_only_the_address_of_a_cluster_is_one(master):
    with raises("INPUT-SPARK-CLUSTER") as refused:
        Cluster(master, SECRET)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        *(
            ("local", "local"),
            ("local[*]", "local"),
            ("local[4]", "local"),
            (MASTER, "spark"),
            ("yarn", "yarn"),
        ),
        *(("k8s://https://10.0.0.1:6443", "k8s"), ("k8s://api.example", "k8s"), ("sc://localhost", "sc")),
        *(("sc://spark.example:443/;use_ssl=true", "sc"), ("spark://a:7077,b:7077", "spark")),
    ],
)
def test_masters_are_named_as_spark_names_them(master, kind):
    assert Cluster(master, SECRET, driver_host="10.0.0.9").kind == kind


def test_yarn_and_kubernetes_make_secrets_of_their_own():
    for master in ("yarn", "k8s://https://10.0.0.1:6443"):
        seen, secret = cluster_settings(cluster_of({"MAIA_SPARK_MASTER": master}))
        assert secret == {}
        assert seen["spark.authenticate"] == seen["spark.io.encryption.enabled"] == "true"


def test_executors_reach_the_driver_by_the_way_that_leads_to_the_master():
    """D12: a driver behind a NAT, or in a container, listens elsewhere than where it is reached."""
    assert Cluster("spark://127.0.0.1:7077", SECRET).driver_host == "127.0.0.1"
    behind = Cluster(MASTER, SECRET, driver_host="driver.example", bind="10.0.0.8")
    seen, _ = cluster_settings(behind)
    assert (seen["spark.driver.host"], seen["spark.driver.bindAddress"]) == ("driver.example", "10.0.0.8")


def test_a_master_that_does_not_listen_is_named_before_spark_tries_for_a_minute():
    with socket.socket() as nobody, socket.create_server(("127.0.0.1", 0)) as one:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        away, there = (f"127.0.0.1:{held.getsockname()[1]}" for held in (nobody, one))
        for master in (f"spark://{away}", f"sc://{away}/;use_ssl=true"):
            refused = raises("UNAVAILABLE-SPARK", match=f"listens at `[a-z]+://{away}`")
            with refused, spark_session(cluster=Cluster(master, SECRET)):
                pass
        check_master(Cluster(f"spark://{away},{there}", SECRET))


def test_a_cluster_without_a_secret_is_refused(tmp_path):
    for master in (MASTER, "sc://localhost"):
        with raises("INPUT-SPARK-CLUSTER", match="MAIA_SPARK_SECRET_FILE"):
            cluster_of({"MAIA_SPARK_MASTER": master})
    with raises("INPUT-SPARK-CLUSTER"):
        Cluster(MASTER, "short")


def test_a_secret_that_others_can_read_is_refused(tmp_path):
    environment = named(tmp_path)
    secret_file(tmp_path, mode=0o640)
    with raises("INPUT-SPARK-CLUSTER", match="chmod 600"):
        cluster_of(environment)


@pytest.mark.parametrize("memory", ["", "511", "many", "-1", "²", "9" * 30])
def test_memory_is_a_number_within_bounds(tmp_path, memory):
    with raises("INPUT-SPARK-CLUSTER"):
        cluster_of(named(tmp_path, MAIA_SPARK_EXECUTOR_MIB=memory))


def test_the_zip_holds_the_package_and_is_the_same_each_time(tmp_path):
    first = package_zip(tmp_path).read_bytes()
    assert package_zip(tmp_path).read_bytes() == first
    names = zipfile.ZipFile(tmp_path / "maia-package.zip").namelist()
    assert "maia/spark/matching/bulk.py" in names
    assert not any("__pycache__" in name for name in names)


def test_the_package_works_from_the_zip_alone(tmp_path):
    packed = package_zip(tmp_path)
    program = "import maia.views, maia.spark.governed.opener, maia; print(maia.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(packed)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert str(packed) in done.stdout
