"""What does `maia --help` show: commands in groups, one line each, and examples that can be copied?

The lines are here, and not taken from the commands, so that neither help nor
the completion of a first word loads any of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import wrap
from typing import Any, Final

from typer.core import CompletionItem, TyperGroup  # type: ignore[attr-defined]  # the first has no public name

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Begin": {
        "demo": "Play a story on a real network, and look around in it.",
        "org": "Make an organisation, and join the network of another one.",
        "network": "Invite organisations into the network, join one, leave it, show who is in it.",
        "member": "Add members to an organisation, and list them.",
        "type": "Define event types, change, verify and compare them.",
        "grant": "Grant rights to another organisation, in one file.",
        "revoke": "Revoke a grant, a certificate or a member's rights.",
        "up": "Run the servers of an organisation.",
    },
    "Take part": {
        "publish": "Publish events from options or standard input.",
        "subscribe": "Print events as they arrive.",
        "explain": "Say why something is permitted, or why not.",
        "profile": "Show a participant's profile, and choose one.",
        "login": "Fetch the certificates that your roles give you.",
        "topic": "Declare topics.",
        "filter": "Check, compare and merge filters.",
    },
    "Run servers": {
        "broker": "Run a broker.",
        "domain": "Run a domain's server, and call one that runs.",
        "gateway": "Let clients of other protocols take part.",
        "console": "Look at a network and its rights in a browser.",
        "postgres": "Connect a PostgreSQL database to a broker.",
        "status": "Show what is connected to a broker on this machine.",
        "log": "Look at an event log, verify it, and roll it.",
    },
    "Analyse": {
        "pipeline": "Run applications over events, in Spark.",
        "ledger": "Read and verify a broker's ledger of deliveries.",
        "bench": "Compare Maia with its peers, or with itself.",
    },
    "Keys and certificates": {
        "key": "Make keys, and know others' by name.",
        "cert": "Issue, show, verify, find and revoke certificates.",
        "quorum": "Found quorums: k of n keys that own together.",
        "tpm": "Prove with a TPM how a machine has booted.",
    },
}
"""Every command, in the order in which people meet them."""

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
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the name of a command, without loading it."""
        named = {name: line for commands in GROUPS.values() for name, line in commands.items()}
        begun = {name: line for name, line in named.items() if name.startswith(incomplete)}
        found = [CompletionItem(name, help=line) for name, line in begun.items()]
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
