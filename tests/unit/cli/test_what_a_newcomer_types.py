"""What the command line says to a person who does not know it yet: sentences, and what was mixed up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import maia as package
from maia.spark.session import session as spark_session
from support.processes import Answer, maia

PYTHON = re.compile(
    r"\b[A-Za-z]\w*\(\w+=|\bb['\"]|\\x[0-9a-f]{2}|<[a-z_.]+ object|Instant\(|frozenset|'[^' ]*'"
)
"""What Python writes and no person does: constructors, bytes, objects, and strings in its own quotes."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A type, and certificates of several kinds for it."""
    folder = tmp_path_factory.mktemp("newcomer")
    for who in ("pito", "reader", "camera", "late"):
        assert maia("key", "new", f"{who}.key", cwd=folder).returncode == 0
    attributes = ("-a", "plate:string", "-a", "seen:timestamp", "-a", "place:string", "-a", "raw:bytes")
    defined = maia(
        "type", "define", "-k", "pito.key", "--name", "Sighting", *attributes, "-o", "s.type", cwd=folder
    )
    assert defined.returncode == 0, defined.stderr
    (folder / "certs").mkdir()
    for name, who, words in (
        ("read", "reader", ("subscribe", "--days", 2, "--attribute", "plate", "--where", 'place != "Soho"')),
        ("write", "camera", ("publish", "--days", 2, "--where", FORCED)),
        ("over", "late", ("subscribe", "--not-before", "unbounded", "--not-after", "2020-01-01T00:00:00Z")),
    ):
        issued = maia(
            "cert", "issue", "-k", "pito.key", "-d", "s.type", "--subject", f"{who}.pub", "--action", *words,
            "-o", f"certs/{name}.cert", cwd=folder,
        )  # fmt: skip
        assert issued.returncode == 0, issued.stderr
    return folder


FORCED = 'place == "Victoria" and seen == @2026-01-02T03:04:05Z and raw == x"ff00"'
QUESTIONS = {
    "permitted to read": ("reader", "subscribe", "-d", "s.type"),
    "permitted to write": ("camera", "publish", "-d", "s.type"),
    "another action": ("reader", "publish", "-d", "s.type"),
    "another person": ("camera", "subscribe", "-d", "s.type"),
    "too wide a filter": ("reader", "subscribe", "-d", "s.type", "--filter", 'place == "Soho"'),
    "expired": ("late", "subscribe", "-d", "s.type"),
    "a network": ("reader", "connect", "--network", "UK", "--coordinator", "pito.pub"),
}


def explained(home: Path, who: str, action: str, *words: str) -> Answer:
    return maia("explain", "--principal", f"{who}.pub", "--action", action, *words, "-c", "certs", cwd=home)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("audience", ["owner", "requester"])
def test_an_explanation_is_in_sentences_and_in_the_filter_language(
    home: Path, question: str, audience: str
) -> None:
    told = explained(home, *QUESTIONS[question], "--audience", audience)
    assert told.stdout, told.stderr
    assert not PYTHON.search(told.stdout), told.stdout
    as_json = explained(home, *QUESTIONS[question], "--audience", audience, "--json")
    sentences = [reason["sentence"] for reason in json.loads(as_json.stdout)["reasons"]]
    assert not PYTHON.search(" ".join(sentences))


def test_an_explanation_names_attributes_types_and_forced_values(home: Path) -> None:
    written = explained(home, "camera", "publish", "-d", "s.type").stdout
    assert 'forced     place = "Victoria"' in written
    assert "forced     seen = @2026-01-02T03:04:05Z" in written
    assert 'the value is always `x"ff00"` (attribute raw)' in written
    refused = explained(home, "reader", "publish", "-d", "s.type").stdout
    owner = (home / "pito.pub").read_text().strip()
    assert f"publish type `Sighting`, version 0, of `{owner}`; the nearest one fails" in refused


MIXED_UP = {
    "a public key to sign with": (
        ("-k", "pito.pub", "--subject", "reader.pub", "-d", "s.type"),
        "`pito.pub` is a public key; a secret key was expected [INPUT-KEY-FILE]",
    ),
    "a certificate to sign with": (
        ("-k", "certs/read.cert", "--subject", "reader.pub", "-d", "s.type"),
        "`certs/read.cert` is a certificate; a secret key was expected [INPUT-KEY-FILE]",
    ),
    "a secret key as the subject": (
        ("-k", "pito.key", "--subject", "reader.key", "-d", "s.type"),
        "`reader.key` is a secret key; a public key was expected [INPUT-FILE]",
    ),
    "a secret key as the type": (
        ("-k", "pito.key", "--subject", "reader.pub", "-d", "reader.key"),
        "`reader.key` is a secret key; a type definition was expected [INPUT-FILE]",
    ),
    "a type as the subject": (
        ("-k", "pito.key", "--subject", "s.type", "-d", "s.type"),
        "`s.type` is a type definition; a public key was expected [INPUT-FILE]",
    ),
}


@pytest.mark.parametrize("case", MIXED_UP)
def test_files_that_were_mixed_up_are_called_by_what_they_are_and_not_quoted(home: Path, case: str) -> None:
    words, sentence = MIXED_UP[case]
    told = maia("cert", "issue", *words, "--action", "subscribe", "--days", 1, "-o", "x.cert", cwd=home)
    assert told.stderr == f"maia: {sentence}\n"
    assert told.returncode == 2


def test_what_is_no_key_at_all_is_not_quoted_either(home: Path) -> None:
    (home / "notes.txt").write_text("my passphrase is correct horse\n")
    told = explained(home, "notes", "subscribe", "-d", "s.type")
    assert "there is no file" in told.stderr
    asked = ("explain", "--principal", "notes.txt", "--action", "subscribe", "-d", "s.type", "-c", "certs")
    told = maia(*asked, cwd=home)
    assert told.stderr.startswith("maia: `notes.txt` does not hold a public key")
    assert "horse" not in told.stderr


def test_a_secret_key_that_others_can_read_is_still_told_as_one_that_leaked(home: Path) -> None:
    (home / "open.key").write_text((home / "pito.key").read_text())
    told = maia("key", "show", "open.key", cwd=home)
    assert "CREDENTIAL-KEY-FILE-EXPOSED" in told.stderr


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing start Spark."""

    def started(*_words: object, **_options: object) -> object:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(spark_session, "spark_session", started)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", ["run", "explain", "verify"])
def test_a_column_that_is_missing_is_found_before_spark_starts(
    home: Path, command: str, tmp_path: Path
) -> None:
    made = maia("pipeline", "generate", "sightings", "city", "--rows", 10, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    told = maia("pipeline", command, "ticker", "--from", "city", cwd=tmp_path)
    assert "`ticker` needs the column `time` of type timestamp" in told.stderr
    assert "the table has `numberplate`" in told.stderr
    log = ("--log", "certs", "-d", "s.type", "-k", "reader.key", "--credentials", "certs")
    told = maia("pipeline", command, "billing", *log, cwd=home)
    assert "`billing` needs the column `numberplate` of type string" in told.stderr
    assert "the table has `plate`, `seen`, `place`, `raw`" in told.stderr
    assert told.returncode == 2


def test_dir_lists_the_public_names_and_loads_none_of_them() -> None:
    script = "import sys, maia; print(sorted(set(maia.__all__) - set(dir(maia))), 'asyncio' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "[] False\n"


def test_the_reference_covers_what_an_application_imports() -> None:
    asked = subprocess.run(["make", "-pn"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    (line,) = [one for one in asked.splitlines() if one.startswith("PUBLIC :=")]
    covered = set(line.split()[2:])
    offered = [getattr(package, name) for name in package.__all__ if name != "__version__"]
    homes = {one.__name__ if isinstance(one, ModuleType) else one.__module__ for one in offered}
    # The client that `connect` hands out is shown where it is imported from.
    assert homes - {"maia.client.api.connected_client"} <= covered
    assert {"maia.client", "maia.domain", "maia.api.client", "maia.spark.governed.table"} <= covered


ROOT = Path(__file__).parents[3]
