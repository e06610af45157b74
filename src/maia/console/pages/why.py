"""*Why*: may this principal see that, now or then? The kernel's own explanation; and what a refusal means."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from maia.console.decisions import ask
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
    moment,
    named,
    person,
    prose,
    table,
)
from maia.console.pages.refusals import refusals_seen
from maia.console.principal import READ_NETWORK, READ_REGISTER
from maia.console.works import NoSuchThing
from maia.credentials import actions_from_words, principal_from_text
from maia.error_codes import meaning_of
from maia.errors import Refusal
from maia.events import Instant
from maia.policy import Audience, Request
from maia.predicates import ALWAYS, parse_predicate

_ACTIONS: Final = ("subscribe", "publish")
_EVERY: Final = {"true": "every event"}
_CODE: Final = re.compile(r"\b[A-Z]{3,20}(?:-[A-Z0-9]{1,20}){1,6}\b")
_ID: Final = re.compile(r"\b[0-9a-f]{12,64}\b")


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    asked = {one: visit.asked(one) for one in ("who", "action", "type", "where", "at", "refusal")}
    types = list(names.by_label)
    rows = await visit.network.brokers() if READ_NETWORK in visit.acts else []
    seen = refusals_seen(rows, names)
    data: dict[str, object] = {
        "asked": asked,
        "types": types,
        "suggest": {
            **await visit.suggestions(),
            "refusal": [(one["id"], f"{one['code']}: {one['name']} {one['asked']}") for one in seen],
        },
        "answer": None,
        "refusal": None,
    }
    if asked["refusal"]:
        data["refusal"] = await _meaning(visit, asked["refusal"], seen)
    if asked["type"]:
        data["answer"] = await _answer(visit, asked)
    return data


async def _answer(visit: Visit, asked: Mapping[str, str]) -> Data:
    names, is_reader, own = await visit.names(), READ_REGISTER in visit.acts, str(visit.acting.principal)
    who = names.principal(asked["who"]) if asked["who"] else own
    if not is_reader and who != own:
        raise Refusal(
            "CONSOLE-NOT-ALLOWED", "without the right to read the register, you can ask about yourself alone"
        )
    event_type = names.by_label.get(asked["type"])
    if event_type is None:
        raise NoSuchThing("you know no type of this name")
    (action,) = actions_from_words([asked["action"] if asked["action"] in _ACTIONS else "subscribe"])
    at = Instant.parse(asked["at"]) if asked["at"] else visit.now
    wanted = parse_predicate(asked["where"], event_type.vocabulary) if asked["where"] else ALWAYS
    request = Request(principal_from_text(who), action, event_type.name, event_type, wanted)
    audience = Audience.OWNER if is_reader else Audience.REQUESTER
    entries = await visit.acting.entries(visit.acts)
    answer = await asyncio.to_thread(ask, request, entries, at, audience)
    reasons = [(names.key(sentence), certificate) for sentence, certificate in answer.reasons]
    return {
        **asdict(answer), "reasons": reasons, "who": names.key(who), "action": action.value,
        "type": asked["type"], "at": str(at),
    }  # fmt: skip


async def _meaning(visit: Visit, text: str, seen: Sequence[Data]) -> Data:
    """Return what a text names: refusals by their ids, codes with their meaning, and certificates.

    A refusal is decided once more, for the moment at which it was last made, if its reader may ask that.
    """
    recorded = [one for one in seen if one["id"] in _ID.findall(text)]
    codes = [
        {"code": code, "means": meaning_of(code)}
        for code in dict.fromkeys([*(one["code"] for one in recorded), *_CODE.findall(text)])
    ]
    ids = dict.fromkeys(_ID.findall(text))
    entries = await visit.acting.entries(visit.acts)
    found = [one.signed.id.hex() for one in entries if any(one.signed.id.hex().startswith(i) for i in ids)]
    names = await visit.names()
    types = names.by_label
    answers = []
    for one in recorded:
        is_askable = one["action"] is not None and one["type"] in types
        may_ask = READ_REGISTER in visit.acts or one["principal"] == str(visit.acting.principal)
        question = {"who": one["principal"], "at": one["last"], "where": ""}
        answers.append(
            await _answer(visit, {**question, "action": one["action"], "type": one["type"]})
            if is_askable and may_ask
            else None
        )
    return {
        "recorded": recorded,
        "answers": answers,
        "codes": codes,
        "certificates": found,
        "may_look": READ_NETWORK in visit.acts,
    }


def _view(data: Data) -> Sequence[Node]:
    asked, offered = data["asked"], data["suggest"]
    is_new = data["answer"] is None and data["refusal"] is None
    return [
        el(
            "form",
            field_of("Who", "who", asked["who"], offered["person"], placeholder="you"),
            choice("wants to", "action", asked["action"] or "subscribe", _ACTIONS),
            choice("Type", "type", asked["type"], ["", *data["types"]]),
            field_of("Filter", "where", asked["where"], offered["where"], placeholder="everything"),
            field_of("At", "at", asked["at"], offered["at"], placeholder="now"),
            el("button", "Ask"),
            action="/why", method="get",
        ),
        *_answer_view(data["answer"]),
        el(
            "form",
            field_of("A refusal: its id, its code, or the whole of it", "refusal", asked["refusal"],
                     offered["refusal"], size=60),
            el("button", "Explain"),
            action="/why", method="get",
        ),
        *_refusal_view(data["refusal"]),
        hint("Ask whether a person may publish or see a type, now or at a moment; or give a refusal, as a "
             "program printed it: `… (refusal 3f0a…)`. The same at a terminal: `maia explain`.")
        if is_new else "",
    ]  # fmt: skip


def _answer_view(answer: Data | None) -> list[Node]:
    if answer is None:
        return []
    said = "Yes" if answer["is_permitted"] else "No"
    who = f"{answer['who']} may {'' if answer['is_permitted'] else 'not '}{answer['action']} {answer['type']}"
    reasons = [
        el("li", prose(sentence), " " if certificate else None,
           el("a", certificate[:12], href=f"/certificate?id={certificate}") if certificate else None)
        for sentence, certificate in answer["reasons"]
    ]  # fmt: skip
    return [
        el("h2", named(f"{said}: {who} at {answer['at'][:19].replace('T', ' ')}"),
           class_="yes" if answer["is_permitted"] else "no"),
        facts([
            ("Code", None if answer["code"] is None else el("code", answer["code"])),
            ("Until", moment(answer["until"]) if answer["until"] else None),
            ("Which events", "; or ".join(_EVERY.get(one, one) for one in answer["windows"])),
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
    nothing = hint(
        "There is neither a code of Maia's nor the id of a refusal in it that a broker here remembers: "
        "brokers keep the latest ones since they started."
        if refusal["may_look"]
        else "There is no code of Maia's in it. Ids are explained to readers of `/admin/network`."
    )
    return [
        el("h2", "What it means"),
        *(
            node
            for one, answer in zip(refusal["recorded"], refusal["answers"], strict=True)
            for node in _recorded_view(one, answer)
        ),
        el("ul", codes) if codes else nothing,
        el("p", "It names these certificates:") if named else "",
        el("ul", named) if named else "",
    ]


def _recorded_view(one: Data, answer: Data | None) -> list[Node]:
    return [
        facts([
            ("Refusal", el("code", one["id"])),
            ("Who", person(one["principal"], one["name"])),
            ("Asked", one["asked"]),
            ("Code", el("code", one["code"])),
            ("By", named(one["broker"])),
            ("First", moment(one["first"])),
            ("Last", moment(one["last"])),
            ("Times", str(one["times"])),
        ]),
        hint("The same question, put to the kernel for that moment without its filter, which brokers do not "
             "record:") if answer is not None else "",
        *_answer_view(answer),
    ]  # fmt: skip


WHY = Page("why", "Why", _data, _view)
