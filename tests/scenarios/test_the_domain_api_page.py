"""The page on the HTTP interface, docs/domain-api.md: its example is run against a server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from maia.credentials import certificate_to_text
from maia.keystore.key_files import create_key_file
from support.domain_server import admin_certificate, domain_at_work, key_of

PAGE = Path(__file__).parents[2] / "docs" / "domain-api.md"


def test_the_example_of_the_page_works(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    for who in ("met", "desk", "smith"):
        create_key_file(tmp_path / f"{who}.key", key_of(who))
        (tmp_path / f"{who}.pub").write_text(str(key_of(who).principal))
    (tmp_path / "desk-certs").mkdir()
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with domain_at_work(data) as met:
        admin = admin_certificate(met.key, key_of("desk").principal)
        (tmp_path / "desk-certs" / "admin.cert").write_text(certificate_to_text(admin))
        assert "127.0.0.1:7600" in example
        program = example.replace("127.0.0.1:7600", met.address)
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str([str(key_of("smith").principal)])
