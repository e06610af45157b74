"""What do transformations make of one event, as fast as Python says it?

`to_python` asks for Views with transformations. Every rule becomes a closure
over its operands, so that nothing is looked up in a syntax tree per event. The
answers are those of `see` in `maia.policy.view`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet, Transformation
from maia.events import AttributeUid, Event, Kind, PresentValue, Value, kind_of
from maia.expressions.meaning import KeyView, TransformationKeys, calculated, keyed_result, result_of
from maia.expressions.syntax import (
    KEYED,
    Arithmetic,
    Call,
    Coalesce,
    Constant,
    Expression,
    Take,
    assigned_kinds,
)
from maia.policy.view import View, Window, is_among
from maia.predicates.syntax import ALWAYS, Not, Predicate

Seen: TypeAlias = dict[AttributeUid, PresentValue]
Test: TypeAlias = Callable[[Event], bool]
MakeTest: TypeAlias = Callable[[Predicate], Test]
Step: TypeAlias = Callable[[Seen], Seen | None]


def transforming(view: View, keys: TransformationKeys, test: MakeTest) -> Callable[[Event], Seen | None]:
    """Return a function that answers as `see(view, event, keys)` does; `test` compiles a predicate."""
    windows = [_window(window, keys, view.recipient, test) for window in view.windows]
    wanted = None if view.interest == ALWAYS else test(view.interest)

    def see(event: Event) -> Seen | None:
        seen: Seen | None = None
        for through in windows:
            shown = through(event)
            if shown is not None:
                seen = shown if seen is None else {**shown, **seen}
        if seen is None or (wanted is not None and not wanted(seen)):
            return None
        return seen

    return see


def _window(
    window: Window, keys: TransformationKeys, recipient: bytes, test: MakeTest
) -> Callable[[Event], Seen | None]:
    admits = None if window.admits == ALWAYS else test(window.admits)
    screen = _screen(window.attributes)
    steps = [
        _step(step, keys.of(step.by.key, recipient, step.holder), test) for step in window.transformations
    ]

    def through(event: Event) -> Seen | None:
        if admits is not None and not admits(event):
            return None
        shown: Seen | None = screen(event)
        for step in steps:
            if shown is None:
                return None
            shown = step(shown)
        return shown

    return through


def _screen(attributes: AttributeSet) -> Callable[[Event], Seen]:
    if attributes is ALL_ATTRIBUTES:
        return lambda event: {uid: value for uid, value in event.items() if value is not None}
    return lambda event: {
        uid: value for uid, value in event.items() if value is not None and is_among(uid, attributes)
    }


def _step(step: Transformation, keys: KeyView, test: MakeTest) -> Step:
    rules = [_rule(rule.uid, rule.value, rule.condition, keys, test) for rule in step.rules]
    kinds = {uid: kind for uid, kind in assigned_kinds(step.rules).items() if kind is not None}
    converts = step.result is not None
    admits = None if step.restriction == ALWAYS else test(step.restriction)
    screen = _screen(step.attributes)

    def run(event: Seen) -> Seen | None:
        if admits is not None and not admits(event):
            return None
        after: dict[AttributeUid, Value] = {} if converts else dict(event)
        for rule in rules:
            rule(event, after)
        for uid, kind in kinds.items():
            value = after.get(uid)
            if value is not None and kind_of(value) is not kind:
                after[uid] = None
        return screen(after)

    return run


def _rule(
    uid: AttributeUid, value: Expression | None, condition: Predicate, keys: KeyView, test: MakeTest
) -> Callable[[Seen, dict[AttributeUid, Value]], None]:
    calculate = _removed if value is None else _calculator(value, keys)
    if condition == ALWAYS:

        def assign(event: Seen, after: dict[AttributeUid, Value]) -> None:
            after[uid] = calculate(event)

        return assign
    holds, fails = test(condition), test(Not(condition))

    def assign_if(event: Seen, after: dict[AttributeUid, Value]) -> None:
        if holds(event):
            after[uid] = calculate(event)
        elif not fails(event):
            after[uid] = None  # unknown: what a policy wants to change is not shown by mistake

    return assign_if


def _removed(event: Event) -> Value:
    return None


def _calculator(expression: Expression, keys: KeyView) -> Callable[[Event], Value]:
    match expression:
        case Constant(value):
            return lambda event: value
        case Take(uid, kind):
            return _taker(uid, kind)
        case Arithmetic(sign, left, right):
            one, other = _calculator(left, keys), _calculator(right, keys)

            def of_both(event: Event) -> Value:
                a, b = one(event), other(event)
                return None if a is None or b is None else calculated(sign, a, b)

            return of_both
        case Coalesce(parts):
            calculators = [_calculator(part, keys) for part in parts]

            def first_present(event: Event) -> Value:
                for calculate in calculators:
                    found = calculate(event)
                    if found is not None:
                        return found
                return None

            return first_present
        case Call(function, inner, operands):
            given = _calculator(inner, keys)
            is_keyed = function in KEYED

            def called(event: Event) -> Value:
                found = given(event)
                if found is None:
                    return None
                if is_keyed:
                    return keyed_result(expression, found, keys)
                return result_of(function, found, operands)

            return called
        case _:
            assert_never(expression)


def _taker(uid: AttributeUid, kind: Kind) -> Callable[[Event], Value]:
    def take(event: Event) -> Value:
        found = event.get(uid)
        return found if found is not None and kind_of(found) is kind else None

    return take
