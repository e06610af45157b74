"""What does one organisation hand to another, in one file?

    institute.grant     certificates, the types that they are about, and where the network is

None of it is a secret, and none of it is trusted because it is in the file:
certificates are verified up to the owner of what they are about, definitions
up to their owner, and a file's name is never taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from maia.config.input_files import GRANT, BadFile, kind_of_file, read_text
from maia.config.settings import (
    Address,
    Addresses,
    BadConfig,
    PrincipalWord,
    Text,
    build,
    from_file,
    settings_of,
)
from maia.errors import BadInput
from maia.profile.profile import toml_text

if TYPE_CHECKING:
    from maia.credentials import Owner, Principal, SignedCertificate
    from maia.types import SignedDefinition

__all__ = ["Grant", "read_grant"]

_ITEMS_MAX: Final = 1024


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """A grant as it is written."""

    grant: Text
    """The name by which the granting organisation calls itself."""
    subject: PrincipalWord
    network: Text
    coordinator: PrincipalWord
    brokers: Addresses = ()
    keys: Addresses = ()
    server: Address | None = None
    domain: PrincipalWord
    certificates: tuple[Text, ...] = ()
    definitions: tuple[Text, ...] = ()


_KNOWN: Final = settings_of(_Written)


@dataclass(frozen=True, slots=True)
class Grant:
    """What an organisation grants a subject, with what it needs to use that; nothing is verified yet."""

    issued_by: str
    """The granting organisation's own name for itself: for people, never for files."""
    domain: Principal
    subject: Principal
    network: str
    coordinator: Owner
    brokers: tuple[str, ...]
    keys: tuple[str, ...]
    server: str | None
    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    definitions: tuple[SignedDefinition, ...] = field(repr=False)

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write the grant to a file, to be handed to its subject."""
        from maia.credentials import certificate_to_text
        from maia.types import definition_to_text

        file = Path(path)
        written = {
            "grant": self.issued_by,
            "domain": str(self.domain),
            "subject": str(self.subject),
            "network": self.network,
            "coordinator": str(self.coordinator),
            "brokers": self.brokers,
            "keys": self.keys,
            "server": self.server,
            "certificates": [certificate_to_text(one) for one in self.certificates],
            "definitions": [definition_to_text(one) for one in self.definitions],
        }
        try:
            with file.open("w" if overwrite else "x", encoding="utf-8") as output:
                output.write(toml_text(written))
        except FileExistsError:
            raise BadFile(f"`{file}` is already there; `--force` replaces it") from None
        except OSError as problem:
            raise BadFile(f"`{file}` cannot be written: {problem.strerror}") from problem
        return file


def read_grant(path: Path) -> Grant:
    """Read a grant; nothing of it is verified yet."""
    from maia.config.input_files import read_owner, read_principal
    from maia.credentials import certificate_from_text
    from maia.types import definition_from_text

    other = kind_of_file(read_text(path))
    if other not in (None, GRANT):
        raise BadInput("INPUT-GRANT-FILE", f"`{path}` is {other}; {GRANT} was expected")
    try:
        settings = from_file(path, _KNOWN)
    except BadConfig as problem:
        raise BadInput(
            "INPUT-GRANT-FILE", f"`{path}` is no grant of `maia grant`: {problem.message}"
        ) from problem
    for name in ("grant", "subject", "network", "coordinator", "domain"):
        if name not in settings:
            raise BadInput("INPUT-GRANT-FILE", f"`{path}` is no grant of `maia grant`: it has no `{name}`")
    written = build(_Written, _KNOWN, settings)
    if len(written.certificates) + len(written.definitions) > _ITEMS_MAX:
        raise BadInput(
            "INPUT-GRANT-FILE",
            f"`{path}` has more than the {_ITEMS_MAX} certificates and types that are read",
        )
    for name in ("subject", "domain"):
        if not getattr(written, name).startswith("ed25519:"):
            raise BadInput("INPUT-GRANT-FILE", f"`{path}`: `{name}` is a key, written out")
    if not written.coordinator.startswith(("ed25519:", "quorum:")):
        raise BadInput("INPUT-GRANT-FILE", f"`{path}`: `coordinator` is a key or a quorum, written out")
    return Grant(
        issued_by=written.grant,
        domain=read_principal(written.domain),
        subject=read_principal(written.subject),
        network=written.network,
        coordinator=read_owner(written.coordinator),
        brokers=written.brokers,
        keys=written.keys,
        server=written.server,
        certificates=tuple(map(certificate_from_text, written.certificates)),
        definitions=tuple(map(definition_from_text, written.definitions)),
    )
