"""Where do a million realistic events come from, and ten million, and more?"""

from __future__ import annotations

from typing import Final

from maia.spark.generators.generator import PER_DAY, ROWS_MAX, Generator, Order, generated
from maia.spark.generators.prescriptions import DRUGS, PRESCRIPTIONS
from maia.spark.generators.sensors import DISTRICTS, SENSORS
from maia.spark.generators.sightings import CAMERAS, SIGHTINGS, WATCHED_PLATE
from maia.spark.generators.trades import BROKERAGES, FLOWS, STOCKS, TRADES

__all__ = [
    "GENERATORS",
    "PRESCRIPTIONS",
    "SENSORS",
    "SIGHTINGS",
    "TRADES",
    "generated",
    "Generator",
    "Order",
    "PER_DAY",
    "ROWS_MAX",
    "BROKERAGES",
    "CAMERAS",
    "DISTRICTS",
    "DRUGS",
    "FLOWS",
    "STOCKS",
    "WATCHED_PLATE",
]

GENERATORS: Final = {generator.name: generator for generator in (SIGHTINGS, TRADES, SENSORS, PRESCRIPTIONS)}
