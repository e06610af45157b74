"""MQTT clients through a gateway, with TLS: docs/mqtt.md, command by command, with mosquitto's clients."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed")
def test_every_command_works_and_mosquitto_gets_what_its_account_may_see(tmp_path: Path) -> None:
    printed = follow("mqtt.md", tmp_path, ports=[7431, 7432])
    folder = tmp_path / "mqtt"
    assert THE_END in printed, printed[-4000:] + (folder / "gateway.log").read_text()[-2000:]
    assert (folder / "plates.txt").read_text().splitlines() == [
        'plates/Victoria {"plate":"AE05 XYZ"}',
        'plates/Soho {"plate":"BD51 SMR"}',
    ]
    assert (folder / "news.txt").read_text() == "1 news/uk rain stopped play\n"
    assert "All subscription requests were denied." in printed
    assert "refused, as it should be" in printed
