"""How does a router prove its boot with a TPM 2.0?

`prove_boot` plays a router's part: enrol the TPM once, fetch a nonce, quote, show
the quote. The TPM is anything with the methods of `Tpm`; `Tpm2Tools` is one
behind the commands of tpm2-tools: a chip (`device:/dev/tpmrm0`) or an emulator
(`swtpm:path=/run/router.sock`). The attestation key stays in a folder,
sealed by its TPM; contexts of the tools are made anew each time, because none
of them survives a reboot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from maia.api import endpoints
from maia.api.client import DomainClient
from maia.api.requests import ActivationBody, EnrolBody, QuoteBody
from maia.api.responses import AttestedAnswer, NonceAnswer
from maia.credentials.attestation import DYNAMIC_PCRS
from maia.errors import BadInput, MaiaError, Unavailable

BOOT_LOG: Final = Path("/sys/kernel/security/tpm0/binary_bios_measurements")
"""Where Linux shows the event log of the boot."""

_TOOLS: Final = (
    "tpm2_createek",
    "tpm2_create",
    "tpm2_load",
    "tpm2_nvread",
    "tpm2_startauthsession",
    "tpm2_policysecret",
    "tpm2_activatecredential",
    "tpm2_quote",
    "tpm2_pcrread",
    "tpm2_flushcontext",
)
_ENDORSEMENT: Final = "0x1c00002"
"""Where a TPM keeps the certificate of its RSA endorsement key."""
_ATTRIBUTES: Final = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|restricted|sign|noda"
"""An attestation key that power cuts do not lock: a TPM counts them as failed guesses of a password."""
_ADDRESS: Final = re.compile(r"(device|swtpm|mssim|tabrmd)(:[\w/.,=:+-]{0,240})?", re.ASCII)
_COMMAND_S: Final = 60.0
_LOG_BYTES_MAX: Final = 1 << 20


class Tpm(Protocol):
    """What a router needs of a TPM."""

    @property
    def certificate(self) -> bytes:
        """Return the endorsement certificate, in DER."""
        ...

    @property
    def attestation_key(self) -> bytes:
        """Return the public part of the attestation key, a TPM2B_PUBLIC; make the key if there is none."""
        ...

    def activate(self, credential: bytes) -> bytes:
        """Return what a credential for this TPM and its attestation key holds."""
        ...

    def quote(self, nonce: bytes, pcrs: tuple[int, ...]) -> tuple[bytes, bytes]:
        """Return a quote over registers of the SHA-256 bank, and its signature."""
        ...

    def log(self) -> bytes:
        """Return the event log of the boot; empty where the machine has none."""
        ...

    def registers(self, pcrs: tuple[int, ...]) -> Mapping[int, bytes]:
        """Return the values of registers of the SHA-256 bank."""
        ...


# ------------------------------------------------------------ the router's part


def enrol(client: DomainClient, tpm: Tpm, intermediates: Sequence[bytes] = ()) -> None:
    """Bind a TPM to the caller's key: the TPM opens the credential that the provider makes for it."""
    body = EnrolBody(tpm.certificate, tpm.attestation_key, list(intermediates))
    given = client.ask(endpoints.ENROL_TPM, body)
    client.ask(endpoints.ACTIVATE_TPM, ActivationBody(tpm.activate(given.credential)))


def prove_boot(
    client: DomainClient, tpm: Tpm, intermediates: Sequence[bytes] = (), scan: bytes = b""
) -> AttestedAnswer:
    """Prove the caller's boot to its provider; enrol the TPM first if the provider does not know it.

    `scan` is what a scanner found, which was launched by a dynamic root of trust and has measured it.
    """
    tpm.attestation_key  # noqa: B018 - a key that is made now has to be enrolled
    try:
        return _show_quote(client, tpm, client.ask(endpoints.TPM_NONCE), scan)
    except MaiaError as problem:
        # A quote by a key that is not enrolled: the folder is new, or the TPM is.
        if problem.code not in {"REFUSED-TPM-NOT-ENROLLED", "CREDENTIAL-TPM-QUOTE"}:
            raise
    enrol(client, tpm, intermediates)
    return _show_quote(client, tpm, client.ask(endpoints.TPM_NONCE), scan)


def _show_quote(client: DomainClient, tpm: Tpm, given: NonceAnswer, scan: bytes) -> AttestedAnswer:
    pcrs = tuple(given.pcrs)
    quoted, signature = tpm.quote(bytes.fromhex(given.nonce), pcrs)
    log = tpm.log()
    # The event log explains a static boot, and no launch after it.
    unexplained = tuple(pcr for pcr in pcrs if not log or pcr in DYNAMIC_PCRS)
    values = {str(pcr): one.hex() for pcr, one in tpm.registers(unexplained).items()} if unexplained else {}
    return client.ask(endpoints.TPM_QUOTE, QuoteBody(quoted, signature, log, values, scan))


# ------------------------------------------------------------ tpm2-tools


def missing_tools() -> list[str]:
    """Return the commands of tpm2-tools that are not installed here."""
    return [one for one in _TOOLS if shutil.which(one) is None]


class Tpm2Tools:
    """A TPM behind the commands of tpm2-tools."""

    def __init__(self, address: str, folder: Path, boot_log: Path | None = None) -> None:
        """Use the TPM at `address`; its attestation key is kept in `folder`, which is made if need be."""
        if _ADDRESS.fullmatch(address) is None:
            raise BadInput(
                "INPUT-TPM-ADDRESS",
                f"`{address[:80]}` is no TPM: name one like `device:/dev/tpmrm0` or `swtpm:path=/run/x.sock`",
            )
        if missing_tools():
            raise Unavailable(
                "UNAVAILABLE-TPM-TOOLS", f"`{missing_tools()[0]}` is not installed; it is one of tpm2-tools"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder.absolute()  # the commands run in folders of their own
        self._public, self._private = kept / "ak.pub", kept / "ak.priv"
        self._boot_log = boot_log
        self._environment = {**os.environ, "TPM2TOOLS_TCTI": address, "TSS2_LOG": "all+NONE"}
        # An emulator has no resource manager: what a command loaded stays until it is flushed.
        self._is_managed = not address.startswith(("swtpm", "mssim"))

    @property
    def certificate(self) -> bytes:
        """Return the endorsement certificate, in DER."""
        with TemporaryDirectory() as work:
            data = self._read(Path(work), "tpm2_nvread", _ENDORSEMENT, "-o", "ek.der", out="ek.der")
        # Cut what follows the end of a certificate: some TPMs reserve more room than it needs.
        if len(data) < 4 or data[:2] != b"\x30\x82":
            raise Unavailable("UNAVAILABLE-TPM", "the TPM has no endorsement certificate")
        return data[: 4 + int.from_bytes(data[2:4], "big")]

    @property
    def attestation_key(self) -> bytes:
        """Return the public part of the attestation key; make the key if there is none."""
        if not (self._public.exists() and self._private.exists()):
            with self._endorsement_key() as work, self._endorsement_session(work) as session:
                key = ("-G", "ecc:ecdsa-sha256:null", "-g", "sha256", "-a", _ATTRIBUTES)
                files = ("-C", "ek.ctx", "-u", "ak.pub", "-r", "ak.priv", "-P", session)
                self._run(work, "tpm2_create", *key, *files)
                for kept in (self._private, self._public):
                    kept.write_bytes((work / kept.name).read_bytes())
        return self._public.read_bytes()

    def activate(self, credential: bytes) -> bytes:
        """Return what a credential for this TPM and its attestation key holds."""
        with self._loaded_key() as work:
            (work / "credential").write_bytes(credential)
            with self._endorsement_session(work) as session:
                words = ("-c", "ak.ctx", "-C", "ek.ctx", "-i", "credential", "-o", "secret", "-P", session)
                return self._read(work, "tpm2_activatecredential", *words, out="secret")

    def quote(self, nonce: bytes, pcrs: tuple[int, ...]) -> tuple[bytes, bytes]:
        """Return a quote over registers of the SHA-256 bank, and its signature."""
        with self._loaded_key() as work:
            chosen = f"sha256:{','.join(map(str, pcrs))}"
            words = (
                "-c",
                "ak.ctx",
                "-l",
                chosen,
                "-q",
                nonce.hex(),
                "-g",
                "sha256",
                "-m",
                "msg",
                "-s",
                "sig",
            )
            self._run(work, "tpm2_quote", *words)
            return (work / "msg").read_bytes(), (work / "sig").read_bytes()

    def registers(self, pcrs: tuple[int, ...]) -> Mapping[int, bytes]:
        """Return the values of registers of the SHA-256 bank."""
        with TemporaryDirectory() as made:
            chosen = f"sha256:{','.join(map(str, pcrs))}"
            data = self._read(Path(made), "tpm2_pcrread", chosen, "-o", "values", out="values")
        if len(data) != 32 * len(pcrs):
            raise Unavailable("UNAVAILABLE-TPM", "the TPM has not all of the registers, in the SHA-256 bank")
        ordered = sorted(pcrs)
        return {pcr: data[32 * at : 32 * at + 32] for at, pcr in enumerate(ordered)}

    def log(self) -> bytes:
        """Return the event log of the boot; empty where the machine has none."""
        if self._boot_log is None:
            return b""
        try:
            with self._boot_log.open("rb") as opened:  # the kernel says no size for its files
                data = opened.read(_LOG_BYTES_MAX + 1)
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-TPM", f"the log `{self._boot_log}` cannot be read: {problem.strerror}"
            ) from None
        if len(data) > _LOG_BYTES_MAX:
            raise Unavailable(
                "UNAVAILABLE-TPM", f"the log `{self._boot_log}` has more than {_LOG_BYTES_MAX} bytes"
            )
        return data

    @contextmanager
    def _endorsement_key(self) -> Iterator[Path]:
        """Make the endorsement key, which is always the same one, in a folder of files for the tools."""
        with TemporaryDirectory() as made:
            work = Path(made)
            self._run(work, "tpm2_createek", "-c", "ek.ctx", "-G", "rsa", "-u", "ek.pub")
            yield work

    @contextmanager
    def _loaded_key(self) -> Iterator[Path]:
        self.attestation_key  # noqa: B018 - made if there is none
        with self._endorsement_key() as work, self._endorsement_session(work) as session:
            key = ("-u", str(self._public), "-r", str(self._private))
            self._run(work, "tpm2_load", "-C", "ek.ctx", *key, "-c", "ak.ctx", "-P", session)
            yield work

    @contextmanager
    def _endorsement_session(self, work: Path) -> Iterator[str]:
        """Open a session with the policy of endorsement keys: their owner agrees."""
        name = f"session{len(list(work.glob('session*')))}"
        self._run(work, "tpm2_startauthsession", "--policy-session", "-S", name)
        try:
            self._run(work, "tpm2_policysecret", "-S", name, "-c", "e")
            yield f"session:{name}"
        finally:
            self._run(work, "tpm2_flushcontext", name)

    def _run(self, work: Path, *command: str) -> None:
        try:
            done = subprocess.run(  # noqa: S603 - a command of tpm2-tools, with words of our own
                command,
                cwd=work,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(
                "UNAVAILABLE-TPM", f"the TPM did not answer `{command[0]}` within {_COMMAND_S:g} seconds"
            ) from None
        except OSError as problem:
            raise Unavailable(
                "UNAVAILABLE-TPM-TOOLS", f"`{command[0]}` cannot be run: {problem.strerror}"
            ) from None
        if done.returncode:
            lines = [one.strip() for one in done.stderr.decode(errors="replace").splitlines() if one.strip()]
            said = next((one for one in lines if "ERROR" in one), "it did not say why")
            raise Unavailable("UNAVAILABLE-TPM", f"`{command[0]}` failed: {said[:200]}")
        if not self._is_managed and command[0] != "tpm2_flushcontext":
            self._run(work, "tpm2_flushcontext", "-t")

    def _read(self, work: Path, *command: str, out: str) -> bytes:
        self._run(work, *command)
        return (work / out).read_bytes()
