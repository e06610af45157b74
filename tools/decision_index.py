"""Which decisions were made, and where is the reason for each?

The index of `docs/decisions/` is written from the first line of every record,
so a new record is listed by `make docs` and needs no second edit.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
PAGE = FOLDER / "README.md"
TEMPLATE = "template.md"
PARTS = ("what we needed", "what we chose", "what we gave up", "what would make us choose again")

INTRODUCTION = """\
# Decisions

<!-- Written by `make docs` from the first line of every record. -->

One page per decision that a colleague would otherwise ask about: where the papers disagree, where we left
them, and why each dependency is here. A record has four short parts; begin with the [template](template.md).
"""


def records() -> list[Path]:
    """Return the decision records by name of file."""
    return sorted(path for path in FOLDER.glob("*.md") if path.name not in {PAGE.name, TEMPLATE})


def page() -> str:
    """Return the index."""
    lines = [f"- [{_title(record)}]({record.name})" for record in records()]
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


def _title(record: Path) -> str:
    return record.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
