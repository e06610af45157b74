"""Is every variable of a rule bound, used, and of one kind?

A variable that nothing binds would let the asker choose what is granted. One
that is used in a single place is most often a slip of the pen, and in a grant
a forgotten restriction; "anything" is written `_`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials.appointments import Argument, ParameterKind
from maia.credentials.keys import Principal
from maia.events import (
    Attribute,
    AttributeUid,
    BadAttribute,
    Instant,
    Kind,
    PresentValue,
    Vocabulary,
    vocabulary_of,
)
from maia.roles.policy import Variable
from maia.roles.statements import Fragment, PolicyProblem, Problems, did_you_mean

ALWAYS_THERE: Final = {"holder": ParameterKind.PRINCIPAL, "now": ParameterKind.TIMESTAMP}
"""Who asks, and when: known in every condition."""

_SAMPLES: Final[dict[ParameterKind, PresentValue]] = {
    ParameterKind.STRING: "x",
    ParameterKind.INT: 0,
    ParameterKind.FLOAT: 0.0,
    ParameterKind.BOOL: False,
    ParameterKind.TIMESTAMP: Instant(0),
    ParameterKind.PRINCIPAL: "x",
}

_OTHER_SAMPLES: Final[dict[ParameterKind, PresentValue]] = {
    ParameterKind.STRING: "y",
    ParameterKind.INT: 1,
    ParameterKind.FLOAT: 1.0,
    ParameterKind.BOOL: True,
    ParameterKind.TIMESTAMP: Instant(1),
    ParameterKind.PRINCIPAL: "y",
}


@dataclass(frozen=True, slots=True)
class _Use:
    """One place where a variable is used."""

    name: str
    kind: ParameterKind | None
    binds: bool
    line: int
    column: int


@dataclass(slots=True)
class Variables:
    """The variables of one rule or grant, as its clauses are read."""

    statement: str
    problems: Problems
    _uses: list[_Use] = field(default_factory=list)

    def use(
        self, name: str, kind: ParameterKind | None, *, binds: bool, fragment: Fragment, at: int
    ) -> Variable:
        """Note a use of a variable; `kind` is None where any kind will do."""
        self._uses.append(_Use(name, kind, binds, *fragment.place(at)))
        return Variable(name)

    @property
    def kinds(self) -> dict[str, ParameterKind]:
        """Return the kind of each variable, by its first use."""
        kinds: dict[str, ParameterKind] = {}
        for use in self._uses:
            if use.kind is not None:
                kinds.setdefault(use.name, use.kind)
        return kinds

    @property
    def bound(self) -> frozenset[str]:
        """Return the variables that a premise, a head or the asker gives a value."""
        return frozenset(use.name for use in self._uses if use.binds)

    def check(self) -> None:
        """Report every variable of two kinds, every unbound and every lonely one."""
        self._check_kinds()
        by_name: dict[str, list[_Use]] = {}
        for use in self._uses:
            by_name.setdefault(use.name, []).append(use)
        folded: dict[str, str] = {}
        unbound = [name for name in by_name if name not in self.bound]
        for name, uses in by_name.items():
            if folded.setdefault(name.lower(), name) != name:
                self._report(
                    uses[0], f"`{name}` and `{folded[name.lower()]}` differ in capital letters only", ""
                )
            others = [other for other in by_name if other != name]
            if name not in self.bound:
                said = f"nothing gives `{name}` a value"
                hint = did_you_mean(name, others) or "bind it in a premise, or let the asker state it: `ask`"
                self._report(uses[0], said, hint)
            elif len(uses) == 1 and not did_you_mean(name, unbound):  # one slip of the pen, reported once
                hint = did_you_mean(name, others) or "write `_` if anything will do"
                self._report(uses[0], f"`{name}` is used in this place only", hint)

    def _check_kinds(self) -> None:
        first: dict[str, _Use] = {}
        for use in self._uses:
            if use.kind is None:
                continue
            known = first.setdefault(use.name, use)
            if known.kind is not use.kind and known.kind is not None:
                said = (
                    f"`{use.name}` is a {use.kind.value} here and a {known.kind.value} in line {known.line}"
                )
                self._report(use, said, "")

    def _report(self, use: _Use, sentence: str, hint: str) -> None:
        self.problems.add(PolicyProblem(use.line, use.column, self.statement, sentence, hint))


class SpokenOf(dict[str, PresentValue]):
    """Sample values for `$name` that remember which names a predicate has asked for."""

    def __init__(self, samples: Mapping[str, PresentValue]) -> None:
        """Begin with none asked for."""
        super().__init__(samples)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> PresentValue:
        """Return the sample, and remember the name."""
        self.names.add(name)
        return super().__getitem__(name)


def sample_values(kinds: Mapping[str, ParameterKind]) -> SpokenOf:
    """Return one value of the right kind for every variable, to check a predicate with."""
    return SpokenOf({name: _SAMPLES[kind] for name, kind in {**ALWAYS_THERE, **kinds}.items()})


def two_samples(kinds: Mapping[str, ParameterKind]) -> Iterator[dict[str, PresentValue]]:
    """Yield twice a value of the right kind for every variable: what differs speaks of a variable."""
    for samples in (_SAMPLES, _OTHER_SAMPLES):
        yield {name: samples[kind] for name, kind in {**ALWAYS_THERE, **kinds}.items()}


def vocabulary_for(kinds: Mapping[str, ParameterKind]) -> Vocabulary:
    """Return the variables as attributes, so that the one predicate language can speak of them.

    A principal is compared as its text: the language of events knows no keys.
    """
    every = {**ALWAYS_THERE, **kinds}
    try:
        return vocabulary_of(
            [
                Attribute(name, AttributeUid(f"v{number}"), kind.value_kind or Kind.STRING)
                for number, (name, kind) in enumerate(sorted(every.items()))
            ]
        )
    except BadAttribute:
        return {}  # two names that differ in case only; reported by the reader


def as_value(argument: Argument) -> PresentValue:
    """Return an argument as predicates compare it."""
    return str(argument) if isinstance(argument, Principal) else argument
