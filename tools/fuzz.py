"""Which bytes make a reader of foreign bytes fail with anything but an error of ours?

    make fuzz MINUTES=10            every target of tests/support/fuzz_targets.py, one after the other
    make fuzz TARGETS="wire mqtt"   some of them

A coverage-guided search (libFuzzer, by way of `atheris`). It begins with the vectors and with what earlier
searches kept (`tests/vectors/fuzz`), and goes on in `.build/fuzz/corpus`. Bytes that fail are written to
`.build/fuzz/found`, and the exit status is 1. `--keep` writes the smallest inputs that reached something new
to `tests/vectors/fuzz`, up to a size. Where there is no wheel of `atheris`, nothing is searched; the suite
tries what was kept without it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from base64 import b64encode
from contextlib import redirect_stderr
from hashlib import sha256
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD: Final = ROOT / ".build" / "fuzz"
_KEPT_BYTES_MAX: Final = 18_000
"""Of each target, as written."""
_INPUT_BYTES_MAX: Final = 4096
_NEW: Final = re.compile(r"[0-9a-f]{40}")
"""How libFuzzer names what it adds."""


def main() -> int:
    """Search every target for its share of the time."""
    parser = argparse.ArgumentParser(description="Search for bytes that a reader fails at.")
    parser.add_argument("targets", nargs="*", help="names of targets; default: all")
    parser.add_argument("--minutes", type=float, default=10, help="for all of them together")
    parser.add_argument("--keep", action="store_true", help="keep what reached something new")
    asked = parser.parse_args()
    sys.path[:0] = [str(BUILD / "packages"), str(ROOT / "tests")]
    try:
        atheris = import_module("atheris")
    except ImportError as problem:
        print(f"nothing was searched: `atheris` cannot be imported here ({problem})")
        return 0
    with redirect_stderr(StringIO()), atheris.instrument_imports(include=["maia"]):  # a line for each module
        fuzz_targets = import_module("support.fuzz_targets")
    known = fuzz_targets.TARGETS
    names = asked.targets or list(known)
    if unknown := set(names) - known.keys():
        print(f"no such target: {' '.join(sorted(unknown))}; there are {' '.join(known)}", file=sys.stderr)
        return 2
    seconds = 60 * asked.minutes / len(names)
    failed = [name for name in names if not _searched(atheris, fuzz_targets, name, seconds)]
    if asked.keep:
        for name in names:
            _keep(fuzz_targets.KEPT / f"{name}.txt", BUILD / "corpus" / name)
    return 1 if failed else 0


def _searched(atheris: ModuleType, targets: ModuleType, name: str, seconds: float) -> bool:
    """Search one target in a process of its own, and say in a line what came of it."""
    corpus, found, log = BUILD / "corpus" / name, BUILD / "found", BUILD / f"{name}.log"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-max_total_time={max(1, round(seconds))}", f"-max_len={_INPUT_BYTES_MAX}", "-timeout=10"]
    words = [name, *limits, "-rss_limit_mb=2048", f"-artifact_prefix={found}/{name}-", str(corpus)]
    child = os.fork()  # what was instrumented once serves all; no thread of Arrow has begun before this
    if child == 0:
        for data in (*targets.kept(name), *targets.seeds(name)):
            if len(data) <= _INPUT_BYTES_MAX:
                (corpus / sha256(data).hexdigest()[:20]).write_bytes(data)
        with log.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        atheris.Setup(words, targets.TARGETS[name][0])
        atheris.Fuzz()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    said = log.read_text(errors="replace")
    numbers = re.findall(r"^(?:#|Done )(\d+)", said, re.MULTILINE)
    covered = re.findall(r"cov: (\d+)", said)
    print(
        f"{name}: {max(map(int, numbers), default=0)} executions, {covered[-1] if covered else 0} places,"
        f" {len(list(corpus.iterdir()))} inputs, {'failed' if status else 'nothing found'}",
        flush=True,
    )
    if status:
        print(said[-3000:], file=sys.stderr)
    return status == 0


def _keep(file: Path, corpus: Path) -> None:
    """Keep what was kept before, what failed, and the smallest of what is new, as far as there is room."""
    added = [one for one in corpus.iterdir() if _NEW.fullmatch(one.name)] or list(corpus.iterdir())
    failed = (BUILD / "found").glob(f"{file.stem}-*")
    found, new = ([b64encode(one.read_bytes()).decode() for one in some] for some in (failed, added))
    before = file.read_text().splitlines() if file.exists() else []
    kept = {*before, *found}
    size = sum(len(line) + 1 for line in kept)
    for line in sorted(set(new) - kept, key=lambda one: (len(one), one)):
        size += len(line) + 1
        if size > _KEPT_BYTES_MAX:
            break
        kept.add(line)
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in sorted(kept, key=lambda one: (len(one), one))))


if __name__ == "__main__":
    sys.exit(main())
