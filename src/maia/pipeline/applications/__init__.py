"""What are the papers' applications, as pipelines?"""

from __future__ import annotations

from typing import Any, Final

from maia.pipeline.applications.application import Application, BadTerm, MissingColumn
from maia.pipeline.applications.billing import BILLING, ChargingTerms, congestion_charges
from maia.pipeline.applications.environment import ENVIRONMENT, EnvironmentTerms, city_environment
from maia.pipeline.applications.running import StreamRun, start_stream
from maia.pipeline.applications.statistics import STATISTICS, StatisticsTerms, traffic_statistics
from maia.pipeline.applications.ticker import TICKER, TickerTerms, prices_per_minute
from maia.pipeline.applications.tracking import TRACKING, TrackingTerms, vehicle_path

__all__ = [
    "APPLICATIONS",
    "BILLING",
    "ENVIRONMENT",
    "STATISTICS",
    "TICKER",
    "TRACKING",
    "Application",
    "BadTerm",
    "MissingColumn",
    "ChargingTerms",
    "EnvironmentTerms",
    "StatisticsTerms",
    "TickerTerms",
    "TrackingTerms",
    "city_environment",
    "congestion_charges",
    "prices_per_minute",
    "traffic_statistics",
    "vehicle_path",
    "StreamRun",
    "start_stream",
]

# Any: each application has terms of its own.
APPLICATIONS: Final[dict[str, Application[Any]]] = {
    application.name: application for application in (BILLING, STATISTICS, TRACKING, TICKER, ENVIRONMENT)
}
