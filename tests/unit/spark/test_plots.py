"""Every application can be checked, and the same result gives the same picture."""

from __future__ import annotations

import pyarrow as pa
import pytest

from maia.spark.applications import APPLICATIONS, TRACKING, TrackingTerms
from maia.spark.applications.plots import draw
from maia.spark.generators import GENERATORS
from maia.testing.refusals import raises


@pytest.mark.parametrize("application", APPLICATIONS.values(), ids=APPLICATIONS)
def test_a_result_becomes_a_picture_and_no_result_too(spark, application):
    made = GENERATORS[application.generator].rows(rows=400, seed=1, per_day=200)
    events = spark.createDataFrame(pa.Table.from_batches([made]))
    terms = None
    if application is TRACKING:
        terms = TrackingTerms(vehicle=next(filter(None, made["numberplate"].to_pylist())))
    result = application.of(events, terms).coalesce(1).cache()
    picture = draw(application.name, result, form="svg")
    assert picture.startswith(b"<?xml")
    assert picture == draw(application.name, result, form="svg")
    assert draw(application.name, result.limit(0), form="png").startswith(b"\x89PNG")
    result.unpersist()


def test_a_picture_of_no_known_form_is_refused(spark):
    with raises("INPUT-PLOT", match="png, svg, pdf"):
        draw("billing", spark.range(1), form="gif")
