"""How does a command answer: to a person, or to a program?

Every command builds one answer: lines for people and one record for programs.
`--json` picks the record. Errors go to standard error with their code, and
the exit status tells the family, so that a script need not read sentences.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.config.input_files import QUORUM_SUFFIX
from maia.config.input_files import read_owner as owner_in
from maia.config.input_files import read_principal as principal_in
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.private_files import own_folder

if TYPE_CHECKING:
    from maia.credentials import Owner, Principal
    from maia.profile.address_book import AddressBook


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


def begin() -> None:
    """Forget the names of the command before."""
    _Used.folder = _Used.book = None


def use_folder(folder: Path) -> None:
    """Take names from this profile or organisation, too."""
    _Used.folder, _Used.book = folder, None


def book() -> AddressBook:
    """Return the names that the user of this command knows."""
    from maia.clock import system_now
    from maia.profile.address_book import AddressBook, load_book, own_places

    if _Used.book is None or time.monotonic() > _Used.read_at + _FRESH_S:
        _Used.read_at = time.monotonic()
        try:
            places = own_places(_Used.folder, Path.cwd())
            _Used.book = load_book(places, own=own_folder(), at=system_now())
        except (OSError, RuntimeError):  # no home, or a working folder that is gone: keys are printed whole
            _Used.book = AddressBook()
    return _Used.book


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


ANSWER_NO: Final = 1
"""The command worked and its answer is no: does not cover, differs, is not permitted."""

_STATUS: Final[tuple[tuple[type[MaiaError], int], ...]] = (
    (Refusal, 3),
    (BrokenCredential, 4),
    (ProtocolViolation, 5),
    (Unavailable, 6),
    (BadInput, 2),
)


def answer(lines: Iterable[str], record: Mapping[str, object], *, as_json: bool, whole: bool = False) -> None:
    """Print the answer of a command, as text or JSON; keys by their names unless they are to be `whole`."""
    if as_json:
        sys.stdout.write(_json_line(record))
    else:
        sys.stdout.writelines(f"{line if whole else named(line)}\n" for line in lines)
    sys.stdout.flush()


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
    text = json.dumps(record, ensure_ascii=False, default=str)
    names = names_in(text)
    return f"{json.dumps({**record, 'names': names}, ensure_ascii=False, default=str) if names else text}\n"


def exit_status(problem: MaiaError) -> int:
    """Return the status of an error's family: 2 input, 3 refused, 4 credential, 5 protocol, 6 unavailable."""
    return next((status for family, status in _STATUS if isinstance(problem, family)), 2)
