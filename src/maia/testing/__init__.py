"""Three worlds for tests, with one vocabulary: brokers and clients in memory, in a simulation, in processes.

`Net` connects brokers and clients in memory, `Simulation` runs them on a virtual clock with faults from a
seed, `Processes` runs the programs. A `Cast` says who takes part. `docs/testing.md` shows each at work.
"""

from maia.testing.cast import BEGINNING, Cast, address_of, grant, key_of, pattern_of, random_from
from maia.testing.net import (
    Issuer,
    Net,
    NetBroker,
    NetClient,
    NetLog,
    answers_to,
    questions_of,
    shown,
)
from maia.testing.statements import Statements

__all__ = [
    "BEGINNING",
    "Cast",
    "Issuer",
    "Net",
    "NetBroker",
    "NetClient",
    "NetLog",
    "Statements",
    "address_of",
    "answers_to",
    "grant",
    "key_of",
    "pattern_of",
    "questions_of",
    "random_from",
    "shown",
]
