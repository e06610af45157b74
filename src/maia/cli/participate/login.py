"""`maia login`: get every role and right that a domain gives you, and keep them in a wallet."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.cli.command import flag, need, opt
from maia.cli.domain.calls import EntitledCaller, Shows, repeat, shown_call
from maia.cli.inputs import moment, read_appointments
from maia.cli.output import Answer, row, several, show
from maia.cli.trust.grants import granted
from maia.errors import Refusal

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.responses import WalletAnswer
    from maia.events import Instant
    from maia.keystore.wallet_folder import WalletFolder


_LEAST_S: Final = 0.5
_LISTS_S: Final = 5.0
"""How long a login waits for other domains' lists of revocations, which their grants demand."""
_STALE: Final = "CREDENTIAL-STALE"


def login(
    caller: EntitledCaller,
    wallet: Path = need("A folder of yours alone; made if need be.", "--wallet", "-w"),
    appointments: Shows = None,
    watch: bool = flag("Stay, and renew before anything expires, until Ctrl-C."),
    every: float | None = opt("With --watch: ask at least so often, in seconds.", min=0.5),
) -> None:
    """Show your appointments to a domain, and put the certificates that it issues into a wallet.

    Examples:
        maia login --as desk
        maia login --server 127.0.0.1:7600 --domain met.pub -k smith.key --wallet smith-wallet --show
          order.appointment
        maia login … --watch (then: maia subscribe --credentials smith-wallet …)
    """
    from maia.keystore.wallet_folder import WalletFolder

    folder = WalletFolder(wallet)
    if appointments:
        folder.add(read_appointments(appointments))
    with caller.client() as client:

        def renew() -> float:
            found, files = _once(client, folder)
            show(_shown(found, files, folder.folder))
            return _until_renewal(found, moment(None), every)

        repeat(renew, watch=watch, most_s=3600.0 if every is None else every)


def _once(client: DomainClient, folder: WalletFolder) -> tuple[WalletAnswer, int]:
    """Log in; certificates that the domain no longer issues leave the wallet."""
    from maia.api import endpoints
    from maia.api.requests import LoginBody
    from maia.credentials.appointments import appointment_to_bytes
    from maia.keystore.wallet_folder import to_show

    body = LoginBody([appointment_to_bytes(one) for one in to_show(folder.read(), domain=client.domain)])
    deadline = time.monotonic() + _LISTS_S
    try:
        found = client.ask(endpoints.LOGIN, body, once="")
        while any(one.code == _STALE for one in found.withheld) and time.monotonic() < deadline:
            time.sleep(_LEAST_S)  # the domain asks for another's list as soon as it lacks one
            found = client.ask(endpoints.LOGIN, body, once="")
    except Refusal as problem:
        if not problem.code.startswith("REQUEST-"):  # about you, and not about this one request
            folder.empty(domain=client.domain)
        raise
    found = _with_others_word(found)
    return found, folder.keep(found, domain=client.domain, address=client.address, now=moment(None))


def _with_others_word(found: WalletAnswer) -> WalletAnswer:
    """Add other domains' statements about the certificates above, from the locations in them."""
    import asyncio

    import msgspec

    from maia.api.testers import fresh_until, with_fetched
    from maia.credentials import certificate_from_bytes, statement_from_bytes, statement_to_bytes
    from maia.events import Instant

    given = {*found.chains, *(right.certificate for right in found.rights)}
    certificates, now = [certificate_from_bytes(one) for one in given], moment(None)
    held = [statement_from_bytes(one) for one in found.statements]
    statements = asyncio.run(with_fetched(certificates, held, now=now))
    if len(statements) == len(held):
        return found
    ends = fresh_until(certificates, statements, now=now)
    moments = [one for one in (found.renew_before, None if ends is None else str(ends)) if one is not None]
    return msgspec.structs.replace(
        found,
        statements=[statement_to_bytes(one) for one in statements],
        renew_before=min(moments, key=Instant.parse, default=None),
    )


def _until_renewal(found: WalletAnswer, now: Instant, every: float | None) -> float:
    """Return how long to wait: until the domain wants to be asked again, or less if the user wants."""
    from maia.events import SECOND, Instant

    most = 3600.0 if every is None else every
    if found.renew_before is None:
        return most
    left = (Instant.parse(found.renew_before) - now) / SECOND
    return min(max(left / 2, _LEAST_S), most)


def _shown(found: WalletAnswer, files: int, folder: Path) -> Answer:
    roles = [shown_call(one.membership.role, one.membership.arguments) for one in found.memberships]
    ends = min((one.until for one in found.rights if one.until is not None), default=None)
    again = "" if ends is None else f"; log in again before {ends}, or stay with --watch"
    renewed = "by clients that use it: the statements of validity in it, which are short-lived"
    rights = (
        row(
            "right", f"{_right(one.certificate)}, until {one.until or 'unbounded'}",
            id=one.id, rule=one.rule, until=one.until,
        )
        for one in found.rights
    )  # fmt: skip
    withheld = (
        row(
            "withheld", f"{one.right or one.rule}: {one.why} [{one.code}]",
            right=one.right, rule=one.rule, code=one.code, why=one.why,
        )
        for one in found.withheld
    )  # fmt: skip
    return Answer(
        row("role", roles, principal=found.principal, roles=roles),
        several("rights", rights),
        several("withheld", withheld),
        row("wallet", f"{folder}: {files} files{again}", wallet=folder, files=files),
        row("renewed", renewed if found.renew_before else None, renew_before=found.renew_before),
    )


def _right(certificate: bytes) -> str:
    from maia.credentials import AuthorisationCertificate, certificate_from_bytes

    said = certificate_from_bytes(certificate).certificate
    if not isinstance(said, AuthorisationCertificate):
        return "a name"
    resource, actions, *_ = granted(said.authority).lines
    return f"{actions.partition(' ')[2].strip()} {resource.partition(' ')[2].strip()}"
