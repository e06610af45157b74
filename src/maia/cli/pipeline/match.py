"""`maia pipeline match`: which of very many subscriptions would receive which event, and what of it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.cli.command import arg, opt
from maia.cli.inputs import AT, moment, read_constitutions
from maia.cli.output import Answer, read_principal, row, several
from maia.cli.pipeline import closure
from maia.cli.pipeline.source import CORES, FROM, MEMORY_MIB, OUT, LogOptions, spark_for, spark_steps
from maia.cli.progress import counted
from maia.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from maia.credentials import Principal
    from maia.events import Attribute, Instant, Kinds
    from maia.policy import Decision, Evidence, View
    from maia.spark.matching.tables import Subscription
    from maia.types import VerifiedType


_REFUSED_SHOWN: Final = 1000
_LINE_MAX: Final = 1 << 16


@dataclass(slots=True)
class _Decided:
    """The subscriptions that a pool permits, with their Views, and those that it does not."""

    permitted: list[Subscription] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Their codes, by subscription."""


def match(
    asked: LogOptions,
    subscriptions: Path | None = arg(
        "The subscriptions, a JSON object a line: `subscription`, `principal`, `filter`. "
        "Default: one of each principal whom the pool grants the type.",
        default=None,
        metavar="FILE",
    ),
    source: str | None = FROM,
    pool: list[Path] | None = closure.POOLS,
    out: str | None = OUT,
    most: int = opt("How many subscriptions to list.", default=10, min=0, max=1000),
    at: str | None = AT,
    cores: int = CORES,
    memory_mib: int = MEMORY_MIB,
) -> Answer:
    """Match recorded events with very many subscriptions at once, each under its principal's rights.

    Rights are those of one moment, for all events. A condition that asks for anything but the time counts
    as not met, what publishers and subscribers require of each other is not asked, and what --statements
    revoke is left out of the pool.

    Examples:
        maia pipeline match --pool rights -d sighting.type --from city (everyone whom the pool grants
          the type, for all that it may see)
        maia pipeline match subscriptions.jsonl --pool rights -d sighting.type --from city --out matches
          (lines such as {"subscription": "7", "principal": "billing.pub", "filter": "speed > 50"})
        maia pipeline match --pool rights -d sighting.type --log events -k owner.key --credentials owner
          --json
    """
    from maia.spark.applications.runs import check_result, interruptible, kept

    now = moment(at)
    event_type = _event_type(asked, source)
    check_result(out)
    decided = _decided(event_type, subscriptions, pool or [], asked.statements or [], now)
    with (
        spark_for("maia-match", cores=cores, memory_mib=memory_mib) as spark,
        _events(asked, source, spark, event_type, decided.permitted) as (events, kinds),
        spark_steps(spark) as step,
    ):
        from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

        from maia.spark.matching.bulk import EVENT, BulkMatcher

        step("working out keys")
        matcher = BulkMatcher(spark, decided.permitted, kinds)

        def counts() -> tuple[int, Counter[str]]:
            step("counting events")
            total = events.count()
            step("matching")
            if out is None:
                found = matcher.by_class(events).groupBy("rights_class").count()
                named = matcher.members.join(found, "rights_class").select("subscription", "count").collect()
                return total, Counter({one.id: 0 for one in decided.permitted} | dict(map(tuple, named)))
            names = [F.lit(word) for one in event_type.attributes for word in (one.uid, one.name)]
            shown = F.transform("attributes", lambda uid: F.element_at(F.create_map(*names), uid))
            matched = matcher.by_subscription(events).select(
                f"{EVENT}.*", "subscription", shown.alias("attributes")
            )
            rows = kept(spark, matched, out).groupBy("subscription").count().collect()
            return total, Counter({one.id: 0 for one in decided.permitted} | dict(map(tuple, rows)))

        total, found = interruptible(spark, counts)
        classes = matcher.classes.count()
    codes = Counter(decided.refused.values())
    most_found = [
        row("", f"{count:>13,}  {name}", subscription=name, events=count)
        for name, count in found.most_common(most)
    ]
    refused = {"refused": codes, "refused_first": dict(list(decided.refused.items())[:_REFUSED_SHOWN])}
    return Answer(
        row("", f"events         {total:,}", events=total, subscriptions=len(found), classes=classes),
        row("", f"subscriptions  {len(found):,}, in {classes:,} classes of equal rights"),
        row("", [f"refused        {count:,} [{code}]" for code, count in sorted(codes.items())]),
        row("", f"matches        {found.total():,}", matches=found.total()),
        several("most", most_found),
        row("", f"kept in        {out}" if out else None, **refused, **({"out": out} if out else {})),
    )


def _event_type(asked: LogOptions, source: str | None) -> VerifiedType:
    from maia.spark.applications.runs import parquet_columns

    if (source is None) == (asked.log is None):
        raise BadInput(
            "INPUT-PIPELINE-SOURCE", "name the source of events: either --from PLACE or --log PLACE"
        )
    if source is None:
        asked.check_log()
        return asked.newest_type()
    if not asked.definition:
        raise BadInput("INPUT-PIPELINE-SOURCE", "name the type of the events with --definition")
    found, columns = asked.newest_type(), parquet_columns(source)
    if not any(one.name in columns for one in found.attributes):
        raise BadInput(
            "INPUT-PIPELINE-SOURCE",
            f"`{source}` has no column that is called like an attribute of `{found.name.name}`",
        )
    return found


def _decided(
    event_type: VerifiedType, file: Path | None, pool: list[Path], statements: list[Path], now: Instant
) -> _Decided:
    """Ask the kernel for each subscription, with the certificates of its principal that are in the pool."""
    from maia.credentials import Action, SignedCertificate, VerificationCache, certificate_from_bytes
    from maia.policy import Facts, Request, decide, gather_evidence
    from maia.predicates import parse_predicate
    from maia.spark.closure.reach import Reach
    from maia.spark.closure.sources import read_pool
    from maia.spark.matching.tables import Subscription
    from maia.validity import ASSUMED_GOOD

    if not pool:
        raise BadInput(
            "INPUT-PIPELINE-SUBSCRIPTIONS", "give --pool: certificates say what each subscriber may see"
        )
    certificates = map(certificate_from_bytes, read_pool(pool, statements=statements, at=now).certificates)
    quorums, cache = read_constitutions(pool), VerificationCache()
    wanted = None if file is None else _lines_of(file)
    only = None if wanted is None else frozenset(one for _, one, _ in wanted)
    held: dict[Principal, dict[bytes, SignedCertificate]] = {}
    for grant in Reach(event_type, certificates, at=now, constitutions=quorums, cache=cache).grants(only):
        if grant.certificates:  # the owner needs none
            held.setdefault(grant.principal, {}).update({one.id: one for one in grant.certificates})
    if wanted is None:
        wanted = [(str(one), one, "true") for one in sorted(held)]
    found = _Decided()
    # What is searched for depends on the principal, and what is decided on its filter as well.
    proofs: dict[Principal, Evidence] = {}
    known: dict[tuple[Principal, str], View | str] = {}
    with counted("deciding", len(wanted)) as done:
        for name, principal, text in wanted:
            if (principal, text) not in known:
                asked = parse_predicate(text, event_type.vocabulary)
                request = Request(principal, Action.SUBSCRIBE, event_type.name, event_type, asked)
                if principal not in proofs:
                    mine = tuple(held.get(principal, {}).values())
                    proofs[principal] = gather_evidence(
                        request, mine, at=now, cache=cache, constitutions=quorums, standing=ASSUMED_GOOD
                    )
                known[principal, text] = _view(decide(request, proofs[principal], Facts(), now), event_type)
            view = known[principal, text]
            if isinstance(view, str):
                found.refused[name] = view
            else:
                found.permitted.append(Subscription(name, _TYPE, view))
            done(1)
    return found


def _view(decision: Decision, event_type: VerifiedType) -> View | str:
    """Return the View of a decision, or the code with which it cannot be matched."""
    from maia.policy import Denial
    from maia.spark.matching.tables import TransformedInBulk, opened_by
    from maia.views import ViewTooLarge

    if isinstance(decision, Denial):
        return decision.code
    try:
        opened_by(decision.view, event_type.kinds)
    except (TransformedInBulk, ViewTooLarge) as problem:
        return problem.code
    return decision.view


_TYPE: Final = "-"
"""All events of a job are of one type."""


def _lines_of(file: Path) -> list[tuple[str, Principal, str]]:
    """Read a file of subscriptions: a name, a principal and a filter each."""
    import msgspec

    from maia.spark.matching.tables import SUBSCRIPTIONS_MAX

    class MatchLine(msgspec.Struct, forbid_unknown_fields=True):
        subscription: str
        principal: str
        filter: str = "true"

    decoder = msgspec.json.Decoder(MatchLine)
    found: dict[str, tuple[str, Principal, str]] = {}
    principals: dict[str, Principal] = {}
    with file.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(_LINE_MAX + 1), b""), start=1):
            if len(line) > _LINE_MAX:
                raise BadInput(
                    "INPUT-PIPELINE-SUBSCRIPTIONS",
                    f"`{file}`, line {number}: it is longer than {_LINE_MAX:,} bytes",
                )
            if number > SUBSCRIPTIONS_MAX:
                raise BadInput(
                    "INPUT-BULK-SUBSCRIPTIONS", f"one job matches at most {SUBSCRIPTIONS_MAX:,} subscriptions"
                )
            try:
                one = decoder.decode(line)
            except msgspec.DecodeError as problem:
                raise BadInput(
                    "INPUT-PIPELINE-SUBSCRIPTIONS", f"`{file}`, line {number}: {problem}"
                ) from problem
            if one.subscription in found:
                raise BadInput(
                    "INPUT-PIPELINE-SUBSCRIPTIONS",
                    f"`{file}`, line {number}: a line before has this name as well",
                )
            if one.principal not in principals:
                principals[one.principal] = read_principal(one.principal)
            found[one.subscription] = (one.subscription, principals[one.principal], one.filter)
    return list(found.values())


@contextmanager
def _events(
    asked: LogOptions,
    source: str | None,
    spark: SparkSession,
    event_type: VerifiedType,
    subscriptions: Iterable[Subscription],
) -> Iterator[tuple[DataFrame, Kinds]]:
    """Hand out events as a matcher takes them, and the kinds of their attributes.

    Of a log, these are the events and attributes that the asker may read; a question that others would
    answer is refused.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

    from maia.policy.view import asks_of
    from maia.predicates.syntax import attributes_of
    from maia.spark.applications.runs import parquet_source
    from maia.spark.closure.what_if import check_sight
    from maia.spark.matching.bulk import EVENT, TYPE
    from maia.views import spark_type

    def shaped(table: DataFrame, event: list[Column], known: list[Attribute]) -> tuple[DataFrame, Kinds]:
        for one in known:
            if (is_of := table.schema[one.name].dataType) != (wanted := spark_type(one.kind)):
                sentence = f"the column `{one.name}` is of type {is_of.simpleString()}, and the attribute"
                raise BadInput("INPUT-PIPELINE-SOURCE", f"{sentence} needs {wanted.simpleString()}")
        columns = (F.col(f"`{one.name}`").alias(one.uid) for one in known)
        whole = table.select(F.struct(*event).alias(EVENT), F.lit(_TYPE).alias(TYPE), *columns)
        return whole, {one.uid: one.kind for one in known}

    if source is not None:
        found = parquet_source(spark, source)
        table = found.table()
        known = [one for one in event_type.attributes if one.name in table.columns]
        file, number = found.numbered
        place = [F.col(file).alias("file"), F.col(number).alias("row")]
        yield shaped(table, place, known)
        return
    readable = closure.readable_of(asked, event_type)
    views = [one.view for one in subscriptions]
    needed = (
        *(asks_of(window) for view in views for window in view.windows),
        *(attributes_of(view.interest) for view in views),
    )
    check_sight(frozenset().union(*needed), readable, event_type)
    known = [one for one in event_type.attributes if one.uid in readable]
    with asked.opened_table(spark, with_meta=True) as table:
        place = [F.col(name).alias(name[1:]) for name in ("_publisher", "_stream", "_sequence", "_row")]
        yield shaped(table, place, known)
