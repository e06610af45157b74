"""P8: a broker's certificates are renewed while it runs; what cannot be used changes nothing."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import maia as maia_api
from maia.config.input_files import read_certificates, read_principal
from maia.credentials import NetworkName
from maia.keystore.key_files import load_signing_key
from maia.testing import wait_until
from support.processes import maia, running_maia

NETWORK = "UK Police Network"


def test_new_certificates_are_shown_and_broken_ones_are_not_taken(tmp_path: Path) -> None:
    def run(*words: object) -> None:
        answer = maia(*words, cwd=tmp_path)
        assert answer.returncode == 0, answer.stderr

    def issue(who: str, name: str, days: int) -> None:
        run("cert", "issue", "-k", "pito.key", "--subject", f"{who}.pub", "--owner", "pito.pub", "--network",
            NETWORK, "--action", "connect", "--action", "broker", "--days", days,
            "-o", f"{who}-certs/{name}.cert")  # fmt: skip

    def seen(event: str) -> int:
        return len(re.findall(rf'"event": "{event}"', (tmp_path / "err.log").read_text()))

    for who in ("pito", "broker", "smith"):
        run("key", "new", f"{who}.key")
        (tmp_path / f"{who}-certs").mkdir()
    issue("broker", "old", 2)
    issue("smith", "connect", 2)
    network = NetworkName(read_principal(str(tmp_path / "pito.pub")), NETWORK)

    async def connects(address: str) -> bool:
        async with maia_api.connect(
            address,
            key=load_signing_key(tmp_path / "smith.key"),
            network=network,
            credentials=read_certificates([tmp_path / "smith-certs"]),
        ) as client:
            return client.broker is not None

    words = ("broker", "-k", "broker.key", "--network", NETWORK, "--coordinator", "pito.pub")
    with running_maia(
        *words, "--credentials", "broker-certs", "--listen", "127.0.0.1:0", "--data", "data", cwd=tmp_path
    ) as process:
        wait_until(lambda: "listening on" in (tmp_path / "out.log").read_text())
        address = re.findall(r"listening on (\S+)", (tmp_path / "out.log").read_text())[-1]
        issue("broker", "new", 5)
        (tmp_path / "broker-certs" / "old.cert").unlink()
        wait_until(lambda: seen("own-certificates") >= 1)
        assert asyncio.run(connects(address))
        (tmp_path / "half").write_text("(signed (cert")
        (tmp_path / "half").rename(tmp_path / "broker-certs" / "half.cert")  # seen once, as it is
        wait_until(lambda: seen("refused") == 1)
        (tmp_path / "broker-certs" / "half.cert").unlink()
        (tmp_path / "broker-certs" / "new.cert").unlink()
        wait_until(lambda: seen("refused") == 2)
        assert asyncio.run(connects(address)), "the last good ones are still shown"
        assert process.poll() is None
