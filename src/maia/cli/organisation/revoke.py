"""`maia revoke`: take back what a grant, a certificate or a member has from an organisation."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from maia.cli.domain.calls import HINTS, ReasonText, record_of, revoked_lines
from maia.cli.inputs import AsJson
from maia.cli.organisation.org import Org, opened
from maia.cli.output import answer
from maia.errors import MaiaError

EXAMPLES: Final = "Examples: maia revoke institute.grant; maia revoke lab --reason 'left us'"


def revoke(
    what: Annotated[str, typer.Argument(help="A grant, a certificate, or a member's name.")],
    reason: ReasonText = "",
    org: Org = None,
    as_json: AsJson = False,
) -> None:
    """Revoke rights at the organisation's own server, which `maia up` runs; open streams end."""
    try:
        found = opened(org).revoke(what, reason=reason)
    except MaiaError as problem:
        if problem.code == "UNAVAILABLE-DOMAIN":
            problem.add_note("`maia up` runs the organisation's server")
        elif problem.code in HINTS:
            problem.add_note(HINTS[problem.code])
        raise
    answer(revoked_lines(found), record_of(found), as_json=as_json)
