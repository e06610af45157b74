"""A command loads what it needs, and nothing that takes its time without being needed.

Each claim is asked of a fresh interpreter, by the modules that are loaded in it; no clock is read.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from maia.cli.table import COMMANDS
from maia.demo.numberplate import STORY

HEAVY = ("pyspark", "pandas", "pyarrow", "sqlalchemy", "uvicorn", "starlette", "matplotlib", "psycopg")
HEAVIER_THAN_HELP = (*HEAVY, "numpy", "httpx", "cryptography", "prometheus_client", "asyncio", "rich")

HELP_OF_EACH = """
import contextlib, io, json, sys
from maia.cli import main
asked = json.loads(sys.argv[1])
statuses = []
with contextlib.redirect_stdout(io.StringIO()):
    for words in asked["words"]:
        with contextlib.suppress(SystemExit):
            statuses.append(main(words))
print(json.dumps([statuses, [name for name in asked["heavy"] if name in sys.modules]]))
"""
IMPORTED = """
import importlib, json, sys
asked = json.loads(sys.argv[1])
importlib.import_module(asked["module"])
print(json.dumps([name for name in asked["heavy"] if name in sys.modules]))
"""


def told(script: str, **asked: object) -> list[object]:
    command = [sys.executable, "-c", script, json.dumps(asked)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_no_help_loads_what_only_work_needs() -> None:
    words = [["--help"], *([name, "--help"] for name in COMMANDS)]
    assert told(HELP_OF_EACH, words=words, heavy=HEAVIER_THAN_HELP) == [[0] * len(words), []]


def test_only_the_command_that_is_named_is_loaded() -> None:
    others = [f"maia.cli.{where.rpartition('.')[0]}" for name, where in COMMANDS.items() if name != "key"]
    assert told(HELP_OF_EACH, words=[["key", "--help"]], heavy=others) == [[0], []]


@pytest.mark.parametrize(
    ("module", "of_ours"),
    [
        ("maia", ("asyncio", "ssl", "msgspec", "cryptography", "maia.errors")),
        ("maia.client.api.client", ("maia.broker", "maia.routing", "maia.domain", "numpy")),
        ("maia.client.api.blocking_client", ("maia.broker", "maia.routing", "maia.domain", "numpy")),
        ("maia.domain.server.process", ("maia.broker", "maia.routing", "numpy")),
        ("maia.broker.server.process", ("maia.domain", "maia.client", "maia.spark")),
    ],
)
def test_a_process_does_not_load_what_others_do(module: str, of_ours: tuple[str, ...]) -> None:
    assert told(IMPORTED, module=module, heavy=[*HEAVY, *of_ours]) == []


PRESSED_WHILE_LOADING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins deaf to it
def press(event, told):
    if event == "import" and told[0] == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(press)
from maia.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "loading", ["typer", "pydantic", "maia.credentials", "maia.broker.node", "maia.client.session"]
)
def test_ctrl_c_in_the_first_moment_ends_in_one_line_and_leaves_no_process(loading: str) -> None:
    """By the time the client is loaded, a key server and a broker run already."""
    command = [sys.executable, "-c", PRESSED_WHILE_LOADING, loading, "demo"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as demo:
        out, err = demo.communicate(timeout=120)
    assert err == "maia: interrupted\n"
    assert out in {"", STORY.before}
    # Python ends by the signal itself if it came while generated code was run; a shell calls both 130.
    assert demo.returncode in {130, -signal.SIGINT}
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.pid, 0)
