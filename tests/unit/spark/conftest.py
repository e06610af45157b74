"""A desk for the keys of governed tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maia.spark.keys.key_server import JobDesk, job_desk


@pytest.fixture(scope="session")
def desk() -> Iterator[JobDesk]:
    with job_desk() as opened:
        yield opened
