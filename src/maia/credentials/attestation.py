"""Has this machine booted with approved software, as its TPM 2.0 says?

A router proves its boot to the identity provider (Gismo 5). Its endorsement
certificate leads to a root of a TPM's maker. A credential that only the TPM
with this endorsement key can open, and only for this attestation key, binds
the two (MakeCredential, TPM 2.0 part 1, 24). A quote, signed by the attestation
key over the provider's nonce, gives a digest of the registers (PCRs), and the
event log explains their values. All of it is verified here from bytes, without
a TPM library; structures are those of TPM 2.0 part 2, big-endian, and the log
is the crypto-agile one of the TCG PC Client profile, little-endian. The bank is
SHA-256, endorsement keys are RSA with the default template, attestation keys
are RSA or P-256.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import digest as hmac_digest
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from maia.credentials.appointments import Argument
from maia.errors import BadInput, BrokenCredential
from maia.events import AttributeUid, Instant

STRUCTURE_BYTES_MAX: Final = 2048
"""Bytes of a public area, a quote or its signature."""
CERTIFICATE_BYTES_MAX: Final = 8192
INTERMEDIATES_MAX: Final = 4
LOG_BYTES_MAX: Final = 1 << 20
LOG_EVENTS_MAX: Final = 4096
CONFIGURATIONS_MAX: Final = 256
NONCE_BYTES: Final = 32
SECRET_BYTES: Final = 32
STATIC_PCRS: Final = frozenset(range(16))
"""The registers of a static root of trust: they begin with zeros, and only a reboot resets them."""
DYNAMIC_PCRS: Final = frozenset(range(17, 23))
"""Those of a dynamic one (Gismo 5): the processor resets them to zeros when it launches measured code."""
NOT_LAUNCHED: Final = b"\xff" * 32
"""What a dynamic register holds since the boot if nothing was launched."""
SCANNER_PCR: Final = 17
"""The register that the processor measures the launched code into."""
SCAN_BYTES_MAX: Final = 4096
PROPERTIES_MAX: Final = 16

_RSA, _ECC, _SHA256, _NULL, _RSASSA, _ECDSA, _P256 = 0x0001, 0x0023, 0x000B, 0x0010, 0x0014, 0x0018, 0x0003
_NEEDED: Final = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 18
"""fixedTPM, fixedParent, sensitiveDataOrigin, restricted, sign."""
_DECRYPT: Final = 1 << 17
_GENERATED: Final = 0xFF544347
_QUOTE: Final = 0x8018
_NO_ACTION: Final = 3
_LOCALITY: Final = b"StartupLocality\x00"
_SPEC: Final = b"Spec ID Event03\x00"
_DIGEST_SIZES: Final = {0x0004: 20, _SHA256: 32, 0x000C: 48, 0x000D: 64, 0x0012: 32}
_FILE_HEADER: Final = bytes.fromhex("badcc0de00000001")
"""With which tpm2-tools begin a file with a credential."""
_EK_USAGE: Final = x509.ObjectIdentifier("2.23.133.8.1")
_CERTIFICATE_PROBLEMS: Final = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


# ------------------------------------------------------------ reading


class _Reader:
    """Reads fixed fields from bytes; every read past the end is an error."""

    def __init__(self, data: bytes, most: int, order: str = "big") -> None:
        if len(data) > most:
            raise BrokenCredential(
                "CREDENTIAL-TPM-STRUCTURE", f"a TPM structure or log has at most {most} bytes here"
            )
        self._data, self._at = data, 0
        self._big = order == "big"

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise BrokenCredential("CREDENTIAL-TPM-STRUCTURE", "a TPM structure or log ends too early")
        found, self._at = self._data[self._at : end], end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big" if self._big else "little")

    def sized(self) -> bytes:
        return self.take(self.number(2))

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def end(self) -> None:
        if not self.is_at_end:
            raise BrokenCredential("CREDENTIAL-TPM-STRUCTURE", "a TPM structure goes on after its end")


# ------------------------------------------------------------ keys


@dataclass(frozen=True, slots=True)
class EndorsementKey:
    """The key of a TPM whose certificate an approved root stands behind; `verify_endorsement` makes it."""

    key: rsa.RSAPublicKey
    digest: bytes
    """SHA-256 of the modulus: one TPM, one digest."""


@dataclass(frozen=True, slots=True)
class AttestationKey:
    """A restricted signing key inside a TPM; which TPM is proved by the credential only."""

    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    name: bytes
    """What the TPM calls it: its name algorithm and the digest of its public area."""


def verify_endorsement(
    certificate: bytes, intermediates: Sequence[bytes], roots: Sequence[bytes], *, now: Instant
) -> EndorsementKey:
    """Return the endorsement key of a certificate (DER) that leads to one of the roots."""
    if len(intermediates) > INTERMEDIATES_MAX:
        raise BrokenCredential(
            "CREDENTIAL-TPM-ENDORSEMENT", f"at most {INTERMEDIATES_MAX} certificates lead to a root"
        )
    found = _certificate(certificate)
    try:
        usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        if _EK_USAGE not in usage:
            raise BrokenCredential(
                "CREDENTIAL-TPM-ENDORSEMENT", "the certificate is not for an endorsement key"
            )
        constraints = [one for one in found.extensions if isinstance(one.value, x509.BasicConstraints)]
        if any(one.value.ca for one in constraints):
            raise BrokenCredential(
                "CREDENTIAL-TPM-ENDORSEMENT", "the certificate is of an authority, and not of a TPM"
            )
        key = found.public_key()
    except _CERTIFICATE_PROBLEMS:
        raise BrokenCredential(
            "CREDENTIAL-TPM-ENDORSEMENT", "the certificate is not for an endorsement key"
        ) from None
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size != 2048:
        raise BrokenCredential(
            "CREDENTIAL-TPM-ENDORSEMENT",
            "the endorsement key is not RSA with 2048 bits, the only kind read here",
        )
    trusted = [_certificate(one) for one in roots]
    others, last = [_certificate(one) for one in intermediates], found
    _check_period(found, now)
    for _ in range(len(others) + 1):
        if any(_is_issuer(root, last, now) for root in trusted):
            return EndorsementKey(key, sha256(key.public_numbers().n.to_bytes(256, "big")).digest())
        issuer = next((one for one in others if _is_issuer(one, last, now)), None)
        if issuer is None:
            break
        last = issuer
    raise BrokenCredential(
        "CREDENTIAL-TPM-ENDORSEMENT", "the endorsement certificate does not lead to an approved root"
    )


def _certificate(data: bytes) -> x509.Certificate:
    if len(data) > CERTIFICATE_BYTES_MAX:
        raise BrokenCredential(
            "CREDENTIAL-TPM-ENDORSEMENT", f"a certificate has at most {CERTIFICATE_BYTES_MAX} bytes here"
        )
    try:
        return x509.load_der_x509_certificate(data)
    except _CERTIFICATE_PROBLEMS:
        raise BrokenCredential(
            "CREDENTIAL-TPM-ENDORSEMENT", "a certificate cannot be read; certificates are given in DER"
        ) from None


def _check_period(certificate: x509.Certificate, now: Instant) -> None:
    moment = now.to_datetime()
    try:
        is_in_force = certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc
    except _CERTIFICATE_PROBLEMS:  # years that no calendar here has
        is_in_force = False
    if not is_in_force:
        raise BrokenCredential(
            "CREDENTIAL-TPM-ENDORSEMENT", "a certificate on the way to the root is not in force"
        )


def _is_issuer(issuer: x509.Certificate, certificate: x509.Certificate, now: Instant) -> bool:
    try:
        is_authority = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        certificate.verify_directly_issued_by(issuer)
    except _CERTIFICATE_PROBLEMS:
        return False
    _check_period(issuer, now)
    return is_authority


def attestation_key_from_bytes(data: bytes) -> AttestationKey:
    """Read a TPM2B_PUBLIC, strictly; refuse a key that could sign something that is no quote."""
    outer = _Reader(data, STRUCTURE_BYTES_MAX)
    area = outer.sized()
    outer.end()
    reader = _Reader(area, STRUCTURE_BYTES_MAX)
    kind, name_alg, attributes = reader.number(2), reader.number(2), reader.number(4)
    reader.sized()  # the policy that its use wants
    if name_alg != _SHA256:
        raise BrokenCredential("CREDENTIAL-TPM-KEY", "an attestation key is named by SHA-256 here")
    if attributes & _NEEDED != _NEEDED or attributes & _DECRYPT:
        raise BrokenCredential(
            "CREDENTIAL-TPM-KEY",
            "an attestation key is restricted, signs and does not decrypt, and was made in a TPM that it "
            "cannot leave",
        )
    symmetric, scheme = reader.number(2), reader.number(2)
    if symmetric != _NULL or scheme != {_RSA: _RSASSA, _ECC: _ECDSA}.get(kind) or reader.number(2) != _SHA256:
        raise BrokenCredential(
            "CREDENTIAL-TPM-KEY", "an attestation key signs with RSASSA or ECDSA, and SHA-256"
        )
    key = _rsa_key(reader) if kind == _RSA else _p256_key(reader)
    reader.end()
    return AttestationKey(key, _SHA256.to_bytes(2, "big") + sha256(area).digest())


def _rsa_key(reader: _Reader) -> rsa.RSAPublicKey:
    bits, exponent, modulus = reader.number(2), reader.number(4), reader.sized()
    if bits not in (2048, 3072, 4096) or len(modulus) * 8 != bits or not modulus[0] & 0x80:
        raise BrokenCredential("CREDENTIAL-TPM-KEY", "an RSA key has 2048, 3072 or 4096 bits")
    try:
        return rsa.RSAPublicNumbers(exponent or 65537, int.from_bytes(modulus, "big")).public_key()
    except ValueError:
        raise BrokenCredential("CREDENTIAL-TPM-KEY", "the numbers of the RSA key make no key") from None


def _p256_key(reader: _Reader) -> ec.EllipticCurvePublicKey:
    curve, derivation = reader.number(2), reader.number(2)
    x, y = (int.from_bytes(reader.sized(), "big") for _ in range(2))
    if curve != _P256 or derivation != _NULL:
        raise BrokenCredential("CREDENTIAL-TPM-KEY", "an elliptic-curve key is on P-256")
    try:
        return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    except ValueError:
        raise BrokenCredential("CREDENTIAL-TPM-KEY", "the point of the key is not on its curve") from None


# ------------------------------------------------------------ the credential that binds both keys


def make_credential(
    endorsement: EndorsementKey, attestation: AttestationKey, secret: bytes, *, seed: bytes
) -> bytes:
    """Return `secret` so that only this TPM opens it, and only for this attestation key.

    The bytes are a file that `tpm2_activatecredential` reads. `secret` and `seed` are fresh and random.
    """
    symmetric = _kdfa(seed, b"STORAGE", attestation.name, 128)
    encryptor = Cipher(algorithms.AES(symmetric), CFB(bytes(16))).encryptor()
    hidden = encryptor.update(len(secret).to_bytes(2, "big") + secret) + encryptor.finalize()
    check = hmac_digest(_kdfa(seed, b"INTEGRITY", b"", 256), hidden + attestation.name, "sha256")
    blob = len(check).to_bytes(2, "big") + check + hidden
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), b"IDENTITY\x00")
    wrapped = endorsement.key.encrypt(seed, oaep)
    parts = (len(blob).to_bytes(2, "big"), blob, len(wrapped).to_bytes(2, "big"), wrapped)
    return _FILE_HEADER + b"".join(parts)


def _kdfa(key: bytes, label: bytes, context: bytes, bits: int) -> bytes:
    """Derive at most one digest's bits, as TPM 2.0 part 1, 11.4.10.2 says."""
    message = b"\x00\x00\x00\x01" + label + b"\x00" + context + bits.to_bytes(4, "big")
    return hmac_digest(key, message, "sha256")[: bits // 8]


# ------------------------------------------------------------ quotes, logs, configurations


@dataclass(frozen=True, slots=True)
class Configuration:
    """The values of the registers after a boot that an administrator approved, and what it is worth."""

    name: str
    level: int
    values: Mapping[int, bytes]
    properties: Mapping[AttributeUid, Argument] = field(default_factory=dict)
    """What the administrator says of such a machine; in its statements as `property-NAME`."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a scanner found, which the processor launched and measured: when, and how much."""

    at: Instant
    findings: int


@dataclass(frozen=True, slots=True)
class Approved:
    """The registers that are asked for, and the approved values of them.

    `scan` is the register into which the approved code in register 17 puts the digest of what it found.
    """

    pcrs: tuple[int, ...]
    configurations: tuple[Configuration, ...]
    scan: int | None = None

    def __post_init__(self) -> None:
        """Refuse a list that is ambiguous or that no quote could meet."""
        if (
            not self.pcrs
            or list(self.pcrs) != sorted(set(self.pcrs))
            or not set(self.pcrs) <= STATIC_PCRS | DYNAMIC_PCRS
        ):
            raise BadInput(
                "INPUT-TPM-APPROVED", "`pcrs` are registers from 0 to 15 and 17 to 22, each once, in order"
            )
        if self.scan is not None and (
            self.scan not in DYNAMIC_PCRS or self.scan in self.pcrs or SCANNER_PCR not in self.pcrs
        ):
            raise BadInput(
                "INPUT-TPM-APPROVED",
                "`scan` is a register from 18 to 22 that is not among `pcrs`, and 17, the scanner's, is",
            )
        if len(self.configurations) > CONFIGURATIONS_MAX:
            raise BadInput("INPUT-TPM-APPROVED", f"there are at most {CONFIGURATIONS_MAX} configurations")
        seen: set[tuple[bytes, ...]] = set()
        for one in self.configurations:
            if not 1 <= one.level <= 255 or not 1 <= len(one.name) <= 128 or not one.name.isprintable():
                raise BadInput(
                    "INPUT-TPM-APPROVED",
                    "a configuration has a name of 1 to 128 characters, and a level of 1 to 255",
                )
            if tuple(sorted(one.values)) != self.pcrs or any(len(v) != 32 for v in one.values.values()):
                raise BadInput(
                    "INPUT-TPM-APPROVED",
                    f"the configuration `{one.name}` gives 64 hexadecimal digits for each register",
                )
            if any(one.values[pcr] == NOT_LAUNCHED for pcr in DYNAMIC_PCRS & set(self.pcrs)):
                raise BadInput(
                    "INPUT-TPM-APPROVED",
                    f"in `{one.name}` nothing was launched: a dynamic register is all ones",
                )
            if len(one.properties) > PROPERTIES_MAX:
                raise BadInput(
                    "INPUT-TPM-APPROVED", f"a configuration has at most {PROPERTIES_MAX} properties"
                )
            values = tuple(one.values[pcr] for pcr in self.pcrs)
            if values in seen:
                raise BadInput("INPUT-TPM-APPROVED", f"two configurations have the values of `{one.name}`")
            seen.add(values)

    @property
    def quoted(self) -> tuple[int, ...]:
        """Return the registers that a quote has to be over."""
        return self.pcrs if self.scan is None else tuple(sorted((*self.pcrs, self.scan)))

    def scanned(self, values: Mapping[int, bytes], result: bytes) -> ScanResult | None:
        """Return what the launched scanner found, whose digest is quoted; None where none is asked for."""
        if self.scan is None:
            return None
        if (
            len(result) > SCAN_BYTES_MAX
            or values[self.scan] != sha256(bytes(32) + sha256(result).digest()).digest()
        ):
            raise BrokenCredential(
                "CREDENTIAL-TPM-SCAN", "the scan result is not the one that the launched scanner has measured"
            )
        try:
            said = json.loads(result)
            return ScanResult(Instant.parse(said["at"]), int(said["findings"]))
        except (ValueError, TypeError, KeyError, RecursionError, BadInput):
            raise BrokenCredential(
                "CREDENTIAL-TPM-SCAN", 'a scan result is written {"at": MOMENT, "findings": NUMBER}'
            ) from None

    def find(self, values: Mapping[int, bytes]) -> Configuration | None:
        """Return the configuration with exactly these values."""
        wanted = {pcr: values[pcr] for pcr in self.pcrs}
        return next((one for one in self.configurations if dict(one.values) == wanted), None)


@dataclass(frozen=True, slots=True)
class QuotedBoot:
    """What a genuine quote says: the registers, and the counters of the TPM at that moment."""

    values: Mapping[int, bytes]
    clock_ms: int
    resets: int
    """How often the TPM was reset: each boot counts."""
    restarts: int


def verify_quote(
    quoted: bytes,
    signature: bytes,
    log: bytes | Mapping[int, bytes],
    *,
    key: AttestationKey,
    nonce: bytes,
    pcrs: Sequence[int],
) -> QuotedBoot:
    """Return the registers of a quote that this key signed for this nonce, as the log explains them.

    A machine without an event log gives the values of the registers in its place.
    """
    _check_signature(key, quoted, signature)
    reader = _Reader(quoted, STRUCTURE_BYTES_MAX)
    if reader.number(4) != _GENERATED or reader.number(2) != _QUOTE:
        raise BrokenCredential("CREDENTIAL-TPM-QUOTE", "what was signed is not a quote that a TPM made")
    reader.sized()  # the qualified name of the signer: the signature itself says which key it was
    if len(nonce) != NONCE_BYTES or reader.sized() != nonce:
        raise BrokenCredential("CREDENTIAL-TPM-QUOTE", "the quote is not for the nonce of this provider")
    clock, resets, restarts = reader.number(8), reader.number(4), reader.number(4)
    reader.take(1 + 8)  # whether the clock is safe, and the firmware's version
    wanted = b"".join(
        sum(1 << pcr % 8 for pcr in pcrs if pcr // 8 == byte).to_bytes(1, "big") for byte in range(3)
    )
    if (reader.number(4), reader.number(2)) != (1, _SHA256) or reader.take(reader.number(1)) != wanted:
        raise BrokenCredential(
            "CREDENTIAL-TPM-QUOTE",
            "the quote is not over the registers that the provider asks for, in the SHA-256 bank",
        )
    digest = reader.sized()
    reader.end()
    values = replay_log(log) if isinstance(log, bytes) else log
    chosen = {pcr: values.get(pcr, NOT_LAUNCHED if pcr in DYNAMIC_PCRS else bytes(32)) for pcr in pcrs}
    if any(len(value) != 32 for value in chosen.values()):
        raise BrokenCredential("CREDENTIAL-TPM-STRUCTURE", "a register of the SHA-256 bank has 32 bytes")
    if sha256(b"".join(chosen[pcr] for pcr in sorted(chosen))).digest() != digest:
        raise BrokenCredential(
            "CREDENTIAL-TPM-LOG", "the event log does not lead to the quoted values of the registers"
        )
    return QuotedBoot(chosen, clock, resets, restarts)


def _check_signature(key: AttestationKey, quoted: bytes, signature: bytes) -> None:
    reader = _Reader(signature, STRUCTURE_BYTES_MAX)
    scheme, hashed = reader.number(2), reader.number(2)
    is_rsa = isinstance(key.key, rsa.RSAPublicKey)
    if hashed != _SHA256 or scheme != (_RSASSA if is_rsa else _ECDSA):
        raise BrokenCredential(
            "CREDENTIAL-TPM-QUOTE", "the quote is signed in another way than its key signs"
        )
    try:
        if isinstance(key.key, rsa.RSAPublicKey):
            octets = reader.sized()
            reader.end()
            key.key.verify(octets, quoted, padding.PKCS1v15(), hashes.SHA256())
        else:
            r, s = (int.from_bytes(reader.sized(), "big") for _ in range(2))
            reader.end()
            key.key.verify(encode_dss_signature(r, s), quoted, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        raise BrokenCredential(
            "CREDENTIAL-TPM-QUOTE", "the quote was not signed by the attestation key of this subject"
        ) from None


def replay_log(log: bytes) -> dict[int, bytes]:
    """Return the SHA-256 registers to which a crypto-agile event log leads."""
    reader = _Reader(log, LOG_BYTES_MAX, "little")
    sizes = _spec_id(reader)
    found: dict[int, bytes] = {}
    for _ in range(LOG_EVENTS_MAX):
        if reader.is_at_end:
            return found
        pcr, kind, count = reader.number(4), reader.number(4), reader.number(4)
        if pcr > 23 or count > len(sizes):
            raise BrokenCredential(
                "CREDENTIAL-TPM-STRUCTURE", "an entry of the event log names no register, or too many digests"
            )
        digests: dict[int, bytes] = {}
        for _digest in range(count):
            algorithm = reader.number(2)
            if algorithm not in sizes or algorithm in digests:
                raise BrokenCredential(
                    "CREDENTIAL-TPM-STRUCTURE",
                    "an entry of the event log has a digest that its header does not name",
                )
            digests[algorithm] = reader.take(sizes[algorithm])
        event = reader.take(reader.number(4))
        if kind == _NO_ACTION:
            if pcr == 0 and event.startswith(_LOCALITY) and len(event) == len(_LOCALITY) + 1 and not found:
                found[0] = bytes(31) + event[-1:]
            continue
        if _SHA256 not in digests:
            raise BrokenCredential(
                "CREDENTIAL-TPM-STRUCTURE", "an entry of the event log has no SHA-256 digest"
            )
        found[pcr] = sha256(found.get(pcr, bytes(32)) + digests[_SHA256]).digest()
    if reader.is_at_end:
        return found
    raise BrokenCredential(
        "CREDENTIAL-TPM-STRUCTURE", f"an event log has at most {LOG_EVENTS_MAX} entries here"
    )


def _spec_id(reader: _Reader) -> dict[int, int]:
    """Read the first entry of a log, in the old form, and return the sizes of the digests that follow."""
    if (reader.number(4), reader.number(4)) != (0, _NO_ACTION):
        raise BrokenCredential(
            "CREDENTIAL-TPM-STRUCTURE", "the event log is not a crypto-agile one: its first entry is another"
        )
    reader.take(20)
    event = _Reader(reader.take(reader.number(4)), 4096, "little")
    if event.take(16) != _SPEC:
        raise BrokenCredential(
            "CREDENTIAL-TPM-STRUCTURE", "the event log is not a crypto-agile one: its first entry is another"
        )
    event.take(8)  # the class of the platform, and the version of the profile
    count = event.number(4)
    if not 1 <= count <= len(_DIGEST_SIZES):
        raise BrokenCredential(
            "CREDENTIAL-TPM-STRUCTURE", "the header of the event log names no algorithms, or too many"
        )
    sizes = {event.number(2): event.number(2) for _ in range(count)}
    if any(_DIGEST_SIZES.get(one) != size for one, size in sizes.items()) or _SHA256 not in sizes:
        raise BrokenCredential(
            "CREDENTIAL-TPM-STRUCTURE",
            "the event log has no SHA-256 digests, or digests of unknown algorithms",
        )
    event.take(event.number(1))
    event.end()
    return sizes


def check_roots(roots: Iterable[bytes]) -> None:
    """Raise unless each of these is a certificate of an authority."""
    for one in roots:
        try:
            is_authority = (
                _certificate(one).extensions.get_extension_for_class(x509.BasicConstraints).value.ca
            )
        except _CERTIFICATE_PROBLEMS:
            is_authority = False
        if not is_authority:
            raise BadInput("INPUT-TPM-APPROVED", "a root is the certificate of an authority")
