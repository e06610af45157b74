"""Where do the secrets of pseudonyms and noise live?

In a file of their own that only its owner may read. The issuer of keyed
transformations makes it once, and hands copies to those who apply them: the
brokers of the recipients' domains, and the workers of Spark jobs.
Whoever holds it can calculate the pseudonym of any value it guesses.

    (maia-transformation-keys (version 1) (key (issuer (ed25519 KEY)) (secret SECRET)) …)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maia.canonical import SExpression, write_advanced
from maia.credentials.encoding.authority import principal_from_expression, principal_to_expression
from maia.credentials.keys import Principal
from maia.errors import BadInput
from maia.expressions.meaning import NO_KEYS, SECRET_BYTES, TransformationKeys
from maia.keystore.key_files import BadKeyFile, read_guarded_expression, write_guarded_file
from maia.keystore.lookup_tables import lookups_in

ISSUERS_MAX: Final = 1024
_HEAD: Final = b"maia-transformation-keys"
_VERSION: Final = (b"version", b"1")


def create_transformation_keys(path: Path, issuer: Principal) -> None:
    """Make a secret for an issuer's transformations, in a new file that only its owner may read."""
    key = (b"key", (b"issuer", principal_to_expression(issuer)), (b"secret", os.urandom(SECRET_BYTES)))
    write_guarded_file(path, write_advanced((_HEAD, _VERSION, key)) + "\n")


def load_transformation_keys(path: Path) -> TransformationKeys:
    """Read secrets back; refuse a file that others could have read or replaced."""
    match read_guarded_expression(path):
        case (head, version, *keys) if head == _HEAD and version == _VERSION and 0 < len(keys) <= ISSUERS_MAX:
            found = [_read_key(path, key) for key in keys]
            if len({issuer for issuer, _ in found}) == len(found):
                return TransformationKeys(dict(found))
    raise BadKeyFile(f"`{path}` does not hold secrets of transformations")


def _read_key(path: Path, expression: SExpression) -> tuple[bytes, bytes]:
    match expression:
        case (b"key", (b"issuer", issuer), (b"secret", bytes(secret))) if len(secret) == SECRET_BYTES:
            try:
                return principal_from_expression(issuer).key, secret
            except BadInput:
                pass
    # The cause is left out: what cannot be read may still be most of a secret.
    raise BadKeyFile(f"`{path}` does not hold secrets of transformations")


@dataclass(frozen=True, slots=True)
class TransformationKeyFile:
    """Names of files with secrets and lookups, for workers that have them under the same paths.

    It holds no secret. Either may be left out; what depends on it is missing.
    """

    path: str | None = None
    lookups: str | None = None

    def transformation_keys(self) -> TransformationKeys:
        """Read the files, where this is called."""
        keys = NO_KEYS if self.path is None else load_transformation_keys(Path(self.path))
        return keys if self.lookups is None else keys.with_tables(lookups_in(self.lookups))
