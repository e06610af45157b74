"""The second runtime: any number of brokers and clients in one process, from one seed."""

from maia.runtime.simulation.clients import SimulatedClient
from maia.runtime.simulation.hosts import Host, Node, Power
from maia.runtime.simulation.network import (
    BEGINNING,
    NotInTime,
    SimulatedNetwork,
    TooManySteps,
    UnknownHost,
)
from maia.runtime.simulation.trace import Step, Trace
from maia.runtime.simulation.trouble import Trouble, Troublemaker
from maia.runtime.simulation.weather import CALM, NO_CHAOS, Chaos, Weather

__all__ = [
    "BEGINNING",
    "CALM",
    "NO_CHAOS",
    "Chaos",
    "Host",
    "Node",
    "NotInTime",
    "Power",
    "SimulatedClient",
    "SimulatedNetwork",
    "Step",
    "TooManySteps",
    "Trace",
    "Trouble",
    "Troublemaker",
    "UnknownHost",
    "Weather",
]
