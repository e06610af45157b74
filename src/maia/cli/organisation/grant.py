"""`maia grant`: what one organisation lets another one do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from maia.cli.inputs import AsJson
from maia.cli.organisation.member import Days, May, Only, Where, names_in
from maia.cli.organisation.org import Org, opened
from maia.cli.output import answer
from maia.cli.trust.key import Force

EXAMPLES: Final = (
    "Example: maia grant institute.pub --may subscribe:LabResult --only ward,value "
    '--where \'ward in ("3", "4")\' --delegable --days 90 -o institute.grant'
)


def grant(
    subject: Annotated[str, typer.Argument(help="To whom: a .pub file or a key.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to hand to the other organisation.")],
    may: May = None,
    only: Only = None,
    where: Where = None,
    delegable: Annotated[
        bool, typer.Option("--delegable", help="It may pass the rights on, to its members and its broker.")
    ] = False,
    days: Days = 90,
    org: Org = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Grant rights to another organisation: certificates, types and addresses in one file; no secrets."""
    ours = opened(org)
    made = ours.grant(
        subject, may=may or (), only=names_in(only), where=where, delegable=delegable, days=days
    )
    made.save(out, overwrite=force)
    lines = [
        f"granted to   {made.subject}",
        *(f"may          {one}" for one in may or ()),
        f"for          {days} days{', and may pass it on' if delegable else ''}",
        f"written to   {out}   (revoke it with `maia revoke {out}`)",
    ]
    record = {"subject": str(made.subject), "may": may or [], "file": str(out), "days": days}
    answer(lines, record, as_json=as_json)
