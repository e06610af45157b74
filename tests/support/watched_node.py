"""A server that notes every secret it holds: `python -m support.watched_node HOME NOTES broker --config …`.

It runs exactly what the demonstration's servers run. Every secret goes to the
file NOTES, which lies outside of its folder, as one line: its kind and its
bytes in hexadecimal. On SIGUSR1 it writes `reprs.txt`, the text of every
object of ours that is alive. On SIGUSR2 it breaks the next time that it
derives a key, and writes `traceback.txt` with the local variables of every
function. A crash leaves `crash.txt`. All three are in its folder, to be
searched.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any  # Any: functions of every shape are wrapped here

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from maia.broker import Broker
from maia.credentials import SigningKey
from maia.demo.processes import run_server
from maia.domain import KeyServer
from maia.sealing.keys import delivery
from maia.sealing.keys.secrets import Secret
from maia.sealing.tree import node_secrets

_REPR_MAX = 20_000


class Broken(Exception):
    """What is thrown into the middle of a derivation."""


class Notes:
    """Secrets in a file, each once."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._seen: set[bytes] = set()

    def take(self, kind: str, *secrets: object) -> None:
        for secret in secrets:
            if isinstance(secret, bytes | bytearray) and len(secret) == 32 and secret not in self._seen:
                self._seen.add(bytes(secret))
                os.write(self._file, f"{kind} {secret.hex()}\n".encode())


def note_everything(notes: Notes) -> None:
    """Listen at every place where a secret comes to be."""
    holding, from_seed = Secret._holding.__func__, SigningKey.from_seed.__func__

    def held(cls: type[Secret], data: bytes) -> Secret:
        notes.take("secret", bytes(data))
        return holding(cls, data)

    def grown(cls: type[SigningKey], seed: bytes) -> SigningKey:
        notes.take("seed", seed)
        return from_seed(cls, seed)

    def made(data: bytes) -> object:
        notes.take("hpke", data)
        return private_key.from_private_bytes(data)

    private_key = delivery.X25519PrivateKey
    delivery.X25519PrivateKey = SimpleNamespace(from_private_bytes=made)
    Secret._holding = classmethod(held)
    SigningKey.from_seed = classmethod(grown)
    for name in ("step", "unwrap"):
        setattr(node_secrets, name, _noted(getattr(node_secrets, name), notes))


def _noted(function: Callable[..., Any], notes: Notes) -> Callable[..., Any]:
    @wraps(function)
    def noted(*given: Any, **named: Any) -> Any:
        result = function(*given, **named)
        notes.take("tree", *(result if isinstance(result, tuple) else (result,)))
        return result

    return noted


def write_reprs(home: Path) -> None:
    """Write the text of everything of ours that is alive."""
    texts = set()
    for found in gc.get_objects():
        if str(type(found).__module__).partition(".")[0] == "maia":
            texts.add(repr(found)[:_REPR_MAX])
    part = home / "reprs.part"
    part.write_text("\n".join(sorted(texts)), encoding="utf-8", errors="replace")
    part.rename(home / "reprs.txt")


def break_next_derivation() -> None:
    derive = Secret.derive

    def broken(self: Secret, purpose: bytes, *context: bytes) -> Secret:
        Secret.derive = derive
        derived = derive(self, purpose, *context)
        raise Broken(f"thrown on purpose, with {derived} in hand")

    Secret.derive = broken


def write_tracebacks(node: type, name: str, home: Path) -> None:
    """Let a method by which a node works say more of what breaks in it."""
    handle = getattr(node, name)

    def watched(self: Any, *given: Any) -> Any:
        try:
            return handle(self, *given)
        except Broken as problem:
            told = traceback.TracebackException.from_exception(problem, capture_locals=True)
            part = home / "traceback.part"
            part.write_text("".join(told.format()), encoding="utf-8", errors="replace")
            part.rename(home / "traceback.txt")
            raise

    setattr(node, name, watched)


def main(home: Path, notes: Path, words: list[str]) -> None:
    note_everything(Notes(notes))
    for name in ("_take", "_go_on"):  # a busy broker does later what it has not come to
        write_tracebacks(Broker, name, home)
    write_tracebacks(KeyServer, "handle", home)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: write_reprs(home))
    signal.signal(signal.SIGUSR2, lambda _number, _frame: break_next_derivation())
    with (home / "crash.txt").open("w") as crash:
        faulthandler.enable(crash)
        sys.exit(run_server(words))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
