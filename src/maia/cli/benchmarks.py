"""`maia bench`: run a benchmark by its number or name, measure growth, or draw the papers' figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import maia
from maia.cli.command import arg, flag
from maia.errors import Unavailable


def bench(
    names: list[str] | None = arg(
        "Which: 3, 5-7, decision, growth, figures; default: all but the last two.",
        default=None,
        metavar="[NUMBER|NAME]...",
    ),
    list_them: bool = flag("List the benchmarks and stop.", "--list"),
    quick: bool = flag("Few rounds, nothing is kept."),
    as_json: bool = flag("One JSON object per case.", "--json"),
) -> int:
    """Compare Maia with its peers, or with itself, and print ratios.

    Examples:
        maia bench --list
        maia bench 3
        maia bench 5-7
        maia bench growth --quick
    """
    folder = Path(maia.__file__).resolve().parents[2] / "bench"
    if not (folder / "__main__.py").is_file():
        raise Unavailable(
            "UNAVAILABLE-BENCHMARKS", "benchmarks run from a checkout of Maia; clone it and run `make bench`"
        )
    flags = [
        flag for flag, given in (("--list", list_them), ("--quick", quick), ("--json", as_json)) if given
    ]
    return subprocess.run([sys.executable, str(folder), *(names or []), *flags], check=False).returncode  # noqa: S603 - our own interpreter and folder
