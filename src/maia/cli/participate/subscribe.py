"""`maia subscribe`: print the events of a type as they arrive, one line of JSON each."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import flag, opt
from maia.cli.output import named
from maia.cli.participate.json_events import record_of
from maia.cli.participate.membership import (
    Membership,
    Participant,
    TypeOptions,
    check_filter,
    history_of,
    verified,
)
from maia.cli.profile_option import explaining
from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import Instant

if TYPE_CHECKING:
    from maia.client import PublishedBy
    from maia.client.api.subscription import ReceivedEvent, Subscription
    from maia.predicates import Predicate
    from maia.profile import Profile
    from maia.types import SignedDefinition, VerifiedType


_SOON_S: Final = 0.2
"""A warning about a subscription that is just being accepted comes after the line that says so."""


class TooFewEvents(Unavailable):
    """The time is over, and fewer events arrived than requested."""

    code = "UNAVAILABLE-EVENTS"


class NotDeclared(BadInput):
    """Topics were asked for that the definition at hand does not declare."""

    code = "INPUT-TOPIC-NOT-DECLARED"


class NothingToForget(BadInput):
    """A subscription without a name was to be forgotten."""

    code = "INPUT-NOTHING-TO-FORGET"


def subscribe(
    context: typer.Context,
    participant: Participant,
    meant: TypeOptions,
    where: str = opt(
        "Only events that this admits, in the filter language.", "--where", "--filter", default="true"
    ),
    topic: str | None = opt(
        "Only these topics and those below: /news/uk, '/news/+/sport'; of a declaration."
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
        raise NothingToForget("`--forget` forgets a durable subscription: name it with `--durable`")
    topic = topic or meant.topic
    if topic is not None:
        where = on_topics_text(topic, where, event_type.name.name)
    result = None if shown_as is None else history_of(shown_as, None)
    # A mistake is found before anything is dialled.
    check_durable_name(durable)
    check_filter(where, event_type if result is None else verified(result, member.constitutions))
    wanted = _Wanted(
        where, parse_requirement(publishers), durable, forget, count, seconds, as_json, state, result,
        _called(event_type, context.obj),
    )  # fmt: skip
    with explaining(context, meant.named or event_type.name.name, "subscribe", where):
        asyncio.run(_subscribe(member, history, wanted))


def _called(event_type: VerifiedType, profile: Profile | None) -> str:
    name = event_type.name
    is_ours = profile is None or str(name.owner) == profile.settings.domain
    return name.name if is_ours else named(f"{name.name} of {name.owner}")


def on_topics_text(topic: str, where: str, tree: str, *, below: bool = True) -> str:
    """Return a filter of the topics that are meant: a node includes those below it."""
    from maia.predicates import format_predicate
    from maia.predicates.path_patterns import parse_path_pattern
    from maia.types.definition import TOPIC, on_topics, tree_label

    pattern = parse_path_pattern(topic)
    pattern = replace(pattern, has_rest=below or pattern.has_rest)
    if tree != tree_label(pattern):
        raise NotDeclared(f"`{tree}` does not declare `{topic}`: give the file of `maia topic declare`")
    meant = format_predicate(on_topics([pattern]), {TOPIC.uid: TOPIC.name})
    return meant if where == "true" else f"{meant} and ({where})"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of the command line."""

    where: str
    requires: Predicate
    durable: str | None
    forget: bool
    count: int | None
    seconds: float | None
    as_json: bool
    state: bool
    shown_as: list[SignedDefinition] | None
    called: str
    """The type, with its owner where it is another organisation's."""


async def _subscribe(member: Membership, history: list[SignedDefinition], wanted: _Wanted) -> None:
    import asyncio

    seen, is_told = 0, False

    def warned(problem: MaiaError | None) -> None:
        if is_told:  # what it is a warning about comes first
            _print_warning(problem, as_json=wanted.as_json)
        elif problem is not None:
            asyncio.get_running_loop().call_later(_SOON_S, put_off, problem)

    def put_off(problem: MaiaError) -> None:
        if not is_told:
            _print_warning(problem, as_json=wanted.as_json)

    async with member.connect() as client:
        subscription = await client.subscribe(
            history,
            wanted.where,
            requires=wanted.requires,
            durable=wanted.durable,
            state=wanted.state,
            shown_as=wanted.shown_as,
            on_warning=warned,
            timeout_s=member.wait_s,
        )
        sys.stderr.write(f"subscribed to {wanted.called}\n")
        if subscription.hidden:
            sys.stderr.write(f"hidden from you: {', '.join(sorted(subscription.hidden))}\n")
        sys.stderr.flush()
        is_told = True
        if subscription.warning is not None:
            warned(subscription.warning)
        try:
            async with asyncio.timeout(wanted.seconds):
                async for event in subscription:
                    _print(event, as_json=wanted.as_json)
                    seen += 1
                    if seen == wanted.count:
                        break
        except TimeoutError:
            if wanted.count is not None:
                raise TooFewEvents(
                    f"{seen} of {wanted.count} events arrived within {wanted.seconds:g} seconds"
                ) from None
        finally:
            _print_missed(subscription)
        if wanted.durable is not None:
            await subscription.unsubscribe(forget=wanted.forget, timeout_s=member.wait_s)


def _print_warning(problem: MaiaError | None, *, as_json: bool) -> None:
    """Print on standard error why nothing can arrive; with --json also among the events."""
    line = "events can arrive again" if problem is None else f"warning: {problem.message} [{problem.code}]"
    sys.stderr.write(f"maia: {named(line)}\n")
    sys.stderr.flush()
    if as_json:
        record = {"warning": None if problem is None else problem.as_record()}
        sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def _print_missed(subscription: Subscription) -> None:
    for missed in subscription.missed:
        sys.stderr.write(f"events may be missing: {named(missed.problem.message)} [{missed.problem.code}]\n")
    if subscription.changed is not None:
        sys.stderr.write(f"note: {named(subscription.changed.message)} [{subscription.changed.code}]\n")


def _print(event: ReceivedEvent, *, as_json: bool) -> None:
    record: dict[str, object] = record_of(event)
    payload = record.get("payload")
    if not as_json and record.get("content_type") == "text/plain" and isinstance(payload, str):
        record["payload"] = bytes.fromhex(payload).decode(errors="backslashreplace")
    if as_json:
        delivered = event.delivered
        record = {
            "event": record,
            "hidden": sorted(event.hidden),
            "publisher": str(delivered.publisher),
            "published_by": _author_record(event.publisher),
            "published_at": str(delivered.published_at),
            "stream": delivered.stream.hex(),
            "label": delivered.label.hex(),
        }
    sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _author_record(by: PublishedBy) -> dict[str, object]:
    """Return what is known about the publisher, and what this command has verified of it itself."""
    record: dict[str, object] = {"is_signed": by.is_signed}
    if by.identity is None:
        return record
    return record | {
        "identifier": by.identity.identifier,
        "attributes": {uid: _shown_value(value) for uid, value in by.attributes.items()},
        "issuer": str(by.identity.issuer),
        "community": by.identity.community,
        "until": str(by.identity.not_after),
        "is_identity_verified": by.is_identity_verified,
    }


def _shown_value(value: object) -> object:
    return (
        value
        if isinstance(value, str | int | float | bool) and not isinstance(value, Instant)
        else str(value)
    )
