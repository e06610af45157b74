"""What does `maia --help` show: commands in groups, one line each, and examples that can be copied?"""

from __future__ import annotations

import re
from textwrap import wrap
from typing import Any, Final

from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]  # the first has no public name

from maia.cli.table import GROUPS, LINES

_WIDTH: Final = 76
_REMARK: Final = re.compile(r"\s+\(([^']*)\)$")
_WORD: Final = r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+"
_OPTION: Final = re.compile(rf"--?[a-z][a-z-]*\s+(?!-){_WORD}|{_WORD}")


class CommandGroups(TyperGroup):
    """All commands of `maia`, of which those are loaded that are needed."""

    # Any, here and below: Typer carries a copy of Click inside, whose classes have no public names.
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in their groups."""
        del ctx
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the name of a command, without loading it."""
        begun = [name for name in LINES if name.startswith(incomplete)]
        found = [CompletionItem(name, help=LINES[name]) for name in begun]
        return found or super().shell_complete(ctx, incomplete)


def examples_of(epilog: str) -> list[tuple[str, str]]:
    """Return the examples of a command, each with its remark: they lie between semicolons."""
    _, _, text = epilog.partition(": ")
    found = []
    for one in text.split("; "):
        remark = _REMARK.search(one)
        found.append((_REMARK.sub("", one), remark[1] if remark else ""))
    return found


# Any: Typer carries a copy of Click inside, whose classes have no public names.
def write_examples(epilog: str, formatter: Any) -> None:
    """Write the examples of a command, each in lines that can be copied."""
    with formatter.section("Examples"):
        for text, remark in examples_of(epilog):
            formatter.write("".join(f"  # {line}\n" for line in wrap(remark, _WIDTH)))
            formatter.write(f"  {_broken(text)}\n")


def _broken(text: str) -> str:
    """Return a command in lines that a shell takes for one."""
    lines = [""]
    for word in _OPTION.findall(text):  # an option stays with its value
        if lines[-1] and len(lines[-1]) + len(word) > _WIDTH - 6:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return " \\\n      ".join(lines)
