"""With which statement does a node open statement links, and whose statements does it believe?

Brokers name a file in `[identity]`, clients in `--identity`. The provider of a
domain puts a renewed statement into its place, so the file is read again when it
has changed, and the next link is opened with the new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from maia.config.input_files import BadFile, read_identity
from maia.credentials import Principal, SigningKey
from maia.sealing.two_message import REQUEST_WINDOW_S, LinkIdentity


class IdentityFile:
    """A node's statement in a file, with its key and the providers that it trusts."""

    def __init__(
        self, path: Path, key: SigningKey, providers: Iterable[Principal], *, window_s: int = REQUEST_WINDOW_S
    ) -> None:
        """Read the file; raise if it holds no statement about this key."""
        self._path, self._key = path, key
        self._providers, self._window_s = frozenset(providers), window_s
        self._stamp = self._stamp_now()
        self._read = self._read_again()

    def __call__(self) -> LinkIdentity:
        """Return what the file says now."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._read = self._read_again()
            self._stamp = stamp
        return self._read

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as problem:
            raise BadFile(f"`{self._path}` cannot be read: {problem.strerror}") from problem
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read_again(self) -> LinkIdentity:
        own = read_identity(self._path)
        if own.statement.subject != self._key.principal:
            raise BadFile(
                f"`{self._path}` is a statement about `{own.statement.subject}`, "
                f"and this node's key is `{self._key.principal}`"
            )
        return LinkIdentity(self._key, own, self._providers, self._window_s)
