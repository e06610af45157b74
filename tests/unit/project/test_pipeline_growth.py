"""The pipeline's growth can be measured: the short form answers for each application and size."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench"


def test_growth_is_told_for_each_application(spark, tmp_path, monkeypatch, capsys):
    """On the suite's session, which is warm: another would take longer to start than this takes."""
    monkeypatch.syspath_prepend(str(BENCH))
    import pipeline_growth

    monkeypatch.setattr(pipeline_growth, "spark_session", lambda *_words, **_options: nullcontext(spark))
    assert pipeline_growth.main(["--quick", "--json", "--folder", str(tmp_path)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = {(row["step"], row.get("events")): row for row in rows}
    for step in ("generate", "billing", "statistics"):
        assert told[step, 2_000]["events_per_s"] > 0
        assert told[step, 20_000]["events_per_s"] > 0
    assert told["billing, growth", None]["events_times"] == 10
    assert list(tmp_path.iterdir()) == []
