"""What have all signed documents in common?

A signed document is a body, whose first word says what it is, and a signature over the bytes of that body
behind the word for its kind (`SignedKind`):

    (signed BODY (signature ed25519 BYTES))                  the body names its signer
    (signed BODY (signer KEY) (signature ed25519 BYTES))     the body does not

Certificates, statements and appointments have the first form, definitions, requests and epochs the second. A
`Document` is a kind of them: the part that declares its body, and what is made of it. It signs, writes and
reads. Reading checks the form only; what was signed is what was read, and whether the signature holds is
asked of `verify_signature`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar

from maia.canonical import Limits, SExpression, read_advanced, read_canonical, write_advanced, write_canonical
from maia.canonical.fields import Part, bare, choice, fields, octets, one, record
from maia.credentials.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    BadCertificate,
    Owner,
    Principal,
    QuorumId,
    SignedKind,
    SigningKey,
    principal_from_bytes,
    principal_from_expression,
    principal_to_expression,
)
from maia.credentials.names import TypeName, checked_label, checked_version, text_from_atom
from maia.errors import BadInput, BrokenCredential, MaiaError
from maia.events import SECOND, Instant

_OPENING: Final = b"(6:signed"
_SIGNATURE: Final = b"(9:signature7:ed2551964:"
_ENDING_BYTES: Final = len(_SIGNATURE) + SIGNATURE_BYTES + len(b"))")

Said = TypeVar("Said")


class Signed(Protocol):
    """Whatever a document is kept as."""

    @property
    def body(self) -> bytes:
        """Return the signed bytes."""

    @property
    def signature(self) -> bytes:
        """Return the signature over them."""


Kept = TypeVar("Kept", bound=Signed)


@dataclass(frozen=True)
class Document(Generic[Said, Kept]):
    """One kind of signed document."""

    part: Part[Said]
    called: str
    refusal: type[MaiaError]
    limits: Limits
    kind: Callable[[Said], SignedKind]
    keep: Callable[..., Kept]
    """Makes of what is said, the signed bytes, the signature and a signer what others are handed."""
    wraps: tuple[type[MaiaError], ...] = (BadInput, BadCertificate)
    """Problems of a part that are told as problems of the document."""
    names_signer: bool = False
    """Whether the signer is named beside the body, and not in it."""
    remembers: bool = False
    """Whether fields are remembered by their bytes: of documents that repeat each other."""

    def body(self, said: Said) -> bytes:
        """Return the bytes that a signature is over."""
        return write_canonical(self.part.write(said))

    def sign(self, said: Said, key: SigningKey, by: Principal | None = None) -> Kept:
        """Sign with the key of the issuer, if one is named; refuse what could not be read back."""
        if by not in (None, key.principal):
            raise BadInput(
                "INPUT-NOT-THE-ISSUER",
                f"the {self.called} is issued by `{by}`, and the key is `{key.principal}`",
            )
        signer = key.principal if self.names_signer else None
        try:
            body = self.body(said)
            understood, *_ = self._read(document_to_bytes(body, bytes(SIGNATURE_BYTES), signer))
        except self.wraps as problem:
            raise self._refusal("written", problem) from problem
        if understood != said:
            raise self.refusal(f"the {self.called} would not be read back as it was meant")
        proof = body, key.sign(self.kind(said), body)
        return self.keep(said, *proof) if signer is None else self.keep(said, *proof, signer)

    def to_bytes(self, signed: Kept) -> bytes:
        """Return the bytes in which a signed document travels; what was signed is what is sent."""
        signer = getattr(signed, "signer", None) if self.names_signer else None
        return document_to_bytes(signed.body, signed.signature, signer)

    def from_bytes(self, data: bytes) -> Kept:
        """Read a signed document, strictly. Its signature is not verified here."""
        known = self.from_known_parts(data) if self.remembers else None
        return self.read_in_full(data) if known is None else known

    def from_known_parts(self, data: bytes) -> Kept | None:
        """Do the same by parts that were read before; None where the full reader decides, and explains."""
        body, signature = framed(data)
        if self.part.cut is None or not body:
            return None
        try:
            return self.keep(self.part.cut(body), body, signature)
        except (BadInput, BrokenCredential):
            return None

    def read_in_full(self, data: bytes) -> Kept:
        """Do the same without the help of remembered parts: this is the definition."""
        try:
            said, body, *proof = self._read(data)
        except self.wraps as problem:
            raise self._refusal("read", problem) from problem
        # Belt and braces: every field was read strictly, so nothing but these bytes can mean this.
        if self.body(said) != body:
            raise self.refusal(f"the {self.called} is not written in its one canonical form")
        return self.keep(said, body, *proof)

    def said_by(self, body: bytes) -> Said:
        """Read the signed bytes alone, without what came beside them."""
        try:
            return self.part.read(read_canonical(body, self.limits))
        except self.wraps as problem:
            raise self._refusal("read", problem) from problem

    def read_again(self, signed: Kept) -> Kept:
        """Read the bytes once more, so that a copy with another content or id proves nothing."""
        understood = self.from_bytes(self.to_bytes(signed))
        if understood != signed:
            raise self.refusal(f"the parts of the {self.called} do not belong together")
        return understood

    def to_expression(self, signed: Kept) -> SExpression:
        """Return a signed document as an expression, to be embedded in another."""
        return read_canonical(self.to_bytes(signed), self.limits)

    def from_expression(self, expression: SExpression) -> Kept:
        """Read a signed document that was embedded in another expression."""
        return self.from_bytes(write_canonical(expression))

    def to_text(self, signed: Kept) -> str:
        """Return a signed document as people read it in a file; the signature is over the canonical form."""
        return write_advanced(self.to_expression(signed)) + "\n"

    def from_text(self, text: str) -> Kept:
        """Read a signed document from a file for people, as strictly as from bytes."""
        try:
            expression = read_advanced(text, self.limits)
        except BadInput as problem:
            raise self._refusal("read", problem) from problem
        return self.from_expression(expression)

    def _read(self, data: bytes) -> tuple[Any, ...]:
        """Return what is said, the signed bytes, the signature, and the signer if it is named."""
        match read_canonical(data, self.limits):
            case (b"signed", content, *signer, (b"signature", b"ed25519", bytes(signature))):
                pass
            case _:
                raise self._not_signed()
        if len(signature) != SIGNATURE_BYTES:
            raise BadCertificate(f"a signature has {SIGNATURE_BYTES} bytes, and {len(signature)} were given")
        match signer:
            case [] if not self.names_signer:
                return self.part.read(content), write_canonical(content), signature
            case [(b"signer", key)] if self.names_signer:
                return self.part.read(content), write_canonical(content), signature, KEY.read(key)
        raise self._not_signed()

    def _not_signed(self) -> BadCertificate:
        signer = "(signer KEY) " if self.names_signer else ""
        return BadCertificate(
            f"a signed document must be written `(signed BODY {signer}(signature ed25519 BYTES))`"
        )

    def _refusal(self, done: str, problem: MaiaError) -> MaiaError:
        if isinstance(problem, self.refusal):
            return problem
        return self.refusal(f"the {self.called} cannot be {done}: {problem.message}")


def document_to_bytes(body: bytes, signature: bytes, signer: Principal | None = None) -> bytes:
    """Return the bytes in which a signed document travels."""
    named = b"" if signer is None else b"(6:signer(7:ed2551932:%b))" % signer.key
    return b"".join((_OPENING, body, named, _SIGNATURE, signature, b"))"))


def framed(data: bytes) -> tuple[bytes, bytes]:
    """Return the body and the signature of a document as its frame has them; nothing is read."""
    end = len(data) - _ENDING_BYTES
    if not data.startswith(_OPENING) or not data.startswith(_SIGNATURE, end) or not data.endswith(b"))"):
        return b"", b""
    return data[len(_OPENING) : end], data[end + len(_SIGNATURE) : -2]


# ---------------------------------------------------------------- parts that many documents have


_KEY_OPENING: Final = b"(7:ed25519%d:" % KEY_BYTES


def _key_from_bytes(data: bytes) -> Principal:
    if not data.startswith(_KEY_OPENING) or not data.endswith(b")"):
        raise BadCertificate("a principal must be written `(ed25519 KEY)`")
    return principal_from_bytes(data[len(_KEY_OPENING) : -1])


_OWNER: Final = (BadCertificate, "a principal must be written `(ed25519 KEY)`")
_DIGEST: Final = octets(
    KEY_BYTES, KEY_BYTES, (BadCertificate, f"the digest of a quorum has {KEY_BYTES} bytes")
)
KEY: Final = Part(principal_to_expression, principal_from_expression, b"ed25519", _key_from_bytes)
OWNER: Final[Part[Owner]] = choice(
    _OWNER,
    {Principal: KEY, QuorumId: record(b"quorum", QuorumId, _OWNER, digest=bare(_DIGEST))},
)
LABEL: Final[Part[str]] = Part(
    lambda name: checked_label(name).encode(), lambda atom: checked_label(text_from_atom(atom))
)
VERSION: Final[Part[str]] = Part(
    lambda version: checked_version(version).encode(), lambda atom: checked_version(text_from_atom(atom))
)
TYPE_NAME: Final = fields(
    TypeName,
    (BadCertificate, "a type is named by `owner`, `name` and `version`"),
    owner=one(OWNER),
    name=one(LABEL),
    version=one(VERSION),
)


_DATE: Final = re.compile(
    rb"([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{6}))?"
)
_REMEMBERED_DATES: Final = 4096


def dates(error: type[MaiaError], sentence: str, *, is_fine: bool = False) -> Part[Instant]:
    """Declare an instant in the date form of RFC 2693: in whole seconds, or with six digits behind them."""

    @lru_cache(maxsize=_REMEMBERED_DATES)
    def write(instant: Instant) -> bytes:
        if instant % SECOND and not is_fine:
            raise error(f"`{instant}` has a fraction of a second, which a certificate cannot say")
        date = instant.to_datetime().replace(tzinfo=None)
        return date.isoformat(sep="_", timespec="microseconds" if is_fine else "seconds").encode("ascii")

    @lru_cache(maxsize=_REMEMBERED_DATES)
    def read(date: SExpression) -> Instant:
        found = _DATE.fullmatch(date) if isinstance(date, bytes) else None
        shown = date[:64].decode("ascii", "backslashreplace") if isinstance(date, bytes) else "(…"
        if found is None or (found[7] is not None) is not is_fine:
            raise error(f"`{shown}` is not {sentence}")
        year, month, day, hour, minute, second, fraction = map(int, found.groups(0))
        try:
            return Instant.from_datetime(
                datetime(year, month, day, hour, minute, second, fraction, tzinfo=UTC)
            )
        except ValueError:
            called = "moment" if is_fine else "date"
            raise error(f"`{shown}` is a {called} that does not exist") from None

    return Part(write, read)
