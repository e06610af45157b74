"""A machine with an emulated TPM 2.0 (swtpm), for tests and demonstrations.

`swtpm_setup` makes the TPM with an endorsement certificate of a local authority;
`swtpm` runs it behind a socket; tpm2-tools use it like a chip. A boot switches
the TPM off and on and extends registers, as a firmware would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from maia.errors import Unavailable
from maia.keystore.tpm import Tpm2Tools, missing_tools
from maia.testing.software_tpm import boot_log

_START_S: Final = 20.0
_SETUP_S: Final = 120.0


def missing_emulator() -> list[str]:
    """Return the commands that are not installed here, of those that an emulated TPM needs."""
    needed = ("swtpm", "swtpm_setup", "swtpm_localca", "tpm2_pcrextend")
    return [one for one in needed if shutil.which(one) is None] + missing_tools()


class LocalAuthority:
    """The authority of swtpm_localca in a folder of its own: a maker of emulated TPMs."""

    def __init__(self, folder: Path) -> None:
        """Write the configuration; `swtpm_setup` makes the keys when it first needs them."""
        folder.mkdir(parents=True)
        self.config, self._certificate = folder / "setup.conf", folder / "issuercert.pem"
        names = {"statedir": folder, "signingkey": folder / "signkey.pem"}
        names |= {"issuercert": self._certificate, "certserial": folder / "certserial"}
        local, options = folder / "localca.conf", folder / "localca.options"
        local.write_text("".join(f"{name} = {value}\n" for name, value in names.items()), encoding="utf-8")
        options.write_text("", encoding="utf-8")
        self.config.write_text(
            f"create_certs_tool = {shutil.which('swtpm_localca')}\ncreate_certs_tool_config = {local}\n"
            f"create_certs_tool_options = {options}\nactive_pcr_banks = sha256\n",
            encoding="utf-8",
        )

    @property
    def certificate(self) -> bytes:
        """Return the certificate that is behind endorsement certificates, in DER."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        return x509.load_pem_x509_certificate(self._certificate.read_bytes()).public_bytes(Encoding.DER)


class EmulatedMachine:
    """One machine with an emulated TPM, and the event log of its last boot in a file."""

    def __init__(self, folder: Path, authority: LocalAuthority) -> None:
        """Make the TPM; `running` switches it on."""
        self._state, self._socket = folder / "tpm", folder / "tpm.sock"
        self._state.mkdir(parents=True)
        self.boot_log = folder / "boot.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        command = [
            "swtpm_setup",
            "--tpm2",
            "--tpmstate",
            str(self._state),
            "--create-ek-cert",
            "--lock-nvram",
        ]
        command += ["--config", str(authority.config), "--pcr-banks", "sha256", "--vmid", folder.name]
        done = subprocess.run(  # noqa: S603 - a command of swtpm, with words of our own
            command, capture_output=True, timeout=_SETUP_S, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise Unavailable("UNAVAILABLE-TPM-EMULATOR", f"`swtpm_setup` failed: {said[-1][:200]}")

    @property
    def address(self) -> str:
        """Return how tpm2-tools name this TPM."""
        return f"swtpm:path={self._socket}"

    @contextmanager
    def running(self) -> Iterator[Tpm2Tools]:
        """Keep the machine on while the body runs; `boot` is the first thing to do."""
        try:
            yield Tpm2Tools(self.address, self._folder / "keys", self.boot_log)
        finally:
            self.switch_off()

    def boot(self, *events: tuple[int, bytes]) -> bytes:
        """Switch the machine off and on, and measure what it starts; return the event log."""
        self.switch_off()
        self._switch_on()
        environment = {**os.environ, "TPM2TOOLS_TCTI": self.address, "TSS2_LOG": "all+NONE"}
        for pcr, measured in events:
            word = f"{pcr}:sha256={sha256(measured).hexdigest()}"
            subprocess.run(  # noqa: S603 - a command of tpm2-tools, with words of our own
                ("tpm2_pcrextend", word),  # noqa: S607
                env=environment, capture_output=True, timeout=_START_S, check=True,
            )  # fmt: skip
        log = boot_log(*events)
        self.boot_log.write_bytes(log)
        return log

    def _switch_on(self) -> None:
        for old in (self._socket, Path(f"{self._socket}.ctrl")):
            old.unlink(missing_ok=True)
        command = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self._state}"]
        command += ["--server", f"type=unixio,path={self._socket}"]
        command += ["--ctrl", f"type=unixio,path={self._socket}.ctrl"]
        self._process = subprocess.Popen(  # noqa: S603 - a command of swtpm, with words of our own
            [*command, "--flags", "not-need-init,startup-clear"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _START_S
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable("UNAVAILABLE-TPM-EMULATOR", "`swtpm` did not start")
            time.sleep(0.02)

    def switch_off(self) -> None:
        """Cut the machine's power."""
        if self._process is not None:
            self._process.kill()  # a machine that loses its power says nothing to its TPM
            self._process.wait(_START_S)
            self._process = None
