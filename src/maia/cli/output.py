"""How does a command answer: to a person, or to a program?

Every command builds one answer: lines for people and one record for programs.
`--json` picks the record. Errors go to standard error with their code, and
the exit status tells the family, so that a script need not read sentences.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Final

from maia.cli.names import named, names_in
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable

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
