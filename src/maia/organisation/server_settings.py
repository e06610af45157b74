"""Which settings of an organisation's servers are generated, and which are the operator's?

    broker.generated.toml    written anew whenever the organisation changes
    broker.toml              the operator's: made once, with a comment in it, and never written again

A server reads both, and what the operator wrote wins, key by key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from maia.config.settings import generated_beside
from maia.organisation.draft import write_file
from maia.profile.profile import toml_text

_OWN: Final = "# Yours: what is set here wins over `{}`, setting by setting. Maia never writes here again.\n"
_GENERATED: Final = (
    "# Generated, and written anew whenever the organisation changes: put your settings into `{}`.\n"
)


def write_settings(folder: Path, settings: Mapping[str, Mapping[str, object]]) -> None:
    """Write the generated settings of each server, by its file, where they have changed."""
    for name, one in settings.items():
        own, generated = folder / name, generated_beside(folder / name)
        if not own.exists():
            write_file(own, _OWN.format(generated.name).encode())
        data = (_GENERATED.format(name) + toml_text(one)).encode()
        if not generated.exists() or generated.read_bytes() != data:
            write_file(generated, data)


def separate_settings(folder: Path, settings: Mapping[str, Mapping[str, object]]) -> None:
    """Take generated lines out of files of the operator's, in a folder that knew one file for both."""
    for name, one in settings.items():
        own, generated = folder / name, generated_beside(folder / name)
        if own.exists() and not generated.exists():
            text = own.read_text(encoding="utf-8")
            kept = _edited(text, toml_text(one))
            if not _means(toml_text(one), text, kept):
                kept = text
            write_file(own, (_OWN.format(generated.name) + kept).encode())
    write_settings(folder, settings)


def _edited(text: str, generated: str) -> str:
    """Return the lines of a text that were not generated, each below its table."""
    ours, edited = set(_by_table(generated)), [one for one in _by_table(text) if one[1].strip()]
    kept: list[str] = []
    table = ""
    for place, line in edited:
        if (place, line) in ours:
            continue
        if place != table:
            table = place
            kept.append(f"\n{place}")
        kept.append(line)
    return "".join(f"{line}\n" for line in kept)


def _means(generated: str, text: str, kept: str) -> bool:
    """Return whether the lines that are kept mean, over the generated ones, what the whole text did."""
    try:
        below, whole, rest = map(tomllib.loads, (generated, text, kept))
    except tomllib.TOMLDecodeError:
        return False
    return _over(below, rest) == _over(below, whole)


def _over(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    tables = {
        name for name, one in above.items() if isinstance(one, dict) and isinstance(below.get(name), dict)
    }
    return {**below, **above} | {name: {**below[name], **above[name]} for name in tables}  # type: ignore[dict-item]


def _by_table(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    table = ""
    for line in text.splitlines():
        if line.startswith("["):
            table = line.strip()
        else:
            found.append((table, line))
    return found
