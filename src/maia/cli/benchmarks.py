"""`maia bench`: run a benchmark by its number or name, or measure growth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

import maia
from maia.errors import Unavailable

EXAMPLES: Final = "Examples: maia bench --list; maia bench 3; maia bench 5-7; maia bench growth --quick"


class BenchmarksNotHere(Unavailable):
    """The benchmarks live in a checkout of Maia, and this is an installed package."""

    code = "UNAVAILABLE-BENCHMARKS"


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NUMBER|NAME]...", help="Which: 3, 5-7, decision, growth; default: all but growth."
        ),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few rounds, nothing is kept.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per case.")] = False,
) -> int:
    """Compare Maia with its peers, or with itself, and print ratios."""
    folder = Path(maia.__file__).resolve().parents[2] / "bench"
    if not (folder / "__main__.py").is_file():
        raise BenchmarksNotHere("benchmarks run from a checkout of Maia; clone it and run `make bench`")
    flags = [
        flag for flag, given in (("--list", list_them), ("--quick", quick), ("--json", as_json)) if given
    ]
    return subprocess.run([sys.executable, str(folder), *(names or []), *flags], check=False).returncode  # noqa: S603 - our own interpreter and folder
