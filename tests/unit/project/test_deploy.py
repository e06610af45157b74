"""The files in deploy/ parse, and name only commands, options, settings, extras and metrics that exist.

No container runtime, systemd or Prometheus is part of the suite: nothing here was started by them.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer.main
import yaml

from maia.broker.server.config import BrokerConfig
from maia.cli.main import commands_for
from maia.config.settings import settings_of
from maia.domain.server.config import DomainConfig
from maia.net.telemetry import METRICS

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\bmaia_[a-z_]+")


def check_command(words: list[str]) -> None:
    """Fail unless the command exists, and has these options."""
    found = typer.main.get_command(commands_for(words))
    left = list(words)
    while hasattr(found, "commands"):
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
    for line in ("ExecStartPre", "ExecStart"):
        program, *words = shlex.split(service[line])
        assert program.endswith("/bin/maia")
        check_command(words)
    assert service["StateDirectoryMode"] == "0700"
    assert service["UMask"] == "0077"
    variables = dict(one.split("=", 1) for one in service["Environment"].split())
    for prefix, config in (("MAIA_BROKER_", BrokerConfig), ("MAIA_DOMAIN_", DomainConfig)):
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


def test_the_handbook_sets_the_containers_up_with_commands_that_exist() -> None:
    handbook = (ROOT / "docs" / "operations" / "README.md").read_text()
    commands = re.findall(r"^(?:hospital|institute) (.*)$", handbook, re.M)
    assert len(commands) >= 5
    for line in commands:
        check_command(shlex.split(line))


def test_the_image_installs_extras_that_exist_and_runs_without_privileges() -> None:
    text = (DEPLOY / "containers" / "Containerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r"maia\[([a-z,]+)\]", text)
    assert set(named.split(",")) <= set(extras)
    assert re.findall(r"^USER (\S+)$", text, re.M) == ["maia"]
    (words,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    check_command(json.loads(words))


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
