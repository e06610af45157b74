"""Cause faults in a real network of three organisations, and check what its participants were told.

    make chaos MINUTES=20 SEED=7          PYTHONPATH=tests python -m chaos --minutes 20 --seed 7
    make chaos ARGS="--kinds kill,pause --json report.json"

Nothing listens outside of loopback, no privilege is needed, and all processes end with this one. Exit status
1 if something acknowledged was lost, or anything else was not as promised.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from itertools import takewhile
from pathlib import Path

from chaos.nemesis import Nemesis, Plan
from chaos.network import NAMES, Network
from chaos.schedule import NEEDS_SHIM, Kind, faults
from chaos.shim import NoShim, compiled


def main() -> int:
    """Run for so many minutes, and report."""
    parser = argparse.ArgumentParser(
        prog="make chaos", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--kinds", help="only these, by name, with commas: " + ", ".join(one.name.lower() for one in Kind)
    )
    parser.add_argument("--apart", type=float, nargs=2, default=(2.0, 8.0), help="seconds between two faults")
    parser.add_argument("--burst", type=int, default=Plan.burst, help="events of a burst")
    parser.add_argument("--pace", type=float, default=Plan.pace, help="events a second of each publisher")
    parser.add_argument("--load", type=int, default=Plan.load, help="processes that compute beside a restart")
    parser.add_argument(
        "--settle",
        type=float,
        default=Plan.settle_s,
        help="seconds without anything new before the rest is lost",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep everything in this new folder")
    options = parser.parse_args()
    wanted = [Kind[one.strip().upper()] for one in options.kinds.split(",")] if options.kinds else list(Kind)
    with tempfile.TemporaryDirectory(prefix="maia-chaos-") as made:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            library = compiled(folder)
        except NoShim as why:
            library, wanted = None, [one for one in wanted if one not in NEEDS_SHIM]
            print(f"without faults of disk and clock: {why}", file=sys.stderr)
        plan = Plan(pace=options.pace, burst=options.burst, load=options.load, settle_s=options.settle)
        with Network(folder, library=library) as network:
            nemesis = Nemesis(network, plan, say=lambda line: print(line, file=sys.stderr, flush=True))
            nemesis.say(f"seed {options.seed}")
            nemesis.begin()
            began, lasts_s = time.monotonic(), options.minutes * 60
            listed = faults(options.seed, NAMES, wanted, apart_s=tuple(options.apart))
            nemesis.strike(takewhile(lambda one: one.begins_s < lasts_s, listed))
            verdict = nemesis.settle()
            report = {"seed": options.seed, **nemesis.report(verdict, time.monotonic() - began)}
    text = json.dumps(report, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    else:
        print(text)
    figures = (
        "faults",
        "acknowledged",
        "lost",
        "reported",
        "unnumbered",
        "silent",
        "doubled",
        "disorder",
        "late",
    )
    print(", ".join(f"{report[name]:,} {name}" for name in figures), file=sys.stderr)
    return 0 if verdict.is_good and not verdict.lost else 1


if __name__ == "__main__":
    sys.exit(main())
