"""*Why*: may this principal see that, now or then? The kernel's own explanation; and what a refusal means."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from maia.console.decisions import ask
from maia.console.pages.page import Data, Node, NoSuchThing, Page, Visit, choice, el, facts, field_of, table
from maia.console.principal import READ_REGISTER, NotAllowed
from maia.credentials import actions_from_words, principal_from_text
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Audience, Request
from maia.predicates import ALWAYS, parse_predicate

_ACTIONS: Final = ("subscribe", "publish")
_CODE: Final = re.compile(r"\b[A-Z]{3,20}(?:-[A-Z0-9]{1,20}){1,6}\b")
_ID: Final = re.compile(r"\b[0-9a-f]{12,64}\b")


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    asked = {one: visit.asked(one) for one in ("who", "action", "type", "where", "at", "refusal")}
    types = sorted(one.name.name for one in names.types.values())
    data: dict[str, object] = {"asked": asked, "types": types, "answer": None, "refusal": None}
    if asked["refusal"]:
        data["refusal"] = await _meaning(visit, asked["refusal"])
    if not asked["type"]:
        return data
    is_reader, own = READ_REGISTER in visit.acts, str(visit.acting.principal)
    who = names.principal(asked["who"]) if asked["who"] else own
    if not is_reader and who != own:
        raise NotAllowed("without the right to read the register, you can ask about yourself alone")
    event_type = next((one for one in names.types.values() if one.name.name == asked["type"]), None)
    if event_type is None:
        raise NoSuchThing("you know no type of this name")
    (action,) = actions_from_words([asked["action"] if asked["action"] in _ACTIONS else "subscribe"])
    at = Instant.parse(asked["at"]) if asked["at"] else visit.now
    wanted = parse_predicate(asked["where"], event_type.vocabulary) if asked["where"] else ALWAYS
    request = Request(principal_from_text(who), action, event_type.name, event_type, wanted)
    audience = Audience.OWNER if is_reader else Audience.REQUESTER
    entries = await visit.acting.entries(visit.acts)
    answer = await asyncio.to_thread(ask, request, entries, at, audience)
    data["answer"] = {
        **asdict(answer), "who": names.key(who), "action": action.value, "type": asked["type"], "at": str(at)
    }  # fmt: skip
    return data


async def _meaning(visit: Visit, text: str) -> Data:
    """Return what the codes in a pasted refusal mean, and which certificates of the reader it names."""
    meant = {one.code: one for one in _errors(MaiaError)}
    codes = [
        {"code": code, "means": " ".join((meant[code].__doc__ or "").split()) if code in meant else None}
        for code in dict.fromkeys(_CODE.findall(text))
    ]
    ids = dict.fromkeys(_ID.findall(text))
    entries = await visit.acting.entries(visit.acts)
    found = [one.signed.id.hex() for one in entries if any(one.signed.id.hex().startswith(i) for i in ids)]
    return {"codes": codes, "certificates": found}


def _errors(kind: type[MaiaError]) -> Iterator[type[MaiaError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _errors(one)


def _view(data: Data) -> Sequence[Node]:
    asked = data["asked"]
    return [
        el(
            "form",
            field_of("Who", "who", asked["who"], placeholder="you"),
            choice("wants to", "action", asked["action"] or "subscribe", _ACTIONS),
            choice("Type", "type", asked["type"], ["", *data["types"]]),
            field_of("Filter", "where", asked["where"]),
            field_of("At", "at", asked["at"], placeholder="now"),
            el("button", "Ask"),
            action="/why", method="get",
        ),
        *_answer_view(data["answer"]),
        el(
            "form",
            field_of("A refusal, pasted whole", "refusal", asked["refusal"]),
            el("button", "Explain"),
            action="/why", method="get",
        ),
        *_refusal_view(data["refusal"]),
    ]  # fmt: skip


def _answer_view(answer: Data | None) -> list[Node]:
    if answer is None:
        return []
    said = "Yes" if answer["is_permitted"] else "No"
    who = f"{answer['who']} may {'' if answer['is_permitted'] else 'not '}{answer['action']} {answer['type']}"
    reasons = [
        el("li", sentence, " " if certificate else None,
           el("a", certificate[:12], href=f"/certificate?id={certificate}") if certificate else None)
        for sentence, certificate in answer["reasons"]
    ]  # fmt: skip
    return [
        el("h2", f"{said}: {who} at {answer['at']}", class_="yes" if answer["is_permitted"] else "no"),
        facts([
            ("Code", None if answer["code"] is None else el("code", answer["code"])),
            ("Until", answer["until"]),
            ("Which events", "; or ".join(answer["windows"])),
        ]),
        el("ul", reasons) if reasons else "",
        table("Attributes", ["attribute", "shown"], [
            [name, "yes" if is_shown else "hidden"] for name, is_shown in answer["attributes"].items()
        ], empty=""),
    ]  # fmt: skip


def _refusal_view(refusal: Data | None) -> list[Node]:
    if refusal is None:
        return []
    codes = [el("li", el("code", one["code"]), ": ", one["means"] or "no code of this version")
             for one in refusal["codes"]]  # fmt: skip
    named = [el("li", el("a", one[:12], href=f"/certificate?id={one}")) for one in refusal["certificates"]]
    return [
        el("h2", "What it means"),
        el("ul", codes) if codes else el("p", "There is no code of Maia's in it."),
        el("p", "It names these certificates:") if named else "",
        el("ul", named) if named else "",
    ]


WHY = Page("why", "Why", _data, _view)
