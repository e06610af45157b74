"""`maia pipeline closure` and `what-if`: who can see what by all certificates, and with others?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import arg, flag, need, opt
from maia.cli.inputs import AT, command_group, moment, read_certificates, read_constitutions
from maia.cli.output import Answer, name_places, row, rows
from maia.cli.pipeline.source import LogOptions, found_rows, shown_values, spark_for, spark_steps
from maia.cli.progress import counted
from maia.cli.trust.key import open_key
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.events import AttributeUid, Instant
    from maia.spark.closure.what_if import Pools as TwoPools
    from maia.spark.closure.what_if import ReplayOutcome
    from maia.types import VerifiedType


app = command_group("Compute, in Spark, who can see what by all certificates; and ask it.")
FOLDER = arg("A folder, or a place such as s3://…, that `build` made.", metavar="CLOSURE")
POOLS = opt(
    "Certificates: a folder or wallet, a file, a register from `maia domain register --json` "
    "(*.json), or a *.parquet file. May be repeated.",
    "--pool",
)
_MANY: Final = 20_000
"""Certificates from which on it pays that Spark compiles thoroughly."""


@app.command()
def build(
    out: str = arg("A new folder for the closure, or a place such as s3://….", metavar="PLACE"),
    pool: list[Path] | None = POOLS,
    types: list[Path] | None = opt("The types: files, or folders of *.type. May be repeated."),
    statements: list[Path] | None = opt(
        "Validity statements: what they revoke is left out. May be repeated."
    ),
    since: str | None = opt("An earlier closure: only what depends on changed certificates is computed."),
    add: list[Path] | None = opt("With --since: certificates that came. May be repeated."),
    remove: list[Path] | None = opt("With --since: certificates that went. May be repeated."),
    with_revoked: bool = flag("Keep revoked certificates: who could ever see what?"),
    checkpoint: Path | None = opt(
        "On a cluster, for a closure in an object store: a folder that every worker reads and writes, in "
        "which it comes together.",
        metavar="FOLDER",
    ),
    at: str | None = AT,
) -> Answer:
    """Compute the closure of a pool: a Parquet table of principals, types, attributes and periods.

    With --since, give the new pool, which is compared with the old one, or --add and --remove.

    Examples:
        maia pipeline closure build today --pool register.json --pool wallet --types types
        maia pipeline closure build tomorrow --since today --add new.cert --remove old.cert
        maia pipeline closure build s3://rights/today --pool register.json --types types
    """
    from maia.credentials import statement_to_bytes
    from maia.spark.closure.sources import check_table, read_pool, read_types
    from maia.spark.governed.right_watch import read_statements

    now = moment(at)
    if since is not None:
        if types or with_revoked or checkpoint is not None:
            raise typer.BadParameter("with --since, leave out --types, --with-revoked and --checkpoint")
        return _build_since(since, out, pool, statements, add, remove, now)
    if not pool or not types or add or remove:
        raise typer.BadParameter("give --pool and --types; or --since with what changed")
    # Tables are read by Spark; this process never holds them.
    large = [one for one in pool if one.suffix == ".parquet"]
    for one in large:
        check_table(one)
    read = read_pool([one for one in pool if one not in large], with_revoked=with_revoked, at=now)
    lineages = read_types(types, pool, at=now)
    heard = () if with_revoked else tuple(map(statement_to_bytes, read_statements(statements or ())))
    with spark_for("maia-closure", long_running=bool(large) or len(read.certificates) > _MANY) as spark:
        from maia.spark.closure import tables

        with spark_steps(spark) as step:
            closure = tables.build(
                spark, read.certificates, out, types=lineages, quorums=read.quorums, ends=read.ends,
                tables=[str(one.resolve()) for one in large], statements=heard, at=now, step=step,
                work=checkpoint,
            )  # fmt: skip
            step("counting")
            table = closure.rows(spark)
            found, principals = table.count(), table.select("principal").distinct().count()
    size, revoked = closure.certificates, closure.revoked + read.revoked
    text = f"{size} certificates, {revoked} revoked ones left out"
    return Answer(
        rows(closure=out),
        row("pool", text, certificates=size, revoked=revoked),
        rows(types=len(closure.types)),
        row("rows", f"{found}, of {principals} principals", rows=found, principals=principals),
    )


def _build_since(
    since: str,
    out: str,
    pool: list[Path] | None,
    statements: list[Path] | None,
    add: list[Path] | None,
    remove: list[Path] | None,
    now: Instant,
) -> Answer:
    from maia.cli.inputs import read_certificates
    from maia.credentials import certificate_to_bytes
    from maia.spark.closure import tables
    from maia.spark.closure.sources import read_pool

    old = tables.open_closure(since)
    added = list(map(certificate_to_bytes, read_certificates(add or ())))
    removed = list(map(certificate_to_bytes, read_certificates(remove or ())))
    if pool:
        before = set(tables.certificates_of(old).values())
        after = set(read_pool(pool, statements=statements or (), at=now).certificates)
        added += sorted(after - before)
        removed += sorted(before - after)
    new, changed = tables.update(old, out, added=added, removed=removed, at=now)
    anew = f"{changed.principals} principals anew, in {changed.types} of {len(new.types)} types"
    more = f"{len(added)} certificates more, {len(removed)} less"
    return Answer(
        rows(closure=out),
        row("changed", more, added=len(added), removed=len(removed)),
        row("computed", anew, types=changed.types, principals=changed.principals),
    )


@app.command()
def who_can(
    closure: str = FOLDER,
    type_name: str = need("The type's readable name, or NAME@OWNER.", "--type"),
    attribute: str | None = opt("This attribute alone: a name or a uid."),
    at: str | None = opt("At this moment, or `now`; default: ever.", metavar="TIME"),
) -> Iterator[Answer]:
    """Print who can see a type: which attributes, of which events, under which condition, when.

    Examples:
        maia pipeline closure who-can today --type hospital.Result --attribute patient --at
          2026-12-24T00:00:00Z
    """
    from maia.spark.closure.tables import check_asked, open_closure

    found = open_closure(closure)
    whose, name = check_asked(found, type_name, attribute, folders=name_places())
    with spark_for("maia-closure", long_running=False) as spark:
        from maia.spark.closure.tables import who_can as question

        at_moment = None if at is None else utc(moment(None if at == "now" else at))
        seen = question(found.rows(spark), type_name=name, owner=whose, attribute=attribute, at=at_moment)
        yield from found_rows(seen.orderBy("principal", "attribute", "since"), _right)


@app.command()
def diff(old: str = FOLDER, new: str = arg("The later closure.", metavar="NEW")) -> Iterator[Answer]:
    """Print the rights that only one of two closures has: `more` in the new one, `less` in it.

    Examples:
        maia pipeline closure diff yesterday today --json
    """
    from maia.spark.closure.tables import open_closure

    pair = open_closure(old), open_closure(new)
    with spark_for("maia-closure", long_running=False) as spark:
        from maia.spark.closure.tables import difference

        found = difference(spark, *pair).orderBy("change", "principal", "type", "attribute", "since")
        yield from found_rows(found, _right)


def utc(at: Instant) -> datetime:
    """Return a moment as Spark takes it."""
    return datetime.fromtimestamp(at / 1_000_000, UTC)


def _right(found: dict[str, object]) -> Answer:
    from maia.credentials import Principal

    record = shown_values({name: one for name, one in found.items() if name != "type_id"})
    if isinstance(whom := found["principal"], bytes | bytearray):
        record["principal"] = str(Principal(bytes(whom)))
    words = [f"{record['change']:<5}"] if "change" in record else []
    words.append(f"{record['principal']}  {record['type']}  {record['attribute']}")
    for word, name in _WORDS.items():
        words += [f"{word} {record[name]}"] if record[name] else []
    tests = record["tests"]
    words += [f"tested ({', '.join(map(str, tests))})"] if isinstance(tests, list) and tests else []
    return row("", "  ".join(words), **record)


_WORDS: Final = {
    "from": "since", "until": "until", "where": "where", "if": "condition", "as": "transformation",
}  # fmt: skip
"""What narrows a right, by the word that it is shown with."""


# `maia pipeline what-if`: who would have seen more of a recorded period, and who less?


def what_if(
    asked: LogOptions,
    pool: list[Path] | None = POOLS,
    revoke: list[str] | None = opt("A certificate that is revoked: its file, or its id. May be repeated."),
    add: list[Path] | None = opt("A certificate that is issued: its file. May be repeated."),
    since: str | None = opt("Events published since then.", metavar="TIME"),
    until: str | None = opt("Events published until then.", metavar="TIME"),
    examples: int = opt("Examples for each principal.", default=3, min=0, max=100),
) -> Iterator[Answer]:
    """Replay a recorded period with a certificate revoked or issued: who would have seen more, who less.

    Examples:
        maia pipeline what-if --revoke ward/subscribe.cert --pool ward --pool office --log events -d
          result.type -k hospital.key --credentials hospital --since 2026-11-01T00:00:00Z
    """
    from maia.credentials import certificate_from_bytes
    from maia.spark.closure.sources import read_pool
    from maia.spark.closure.what_if import Pools as TwoPools

    if not pool or not (revoke or add):
        raise BadInput("INPUT-WHAT-IF", "give --pool, and a change: --revoke or --add")
    read = read_pool(pool, at=moment(None))
    before = tuple(map(certificate_from_bytes, read.certificates))
    gone = _ids(revoke or [])
    unknown = gone - {one.id for one in before}
    if unknown:
        raise BadInput("INPUT-WHAT-IF", f"certificate {min(unknown).hex()} is not in the pool")
    after = (*(one for one in before if one.id not in gone), *read_certificates(add or ()))
    pools = TwoPools(before, after, constitutions=read_constitutions(pool))
    period = tuple(None if one is None else moment(one) for one in (since, until))
    yield from outcomes(asked, pools, since=period[0], until=period[1], examples=examples)


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
            raise BadInput(
                "INPUT-WHAT-IF", f"`{word[:80]}` is neither a file nor the id of a certificate"
            ) from None
    return frozenset(found)


def outcomes(
    asked: LogOptions, pools: TwoPools, *, since: Instant | None, until: Instant | None, examples: int
) -> Iterator[Answer]:
    """Compare what principals see of a log with one pool and with the other; yield who sees less, or more."""
    asked.check_log()
    event_type = asked.newest_type()
    with spark_for("maia-what-if") as spark:
        from maia.spark.closure.what_if import affected, compare

        changed, besides = affected(event_type, pools, at=moment(None), since=since, until=until)
        readable = readable_of(asked, event_type, since=since, until=until)
        hidden = sorted(one.name for one in event_type.attributes if one.uid not in readable)
        period = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        with (
            asked.opened_table(spark, with_meta=True, **period) as events,
            counted("comparing principals", len(changed)) as done,
        ):
            # Not cached: Spark would put the asker's rows on a disk.
            found = compare(events, event_type, changed, readable=readable, examples=examples, done=done)
            yield from map(_outcome, found)
    unseen = f"not compared, since you may not read them: {', '.join(hidden)}"
    differ = f"{len(changed)} principals whose rights differ, {besides} more not compared"
    yield row("", [differ, *([unseen] if hidden else [])])


def readable_of(
    asked: LogOptions, event_type: VerifiedType, *, since: Instant | None = None, until: Instant | None = None
) -> frozenset[AttributeUid]:
    """Return the attributes that the holder of --key reads of every event in a log."""
    from maia.credentials import Action
    from maia.policy import Request
    from maia.spark.closure.what_if import readable_by
    from maia.spark.governed.reader import slices_of
    from maia.validity import ASSUMED_GOOD

    assert asked.key is not None  # noqa: S101 - checked with the log
    own = asked.reader(open_key(asked.key).principal).tested(ASSUMED_GOOD, moment(None))
    request = Request(own.principal, Action.SUBSCRIBE, event_type.name, event_type)
    return readable_by(slices_of(request, own, since=since, until=until), event_type)


def _outcome(found: ReplayOutcome) -> Answer:
    def listed(counts: dict[str, int]) -> str | None:
        return ", ".join(f"{name} in {count:,} events" for name, count in counts.items()) or None

    before, after, other = found.rows_before, found.rows_after, found.rows_other
    conditional = found.affected.is_conditional
    samples = [shown_values(one) for one in found.examples]
    return Answer(
        rows(principal=found.affected.principal),
        row("rows", f"{before:,} before, {after:,} after", rows_before=before, rows_after=after),
        row(rows_less=found.rows_less, rows_more=found.rows_more, rows_other=other),
        row("less", listed(found.less), less=found.less),
        row("more", listed(found.more), more=found.more),
        row("other", f"values in {other:,} events" if other else None, conditional=conditional),
        row("conditional", "a condition of its rights counts as not met" if conditional else None),
        row("for example", samples, examples=samples),
        row("", ""),
    )
