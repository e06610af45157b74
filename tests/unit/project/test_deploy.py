"""The files in deploy/ parse, and name only commands, options, settings, libraries and metrics that exist.

No systemd or Prometheus is part of the suite: nothing here was started by them. The image is built and run
where a container runtime is.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main
import yaml

from maia.broker.server.config import BrokerConfig
from maia.cli.main import commands_for
from maia.config.settings import settings_of
from maia.domain.server.config import DomainConfig
from maia.gateway.server.config import GatewayConfig
from maia.net.telemetry import METRICS
from maia.postgres.config import PostgresConfig

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
SETTINGS = {
    "MAIA_BROKER_": BrokerConfig,
    "MAIA_DOMAIN_": DomainConfig,
    "MAIA_GATEWAY_": GatewayConfig,
    "MAIA_POSTGRES_": PostgresConfig,
}
METRIC = re.compile(r"\bmaia_[a-z_]+?(?=_bucket\b|\b)")


def check_command(words: list[str]) -> None:
    """Fail unless the command exists, and has these options."""
    found = typer.main.get_command(commands_for(words))
    left = list(words)
    while hasattr(found, "commands") and not left[0].startswith("-"):
        found = found.commands[left.pop(0)]
    known = {flag for one in found.params for flag in one.opts}
    assert {one for one in left if one.startswith("-")} <= known


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda path: path.stem)
def test_a_unit_runs_a_command_that_exists_and_keeps_its_state_private(unit: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.read_text())
    assert parser.sections() == ["Unit", "Service", "Install"]
    service = parser["Service"]
    for line in [one for one in ("ExecStartPre", "ExecStart") if one in service]:
        program, *words = shlex.split(service[line])
        assert program.endswith("/bin/maia")
        check_command(words)
    assert service["StateDirectoryMode"] == "0700"
    assert service["UMask"] == "0077"
    assert re.fullmatch(r"[1-9]G", service["MemoryMax"])
    assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")
    assert service["CapabilityBoundingSet"] == ""
    variables = dict(one.split("=", 1) for one in service["Environment"].split())
    for prefix, config in SETTINGS.items():
        settings = {prefix + name.replace(".", "_").upper() for name in settings_of(config)}
        assert {one for one in variables if one.startswith(prefix)} <= settings
    assert variables


def test_two_organisations_in_containers_share_no_volume_but_the_one_for_public_files() -> None:
    compose = yaml.safe_load((DEPLOY / "containers" / "compose.yaml").read_text())
    assert set(compose["services"]) == {"hospital", "institute"}
    for name, service in compose["services"].items():
        check_command(service["command"])
        assert service["healthcheck"]["test"][:2] == ["CMD", "maia"]
        check_command(service["healthcheck"]["test"][2:])
        assert service["hostname"] == name
        named = {volume.partition(":")[0] for volume in service["volumes"]}
        assert named == {name, "handed-over"} <= set(compose["volumes"])
        assert (DEPLOY / "containers" / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_pods_run_commands_that_exist_without_privileges() -> None:
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "pipeline.yaml").read_text()))
    assert [one["kind"] for one in found] == ["Deployment", "CronJob"]
    deployment, job = found
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    for pod in (
        deployment["spec"]["template"]["spec"],
        job["spec"]["jobTemplate"]["spec"]["template"]["spec"],
    ):
        assert pod["securityContext"]["runAsNonRoot"]
        mounted = {one["name"] for one in pod["volumes"]}
        for container in pod["containers"]:
            check_command(container["args"])
            assert {one["name"] for one in container["volumeMounts"]} == mounted
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_handbook_sets_the_containers_up_with_commands_that_exist() -> None:
    handbook = (ROOT / "docs" / "operations" / "README.md").read_text()
    commands = re.findall(r"^(?:hospital|institute) (.*)$", handbook, re.M)
    assert len(commands) >= 5
    for line in commands:
        check_command(shlex.split(line))


CONTAINERFILE = (DEPLOY / "containers" / "Containerfile").read_text()


def test_the_image_installs_what_is_locked_by_its_hashes_and_runs_without_privileges() -> None:
    assert "--require-hashes -r /usr/src/requirements.lock" in CONTAINERFILE
    assert re.findall(r"^USER (\S+)$", CONTAINERFILE, re.M) == ["maia"]
    (words,) = re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.M)
    check_command(json.loads(words))
    locked = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (DEPLOY / "containers" / "requirements.lock").read_text(), re.M)
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["broker"], *extras["domain"], *extras["postgres"]]
    assert {re.match(r"[a-z0-9-]+", one)[0] for one in wanted} <= set(locked)
    # The servers run what the suite has tried.
    tried = set(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M))
    assert set(locked.items()) <= tried


def ignored(path: str) -> bool:
    """Return whether a build leaves a file out by .dockerignore: the last line that fits decides."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    answer = False
    for rule in (one for one in lines if one and not one.startswith("#")):
        # A rule fits a file if it fits the file or a folder around it; `**/` is any folders, or none.
        shape = re.escape(rule.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        if re.fullmatch(f"{shape}(?:/.*)?", path):
            answer = not rule.startswith("!")
    return answer


def copied(checkout: Path) -> set[str]:
    """Return the files of a checkout that end in a layer: COPY names them, and a build can read them."""
    named = re.findall(r"^COPY (\S+) \S+$", CONTAINERFILE, re.M)
    assert len(named) == CONTAINERFILE.count("COPY") == 2
    assert "ADD " not in CONTAINERFILE
    found = {
        path for one in named for path in (checkout / one, *(checkout / one).rglob("*")) if path.is_file()
    }
    return {name for path in found if not ignored(name := path.relative_to(checkout).as_posix())}


def test_no_key_history_or_environment_of_a_checkout_is_in_the_image(tmp_path: Path) -> None:
    """A layer is read by everyone who gets the image."""
    mine = {"src/maia/a.py", "src/maia/broker/b.py", "deploy/containers/requirements.lock"}
    secret = {
        ".git/config", ".venv/bin/maia", ".env", "hospital/hospital.key", "hospital.key", "lab.maia/lab.key",
        "src/hospital/hospital.key", "src/maia/left.key", "src/maia/tls/left.pem", "deploy/secret.toml",
        "src/maia/__pycache__/a.pyc", "deploy/containers/compose.yaml",
    }  # fmt: skip
    for name in mine | secret:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert copied(tmp_path) == mine
    ours = copied(ROOT)
    assert {"src/maia/__main__.py", "deploy/containers/requirements.lock"} <= ours
    assert {Path(one).suffix for one in ours} <= {
        ".py",
        ".typed",
        ".lock",
        ".css",
        ".js",
        ".html",
        ".svg",
        ".sql",
        ".toml",
    }


def test_the_image_runs_maia_from_what_is_copied(tmp_path: Path) -> None:
    for name in copied(ROOT):
        if name.startswith("src/"):
            target = tmp_path / Path(name).relative_to("src")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    words = [sys.executable, "-m", "maia", "org", "new", "hospital", "--json"]
    environment = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hospital" / "organisation.toml").is_file()


def runtime() -> str | None:
    """Return the container runtime that answers here, if one does."""
    for name in ("podman", "docker"):
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True, check=False, timeout=60).returncode
        ):
            return name
    return None


def test_the_image_is_built_and_makes_an_organisation() -> None:
    program = runtime()
    if program is None:
        pytest.skip("neither podman nor docker answers here: the container files were not started")
    build = [program, "build", "-q", "-f", "deploy/containers/Containerfile", "-t", "maia-test", "."]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)
    assert built.returncode == 0, built.stderr
    try:
        run = [program, "run", "--rm", "--network=none", "maia-test", "org", "new", "hospital", "--json"]
        made = subprocess.run(run, capture_output=True, text=True, check=False, timeout=300)
        assert made.returncode == 0, made.stderr
    finally:
        subprocess.run([program, "rmi", "maia-test"], capture_output=True, check=False, timeout=300)


def test_alerts_and_dashboard_use_metrics_that_exist_and_every_alert_is_explained() -> None:
    known = {name for group in METRICS.values() for name in group}
    rules = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert {name for rule in rules for name in METRIC.findall(rule["expr"])} <= known
    explained = (ROOT / "docs" / "operations" / "trouble.md").read_text()
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in explained] == []
    dashboard = json.loads((DEPLOY / "monitoring" / "grafana-dashboard.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert shown
    assert {name for one in shown for name in METRIC.findall(one)} <= known
    scraped = yaml.safe_load((DEPLOY / "monitoring" / "prometheus.yaml").read_text())
    assert scraped["rule_files"] == ["alerts.yaml"]
