"""A TPM 2.0 in Python, as far as attestation needs one: for tests, and for demonstrations without a chip.

It was written from the specification, as the other side of
`maia.credentials.attestation`, and shares no code with it: it builds the structures
that the verifier takes apart, and opens the credentials that the verifier makes.
It protects nothing: its keys are in the memory of the process.
"""

from __future__ import annotations

import hmac
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import pack

from cryptography import x509
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from maia.credentials.keys import same_secret

ATTRIBUTES = 0x00050072  # fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, restricted, sign
EK_USAGE = x509.ObjectIdentifier("2.23.133.8.1")


def sized(data: bytes) -> bytes:
    """Return bytes with their length before them, as TPMs write them."""
    return pack(">H", len(data)) + data


class Maker:
    """A maker of TPMs: the root behind endorsement certificates."""

    def __init__(self, name: str = "Maker of TPMs") -> None:
        """Make a key, and a certificate that signs itself."""
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.root = self.certificate(self.key.public_key(), self.name, ca=True)

    def certificate(
        self,
        key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
        name: x509.Name,
        *,
        ca: bool = False,
        usage: x509.ObjectIdentifier | None = EK_USAGE,
        days: int = 3650,
    ) -> bytes:
        """Sign a certificate for a TPM's endorsement key, or for an authority."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=3650))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
        )
        if not ca and usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        signed = builder.sign(self.key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)


class SoftwareTpm:
    """One machine's TPM, with an endorsement key that its maker certified, and an attestation key."""

    def __init__(self, maker: Maker, *, is_rsa: bool = False, attributes: int = ATTRIBUTES) -> None:
        """Make a TPM whose registers are zero."""
        self.ek = rsa.generate_private_key(65537, 2048)
        self.certificate = maker.certificate(self.ek.public_key(), x509.Name([]))
        self.ak = rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
        self.area = self._area(attributes)
        self.name = b"\x00\x0b" + sha256(self.area).digest()
        self.clock, self.resets, self.restarts = 1000, 1, 0
        self.pcrs = registers()
        self._log = boot_log()

    @property
    def attestation_key(self) -> bytes:
        """Return the public part of the attestation key, a TPM2B_PUBLIC."""
        return sized(self.area)

    def _area(self, attributes: int) -> bytes:
        public = self.ak.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            modulus = public.public_numbers().n.to_bytes(256, "big")
            head = pack(">HHI", 0x0001, 0x000B, attributes) + sized(b"")
            return head + pack(">HHHHI", 0x0010, 0x0014, 0x000B, 2048, 0) + sized(modulus)
        point = public.public_numbers()
        head = pack(">HHI", 0x0023, 0x000B, attributes) + sized(b"")
        shape = pack(">HHHHH", 0x0010, 0x0018, 0x000B, 0x0003, 0x0010)
        return head + shape + sized(point.x.to_bytes(32, "big")) + sized(point.y.to_bytes(32, "big"))

    def boot(self, *events: tuple[int, bytes]) -> bytes:
        """Start the machine again: registers are reset, then extended; return the event log."""
        self.resets, self.clock = self.resets + 1, self.clock + 1000
        self.pcrs = registers(*events)
        self._log = boot_log(*events)
        return self._log

    def launch(self, code: bytes, result: bytes) -> bytes:
        """Launch code by a dynamic root of trust, which measures what it finds; return that."""
        self.pcrs |= launched(code, result)
        return result

    def log(self) -> bytes:
        """Return the event log of the last boot."""
        return self._log

    def registers(self, pcrs: tuple[int, ...]) -> dict[int, bytes]:
        """Return the values of registers."""
        return {pcr: self.pcrs[pcr] for pcr in pcrs}

    def activate(self, credential: bytes) -> bytes:
        """Open a credential, as TPM2_ActivateCredential does; raise if it is not for this TPM and key."""
        if credential[:8] != bytes.fromhex("badcc0de00000001"):
            raise ValueError("TPM_RC_STRUCTURE")
        size = int.from_bytes(credential[8:10], "big")
        blob, wrapped = credential[10 : 10 + size], credential[12 + size :]
        oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), b"IDENTITY\x00")
        seed = self.ek.decrypt(wrapped, oaep)
        check, hidden = blob[2:34], blob[34:]

        def derived(label: bytes, context: bytes, bits: int) -> bytes:
            return hmac.new(
                seed, pack(">I", 1) + label + b"\x00" + context + pack(">I", bits), "sha256"
            ).digest()[: bits // 8]

        expected = hmac.new(derived(b"INTEGRITY", b"", 256), hidden + self.name, "sha256").digest()
        if not same_secret(check, expected):
            raise ValueError("TPM_RC_INTEGRITY")
        decryptor = Cipher(algorithms.AES(derived(b"STORAGE", self.name, 128)), CFB(bytes(16))).decryptor()
        opened = decryptor.update(hidden) + decryptor.finalize()
        return opened[2 : 2 + int.from_bytes(opened[:2], "big")]

    def attested(
        self, nonce: bytes, pcrs: tuple[int, ...], *, magic: int = 0xFF544347, kind: int = 0x8018
    ) -> bytes:
        """Return a TPMS_ATTEST; `magic` and `kind` make one that is no quote."""
        chosen = sum(1 << pcr for pcr in pcrs).to_bytes(3, "little")
        digest = sha256(b"".join(self.pcrs[pcr] for pcr in sorted(pcrs))).digest()
        head = pack(">IH", magic, kind) + sized(self.name) + sized(nonce)
        clock = pack(">QIIBQ", self.clock, self.resets, self.restarts, 1, 7)
        return head + clock + pack(">IHB", 1, 0x000B, 3) + chosen + sized(digest)

    def sign(self, attested: bytes) -> bytes:
        """Return a TPMT_SIGNATURE by the attestation key."""
        if isinstance(self.ak, rsa.RSAPrivateKey):
            made = self.ak.sign(attested, padding.PKCS1v15(), hashes.SHA256())
            return pack(">HH", 0x0014, 0x000B) + sized(made)
        r, s = decode_dss_signature(self.ak.sign(attested, ec.ECDSA(hashes.SHA256())))
        return pack(">HH", 0x0018, 0x000B) + sized(r.to_bytes(32, "big")) + sized(s.to_bytes(32, "big"))

    def quote(self, nonce: bytes, pcrs: tuple[int, ...]) -> tuple[bytes, bytes]:
        """Return a quote and its signature."""
        self.clock += 10
        attested = self.attested(nonce, pcrs)
        return attested, self.sign(attested)


def boot_log(*events: tuple[int, bytes]) -> bytes:
    """Return a crypto-agile event log with a SHA-1 and a SHA-256 bank."""
    spec = (
        b"Spec ID Event03\x00"
        + pack("<IBBBB", 0, 0, 2, 0, 2)
        + pack("<IHHHH", 2, 4, 20, 0x000B, 32)
        + b"\x00"
    )
    log = pack("<II", 0, 3) + bytes(20) + pack("<I", len(spec)) + spec
    for pcr, measured in events:
        log += pack("<III", pcr, 0x80000001, 2) + pack("<H", 4) + bytes(20)
        log += pack("<H", 0x000B) + sha256(measured).digest() + pack("<I", len(measured)) + measured
    return log


def registers(*events: tuple[int, bytes]) -> dict[int, bytes]:
    """Return the registers after a boot with these events."""
    found = {pcr: b"\xff" * 32 if 17 <= pcr <= 22 else bytes(32) for pcr in range(24)}
    for pcr, measured in events:
        found[pcr] = sha256(found[pcr] + sha256(measured).digest()).digest()
    return found


def launched(code: bytes, result: bytes) -> dict[int, bytes]:
    """Return the dynamic registers after a launch: the code in 17, what it found in 18."""
    found = {pcr: bytes(32) for pcr in range(17, 23)}
    for pcr, measured in ((17, code), (18, result)):
        found[pcr] = sha256(bytes(32) + sha256(measured).digest()).digest()
    return found
