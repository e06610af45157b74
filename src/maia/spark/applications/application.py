"""What is an application of the pipeline?

One function from a data frame to a data frame. It receives what a reader may
see, in columns called by attribute name, where whatever is withheld is null;
it knows nothing about policy. The same function runs over a table and over a
stream: what a stream needs besides, how late an event may be, does nothing to
a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from maia.errors import BadInput
from maia.events import Kind
from maia.views import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Application", "BadTerm", "MissingColumn", "Terms"]

_SHOWN: Final = 80
_COLUMNS_SHOWN: Final = 20

# Any: dataclasses have no type of their own; what the terms are is the application's business.
Terms = TypeVar("Terms", bound=Any)


class MissingColumn(BadInput):
    """A table lacks a column that the application works with."""

    code = "INPUT-PIPELINE-COLUMN"


class BadTerm(BadInput):
    """A term of an application has a wrong name or a wrong value."""

    code = "INPUT-PIPELINE-TERM"


@dataclass(frozen=True, slots=True)
class Application(Generic[Terms]):
    """A named pipeline: what it reads, what it never reads, and the key of its result."""

    name: str
    about: str
    reads: Mapping[str, Kind]
    never_reads: frozenset[str]
    """Columns of the same type of event that this application does without."""
    keys: tuple[str, ...]
    """A stream that says something new about a key takes back all that it said of it before."""
    terms: Terms
    """The settings, with their defaults."""
    compute: Callable[[DataFrame, Terms], DataFrame]
    totals: Callable[[], Mapping[str, Column]]
    """What a whole result comes to, in a few figures. Columns can only be made while Spark runs."""
    generator: str
    """The generator whose events it understands."""

    def of(self, events: DataFrame, terms: Terms | None = None) -> DataFrame:
        """Return the result over a table or a stream of events; nothing but what it reads reaches it."""
        _check_columns(self, events)
        return self.compute(events.select(*self.reads), self.terms if terms is None else terms)

    def check_names(self, found: Mapping[str, Kind | None]) -> None:
        """Refuse events without what it reads, by their names and, where they are known, kinds."""
        for name, kind in self.reads.items():
            if name not in found:
                raise MissingColumn(_needed(self.name, name, kind) + f", and the table has {_listed(found)}")
            other = found[name]
            if other is not None and other is not kind:
                raise MissingColumn(
                    _needed(self.name, name, kind) + f", and it is {spark_type(other).simpleString()}"
                )

    def terms_with(self, changes: Mapping[str, str]) -> Terms:
        """Return the settings with some of them changed, from text."""
        known = {field.name: getattr(self.terms, field.name) for field in fields(self.terms)}
        for name, text in changes.items():
            if name not in known:
                raise BadTerm(f"`{self.name}` has no term `{name[:_SHOWN]}`; it has {_listed(known)}")
            known[name] = _read(name, text, known[name])
        changed: Terms = type(self.terms)(**known)
        return changed


def _check_columns(application: Application[Any], events: DataFrame) -> None:
    # Any: whatever the terms are, columns are checked alike.
    found = {field.name: field.dataType for field in events.schema.fields}
    for name, kind in application.reads.items():
        if found.get(name) == spark_type(kind):
            continue
        wanted = _needed(application.name, name, kind)
        if name in found:
            raise MissingColumn(f"{wanted}, and it is {found[name].simpleString()[:_SHOWN]}")
        raise MissingColumn(f"{wanted}, and the table has {_listed(found)}")


def _needed(application: str, name: str, kind: Kind) -> str:
    return f"`{application}` needs the column `{name}` of type {spark_type(kind).simpleString()}"


def _listed(names: Mapping[str, object]) -> str:
    shown = [f"`{name[:_SHOWN]}`" for name in list(names)[:_COLUMNS_SHOWN]]
    return ", ".join(shown) + (" and more" if len(names) > _COLUMNS_SHOWN else "") if shown else "none"


def _read(name: str, text: str, before: object) -> object:
    """Read a term as what it was before: a number, a text, or words with commas between them."""
    try:
        match before:
            case int():
                return int(text)
            case float():
                return float(text)
            case tuple():
                return tuple(word.strip() for word in text.split(",") if word.strip())
            case _:
                return text
    except ValueError:
        raise BadTerm(f"`{text[:_SHOWN]}` is no number, and the term `{name}` is one") from None
