"""Three organisations; a broker is killed, one paused, a line is cut: nothing acknowledged is lost.

`make chaos MINUTES=20 SEED=7` does so for long, and with every kind of fault.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

import pytest

from chaos.nemesis import Nemesis, Plan
from chaos.network import NAMES, Network
from chaos.schedule import Kind, faults
from support.processes import forked

KINDS = (Kind.KILL, Kind.PAUSE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.LEAVE, Kind.REVOKED)


@pytest.mark.skipif(sys.platform != "linux", reason="whose a connection is, only Linux says (/proc)")
def test_nothing_acknowledged_is_lost_or_silent(tmp_path: Path):
    """L1, L2: every durable reader has everything, once and in order, when the faults are over."""
    with Network(tmp_path, start=forked) as network:
        nemesis = Nemesis(network, Plan(settle_s=90.0))
        nemesis.begin()
        nemesis.strike(islice(faults(7, NAMES, KINDS, apart_s=(0.5, 1.0), holds_most_s=2.0), len(KINDS)))
        verdict = nemesis.settle()
        found = json.dumps(nemesis.report(verdict, 0.0), indent=1)
        assert len(nemesis.struck) == len(KINDS)
        assert not [one.note for one in nemesis.struck if one.note], found
        assert verdict.is_good, found
        assert not verdict.lost, found
        assert verdict.acknowledged > 0
