"""`maia up`: run the broker and the domain's server of an organisation, in the foreground."""

from __future__ import annotations

from typing import Final

from maia.cli.inputs import AsJson
from maia.cli.organisation.org import Org, opened
from maia.cli.output import answer, named

EXAMPLES: Final = "Examples: maia up; maia up --org hospital"


def up(org: Org = None, as_json: AsJson = False) -> None:
    """Run the organisation's broker and domain server until Ctrl-C or SIGTERM, with their logs together."""
    import asyncio

    from maia.organisation.servers import run_servers

    ours = opened(org)
    ours.prepare_servers()
    where = ours.addresses

    def ready() -> None:
        line = f"up           {ours.name}: broker {where['broker']}, server {where['server']}"
        answer([line], {"up": ours.name, **where}, as_json=as_json)

    asyncio.run(run_servers(ours, ready=ready, named=None if as_json else named))
