"""`maia network`: who is part of the network, apart from who sees what.

An invitation lets an organisation connect and install its own types, and shows it nothing. A grant
(`maia grant`) shows it events, and ends without its membership.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from maia.cli.command import arg, flag, need, opt
from maia.cli.domain.calls import ReasonText
from maia.cli.inputs import command_group, read_principal
from maia.cli.organisation import (
    CHECK,
    CHECKED,
    DRY_RUN,
    ORG,
    SAME_KEY,
    TOLD_KEY,
    JoinOptions,
    as_record,
    joined,
    meant,
    opened,
    revoked,
    when_compared,
)
from maia.cli.output import Answer, row, several, wants_json
from maia.cli.trust.key import FORCE

app = command_group("Invite organisations into the network, join one, leave it, and show who is in it.")


@app.command()
def invite(
    subject: str = arg("Whom: a .pub file, a key, or a name you know."),
    out: Path = need("The file to hand to the other organisation.", "--out", "-o"),
    days: int = opt("How long it holds.", default=365, min=1, max=3650),
    is_open: bool = flag("Its broker may serve all types, also those that it has no right to.", "--open"),
    key: str | None = TOLD_KEY,
    same_key: bool = SAME_KEY,
    org: Path | None = ORG,
    force: bool = FORCE,
) -> Answer:
    """Let an organisation connect and publish types of its own; it sees nothing of others by that.

    Examples:
        maia network invite rotterdam.pub -o rotterdam.invite
        maia network invite rotterdam.pub --open -o rotterdam.invite
    """
    ours = opened(org)
    if same_key:
        ours.use_again(read_principal(subject))
    made = when_compared(lambda told: ours.invite(meant(subject), days=days, is_open=is_open, key=told), key)
    made.save(out, overwrite=force)
    return Answer(
        row("invited", made.subject, invited=made.subject),
        row("network", f"{made.network} of {made.coordinator}", network=made.network),
        row("open", "its broker serves all types" if is_open else None, open=is_open),
        row("written to", f"{out}   (end it with `maia network revoke {subject}`)", file=out),
    )


@app.command()
def join(asked: JoinOptions) -> Answer:
    """Use an invitation or a grant: join the network if need be, and keep certificates and types.

    Examples:
        maia network join rotterdam.invite
        maia network join customs.grant --check
    """
    return joined(asked)


@app.command("leave")
def leave_network(
    yes: bool = flag("Do not ask.", "--yes", "-y"), check: bool = CHECK, org: Path | None = ORG
) -> Answer:
    """Leave the network that was joined: the organisation's broker and members go on in its own.

    Examples:
        maia network leave
        maia network leave --check
    """
    ours = opened(org)
    left = ours.network
    ends = ours.leave(is_check=True)
    if not (yes or check) and sys.stdin.isatty() and not wants_json():
        typer.echo(f"leaving `{left.name}` of `{left.owner}` ends {', '.join(ends)}", err=True)
        typer.confirm("Leave it?", abort=True)
    if not check:
        ours.leave()
    return Answer(
        row("checked", CHECKED if check else None),
        row("left", f"{left.name} of {left.owner}", left=as_record(left)),
        row("ended", ends, ended=ends, changed=not check),
    )


@app.command()
def show(org: Path | None = ORG) -> Answer:
    """Print the network, its coordinator, the brokers it was joined through, and who was invited.

    Examples:
        maia network show
        maia network show --org hamburg --json
    """
    ours = opened(org)
    invited = [
        (whom, str(max(one.certificate.validity.not_after or 0 for one in given)))
        for whom, given in ours.invited().items()
    ]
    name, owner = ours.network.name, ours.network.owner
    own = " (our own)" if owner == ours.principal else ""
    guests = (row("invited", f"{one} until {end}", organisation=one, until=end) for one, end in invited)
    return Answer(
        row("network", f"{name} of {owner}{own}", network=name, coordinator=owner),
        row("through", ours.joined_through, joined_through=ours.joined_through),
        several("invited", guests),
    )


@app.command()
def revoke(
    whom: str = arg("The organisation: a name, a .pub file, a key, an invitation."),
    reason: ReasonText = "",
    dry_run: bool = DRY_RUN,
    org: Path | None = ORG,
) -> Answer:
    """End the membership of an organisation that was invited, at our own server, which `maia up` runs.

    Examples:
        maia network revoke rotterdam --dry-run
        maia network revoke rotterdam.invite
    """
    from maia.organisation.grant_file import read_grant

    path = Path(whom)
    is_file = path.is_file() and path.suffix != ".pub"
    subject, ours = read_grant(path).subject if is_file else read_principal(whom), opened(org)
    act = None if dry_run else lambda: ours.revoke_membership(subject, reason=reason)
    also = row("with it", "its broker, its members and its own types leave the network")
    return revoked(ours.membership_losses(subject), act, also=also)
