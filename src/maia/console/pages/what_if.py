"""*What if*: replay a recorded period with a certificate revoked, or with another policy, before it is done.

`maia pipeline what-if` and `maia domain policy check --against` do the work, in a process of their own and
under the reader's rights to the log: where the answer depends on a value that is hidden, they refuse.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from maia.api import endpoints
from maia.console.pages.page import (
    Data,
    Node,
    Page,
    Visit,
    choice,
    el,
    facts,
    field_of,
    hint,
    person,
    table,
)
from maia.console.principal import READ_REGISTER
from maia.console.rights import state_of
from maia.credentials import Principal, certificate_to_text
from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import Instant
from maia.private_files import create_private
from maia.types import definition_to_text

REPLAY_S: Final = 600.0
OUTPUT_MAX: Final = 4 << 20
_POLICY_MAX: Final = 32 << 10


@dataclass(slots=True)
class _Replay:
    """One replay, and what has come of it."""

    by: Principal
    asked: Data
    state: str = "running"
    problem: str = ""
    notes: Data = field(default_factory=dict)
    outcomes: list[Data] = field(default_factory=list)


async def replay(visit: Visit, form: Mapping[str, str]) -> str:
    """Begin a replay as the principal that is signed in, one at a time; return its id."""
    if any(one.state == "running" for one in visit.works.of(_Replay)):
        raise Unavailable("CONSOLE-REPLAY-RUNS", "another replay is not done yet")
    folder = Path(tempfile.mkdtemp(prefix="maia-console-"))  # for its owner alone
    try:
        words = await _command(visit, form, folder)
    except BaseException:
        _remove(folder)
        raise
    asked = {one: form.get(one, "")[:200] for one in ("revoke", "policy", "type", "since", "until")}
    begun = _Replay(visit.acting.principal, asked)
    visit.works.beside(_run(begun, words, folder))
    return visit.works.keep(begun)


async def _command(visit: Visit, form: Mapping[str, str], folder: Path) -> list[str]:
    """Write what the command reads, as far as the principal may read it, and return the command."""
    settings, names = visit.held.profile.settings, await visit.names()
    wanted = names.by_label.get(form.get("type", ""))
    if settings.log is None or settings.key is None or wanted is None:
        raise BadInput(
            "CONSOLE-NO-CHANGE", "choose a type; and your profile has to name the `log` that is replayed"
        )
    of = (wanted.name.owner, wanted.name.name)
    versions = [
        one
        for one in visit.held.profile.definitions()
        if (one.definition.name.owner, one.definition.name.name) == of
    ]
    types = [
        _written(folder / f"{number}.type", definition_to_text(one)) for number, one in enumerate(versions)
    ]
    reading = [
        "-k",
        str(settings.key),
        *_each("--credentials", settings.credentials),
        *_each("-d", types),
        "--json",
    ]
    policy, revoke = form.get("policy", "")[:_POLICY_MAX].strip(), form.get("revoke", "").strip()
    if policy:
        if settings.domain is None:
            raise BadInput("CONSOLE-NO-CHANGE", "your profile names no domain whose policy this could be")
        register = _written(
            folder / "register.json",
            json.dumps({"register": msgspec.to_builtins(await visit.acting.register())}),
        )
        in_force: list[str] = []
        with suppress(MaiaError):  # none is in force, or the principal may not read it; the answer says so
            found = await visit.acting.ask(endpoints.POLICY)
            in_force = ["--in-force", str(_written(folder / "in-force.policy", found.text))]
        return [
            "domain", "policy", "check", str(_written(folder / "new.policy", policy)),
            *_each("--types", types), "--domain", str(settings.domain), "--against", str(settings.log),
            "--register", str(register), *in_force, *reading,
        ]  # fmt: skip
    entries = [one for one in await visit.acting.entries(visit.acts) if state_of(one, visit.now) == "valid"]
    fitting = [one for one in entries if len(revoke) >= 8 and one.signed.id.hex().startswith(revoke)]
    if len(fitting) != 1:
        raise BadInput(
            "CONSOLE-NO-CHANGE", "say what would change: the id of one valid certificate, or a policy"
        )
    for one in entries:
        _written(folder / f"{one.signed.id.hex()}.cert", certificate_to_text(one.signed))
    period = [
        word
        for name in ("since", "until")
        if form.get(name)
        for word in (f"--{name}", str(Instant.parse(form[name])))
    ]
    return [
        "pipeline", "what-if", "--revoke", fitting[0].signed.id.hex(), "--pool", str(folder),
        "--log", str(settings.log), *period, *reading,
    ]  # fmt: skip


def _each(option: str, paths: Sequence[Path]) -> list[str]:
    return [word for one in paths for word in (option, str(one))]


def _written(path: Path, text: str) -> Path:
    with create_private(path) as file:
        file.write(text.encode())
    return path


def _remove(folder: Path) -> None:
    for one in folder.iterdir():
        one.unlink()
    folder.rmdir()


async def _run(replay: _Replay, words: Sequence[str], folder: Path) -> None:
    """Run a command and take its lines over as they come; nothing of it outlives the console."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "maia.cli", *words,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        limit=OUTPUT_MAX,
    )  # fmt: skip
    try:
        async with asyncio.timeout(REPLAY_S):
            assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - pipes
            problems = asyncio.create_task(process.stderr.read(OUTPUT_MAX))
            async for line in process.stdout:
                found = json.loads(line)
                if "principal" in found:
                    replay.outcomes.append(found)
                else:
                    replay.notes = found
            said = (await problems).decode(errors="replace").strip().rpartition("\n")[2]
            status = await process.wait()
        replay.state = "done" if status == 0 else "refused"
        if status:
            with suppress(ValueError, KeyError, TypeError):
                said = "{message} [{code}]".format(**json.loads(said)["error"])
            replay.problem = said.replace(f"{folder}/", "")[:1000]
    except (TimeoutError, ValueError) as problem:
        replay.state, replay.problem = "failed", f"the replay was ended: {type(problem).__name__}"
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        _remove(folder)


# ------------------------------------------------------------ pages


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    return {
        "types": list(names.by_label),
        "suggest": await visit.suggestions(),
        "revoke": visit.asked("revoke", 64),
        "has_log": visit.held.profile.settings.log is not None,
    }


def _view(data: Data) -> Sequence[Node]:
    if not data["has_log"]:
        return [hint("Your profile names no `log`, so there is nothing to replay: `log = \"PATH\"` in its "
                     "`profile.toml` names a folder in which a broker records.")]  # fmt: skip
    offered = data["suggest"]
    return [
        el("p", "Who would have seen more of what was recorded, and who less? Spark takes half a minute."),
        el(
            "form",
            choice("Type", "type", "", data["types"]),
            field_of("Revoke the certificate", "revoke", data["revoke"], offered["certificate"],
                     placeholder="its id"),
            el("label", "or put this policy in force", el("textarea", name="policy", rows=4, cols=40)),
            field_of("Since", "since", "", offered["at"], placeholder="the beginning"),
            field_of("Until", "until", "", offered["at"], placeholder="now"),
            el("button", "Replay"),
            action="/what-if", method="post",
        ),
    ]  # fmt: skip


WHAT_IF = Page("what-if", "What if", _data, _view, READ_REGISTER)


async def _replayed(visit: Visit) -> Data:
    replay = visit.works.found(_Replay, visit.asked("id"), visit.acting.principal)
    names = await visit.names()
    return {
        "asked": replay.asked,
        "state": replay.state,
        "problem": replay.problem,
        "notes": replay.notes,
        "outcomes": [{**one, "name": names.key(one["principal"])} for one in replay.outcomes],
    }


def _replayed_view(data: Data) -> Sequence[Node]:
    def listed(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{name} in {count:,} events" for name, count in counts.items())

    rows: list[list[Node]] = [
        [
            person(one["principal"], one["name"]), str(one["rows_before"]), str(one["rows_after"]),
            listed(one["less"]), listed(one["more"]),
        ]
        for one in data["outcomes"]
    ]  # fmt: skip
    running, notes = data["state"] == "running", data["notes"]
    return [
        facts([
            ("Type", data["asked"]["type"]),
            ("Revoked", data["asked"]["revoke"]),
            ("Policy", data["asked"]["policy"]),
            ("State", data["state"]),
            ("Certificates that fall", str(notes["fall"]) if "fall" in notes else None),
            ("Certificates that come", str(notes["come"]) if "come" in notes else None),
            ("Note", "; ".join(notes.get("notes", ()))),
        ]),
        el("p", data["problem"], role="alert") if data["problem"] else "",
        table("Who would see something else", ["who", "events before", "after", "less", "more"], rows,
              empty="Nothing so far." if running else "Nobody."),
    ]  # fmt: skip


REPLAY = Page("replay", "Replay", _replayed, _replayed_view, READ_REGISTER, is_live=True, is_in_menu=False)
