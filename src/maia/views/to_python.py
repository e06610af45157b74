"""What does this View show of one event, and may this publisher send it?

Brokers ask, once per event and rights class. The answers are those of `see`
and `shape` in `maia.policy.view`, several times as fast: the View is turned
into one Python function with its operands bound as constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, assert_never, cast

from maia.credentials.authority import ALL_ATTRIBUTES, AllAttributes
from maia.events import AttributeUid, Event, Instant, Kind, PresentValue
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.policy.view import View, Window, shows
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    ALWAYS,
    OPPOSITE,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Predicate,
    TextMatch,
    TextTest,
    attributes_of,
    checked_size,
)
from maia.views.plan import checked_view, transforms
from maia.views.transformers import transforming

# Predicates as Python expressions.


CLASSES: Final[dict[Kind, type]] = {
    Kind.STRING: str,
    Kind.INT: int,
    Kind.FLOAT: float,
    Kind.BOOL: bool,
    Kind.TIMESTAMP: Instant,
    Kind.BYTES: bytes,
}


@dataclass(slots=True)
class Constants:
    """The operands that the text names: `k0` is `values[0]`."""

    values: list[object] = field(default_factory=list)

    def name(self, value: object) -> str:
        """Keep a value and return its name."""
        self.values.append(value)
        return f"k{len(self.values) - 1}"

    @property
    def names(self) -> list[str]:
        """Return all names, in the order of the values."""
        return [f"k{i}" for i in range(len(self.values))]


Variable = Callable[[AttributeUid], str | None]
"""The expression that holds an attribute's value or None; null if the attribute cannot be there."""


def is_true(predicate: Predicate, variable: Variable, constants: Constants) -> str:
    """Return an expression that is True where the verdict is true, and False elsewhere."""
    return _asked(predicate, variable, constants, wanted=True)


def _asked(predicate: Predicate, variable: Variable, constants: Constants, *, wanted: bool) -> str:
    match predicate:
        case Not(inner):
            return _asked(inner, variable, constants, wanted=not wanted)
        case AllOf(parts):
            asked = [_asked(part, variable, constants, wanted=wanted) for part in parts]
            return _joined(asked, conjunction=wanted)
        case AnyOf(parts):
            asked = [_asked(part, variable, constants, wanted=wanted) for part in parts]
            return _joined(asked, conjunction=not wanted)
        case Exists(uid):
            found = variable(uid)
            if found is None:
                return str(not wanted)
            return f"({found} is not None)" if wanted else f"({found} is None)"
        case Comparison() | Membership() | TextMatch():
            found = variable(predicate.uid)
            return "False" if found is None else _atom(predicate, found, constants, wanted=wanted)
        case _:
            assert_never(predicate)


def _joined(asked: list[str], *, conjunction: bool) -> str:
    if not asked:
        return str(conjunction)
    return asked[0] if len(asked) == 1 else f"({(' and ' if conjunction else ' or ').join(asked)})"


def _atom(
    atom: Comparison | Membership | TextMatch, found: str, constants: Constants, *, wanted: bool
) -> str:
    kind = Kind.STRING if isinstance(atom, TextMatch) else atom.kind
    test = _test(atom, found, constants, wanted=wanted)
    # The kind comes first: `<` between two classes raises, and `1 == True` holds.
    return f"(type({found}) is {kind.value}_ and {test})"


def _test(
    atom: Comparison | Membership | TextMatch, found: str, constants: Constants, *, wanted: bool
) -> str:
    negation = "" if wanted else "not "
    match atom:
        case Comparison(_, operator, literal):
            return f"{found} {(operator if wanted else OPPOSITE[operator]).value} {constants.name(literal)}"
        case Membership(_, literals):
            return f"{found} {negation}in {constants.name(literals)}"
        case TextMatch(_, test, text):
            operand = (
                re.compile(parse_path_pattern(text).regex(), re.DOTALL) if test is TextTest.LEVELS else text
            )
            return negation + _text_test(test, found, constants.name(operand))
        case _:
            assert_never(atom)


def _text_test(test: TextTest, found: str, operand: str) -> str:
    match test:
        case TextTest.PREFIX:
            return f"{found}.startswith({operand})"
        case TextTest.SUFFIX:
            return f"{found}.endswith({operand})"
        case TextTest.CONTAINS:
            return f"({operand} in {found})"
        case TextTest.TOKEN:
            return f"({operand} in {found}.split(' '))"
        case TextTest.LEVELS:
            return f"({operand}.fullmatch({found}) is not None)"
        case _:
            assert_never(test)


See: TypeAlias = Callable[[Event], dict[AttributeUid, PresentValue] | None]
Test: TypeAlias = Callable[[Event], bool]

_UNROLLED_MAX: Final = 24


def to_python(view: View, keys: TransformationKeys = NO_KEYS) -> See:
    """Return a function that answers as `see(view, event, keys)` does."""
    if transforms(view):
        return transforming(checked_view(view), keys, to_python_test)
    text, constants = see_source(view)
    # cast: `exec` has no types; the text defines a function of one event.
    return cast(See, _bound(text, constants))


def to_python_test(predicate: Predicate) -> Test:
    """Return a function that answers as `admits(predicate, event)` does."""
    constants = Constants()
    checked_size(predicate)
    variables = {uid: f"v{i}" for i, uid in enumerate(sorted(attributes_of(predicate)))}
    loads = [f"{variable} = get({constants.name(uid)})" for uid, variable in variables.items()]
    condition = is_true(predicate, variables.get, constants)
    text = _function([*loads, f"return {condition}"], constants)
    return cast(Test, _bound(text, constants.values))  # cast: as above


def _bound(text: str, constants: list[object]) -> object:
    # What `exec` reads is made of fixed words and numbers only. It finds
    # no builtins, and is handed the few names it needs.
    names: dict[str, Any] = {"__builtins__": {}}  # Any: `exec` has no types
    exec(compile(text, "<view>", "exec"), names)  # noqa: S102 - the text is ours, see above
    return names["bind"](*constants, type, frozenset(), *CLASSES.values())


def _function(body: list[str], constants: Constants) -> str:
    bound = [*constants.names, "type", "nothing", *(f"{kind.value}_" for kind in CLASSES)]
    lines = [f"def bind({', '.join(bound)}):", " def run(event):", "  get = event.get"]
    return "\n".join([*lines, *("  " + line for line in body), " return run", ""])


def see_source(view: View) -> tuple[str, list[object]]:
    """Return the text of the function for a View, and the constants it names, in order."""
    writer = _SeeWriter(checked_view(view))
    body = writer.body()
    return _function(body, writer.constants), writer.constants.values


@dataclass(slots=True)
class _SeeWriter:
    """Writes the body of one function; remembers which attributes are already in a variable."""

    view: View
    constants: Constants = field(default_factory=Constants)
    lines: list[str] = field(default_factory=list)
    variables: dict[AttributeUid, str] = field(default_factory=dict)
    uid_names: dict[AttributeUid, str] = field(default_factory=dict)

    def body(self) -> list[str]:
        """Return the lines: windows, then interest on what they show, then the seen event."""
        self._ask_windows()
        if self.view.interest != ALWAYS:
            self._ask_interest()
        self._collect()
        return self.lines

    def _ask_windows(self) -> None:
        windows = self.view.windows
        self._load(uid for window in windows for uid in attributes_of(window.admits))
        asked = [is_true(window.admits, self.variables.get, self.constants) for window in windows]
        if len(asked) > 1:
            self.lines += [f"w{i} = {condition}" for i, condition in enumerate(asked)]
            asked = [f"w{i}" for i in range(len(windows))]
        self.lines += [f"if not ({' or '.join(asked) or 'False'}):", " return None"]

    def _ask_interest(self) -> None:
        uids = sorted(uid for uid in attributes_of(self.view.interest) if self._showing(uid))
        self._load(uids)
        for uid in uids:
            if not self._is_always_shown(uid):
                variable = self.variables[uid]
                self.lines.append(f"s{variable} = {variable} if {self._is_shown(uid)} else None")
        condition = is_true(self.view.interest, self._seen_variable, self.constants)
        self.lines += [f"if not {condition}:", " return None"]

    def _seen_variable(self, uid: AttributeUid) -> str | None:
        if not self._showing(uid):
            return None
        variable = self.variables[uid]
        return variable if self._is_always_shown(uid) else f"s{variable}"

    def _collect(self) -> None:
        every = "{u: v for u, v in event.items() if v is not None}"
        unlimited = [i for i, window in enumerate(self.view.windows) if window.attributes is ALL_ATTRIBUTES]
        if unlimited and len(unlimited) == len(self.view.windows):
            self.lines.append(f"return {every}")
            return
        if unlimited:
            self.lines += [f"if {_either(unlimited)}:", f" return {every}"]
        named = sorted({uid for window in self.view.windows for uid in _named(window)})
        if len(named) <= _UNROLLED_MAX:
            self._collect_one_by_one(named)
        else:
            self._collect_in_a_loop()

    def _collect_one_by_one(self, named: list[AttributeUid]) -> None:
        self._load(named)
        self.lines.append("seen = {}")
        for uid in named:
            variable = self.variables[uid]
            condition = "" if self._is_always_shown(uid) else f" and {self._is_shown(uid)}"
            self.lines += [
                f"if {variable} is not None{condition}:",
                f" seen[{self._uid_name(uid)}] = {variable}",
            ]
        self.lines.append("return seen")

    def _collect_in_a_loop(self) -> None:
        sets = [self.constants.name(frozenset(_named(window))) for window in self.view.windows]
        if len(sets) > 1:
            self.lines.append(
                "shown = " + " | ".join(f"({name} if w{i} else nothing)" for i, name in enumerate(sets))
            )
        else:
            self.lines.append(f"shown = {sets[0]}")
        self.lines.append("return {u: v for u, v in event.items() if v is not None and u in shown}")

    def _load(self, uids: Iterable[AttributeUid]) -> None:
        # In a fixed order, so that one View has one text.
        for uid in sorted(set(uids)):
            if uid not in self.variables:
                variable = self.variables[uid] = f"v{len(self.variables)}"
                self.lines.append(f"{variable} = get({self._uid_name(uid)})")

    def _uid_name(self, uid: AttributeUid) -> str:
        if uid not in self.uid_names:
            self.uid_names[uid] = self.constants.name(uid)
        return self.uid_names[uid]

    def _showing(self, uid: AttributeUid) -> list[int]:
        return [i for i, window in enumerate(self.view.windows) if shows(window, uid)]

    def _is_always_shown(self, uid: AttributeUid) -> bool:
        return len(self._showing(uid)) == len(self.view.windows)

    def _is_shown(self, uid: AttributeUid) -> str:
        return _either(self._showing(uid))


def _either(windows: list[int]) -> str:
    return f"({' or '.join(f'w{i}' for i in windows)})"


def _named(window: Window) -> frozenset[AttributeUid]:
    return frozenset() if isinstance(window.attributes, AllAttributes) else window.attributes
