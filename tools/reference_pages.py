"""Which settings, metrics, commands and listeners are there? Pages of `docs/reference/`, from the code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import typer.main
from typer.core import TyperGroup, TyperOption

import listener_prices
from maia.broker.server.config import BrokerConfig
from maia.broker.settings import BrokerLimits
from maia.cli.main import commands_for
from maia.config.settings import NOT_SETTINGS, ServerConfig
from maia.domain import DomainLimits
from maia.domain.server.access_config import AccessConfig, FactConfig, PushConfig
from maia.domain.server.config import DomainConfig
from maia.net.telemetry import METRICS
from maia.share.config import ShareConfig

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
GENERATED = "<!-- Written by `make docs` from the code. -->\n"
METRIC = re.compile(r'"(maia_[a-z_]+_total|maia_postgres_ready|maia_certificate[a-z_]*)"')


def pages() -> dict[Path, str]:
    """Return every generated page of the reference by its file."""
    return {
        FOLDER / "settings.md": settings_page(),
        FOLDER / "metrics.md": metrics_page(),
        FOLDER / "commands.md": commands_page(),
        listener_prices.PAGE: listener_prices.page(),
    }


# ------------------------------------------------------------ settings


def settings_page() -> str:
    """Return the page about the settings of servers."""
    parts = [
        f"""\
# Settings of brokers, domain servers and sharing servers

{GENERATED}
A server reads a TOML file (`maia broker --config broker.toml`, `maia domain serve --config domain.toml`),
then the environment, then its options; the last of them counts. A dot is a table in the file, and an
underscore in a variable: `log.folder` is `folder` under `[log]`, and `MAIA_BROKER_LOG_FOLDER`. Paths begin
at the folder of the file. A name that is not a setting is an error. `--check` opens and checks everything,
and starts nothing.

## Brokers

Variables begin with `MAIA_BROKER_`. [The operator's handbook](../operations/README.md) says which of them
matter first.
""",
        _table(_settings(BrokerConfig)),
        "\n### Limits of a broker\n\nUnder `[limits]`. Beyond them a broker refuses, and says so.\n",
        _table(_limits(BrokerLimits)),
        "\n## Domain servers\n\nVariables begin with `MAIA_DOMAIN_`. Without settings of access control,\n"
        "a domain's server is a [key server](../keys.md) and nothing else.\n",
        _table(_settings(DomainConfig)),
        "\n### Access control\n\n[Running a domain](../domain.md) shows them at work.\n",
        _table(_settings(AccessConfig)),
        "\n### `[[facts]]`\n\n[Where facts come from](../domain.md#where-facts-come-from)"
        " says which source takes which.\n",
        _table(_settings(FactConfig)),
        "\n### `[[push]]`\n\nThe certificates of a broker that are kept fresh in its credential folder.\n",
        _table(_settings(PushConfig)),
        "\n### Limits of a domain server\n",
        _table(_limits(DomainLimits)),
        "\n## Sharing servers\n\n`maia share serve --config share.toml` ([tables for partners]"
        "(../sharing.md)); variables\nbegin with `MAIA_SHARE_`.\n",
        _table(_settings(ShareConfig)),
    ]
    return "\n".join(parts)


def _table(rows: list[tuple[str, str, str]]) -> str:
    lines = ["| setting | default | what it is |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| `{name}` | {default} | {text} |" for name, default, text in rows)]) + "\n"


def _settings(kind: type[msgspec.Struct]) -> list[tuple[str, str, str]]:
    texts = _docstrings(kind)
    return [
        (one.encode_name, _default(one), _sentence(texts.get(one.name, "")))
        for one in msgspec.structs.fields(kind)
        if one.name not in NOT_SETTINGS | {"facts", "push"}
    ]


def _limits(kind: type[BrokerLimits | DomainLimits]) -> list[tuple[str, str, str]]:
    texts = _docstrings(kind)
    return [
        (
            one.name,
            f"{one.default:,}" if one.default is not MISSING else "",
            _sentence(texts.get(one.name, "")),
        )
        for one in fields(kind)
        if one.name in kind.SETTINGS
    ]


def _default(one: msgspec.structs.FieldInfo) -> str:
    if one.required:
        return "needed"
    value = one.default
    if value in (None, (), msgspec.NODEFAULT):
        return "none"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{', '.join(value) if isinstance(value, tuple) else value}`"


def _docstrings(kind: type) -> dict[str, str]:
    """Return the string behind each field of a class and of its bases."""
    found: dict[str, str] = {}
    for one in reversed([each for each in kind.__mro__ if each.__module__.startswith("maia.")]):
        (body,) = ast.parse(inspect.getsource(one)).body
        assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class
        for field, text in zip(body.body, body.body[1:], strict=False):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[field.target.id] = str(text.value.value)
    return found


def _sentence(text: str) -> str:
    """Return a docstring as the cell of a table."""
    words = " ".join(text.split()).rstrip(".").replace("|", "\\|")
    return words[:1].lower() + words[1:] if words[:2].istitle() else words


def undocumented() -> Iterator[str]:
    """Name the settings and metrics that have no description."""
    for kind in (ServerConfig, BrokerConfig, DomainConfig, AccessConfig, FactConfig, PushConfig):
        yield from (
            f"{kind.__name__}.{name} has no description" for name, _, text in _settings(kind) if not text
        )
    for limits in (BrokerLimits, DomainLimits):
        yield from (
            f"{limits.__name__}.{name} has no description" for name, _, text in _limits(limits) if not text
        )
    described = {name for group in METRICS.values() for name in group}
    counted = {
        name
        for path in (ROOT / "src" / "maia").rglob("*.py")
        if path.name != "metrics.py"
        for name in METRIC.findall(path.read_text(encoding="utf-8"))
    }
    yield from (
        f"the metric {name} is not in src/maia/net/telemetry.py" for name in sorted(counted - described)
    )
    gone = {name for name in described if name.endswith("_total")} - counted
    yield from (f"src/maia/net/telemetry.py describes {name}, which no code counts" for name in sorted(gone))


# ------------------------------------------------------------ metrics


def metrics_page() -> str:
    """Return the page about metrics."""
    lines = [
        f"""\
# Metrics

{GENERATED}
Every server answers `GET /metrics` in the text format of Prometheus, at the address of its setting
`status`, on loopback only; `maia status` and `maia domain status` find it by the data folder. Numbers name
no principal. What ends in `_total` only grows, and begins at 0 with the process; a metric that has counted
nothing yet is not there. *By code* means the label `code`, an [error code](../errors.md); a metric has at
most 256 of them, and the rest are counted as `other`. [Alert rules and a
dashboard](../operations/monitoring.md) use them.
"""
    ]
    for group, metrics in METRICS.items():
        lines += [f"## {group}\n", "| metric | what it says |", "| --- | --- |"]
        lines += [*(f"| `{name}` | {text} |" for name, text in metrics.items()), ""]
    return "\n".join(lines)


# ------------------------------------------------------------ commands


def commands_page() -> str:
    """Return the page about every command and option."""
    command = typer.main.get_command(commands_for([]))
    head = f"""\
# The command line

{GENERATED}
`maia COMMAND --help` says the same. Every command answers people, or one JSON object with `--json`; errors
go to standard error with their [code](../errors.md), and the [exit status](environment.md#exit-statuses)
tells the kind of error. `--as PROFILE` takes whatever is not given from a profile.
"""
    return "\n".join([head, *_commands(command, "maia", 2)])


# Any: Typer carries a copy of Click inside, whose classes have no public names.
def _commands(group: Any, path: str, level: int) -> Iterator[str]:
    for name, command in group.commands.items():
        full = f"{path} {name}"
        yield f"{'#' * level} {full}\n"
        yield f"{_escaped(' '.join((command.help or '').split()))}\n"
        if not isinstance(command, TyperGroup) or command.invoke_without_command:
            yield from _parameters(command)
            if command.epilog:
                examples = " ".join(command.epilog.split()).partition(": ")[2].split("; maia ")
                shown = [one if one.startswith("maia") else f"maia {one}" for one in examples]
                yield "\n".join(["```text", *shown, "```\n"])
        if isinstance(command, TyperGroup):
            yield from _commands(command, full, level + 1)


def _parameters(command: Any) -> Iterator[str]:
    rows = []
    for one in command.params:
        if isinstance(one, TyperOption) and (one.hidden or {"--help", "--json"} & set(one.opts)):
            continue
        is_option = isinstance(one, TyperOption)
        names = ", ".join(f"`{opt}`" for opt in sorted(one.opts, key=len)) if is_option else f"`{one.name}`"
        rows.append(
            f"| {names} | {_escaped(' '.join((getattr(one, 'help', '') or '').split()))}{_extra(one)} |"
        )
    if rows:
        yield "\n".join(["| option | |", "| --- | --- |", *rows, ""])


def _extra(one: Any) -> str:
    said = ["needed"] if one.required else []
    variable = one.envvar
    if variable:
        said.append(f"or `{variable if isinstance(variable, str) else ', '.join(variable)}`")
    default = one.default
    if (
        isinstance(default, str | int | float)
        and not isinstance(default, bool)
        and getattr(one, "show_default", True)
    ):
        said.append(f"default: `{default}`")
    return f" ({'; '.join(said)})" if said else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
