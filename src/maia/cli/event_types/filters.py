"""`maia filter`: is this filter well formed, does it cover that one, can these be merged, at which price?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import arg, need, opt
from maia.cli.inputs import command_group, vocabulary_from
from maia.cli.output import Answer, row, rows

if TYPE_CHECKING:
    from maia.events import Event


app = command_group("Check, compare and merge filters.")

DEFINITION = opt(
    "A type definition; without one, names are uids and literals type themselves.", "--definition", "-d"
)


@app.command()
def check(
    filter_text: str = arg("In the filter language.", metavar="FILTER"), definition: Path | None = DEFINITION
) -> Answer:
    """Check whether a filter is well formed, and print how Maia reads it.

    Examples:
        maia filter check 'numberplate == "AE05 XYZ"' -d numberplate.type
    """
    from maia.canonical import write_canonical
    from maia.predicates import (
        attributes_of,
        format_predicate,
        parse_predicate,
        predicate_to_expression,
        provably_empty,
    )

    vocabulary = vocabulary_from(definition)
    names = {attribute.uid: name for name, attribute in (vocabulary or {}).items()}
    predicate = parse_predicate(filter_text, vocabulary)
    text = format_predicate(predicate, names or None)
    empty = provably_empty(predicate)
    speaks_of = sorted(names.get(uid, uid) for uid in attributes_of(predicate))
    return Answer(
        rows(reads_as=text),
        row("mentions", ", ".join(speaks_of) or "nothing", attributes=speaks_of, empty=empty),
        row("warning", "no event can ever satisfy it" if empty else None),
        row(canonical=write_canonical(predicate_to_expression(predicate))),
    )


@app.command()
def covers(
    wide: str = arg("The filter that should admit more."),
    narrow: str = arg("The filter that should admit less."),
    definition: Path | None = DEFINITION,
) -> Answer:
    """Check whether WIDE provably admits everything that NARROW admits (exit status 1 if not).

    Examples:
        maia filter covers 'price < 100' 'price < 50 and exists(volume)'
    """
    from maia.predicates import covers as provably_covers
    from maia.predicates import parse_predicate

    vocabulary = vocabulary_from(definition)
    proved = provably_covers(
        wide=parse_predicate(wide, vocabulary), narrow=parse_predicate(narrow, vocabulary)
    )
    text = "covers" if proved else "does not cover, as far as can be proved"
    return Answer(row("", text, covers=proved), no=not proved)


@app.command()
def merge(
    filters: list[str] = arg("In the filter language.", metavar="FILTER..."),
    size: int = opt("At most so many filters afterwards.", "--size", "-s", default=1, min=1),
    definition: Path | None = DEFINITION,
) -> Answer:
    """Merge filters into fewer that together admit at least as much, and bound what they admit beyond.

    Examples:
        maia filter merge --size 1 'price < 10' 'price < 20' 'price > 15 and price < 30'
    """
    from maia.predicates import format_predicate, parse_predicate
    from maia.predicates.merging.merge import merge as merged

    vocabulary = vocabulary_from(definition)
    names = {attribute.uid: name for name, attribute in (vocabulary or {}).items()} or None
    result = merged([parse_predicate(text, vocabulary) for text in filters], size_max=size)
    texts = [format_predicate(predicate, names) for predicate in result.filters]
    spill = float(result.spill_bound)
    said = f"spill: at most {spill:.1%} of what they admit was not asked for"
    return row("", [*texts, said], filters=texts, spill_bound=spill)


@app.command()
def curve(
    filters: Path = need("A file with one filter in each line."),
    events: Path = need("A file with one event in each line, as JSON."),
    points: int = opt("How many budgets to try.", default=12, min=2, max=100),
    definition: Path | None = DEFINITION,
) -> Answer:
    """Merge filters within budgets from least to most bytes, and count the events that spill at each.

    Examples:
        maia filter curve --filters offices.filters --events sightings.jsonl -d plate.type
    """
    from maia.predicates import parse_predicate
    from maia.routing.aggregation.budget import fitted, plotted, spill_curve

    vocabulary = vocabulary_from(definition)
    asked = [parse_predicate(line, vocabulary) for line in _lines(filters)]
    measured = spill_curve(asked, _events(events, definition), points=points)
    fit = fitted(measured)
    about = None if fit is None else f"spill is about {fit.k:.3g} / bytes ** {fit.exponent:.2f}"
    points_ = [
        {"bytes": one.size, "filters": one.filters, "admitted": one.admitted, "spilled": one.spilled}
        for one in measured
    ]
    said = None if fit is None else {"k": fit.k, "exponent": fit.exponent}
    return Answer(row("", plotted(measured), points=points_), row("", about, fit=said))


def _lines(path: Path) -> list[str]:
    from maia.cli.inputs import read_text

    return [line for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]


def _events(path: Path, definition: Path | None) -> list[Event]:
    """Read events by uid; without a definition, names are uids and JSON says which kind a value has."""
    import json

    from maia.cli.inputs import moment, read_definition
    from maia.cli.participate.json_events import BadEventLine, event_from_line
    from maia.events import AttributeUid, BadValue, kind_of

    if definition is not None:
        shape, now = read_definition(definition).definition, moment(None)
        named = [event_from_line(line, shape, now=now) for line in _lines(path)]
        return [{shape.vocabulary[name].uid: value for name, value in event.items()} for event in named]
    found: list[Event] = []
    for line in _lines(path):
        try:
            record = json.loads(line)
            found.append({AttributeUid(name): value for name, value in record.items()})
            [kind_of(value) for value in record.values() if value is not None]
        except (ValueError, AttributeError, RecursionError, BadValue) as problem:
            raise BadEventLine(f"`{line.strip()[:60]}` is not an event in JSON") from problem
    return found
