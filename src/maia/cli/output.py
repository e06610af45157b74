"""How does a command answer: to a person, or to a program?

Every command builds one answer of rows. A row is a label with what people read
behind it, and the named fields that programs get in its place; `--json` picks
these. Errors go to standard error with their code, and
the exit status tells the family, so that a script need not read sentences.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from maia.clock import system_now
from maia.config.input_files import QUORUM_SUFFIX
from maia.config.input_files import read_owner as owner_in
from maia.config.input_files import read_principal as principal_in
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.private_files import own_folder

if TYPE_CHECKING:
    from maia.credentials import Owner, Principal
    from maia.profile.address_book import AddressBook
    from maia.types import SignedDefinition


# Names instead of hex, wherever a command prints keys or takes one.
#
# The book of names is read when the first key or type is to be printed, from the
# profile in use, from the organisation around the working folder and from
# `~/.config/maia`. With `--json`, ids stay whole and `names` is beside them.


_FRESH_S: Final = 5.0
"""How long a command that goes on uses a book before it is read again."""
_MAY_HOLD_ID: Final = re.compile(r"[0-9a-f]{64}")


class _Used:
    """What the present command has to do with: reset before each."""

    folder: Path | None = None
    book: AddressBook | None = None
    read_at = 0.0
    as_json = False


def begin() -> None:
    """Forget the names of the command before."""
    _Used.folder = _Used.book = None
    _Used.as_json = False


def use_json(is_wanted: bool) -> None:
    """Answer programs, or people."""
    _Used.as_json = is_wanted


def wants_json() -> bool:
    """Return whether a program reads the answer."""
    return _Used.as_json


def use_folder(folder: Path) -> None:
    """Take names from this profile or organisation, too."""
    _Used.folder, _Used.book = folder, None


def book() -> AddressBook:
    """Return the names that the user of this command knows."""
    from maia.profile.address_book import AddressBook, load_book, own_places

    if _Used.book is None or time.monotonic() > _Used.read_at + _FRESH_S:
        _Used.read_at = time.monotonic()
        try:
            places = own_places(_Used.folder, Path.cwd())
            _Used.book = load_book(places, own=own_folder(), at=system_now())
        except (OSError, RuntimeError):  # no home, or a working folder that is gone: keys are printed whole
            _Used.book = AddressBook()
    return _Used.book


def know_types(definitions: Sequence[SignedDefinition]) -> None:
    """Call attributes by the names in these definitions, too."""
    from maia.profile.address_book import with_types

    _Used.book = with_types(book(), definitions, at=system_now())


def name_places() -> list[Path]:
    """Return the folders whose names count: of the profile in use, and of the organisations here."""
    from maia.profile.address_book import own_places

    return own_places(_Used.folder, Path.cwd())


def type_places() -> list[Path]:
    """Return where types are found by name: in the profile in use, or else in the organisation here."""
    folders = (one / "types" for one in name_places())
    return [one for one in folders if one.is_dir()][:1]


def named(text: str) -> str:
    """Return a text for people, with known keys and types by their names."""
    return book().named(text) if _MAY_HOLD_ID.search(text) else text


def names_in(text: str) -> dict[str, dict[str, str]]:
    """Return the names of the keys and types in a text, for programs."""
    return book().names_in(text) if _MAY_HOLD_ID.search(text) else {}


def read_principal(word: str) -> Principal:
    """Return the principal that a word means: a key, a `.pub` file, or a name that the user has given it."""
    is_written = word.startswith("ed25519:") or Path(word).is_file() or word.endswith(".pub")
    return principal_in(word) if is_written else book().find(word)


def read_owner(word: str) -> Owner:
    """Return an owner: a principal as above, or a quorum by its file or its digest."""
    is_quorum = word.startswith("quorum:") or word.endswith(QUORUM_SUFFIX)
    return owner_in(word) if is_quorum else read_principal(word)


_COLUMNS: Final = 80
_LEAST: Final = 4
"""The width of a terminal, and of the narrowest column that is cut to fit it."""
ANSWER_NO: Final = 1
"""The command worked and its answer is no: does not cover, differs, is not permitted."""

_STATUS: Final[tuple[tuple[type[MaiaError], int], ...]] = (
    (Refusal, 3),
    (BrokenCredential, 4),
    (ProtocolViolation, 5),
    (Unavailable, 6),
    (BadInput, 2),
)


class Answer:
    """What a command answers: lines for people, and one record for programs."""

    def __init__(self, *parts: Answer, whole: bool = False, no: bool = False) -> None:
        """Put parts together; keys are shown whole, not by name, if that is asked; `no` is exit status 1."""
        self.lines: list[str] = [line for one in parts for line in one.lines]
        self.record: dict[str, object] = {name: it for one in parts for name, it in one.record.items()}
        self.whole, self.no = whole, no


def row(label: str = "", text: object = None, /, **fields: object) -> Answer:
    """Return one row: a label and a text, or several texts with a line each, and fields for programs.

    Without a text it is for programs alone, and without fields for people alone.
    """
    made = Answer()
    texts = text if isinstance(text, list | tuple) else [] if text is None else [text]
    made.lines = [f"{label:<12} {_shown(one)}" if label else _shown(one) for one in texts]
    made.record = fields
    return made


def rows(**fields: object) -> Answer:
    """Return a row for each field, whose label is its name; one that is None is for programs alone."""
    made = Answer(*(row(name.replace("_", " "), None if it is None else [it]) for name, it in fields.items()))
    made.record = fields
    return made


def several(
    name: str, parts: Iterable[Answer], *, none: str | None = None, apart: bool = False, indent: str = ""
) -> Answer:
    """Return a list of answers: their lines, and their records under one name; `none` if there are none."""
    made, found = Answer(), list(parts)
    made.record = {name: [one.record for one in found]}
    for one in found:
        made.lines += [f"{indent}{line}" for line in one.lines] + ([""] if apart else [])
    made.lines = made.lines[:-1] if apart else made.lines
    made.lines = made.lines or ([] if none is None else [none])
    return made


def table(head: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    """Return columns below each other, in lines that fit a terminal: the widest are cut first."""
    lines = [list(head), *map(list, cells)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > _COLUMNS and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    cut = [
        [one if len(one) <= at else f"{one[: at - 1]}…" for one, at in zip(line, widths, strict=True)]
        for line in lines
    ]
    return ["  ".join(f"{one:<{at}}" for one, at in zip(line, widths, strict=True)).rstrip() for line in cut]


def show(found: Answer) -> int:
    """Print an answer as text or JSON; return the exit status."""
    if not wants_json():
        sys.stdout.writelines(f"{line if found.whole else named(line)}\n" for line in found.lines)
    elif found.record:
        sys.stdout.write(_json_line(found.record))
    sys.stdout.flush()
    return ANSWER_NO if found.no else 0


def note(line: str) -> None:
    """Print a line about the work on standard error, beside the answers."""
    sys.stderr.write(f"{named(line)}\n")
    sys.stderr.flush()


def warn(problem: MaiaError) -> None:
    """Print a warning on standard error, as a sentence or as a record."""
    if wants_json():
        sys.stderr.write(_json_line({"warning": problem.as_record()}))
        sys.stderr.flush()
    else:
        note(f"maia: warning: {problem.message} [{problem.code}]")


def answer(lines: Iterable[str], record: Mapping[str, object], *, as_json: bool, whole: bool = False) -> None:
    """Print an answer whose lines and record were made apart."""
    made = Answer(whole=whole)
    made.lines, made.record = list(lines), dict(record)
    use_json(as_json)
    show(made)


def _shown(value: object) -> str:
    """Return a value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(_shown, value))
    return str(plain(value))


# Any: what JSON can hold.
def plain(value: Any) -> Any:
    """Return a value as JSON holds it: moments, keys and paths as text, bytes in hexadecimal digits."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if hasattr(value, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(value)
    return str(value)


def fail(problem: MaiaError, *, as_json: bool) -> int:
    """Report an error on standard error, with the hint that it carries; return the status of its family."""
    hint = "; ".join(getattr(problem, "__notes__", ()))
    if as_json:
        record = {**problem.as_record(), **({"hint": hint} if hint else {})}
        sys.stderr.write(_json_line({"error": record}))
    else:
        sys.stderr.write(f"maia: {named(problem.message)} [{problem.code}]{f' ({hint})' if hint else ''}\n")
    return exit_status(problem)


def _json_line(record: Mapping[str, object]) -> str:
    """Return a record as one line: ids are whole, and `names` says what this user calls them."""
    found = plain(record)
    text = json.dumps(found, ensure_ascii=False)
    names = names_in(text)
    return f"{json.dumps({**found, 'names': names}, ensure_ascii=False) if names else text}\n"


def exit_status(problem: MaiaError) -> int:
    """Return the status of an error's family: 2 input, 3 refused, 4 credential, 5 protocol, 6 unavailable."""
    return next((status for family, status in _STATUS if isinstance(problem, family)), 2)
