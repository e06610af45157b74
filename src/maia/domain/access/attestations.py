"""Which of this domain's routers have proved that they booted with approved software?

An administrator approves makers of TPMs and boots. A registered subject
enrols its TPM, opens a credential to prove that both of its keys are in that one
TPM, asks for a nonce and answers with a quote. While the quote counts, the
subject's identity statements have the level of its boot. A genuine quote of a
boot that is not approved takes the level away at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from maia.credentials import Principal
from maia.credentials.appointments import Argument
from maia.credentials.attestation import (
    Approved,
    Configuration,
    ScanResult,
    attestation_key_from_bytes,
    check_roots,
    make_credential,
    replay_log,
    verify_endorsement,
    verify_quote,
)
from maia.credentials.identity import (
    PROPERTY_PREFIX,
    SCAN_AT_ATTRIBUTE,
    SCAN_FINDINGS_ATTRIBUTE,
    attributes_from_bytes,
    attributes_to_bytes,
)
from maia.credentials.keys import same_secret
from maia.domain.access.core import AccessCore
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import MetaRow, ProvedRow, SubjectRow, TpmRow
from maia.errors import BrokenCredential, Refusal
from maia.events import SECOND, AttributeUid, Instant

NONCE_S: Final = 120
"""How long a nonce waits for its quote."""
_NOTHING: Final[Mapping[int, bytes]] = {}
_APPROVED: Final = "tpm-approved"


@dataclass(frozen=True, slots=True)
class ApprovedBoots:
    """What an administrator approved last, and the certificates (DER) of the makers of TPMs."""

    version: int
    approved: Approved
    roots: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Attested:
    """What a quote proved."""

    configuration: str
    level: int
    until: Instant
    is_rebooted: bool
    """Whether the machine has started anew since the quote before."""


class AccessAttestations(AccessCore):
    """Attestation at the identity provider of a domain."""

    def approve_boots(
        self, approved: Approved, roots: Sequence[bytes], *, actor: Principal, now: Instant
    ) -> ApprovedBoots:
        """Approve exactly these boots and makers; every router has to prove its boot again."""
        check_roots(roots)
        with self._begin(actor, now) as work:
            before = work.tables.get(MetaRow, _APPROVED)
            version = 1 if before is None else before.number + 1
            work.tables.put(MetaRow(_APPROVED, version, _to_bytes(approved, roots)))
            for rows in work.tables.every(TpmRow, TpmRow.c.level > 0, order=TpmRow.c.subject):
                work.tables.put(*(replace(row, level=0, configuration="", until=0) for row in rows))
            names = " ".join(f"{one.name}={one.level}" for one in approved.configurations[:16])
            digests = " ".join(sha256(one).hexdigest()[:16] for one in roots[:16])
            work.record("tpm.approve", version=version, boots=names, roots=digests)
            return ApprovedBoots(version, approved, tuple(roots))

    def approved_boots(self) -> ApprovedBoots | None:
        """Return what is approved; None: nothing is."""
        with self._store.reading() as tables:
            return _approved(tables)

    def enrol_tpm(
        self,
        subject: Principal,
        endorsement: bytes,
        intermediates: Sequence[bytes],
        key: bytes,
        *,
        now: Instant,
        secret: bytes,
        seed: bytes,
    ) -> bytes:
        """Return a credential that the TPM with this certificate opens for this attestation key.

        `secret` and `seed` are fresh random bytes. What was enrolled before counts no more.
        """
        with self._begin(subject, now) as work:
            if work.tables.get(SubjectRow, subject.key) is None:
                raise Refusal(
                    "REFUSED-NOT-REGISTERED",
                    "no subject is registered with your key; an administrator registers it",
                )
            boots = _approved(work.tables)
            verified = verify_endorsement(
                endorsement, intermediates, () if boots is None else boots.roots, now=now
            )
            attestation = attestation_key_from_bytes(key)
            self._check_unshared(work.tables, subject, verified.digest)
            challenge = sha256(secret).digest()
            work.tables.put(TpmRow(subject.key, verified.digest, key, challenge))
            return make_credential(verified, attestation, secret, seed=seed)

    def activate_tpm(self, subject: Principal, secret: bytes, *, now: Instant) -> None:
        """Bind the attestation key to the endorsed TPM, which has opened the credential."""
        with self._begin(subject, now) as work:
            row = work.tables.get(TpmRow, subject.key)
            if row is None or row.is_bound or not same_secret(row.challenge, sha256(secret).digest()):
                raise Refusal(
                    "REFUSED-TPM-NOT-ENROLLED",
                    "this is not the secret of a credential that was issued to you",
                )
            self._check_unshared(work.tables, subject, row.endorsement)
            work.tables.put(replace(row, is_bound=1, challenge=b""))
            work.record("tpm.enrol", subject=subject, endorsement=row.endorsement.hex()[:16])

    def expect_quote(
        self, subject: Principal, nonce: bytes, *, now: Instant
    ) -> tuple[tuple[int, ...], Instant]:
        """Expect a quote for a fresh random nonce; return over which registers, and until when."""
        with self._begin(subject, now) as work:
            row, boots = self._bound(work.tables, subject)
            until = Instant(now + NONCE_S * SECOND)
            work.tables.put(replace(row, nonce=nonce, nonce_until=int(until)))
            return boots.approved.quoted, until

    def attest(
        self,
        subject: Principal,
        quoted: bytes,
        signature: bytes,
        boot_log: bytes | Mapping[int, bytes],
        scan: bytes = b"",
        launched: Mapping[int, bytes] = _NOTHING,
        *,
        now: Instant,
    ) -> Attested:
        """Verify the quote that was expected of a subject; its level counts for a short time.

        What explains it is the event log of the boot, or the values of the registers; beside a log, those of
        the registers of a launch after it.

        A nonce is used up by the first quote that comes, whatever it is worth.
        """
        with self._begin(subject, now) as work:
            row, boots = self._bound(work.tables, subject)
            if not row.nonce or row.nonce_until < now:
                raise Refusal(
                    "REFUSED-TPM-NOT-ENROLLED",
                    "no quote is expected of you now: a nonce counts once, for two minutes",
                )
            work.tables.put(replace(row, nonce=b"", nonce_until=0))
        boot = verify_quote(
            quoted,
            signature,
            {**replay_log(boot_log), **launched} if isinstance(boot_log, bytes) and launched else boot_log,
            key=attestation_key_from_bytes(row.key),
            nonce=row.nonce,
            pcrs=boots.approved.quoted,
        )
        if (boot.resets, boot.clock_ms) < (row.resets, row.clock_ms):
            raise BrokenCredential(
                "CREDENTIAL-TPM-QUOTE", "the counters of the TPM have gone back since the quote before"
            )
        scanned = boots.approved.scanned(boot.values, scan)
        found = boots.approved.find(boot.values)
        proved = {} if found is None else _proved(found, scanned)
        with self._begin(subject, now) as work:
            until = Instant(now + self._settings.attested_s * SECOND)
            level = 0 if found is None else found.level
            name = "" if found is None else found.name
            kept = replace(
                row,
                nonce=b"",
                nonce_until=0,
                resets=boot.resets,
                clock_ms=boot.clock_ms,
                configuration=name,
                level=level,
                until=int(until),
            )
            work.tables.put(kept)
            work.tables.put(ProvedRow(subject.key, attributes_to_bytes(proved)))
            # A router that proves the same boot again leaves no record, or routers would fill the disk.
            if (row.configuration, row.level, row.resets) != (name, level, boot.resets):
                work.record("tpm.quote", subject=subject, boot=name or "not approved", level=level)
        if found is None:
            raise Refusal(
                "REFUSED-TPM-NOT-APPROVED",
                "the quote is genuine, and no approved configuration has these registers",
            )
        return Attested(name, level, until, row.resets not in (0, boot.resets))

    def _check_unshared(self, tables: Tables, subject: Principal, endorsement: bytes) -> None:
        """Raise if the TPM is bound to another subject; one that only claims it does not count."""
        shared = TpmRow.c.endorsement == endorsement, TpmRow.c.subject != subject.key, TpmRow.c.is_bound == 1
        if tables.count(TpmRow, *shared):
            raise BrokenCredential("CREDENTIAL-TPM-ENDORSEMENT", "this TPM is enrolled for another subject")

    def _bound(self, tables: Tables, subject: Principal) -> tuple[TpmRow, ApprovedBoots]:
        row, boots = tables.get(TpmRow, subject.key), _approved(tables)
        if row is None or not row.is_bound:
            raise Refusal("REFUSED-TPM-NOT-ENROLLED", "no TPM is enrolled for your key")
        if boots is None:
            raise Refusal("REFUSED-TPM-NOT-APPROVED", "this domain has approved no boots")
        return row, boots


def level_of(tables: Tables, subject: Principal, now: Instant) -> tuple[int, int]:
    """Return the level of a subject's boot, and until when it counts; 0 if none does for a second more."""
    row = tables.get(TpmRow, subject.key)
    if row is None or not row.level or row.until < now + SECOND:
        return 0, 0
    return row.level, row.until


def proved_of(tables: Tables, subject: Principal) -> dict[AttributeUid, Argument]:
    """Return what a subject's last quote proved beside its level; it counts as long as the level does."""
    row = tables.get(ProvedRow, subject.key)
    return {} if row is None else attributes_from_bytes(row.attributes)


def _proved(found: Configuration, scanned: ScanResult | None) -> dict[AttributeUid, Argument]:
    attributes: dict[AttributeUid, Argument] = {
        AttributeUid(PROPERTY_PREFIX + name): value for name, value in found.properties.items()
    }
    if scanned is not None:
        attributes |= {SCAN_AT_ATTRIBUTE: scanned.at, SCAN_FINDINGS_ATTRIBUTE: scanned.findings}
    return attributes


def _to_bytes(approved: Approved, roots: Sequence[bytes]) -> bytes:
    boots = [
        [
            one.name,
            one.level,
            {str(pcr): value.hex() for pcr, value in one.values.items()},
            attributes_to_bytes(one.properties).hex(),
        ]
        for one in approved.configurations
    ]
    return json.dumps([list(approved.pcrs), boots, [one.hex() for one in roots], approved.scan]).encode()


def _approved(tables: Tables) -> ApprovedBoots | None:
    row = tables.get(MetaRow, _APPROVED)
    if row is None:
        return None
    pcrs, boots, roots, *scan = json.loads(row.data)
    configurations = tuple(
        Configuration(
            name,
            level,
            {int(pcr): bytes.fromhex(one) for pcr, one in values.items()},
            *(attributes_from_bytes(bytes.fromhex(one)) for one in more),
        )
        for name, level, values, *more in boots
    )
    approved = Approved(tuple(pcrs), configurations, *scan)
    return ApprovedBoots(row.number, approved, tuple(bytes.fromhex(one) for one in roots))
