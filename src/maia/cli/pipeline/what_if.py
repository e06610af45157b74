"""`maia pipeline what-if`: who would have seen more of a recorded period, and who less?"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maia.cli.inputs import AsJson, moment, read_certificates
from maia.cli.output import answer
from maia.cli.pipeline.closure import Pools, spark_for
from maia.cli.pipeline.source import LogOptions
from maia.cli.trust.key import open_key
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.events import Instant
    from maia.spark.closure.what_if import Outcome
    from maia.spark.closure.what_if import Pools as TwoPools


EXAMPLES = (
    "Example: maia pipeline what-if --revoke ward/subscribe.cert --pool ward --pool office --log events "
    "-d result.type -k hospital.key --credentials hospital --since 2026-11-01T00:00:00Z"
)


class BadQuestion(BadInput):
    """A question what if names no change, or a certificate that is not in the pool."""

    code = "INPUT-WHAT-IF"


def what_if(
    asked: LogOptions,
    pool: Pools = None,
    revoke: Annotated[
        list[str] | None,
        typer.Option(help="A certificate that is revoked: its file, or its id. May be repeated."),
    ] = None,
    add: Annotated[
        list[Path] | None, typer.Option(help="A certificate that is issued: its file. May be repeated.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Events published since then.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Events published until then.")] = None,
    examples: Annotated[int, typer.Option(min=0, max=100, help="Examples for each principal.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Replay a recorded period with a certificate revoked or issued: who would have seen more, who less."""
    from maia.config.constitutions import read_constitutions
    from maia.credentials import certificate_from_bytes
    from maia.spark.closure.sources import read_pool
    from maia.spark.closure.what_if import Pools as TwoPools

    if not pool or not (revoke or add):
        raise BadQuestion("give --pool, and a change: --revoke or --add")
    read = read_pool(pool, at=moment(None))
    before = tuple(map(certificate_from_bytes, read.certificates))
    gone = _ids(revoke or [])
    unknown = gone - {one.id for one in before}
    if unknown:
        raise BadQuestion(f"certificate {min(unknown).hex()} is not in the pool")
    after = (*(one for one in before if one.id not in gone), *read_certificates(add or ()))
    pools = TwoPools(before, after, constitutions=read_constitutions(pool))
    period = tuple(None if one is None else moment(one) for one in (since, until))
    print_outcomes(asked, pools, since=period[0], until=period[1], examples=examples, as_json=as_json)


def _ids(words: list[str]) -> frozenset[bytes]:
    found = set[bytes]()
    for word in words:
        path = Path(word)
        if path.exists():
            found |= {one.id for one in read_certificates([path])}
            continue
        try:
            found.add(bytes.fromhex(word))
        except ValueError:
            raise BadQuestion(f"`{word[:80]}` is neither a file nor the id of a certificate") from None
    return frozenset(found)


def print_outcomes(
    asked: LogOptions,
    pools: TwoPools,
    *,
    since: Instant | None,
    until: Instant | None,
    examples: int,
    as_json: bool,
) -> None:
    """Compare what principals see of a log with one pool and with the other; print who sees less, or more."""
    asked.check_log()
    assert asked.key is not None  # noqa: S101 - checked with the log
    event_type, own = asked.newest_type(), asked.reader(open_key(asked.key).principal)
    with spark_for("maia-what-if", long_running=True) as spark:
        from maia.cli.pipeline.source import counted
        from maia.credentials import ASSUMED_GOOD, Action
        from maia.policy import Request
        from maia.spark.closure.what_if import affected, compare, readable_by
        from maia.spark.governed.periods import slices_of

        changed, besides = affected(event_type, pools, at=moment(None), since=since, until=until)
        mine = slices_of(
            Request(own.principal, Action.SUBSCRIBE, event_type.name, event_type),
            own.tested(ASSUMED_GOOD, moment(None)),
            since=since,
            until=until,
        )
        readable = readable_by(mine, event_type)
        hidden = sorted(one.name for one in event_type.attributes if one.uid not in readable)
        period = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        with (
            asked.opened_table(spark, None, with_meta=True, **period) as events,
            counted("comparing principals", len(changed), is_quiet=as_json) as done,
        ):
            # Not cached: Spark would put the asker's rows on a disk.
            for outcome in compare(
                events, event_type, changed, readable=readable, examples=examples, done=done
            ):
                answer(_lines(outcome), _record(outcome), as_json=as_json)
    if not as_json:
        lines = [f"{len(changed)} principals whose rights differ, {besides} more not compared"]
        lines += [f"not compared, since you may not read them: {', '.join(hidden)}"] if hidden else []
        answer(lines, {}, as_json=False)


def _record(found: Outcome) -> dict[str, object]:
    return {
        "principal": str(found.affected.principal),
        "rows_before": found.rows_before,
        "rows_after": found.rows_after,
        "rows_less": found.rows_less,
        "rows_more": found.rows_more,
        "rows_other": found.rows_other,
        "less": found.less,
        "more": found.more,
        "conditional": found.affected.is_conditional,
        "examples": [_shown(one) for one in found.examples],
    }


def _lines(found: Outcome) -> list[str]:
    def listed(counts: dict[str, int]) -> str:
        return ", ".join(f"{name} in {count:,} events" for name, count in counts.items())

    lines = [
        f"principal    {found.affected.principal}",
        f"rows         {found.rows_before:,} before, {found.rows_after:,} after",
        *([f"less         {listed(found.less)}"] if found.less else []),
        *([f"more         {listed(found.more)}"] if found.more else []),
        *([f"other        values in {found.rows_other:,} events"] if found.rows_other else []),
        *(
            ["conditional  a condition of its rights counts as not met"]
            if found.affected.is_conditional
            else []
        ),
    ]
    return [*lines, *(f"for example  {_shown(one)}" for one in found.examples), ""]


# Any: values of all kinds.
def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(one) for name, one in value.items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else value
