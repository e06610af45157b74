"""The second runtime: any number of brokers and clients in one process, from one seed."""

from maia.testing.cast import BEGINNING
from maia.testing.simulation.clients import SimulatedClient
from maia.testing.simulation.hosts import Host, Node, Power
from maia.testing.simulation.network import Simulation
from maia.testing.simulation.schedule import Step, Trace
from maia.testing.simulation.trouble import Trouble, Troublemaker
from maia.testing.simulation.weather import CALM, NO_CHAOS, Chaos, Weather

__all__ = [
    "BEGINNING",
    "CALM",
    "NO_CHAOS",
    "Chaos",
    "Host",
    "Node",
    "Power",
    "SimulatedClient",
    "Simulation",
    "Step",
    "Trace",
    "Trouble",
    "Troublemaker",
    "Weather",
]
