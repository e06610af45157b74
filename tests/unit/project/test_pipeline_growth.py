"""The pipeline's growth can be measured: the short form answers for each application and size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

GROWTH = Path(__file__).resolve().parents[3] / "bench" / "pipeline_growth.py"


def test_growth_is_told_for_each_application(tmp_path):
    words = [sys.executable, str(GROWTH), "--quick", "--json", "--folder", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    told = {(row["step"], row.get("events")): row for row in rows}
    for step in ("generate", "billing", "statistics"):
        assert told[step, 2_000]["events_per_s"] > 0
        assert told[step, 20_000]["events_per_s"] > 0
    assert told["billing, growth", None]["events_times"] == 10
    assert list(tmp_path.iterdir()) == []
