"""Three worlds for tests, with one vocabulary: brokers and clients in memory, in a simulation, in processes.

`Net` connects brokers and clients in memory, `Simulation` runs them on a virtual clock with faults from a
seed, `Processes` runs the programs. A `Cast` says who takes part. `docs/testing.md` shows each at work.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maia.testing.cast import BEGINNING, Cast, address_of, grant, key_of, pattern_of, random_from
    from maia.testing.net import Issuer, Net, NetBroker, NetClient, NetLog, answers_to, questions_of, shown
    from maia.testing.ports import free_port, free_ports
    from maia.testing.processes import Processes, Program, Server, broker_settings, connected, serving
    from maia.testing.refusals import raises
    from maia.testing.simulation import SimulatedClient, Simulation, Trouble, Troublemaker, Weather
    from maia.testing.statements import Statements
    from maia.testing.waiting import DEADLINE_S, in_a_loop, soon, until, wait_until

__all__ = [
    "BEGINNING",
    "Cast",
    "DEADLINE_S",
    "Issuer",
    "Net",
    "NetBroker",
    "NetClient",
    "NetLog",
    "Processes",
    "Program",
    "Server",
    "SimulatedClient",
    "Simulation",
    "Statements",
    "Trouble",
    "Troublemaker",
    "Weather",
    "address_of",
    "answers_to",
    "broker_settings",
    "connected",
    "free_port",
    "free_ports",
    "grant",
    "in_a_loop",
    "key_of",
    "pattern_of",
    "questions_of",
    "raises",
    "random_from",
    "serving",
    "shown",
    "soon",
    "until",
    "wait_until",
]

# Loaded when first asked for: the demo uses a software TPM from here, and no broker.
_HOMES = {
    "maia.testing.cast": ("BEGINNING", "Cast", "address_of", "grant", "key_of", "pattern_of", "random_from"),
    "maia.testing.net": (
        "Issuer",
        "Net",
        "NetBroker",
        "NetClient",
        "NetLog",
        "answers_to",
        "questions_of",
        "shown",
    ),
    "maia.testing.ports": ("free_port", "free_ports"),
    "maia.testing.processes": ("Processes", "Program", "Server", "broker_settings", "connected", "serving"),
    "maia.testing.refusals": ("raises",),
    "maia.testing.simulation": ("Simulation", "SimulatedClient", "Trouble", "Troublemaker", "Weather"),
    "maia.testing.statements": ("Statements",),
    "maia.testing.waiting": ("DEADLINE_S", "in_a_loop", "soon", "until", "wait_until"),
}


def __getattr__(name: str) -> object:
    """Load a name of the face from where it lives."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
