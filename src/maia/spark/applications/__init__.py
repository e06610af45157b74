"""What are the papers' applications, as pipelines?"""

from __future__ import annotations

from typing import Any, Final

from maia.spark.applications.application import Application, StreamRun, start_stream
from maia.spark.applications.environment import ENVIRONMENT, EnvironmentTerms, city_environment
from maia.spark.applications.numberplates import (
    BILLING,
    STATISTICS,
    TRACKING,
    ChargingTerms,
    StatisticsTerms,
    TrackingTerms,
    congestion_charges,
    traffic_statistics,
    vehicle_path,
)
from maia.spark.applications.prescription_audit import (
    PRESCRIPTION_AUDIT,
    PrescriptionTerms,
    prescription_audit,
)
from maia.spark.applications.ticker import TICKER, TickerTerms, prices_per_minute

__all__ = [
    "APPLICATIONS",
    "BILLING",
    "ENVIRONMENT",
    "PRESCRIPTION_AUDIT",
    "STATISTICS",
    "TICKER",
    "TRACKING",
    "Application",
    "ChargingTerms",
    "EnvironmentTerms",
    "PrescriptionTerms",
    "StatisticsTerms",
    "TickerTerms",
    "TrackingTerms",
    "city_environment",
    "congestion_charges",
    "prescription_audit",
    "prices_per_minute",
    "traffic_statistics",
    "vehicle_path",
    "StreamRun",
    "start_stream",
]

# Any: each application has terms of its own.
APPLICATIONS: Final[dict[str, Application[Any]]] = {
    application.name: application
    for application in (BILLING, STATISTICS, TRACKING, TICKER, ENVIRONMENT, PRESCRIPTION_AUDIT)
}
