"""How is a summary signed, and how do people write it?

    (summary (every SECONDS) (at-least COUNT) (late SECONDS)
             (per (UID EXPRESSION) …)
             (of (UID AGGREGATE) | (UID AGGREGATE EXPRESSION) | (UID mean EXPRESSION (step FLOAT)) …))

Each summary has one form in bytes. What `format_summary` writes reads back, clause by clause.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from maia.canonical import SExpression
from maia.canonical.fields import Part, bare, each, fields, many, number, one, record, word_of
from maia.events import AttributeUid, Kind, PresentValue, Vocabulary, attribute_uid
from maia.expressions.encoding import BadExpressionEncoding, value_from_expression, value_to_expression
from maia.expressions.language import BadExpressionText, format_expression, parse_rule, read_expression
from maia.expressions.summaries import LATE_S_DEFAULT, Aggregate, Key, Measure, Summary, checked_summary
from maia.expressions.syntax import RULES_MAX, BadExpression
from maia.predicates.encoding import literal_from_bytes, literal_to_bytes
from maia.predicates.language.literals import NO_PARAMETERS
from maia.predicates.language.scanner import NAME, BadPredicateText, Scanner
from maia.predicates.language.writer import format_literal
from maia.predicates.syntax import ALWAYS

_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}|0")
_ASSIGNED: Final = re.compile(
    r"\s*(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\s*:=\s*(?P<call>[A-Za-z_]+)\s*\((?P<inside>.*)\)\s*", re.DOTALL
)
_STEP: Final = re.compile(r"(?P<value>.*),\s*(?P<step>[0-9][0-9.eE+-]*)\s*", re.DOTALL)
_AGGREGATES: Final = {one.value: one for one in Aggregate}


# ------------------------------------------------------------ text


def parse_every(text: str) -> tuple[int, int, int]:
    """Read `5 minutes at least 5 late 30 seconds`: period, least group, and how late events may be."""
    scanner = Scanner(text)
    every_s, at_least, late_s = _seconds(scanner), 1, LATE_S_DEFAULT
    if scanner.take_word("at"):
        scanner.must_take_word("least")
        at_least = _number(scanner)
    if scanner.take_word("late"):
        late_s = _seconds(scanner)
    scanner.must_end("`at least`, `late` or the end")
    return every_s, at_least, late_s


def _number(scanner: Scanner) -> int:
    found = scanner.take_match(_NUMBER)
    if found is None:
        raise scanner.expected("a number")
    return int(found)


def _seconds(scanner: Scanner) -> int:
    count = _number(scanner)
    at = scanner.mark()
    word = scanner.take_match(NAME) or ""
    unit = _UNITS.get(word.removesuffix("s"))
    if unit is None:
        raise scanner.refused("expected seconds, minutes, hours or days", at=at, problem=BadExpressionText)
    return count * unit


def parse_key(
    text: str,
    vocabulary: Vocabulary,
    assigned: Vocabulary,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
) -> Key:
    """Read `area := first(place, 3)`; a name alone is that attribute, called the same in the outcome."""
    text = text if ":=" in text else f"{text.strip()} := {text.strip()}"
    rule = parse_rule(text, vocabulary, assigned, parameters)
    if rule.value is None or rule.condition != ALWAYS:
        raise BadExpression("a summary is `per` a value, under no condition")
    return Key(rule.uid, rule.value)


def parse_measure(
    text: str,
    vocabulary: Vocabulary,
    assigned: Vocabulary,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
) -> Measure:
    """Read `mean_level := mean(level, 0.1)`, `readings := count()` and their like."""
    scanner = Scanner(text)
    found = _ASSIGNED.fullmatch(text)
    known = ", ".join(f"{name}(…)" for name in _AGGREGATES)
    if found is None:
        raise scanner.expected(f"an assignment of {known}")

    def refused(said: str, at: int) -> BadPredicateText:
        return scanner.refused(said, at=at, problem=BadExpressionText)

    name, call = found.group("name"), found.group("call")
    if name not in assigned:
        raise refused(f"the outcome has no attribute `{name[:64]}`", found.start("name"))
    aggregate = _AGGREGATES.get(call)
    if aggregate is None:
        raise refused(f"a summary assigns {known}, and not `{call[:64]}`", found.start("call"))
    begins, ends = found.span("inside")
    step = None
    stepped = _STEP.fullmatch(text, begins, ends) if aggregate is Aggregate.MEAN else None
    if stepped is not None:
        ends = stepped.end("value")
        try:
            step = float(stepped.group("step"))
        except ValueError:
            raise refused("expected a number", stepped.start("step")) from None
    value = None
    if text[begins:ends].strip():
        inside = Scanner(text[:ends], begins)  # in place, so that a complaint points at its own column
        value = read_expression(inside, vocabulary, None, parameters)
    try:
        measure = Measure(assigned[name].uid, aggregate, value, step)
    except BadExpression as problem:
        raise refused(problem.message, found.start("call")) from problem
    if measure.kind is not assigned[name].kind:
        said = f"a {assigned[name].kind.value} is assigned here, and `{call}` is a {measure.kind.value}"
        raise refused(said, 0)
    return measure


def parse_summary(
    every: str,
    per: Sequence[str],
    assignments: Sequence[str],
    vocabulary: Vocabulary,
    assigned: Vocabulary,
    parameters: Mapping[str, PresentValue] = NO_PARAMETERS,
) -> Summary:
    """Read a whole summary from its clauses."""
    every_s, at_least, late_s = parse_every(every)
    return checked_summary(
        Summary(
            every_s,
            tuple(parse_key(text, vocabulary, assigned, parameters) for text in per),
            tuple(parse_measure(text, vocabulary, assigned, parameters) for text in assignments),
            at_least,
            late_s,
        )
    )


def format_summary(
    summary: Summary,
    names: Mapping[AttributeUid, str] | None = None,
    assigned: Mapping[AttributeUid, str] | None = None,
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return what follows `every`, what follows each `per`, and each assignment."""

    def called(uid: AttributeUid) -> str:
        return uid if assigned is None else assigned.get(uid, f"#{uid}")

    def written(measure: Measure) -> str:
        operands = [] if measure.value is None else [format_expression(measure.value, names)]
        operands += [] if measure.step is None else [format_literal(measure.step)]
        return f"{called(measure.uid)} := {measure.aggregate.value}({', '.join(operands)})"

    least = "" if summary.at_least == 1 else f" at least {summary.at_least}"
    return (
        f"{summary.every_s} seconds{least} late {summary.late_s} seconds",
        tuple(f"{called(key.uid)} := {format_expression(key.value, names)}" for key in summary.keys),
        tuple(map(written, summary.measures)),
    )


# ------------------------------------------------------------ bytes


def _read_step(atom: SExpression) -> PresentValue:
    if not isinstance(atom, bytes):
        raise BadExpressionEncoding("the step of a mean is a number")
    return literal_from_bytes(Kind.FLOAT, atom)


_LISTED: Final = (BadExpressionEncoding, f"a summary has at most {RULES_MAX} keys and measures")
_UID: Final[Part[AttributeUid]] = Part(
    lambda uid: attribute_uid(uid).encode(),
    lambda atom: attribute_uid(atom.decode("ascii", "replace") if isinstance(atom, bytes) else ""),
)
_VALUE: Final = Part(value_to_expression, value_from_expression)
_WHOLE: Final = number(
    0, 10**9 - 1, (BadExpressionEncoding, "a number of a summary is decimal, without leading zeros")
)
_KEY: Final = fields(
    Key,
    (BadExpressionEncoding, "a key of a summary is `(UID EXPRESSION)`"),
    uid=bare(_UID),
    value=bare(_VALUE),
)
_MEASURE_FORM: Final = (BadExpressionEncoding, "what is `of` a summary is `(UID AGGREGATE EXPRESSION)`")
_MEASURE: Final = fields(
    Measure,
    _MEASURE_FORM,
    uid=bare(_UID),
    aggregate=bare(word_of(Aggregate, *_MEASURE_FORM)),
    value=bare(_VALUE, left_out=None),
    step=one(Part(literal_to_bytes, _read_step), left_out=None),
)
_SUMMARY: Final = record(
    b"summary",
    Summary,
    (BadExpressionEncoding, "a summary has `every`, `at-least`, `late`, `per` and `of`, in this order"),
    check=checked_summary,
    every_s=one(_WHOLE, b"every"),
    at_least=one(_WHOLE),
    late_s=one(_WHOLE, b"late"),
    keys=many(each(_KEY, RULES_MAX, _LISTED), b"per"),
    measures=many(each(_MEASURE, RULES_MAX, _LISTED), b"of"),
)


def summary_to_expression(summary: Summary) -> SExpression:
    """Return the one form of a summary; refuse one that could not be read back."""
    written: SExpression = _SUMMARY.write(summary)
    return written


def summary_from_expression(expression: SExpression) -> Summary:
    """Read a summary strictly."""
    try:
        return _SUMMARY.read(expression)
    except BadExpression as problem:
        raise BadExpressionEncoding(problem.message) from problem
