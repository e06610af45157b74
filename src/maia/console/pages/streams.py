"""*Streams*: watch a type as the principal that is signed in; what is hidden from it is shown as hidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlencode

from maia.client.api.connection import connect
from maia.client.api.subscription import ReceivedEvent
from maia.console.pages.page import Data, Node, Page, Visit, choice, el, field_of, hint
from maia.console.works import NoSuchThing
from maia.predicates import ALWAYS

_LOOK_S: Final = 1.0
_TEXT_MAX: Final = 400


async def _data(visit: Visit) -> Data:
    names = await visit.names()
    asked, where = visit.asked("type"), visit.asked("where")
    found = names.by_label.get(asked)
    if asked and found is None:
        raise NoSuchThing("you know no type of this name")
    return {
        "types": list(names.by_label),
        "suggest": await visit.suggestions(),
        "type": asked,
        "where": where,
        "attributes": [] if found is None else [one.name for one in found.attributes],
        "events": f"/streams/events?{urlencode({'type': asked, 'where': where})}" if found else None,
    }


def _view(data: Data) -> Sequence[Node]:
    if not data["types"]:
        return [hint("You know no type to watch. `maia org join FILE.grant` or `maia member add NAME --may "
                     "subscribe:TYPE` brings one into your profile.")]  # fmt: skip
    form = el(
        "form",
        choice("Type", "type", data["type"], data["types"]),
        field_of("Filter", "where", data["where"], data["suggest"]["where"], placeholder="everything"),
        el("button", "Watch"),
        action="/streams", method="get",
    )  # fmt: skip
    if data["events"] is None:
        return [form, hint("Choose a type, and its events appear here as they are published. What your "
                           "rights do not show is shown as hidden.")]  # fmt: skip
    heads = ["published", *data["attributes"], "publisher"]
    return [
        form,
        el("p", "connecting …", id="stream-state", role="status"),
        el(
            "div",
            el("table", el("caption", f"Events of {data['type']}, the newest first"),
               el("thead", el("tr", [el("th", one, scope="col") for one in heads])),
               el("tbody", id="events")),
            class_="scroll", tabindex="0", role="region", aria_label="Events",
            data_stream=data["events"], data_attributes=json.dumps(data["attributes"]),
        ),
    ]  # fmt: skip


async def events_of(visit: Visit, is_signed_in: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Subscribe with the principal's own key, and pass events on for as long as the session is valid.

    The broker decides and screens; here nothing is added. A refusal, or the end of the right, raises.
    """
    data, names = await _data(visit), await visit.names()
    async with connect(visit.held.profile) as client:
        subscription = await client.subscribe(names.by_label[data["type"]].name, data["where"] or ALWAYS)
        yield _line("state", {"state": "subscribed", "hidden": sorted(subscription.hidden)})
        waiting: asyncio.Task[ReceivedEvent] | None = None
        events = aiter(subscription)
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait([waiting], timeout=_LOOK_S)
                if not await is_signed_in():
                    return
                if not done:
                    yield ": nothing new\n\n"
                    continue
                event = await waiting
                waiting = None
                hidden = sorted(event.hidden)
                values = {name: _shown(value) for name, value in event.items() if name not in hidden}
                yield _line("event", {
                    "values": values,
                    "hidden": hidden,
                    "publisher": names.key(str(event.publisher.principal)),
                    "published_at": str(event.published_at),
                })  # fmt: skip
        except StopAsyncIteration:
            return
        finally:
            if waiting is not None:
                waiting.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration):
                    await waiting


def _shown(value: object) -> str | None:
    return None if value is None else str(value)[:_TEXT_MAX]


def _line(kind: str, data: Data) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


STREAMS = Page("streams", "Streams", _data, _view)
