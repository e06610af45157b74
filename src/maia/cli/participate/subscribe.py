"""`maia subscribe`: print the events of a type as they arrive, one line of JSON each."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import flag, opt
from maia.cli.output import note, plain, row, show, wants_json
from maia.cli.participate.json_events import record_of
from maia.cli.participate.membership import Participant, TypeOptions, check_filter, history_of, verified
from maia.cli.profile_option import explaining
from maia.errors import BadInput, MaiaError, Unavailable

if TYPE_CHECKING:
    from maia.client.api.subscription import ReceivedEvent, Subscription
    from maia.client.api.topics import TopicsSubscription


_SOON_S: Final = 0.2
"""A warning about a subscription that is just being accepted comes after the line that says so."""


def subscribe(
    context: typer.Context,
    participant: Participant,
    meant: TypeOptions,
    where: str = opt(
        "Only events that this admits, in the filter language.", "--where", "--filter", default="true"
    ),
    topic: list[str] | None = opt(
        "Only these topics and those below: /news/uk, '/news/+/sport'; of a declaration. May be repeated."
    ),
    publishers: str = opt(
        "Only events of publishers whose identity statement meets this: 'clearance >= 3'.",
        "--from",
        default="true",
        metavar="REQUIREMENT",
    ),
    count: int | None = opt("Stop after so many events.", min=1),
    seconds: float | None = opt(
        "Stop after so many seconds; with --count, fail if fewer came.", "--for", min=0.1
    ),
    durable: str | None = opt("Go on where this name was left: first what was published meanwhile."),
    forget: bool = flag("With --durable: forget the name at the end."),
    state: bool = flag("First print the last publication of each publisher."),
    shown_as: Path | None = opt("The definition of the type that your right converts events into."),
    as_json: bool = flag("Also print who published each event, and when, and warnings.", "--json"),
) -> None:
    """Print events as they arrive, until Ctrl-C; standard error says when the subscription is registered.

    Examples:
        maia subscribe LabResult --as dashboard.maia --where 'value > 100'
        maia subscribe -d numberplate.type -k billing.key --credentials certs --network 'UK Police
          Network' --coordinator pito.pub --broker 127.0.0.1:7400 --where 'prefix(numberplate, "AE")'
          --count 10
        maia subscribe -d news.type -k reader.key --credentials certs --network 'City Network'
          --coordinator city.pub --broker 127.0.0.1:7400 --topic '/news/+/sport'
        maia subscribe /news/security/incidents --topic /alarms/ids/building-203 --as desk.maia
          --from '(nationality="uk") or (sec_clearance="NATO secret")'
        maia subscribe -d reports.type -k anna.key --credentials certs --network 'Coalition'
          --coordinator uk.pub --broker 127.0.0.1:7400 --from 'nationality == "uk" or clearance >= 3'
    """
    import asyncio

    from maia.client.errors import check_durable_name
    from maia.credentials.requirements import parse_requirement

    member = participant.membership()
    history = meant.history(member.constitutions, wallet=member.wallet)
    event_type = verified(history, member.constitutions)
    if forget and durable is None:
        raise BadInput(
            "INPUT-NOTHING-TO-FORGET", "`--forget` forgets a durable subscription: name it with `--durable`"
        )
    topics, others = meant.topics(topic, event_type, member.constitutions, wallet=member.wallet)
    if topics and (durable is not None or shown_as is not None) and others:
        raise BadInput("INPUT-TOPICS", "`--durable` and `--shown-as` are for topics of one tree")
    given = where
    if topics:
        where = on_topics_text([one.path for one in topics if one.tree == 0], where, event_type.name.name)
    result = None if shown_as is None else history_of(shown_as, None)
    # A mistake is found before anything is dialled.
    check_durable_name(durable)
    check_filter(where, event_type if result is None else verified(result, member.constitutions))
    requires, name = parse_requirement(publishers), event_type.name
    is_ours = context.obj is None or str(name.owner) == context.obj.settings.domain
    is_told = False

    def warned(problem: MaiaError | None) -> None:
        if is_told:  # what it is a warning about comes first
            _print_warning(problem)
        elif problem is not None:
            asyncio.get_running_loop().call_later(_SOON_S, put_off, problem)

    def put_off(problem: MaiaError) -> None:
        if not is_told:
            _print_warning(problem)

    async def receive() -> None:
        nonlocal is_told
        async with member.connect() as client:
            subscription: Subscription | TopicsSubscription
            if others:
                for one in (history, *others):
                    client.learn(*one)
                words = [one.word for one in topics]
                subscription = await client.subscribe_to(
                    words, given, requires=requires, state=state, on_warning=warned, timeout_s=member.wait_s
                )
            else:
                subscription = await client.subscribe(
                    history, where, requires=requires, durable=durable, state=state, shown_as=result,
                    on_warning=warned, timeout_s=member.wait_s,
                )  # fmt: skip
            note(f"subscribed to {name.name if is_ours else f'{name.name} of {name.owner}'}")
            if subscription.hidden:
                note(f"hidden from you: {', '.join(sorted(subscription.hidden))}")
            is_told = True
            if subscription.warning is not None:
                warned(subscription.warning)
            await _print_all(subscription, count, seconds)
            if durable is not None:
                await subscription.unsubscribe(forget=forget, timeout_s=member.wait_s)

    with explaining(context, meant.named or name.name, "subscribe", where):
        asyncio.run(receive())


async def _print_all(
    subscription: Subscription | TopicsSubscription, count: int | None, seconds: float | None
) -> None:
    """Print events until there were so many, or until the time is over."""
    import asyncio

    seen = 0
    try:
        async with asyncio.timeout(seconds):
            async for event in subscription:
                _print(event)
                seen += 1
                if seen == count:
                    break
    except TimeoutError:
        if count is not None:
            message = f"{seen} of {count} events arrived within {seconds:g} seconds"
            raise Unavailable("UNAVAILABLE-EVENTS", message) from None
    finally:
        for missed in subscription.missed:
            note(f"events may be missing: {missed.problem.message} [{missed.problem.code}]")
        if (changed := subscription.changed) is not None:
            note(f"note: {changed.message} [{changed.code}]")


def on_topics_text(topics: Sequence[str], where: str, tree: str, *, below: bool = True) -> str:
    """Return a filter of the topics that are meant: a node includes those below it."""
    from maia.predicates import format_predicate
    from maia.predicates.path_patterns import parse_path_pattern
    from maia.types.definition import TOPIC, on_topics, tree_label

    patterns = [parse_path_pattern(topic) for topic in topics]
    patterns = [replace(one, has_rest=below or one.has_rest) for one in patterns]
    here = [one for one in patterns if tree == tree_label(one)]
    if not here:
        raise BadInput(
            "INPUT-TOPIC-NOT-DECLARED",
            f"`{tree}` does not declare `{topics[0]}`: give the file of `maia topic declare`",
        )
    meant = format_predicate(on_topics(here), {TOPIC.uid: TOPIC.name})
    return meant if where == "true" else f"({meant}) and ({where})"


def _print_warning(problem: MaiaError | None) -> None:
    """Print on standard error why nothing can arrive; with --json also among the events."""
    line = "events can arrive again" if problem is None else f"warning: {problem.message} [{problem.code}]"
    note(f"maia: {line}")
    show(row(warning=None if problem is None else problem.as_record()))


def _payload_text(payload: bytes, content_type: object) -> str:
    """Return a payload as a person reads it: as text, where it is that or is said to be; else its digits."""
    if content_type == "text/plain":
        return payload.decode(errors="backslashreplace")
    text = payload.decode(errors="replace")
    is_text = "\ufffd" not in text and all(one.isprintable() or one in "\n\t" for one in text)
    return text if is_text else payload.hex()


def _print(event: ReceivedEvent) -> None:
    """Print an event: by itself for people, with who published it and when for programs."""
    found: dict[str, object] = record_of(event)
    payload, delivered, by = found.get("payload"), event.delivered, event.publisher
    if wants_json():
        author: dict[str, object] = {"is_signed": by.is_signed}
        if by.identity is not None:
            author |= {
                "identifier": by.identity.identifier,
                "attributes": by.attributes,
                "issuer": by.identity.issuer,
                "community": by.identity.community,
                "until": by.identity.not_after,
                "is_identity_verified": by.is_identity_verified,
            }
        found = {
            "event": found,
            "hidden": sorted(event.hidden),
            "publisher": delivered.publisher,
            "published_by": author,
            "published_at": delivered.published_at,
            "stream": delivered.stream,
            "label": delivered.label,
        }
    elif "topic" in found and isinstance(payload, str):
        found["payload"] = _payload_text(bytes.fromhex(payload), found.get("content_type"))
    sys.stdout.write(json.dumps(plain(found), ensure_ascii=False) + "\n")
    sys.stdout.flush()
