"""Who gets which publication, given statements, requirements, renewals and expiries? Slow and obvious.

Nothing here is the system's: a requirement is a nested tuple, and is decided by
the table of three values. `written` writes it in the language of filters.

    ("or", ("nationality", "==", "uk"), ("clearance", ">=", 3))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Attributes = Mapping[str, object]
Requirement = tuple[object, ...]
NOTHING: Requirement = ("and",)


def verdict(requirement: Requirement, attributes: Attributes) -> bool | None:
    """Return True, False, or None where an attribute that decides is missing or of another kind."""
    match requirement:
        case ("and", *parts):
            answers = [verdict(part, attributes) for part in parts]
            return False if False in answers else None if None in answers else True
        case ("or", *parts):
            answers = [verdict(part, attributes) for part in parts]
            return True if True in answers else None if None in answers else False
        case ("not", inner):
            answer = verdict(inner, attributes)
            return None if answer is None else not answer
        case ("exists", name):
            return name in attributes
        case (name, sign, value):
            found = attributes.get(name)
            if type(found) is not type(value):
                return None
            return {
                "==": found == value,
                "!=": found != value,
                ">=": sign == ">=" and found >= value,
                "<": sign == "<" and found < value,
            }[sign]
    raise AssertionError(requirement)


def meets(requirement: Requirement, attributes: Attributes) -> bool:
    """Only true passes."""
    return verdict(requirement, attributes) is True


def written(requirement: Requirement) -> str:
    """Return a requirement as a person writes it."""
    match requirement:
        case ("and" | "or" as word, *parts):
            return f"{'all' if word == 'and' else 'any'}({', '.join(map(written, parts))})"
        case ("not", inner):
            return f"not ({written(inner)})"
        case ("exists", name):
            return f"exists({name})"
        case (name, sign, value):
            return f"{name} {sign} {json.dumps(value)}"
    raise AssertionError(requirement)


@dataclass(frozen=True)
class Statement:
    """What a provider says of somebody from one moment to another, once it was shown."""

    shown_at: int
    not_after: int
    attributes: Attributes


@dataclass
class Person:
    """Somebody with the statements that they have shown, in this order."""

    statements: list[Statement] = field(default_factory=list)

    def attributes(self, moment: int) -> Attributes:
        """Return what counts at a moment: the statement shown last, unless it has expired."""
        shown = [one for one in self.statements if one.shown_at <= moment]
        return shown[-1].attributes if shown and moment <= shown[-1].not_after else {}


@dataclass(frozen=True)
class Publication:
    """Something published at a moment, for subscribers that meet a requirement."""

    number: int
    publisher: str
    moment: int
    requires: Requirement


def receivers(
    publication: Publication, people: Mapping[str, Person], subscribers: Mapping[str, Requirement]
) -> set[str]:
    """Return the subscribers that get a publication; each one's requirement is about publishers."""
    author = people[publication.publisher].attributes(publication.moment)
    return {
        name
        for name, wants in subscribers.items()
        if meets(wants, author) and meets(publication.requires, people[name].attributes(publication.moment))
    }


def deliveries(
    publications: Iterable[Publication],
    people: Mapping[str, Person],
    subscribers: Mapping[str, Requirement],
) -> dict[str, list[int]]:
    """Return the numbers of what each subscriber gets, in the order of publication."""
    found: dict[str, list[int]] = {name: [] for name in subscribers}
    for one in publications:
        for name in receivers(one, people, subscribers):
            found[name].append(one.number)
    return found
