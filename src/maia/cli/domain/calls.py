"""Which domain is asked, by whom, with which certificates? The options that every such command shares.

What is the same for every command of a day can be said once, in the
environment: MAIA_SERVER, MAIA_DOMAIN and MAIA_KEY.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from maia.api.requests import TypedArgument
from maia.back_off import doubled
from maia.cli.command import need, opt, options
from maia.cli.inputs import read_certificates, read_principal
from maia.cli.output import Answer, fail, row, wants_json
from maia.cli.trust.key import open_key
from maia.errors import BadInput, MaiaError, Refusal, Unavailable

if TYPE_CHECKING:
    from maia.api.client import DomainClient, Paged
    from maia.api.endpoints import Asked, Endpoint
    from maia.api.further_registers import End
    from maia.api.requests import ApiArgument
    from maia.api.responses import MembershipAnswer, RevokedAnswer


# What can a user do after a refusal by a domain?


_RESTS_ON: Final = "appointments are shown with `--show`, and facts said with `maia domain fact assert`"
_CLOCKS: Final = "compare the clock of this machine with that of the domain's server"

HINTS: Final[Mapping[str, str]] = {
    "UNAVAILABLE-DOMAIN": "is `maia domain serve` running, and is this what it says after `answering at`?",
    "CREDENTIAL-ANOTHER-DOMAIN": "`--server` leads to one domain and `--domain` names another",
    "POLICY-NO-CHAIN": "`--credentials` shows certificates, and they must have been issued to your `--key`",
    "POLICY-EXPIRED": "ask its issuer for a new one, and show that with `--credentials`",
    "POLICY-REVOKED": "`maia domain audit show` tells another administrator when, by whom and why",
    "INPUT-UNKNOWN-CERTIFICATE": "`maia domain register` and `maia domain appointments` show the ids; "
    "`maia cert revoke FILE` takes what the domain's key signed elsewhere",
    "INPUT-UNKNOWN-MEMBERSHIP": "its id is in the answer of `maia domain activate`",
    "INPUT-UNKNOWN-ROLE": "`maia domain policy show` shows the roles and their parameters",
    "INPUT-UNKNOWN-FACT": "`maia domain policy show` shows the facts and their parameters",
    "INPUT-UNKNOWN-APPOINTMENT": "`maia domain policy show` shows them; the domain's own are `by here`",
    "REFUSED-ACTIVATION": _RESTS_ON,
    "REFUSED-LOGIN": _RESTS_ON,
    "REFUSED-NO-IDENTITY-PROVIDER": "`community` under `[identity]` in the configuration of "
    "`maia domain serve` names its community of interest",
    "REFUSED-NOT-REGISTERED": "an administrator registers a key with `maia domain subject add`",
    "INPUT-UNKNOWN-SUBJECT": "`maia domain subject list` and `maia domain trust list` show the keys",
    "CREDENTIAL-IDENTITY-PROVIDER": "an administrator trusts a provider with `maia domain trust add`",
    "CREDENTIAL-IDENTITY-COMMUNITY": "ask your home domain for a statement in the community of this one",
    "CREDENTIAL-IDENTITY-EXPIRED": "ask your home domain for a new one with `maia domain identity`",
    "CREDENTIAL-IDENTITY-GUEST": "show the statement of the home domain, and not a guest statement",
    "CREDENTIAL-TPM-ENDORSEMENT": "`maia tpm approve --root` approves a maker of TPMs",
    "CREDENTIAL-TPM-KEY": "`tpm2_createak` makes an attestation key",
    "CREDENTIAL-TPM-QUOTE": "ask for a new nonce with `maia tpm quote --nonce-out`, and quote once more",
    "CREDENTIAL-TPM-LOG": "the log is `binary_bios_measurements` of this boot",
    "REFUSED-TPM-NOT-APPROVED": "an administrator approves a boot with `maia tpm approve`",
    "REFUSED-TPM-NOT-ENROLLED": "`maia tpm enrol` comes first, then `maia tpm quote --nonce-out`; "
    "`maia tpm attest` does all of it, where tpm2-tools are installed",
    "REQUEST-TOO-LATE": _CLOCKS,
    "REQUEST-TOO-EARLY": _CLOCKS,
}
"""By the code of an error: what to try next."""


_AGAIN_S: Final = 5.0
_AGAIN_MOST_S: Final = 60.0
_LOOKS_OTHERWISE: Final = re.compile(r"true|false|[+-]?\d+(?:\.\d+(?:[eE][+-]?\d{1,3})?)?")
"""Text that would be taken for a truth value or a number, and is shown in quotes."""
_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")

Server: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server", envvar="MAIA_SERVER", metavar="ADDRESS", help="The domain's HTTP interface: HOST:PORT."
    ),
]
CallerKey: TypeAlias = Annotated[
    Path, typer.Option("--key", "-k", envvar="MAIA_KEY", help="Your signing key: a file of `maia key new`.")
]
Shown: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--credentials", "-c", help="Certificates that let you: files, or folders of *.cert."),
]
Words: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ARGUMENT]...",
        help="As the policy declares it: text; 42; 1.5; true; 2026-11-15T08:30:00Z; ed25519:… or .pub file.",
    ),
]
ASK: Final = opt(
    "Where the server of one that may pass rights on answers, to ask its register. May be repeated.",
    "--ask",
    metavar="NAME@HOST:PORT",
)
ReasonText: TypeAlias = Annotated[str, typer.Option("--reason", help="Why, for the audit.")]
Shows: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--show", help="Appointment certificates: files, or folders of *.appointment."),
]


@options
class DomainCaller:
    """Which domain is asked, and by whom: the options of a command that needs no right."""

    server: Server
    domain: str = need("The domain that must answer there: key or .pub file.", envvar="MAIA_DOMAIN")
    key: CallerKey

    @contextmanager
    def client(self) -> Iterator[DomainClient]:
        """Connect to the domain while the body runs; its refusals get a hint, where there is one."""
        from maia.api.client import DomainClient

        shown = read_certificates(getattr(self, "credentials", None) or ())
        with DomainClient(
            self.server, domain=read_principal(self.domain), key=open_key(self.key), credentials=shown
        ) as client:
            try:
                yield client
            except MaiaError as problem:
                organisation = _organisation_of(self.key) if problem.code == "POLICY-NO-CHAIN" else None
                if organisation is not None:
                    only = f"only `{organisation.name}` may do this, and those whom its policy lets"
                    problem.args = (f"{only}: use `--as {shlex.quote(str(organisation))}`", *problem.args[1:])
                elif problem.code in HINTS:
                    problem.add_note(HINTS[problem.code])
                raise

    def ask(self, endpoint: Endpoint[Asked, _Answer], asked: Asked | None = None, **path: object) -> _Answer:
        """Make one call."""
        with self.client() as client:
            return client.ask(endpoint, asked, once=None, **path)

    # Any: a question is of whatever class the table says.
    def every(self, endpoint: Endpoint[Any, Paged[_Item]], asked: Any = None, **path: object) -> list[_Item]:
        """Return all items of a long answer."""
        with self.client() as client:
            return list(client.every(endpoint, asked, **path))  # type: ignore[arg-type]  # names of a path

    def revoke(self, endpoint: Endpoint[Asked, RevokedAnswer], asked: Asked, **path: object) -> Answer:
        """Make one call that takes something away, and answer what that was."""
        with self.client() as client:
            return revoked_shown(client.ask(endpoint, asked, once=None, **path), client)


@options
class EntitledCaller(DomainCaller):
    """A caller that shows certificates."""

    credentials: Shown = None


def _organisation_of(key: Path) -> Path | None:
    """Return the folder of the organisation whose member holds a key, as it may be typed; None for others."""
    from maia.profile.files import ORGANISATION_FILE, PROFILE_SUFFIX

    of_member = key.absolute().parent
    found = of_member.parent
    if of_member.suffix != PROFILE_SUFFIX or not (found / ORGANISATION_FILE).is_file():
        return None
    return found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found


def certificate_bytes(files: Sequence[Path]) -> list[bytes]:
    """Return the certificates of files and folders as they travel."""
    from maia.credentials import certificate_to_bytes

    return [certificate_to_bytes(one) for one in read_certificates(files)]


def repeat(
    work: Callable[[], float],
    *,
    watch: bool,
    most_s: float = _AGAIN_MOST_S,
    survives: tuple[type[MaiaError], ...] = (Refusal, Unavailable),
) -> None:
    """Do `work`; with `watch`, again after the seconds that it returns, until Ctrl-C.

    What was refused may be granted later, and a server comes back: both are asked again.
    """
    failures = 0
    while True:
        try:
            wait_s, failures = work(), 0
        except survives as problem:
            if not watch:
                raise
            fail(problem, as_json=wants_json())
            failures += 1
            wait_s = doubled(_AGAIN_S, failures, most=min(most_s, _AGAIN_MOST_S))
        if not watch:
            return
        time.sleep(wait_s)


def arguments_from_words(words: Sequence[str]) -> list[ApiArgument]:
    """Read arguments as they are typed.

    `ed25519:…` and `.pub` files, which must be there, are principals, `time:…` moments, and what is
    in quotes is text. The domain reads every other word by the kind that its policy declares.
    """
    return [_argument(word) for word in words]


def shown_argument(value: ApiArgument) -> str:
    """Return an argument as it would be typed."""
    match value:
        case TypedArgument(word=str(word)):
            return word
        case TypedArgument(timestamp=str(moment)):
            return f"time:{moment}"
        case TypedArgument(principal=principal):
            return str(principal)
        case str() if _argument(value) == TypedArgument(word=value) and not _LOOKS_OTHERWISE.fullmatch(value):
            return value
        case plain:
            return json.dumps(plain, ensure_ascii=False)


def shown_call(name: str, arguments: Sequence[ApiArgument]) -> str:
    """Return `name(arguments)`."""
    return f"{name}({', '.join(shown_argument(one) for one in arguments)})"


def _argument(word: str) -> ApiArgument:
    if word.startswith("ed25519:"):
        return TypedArgument(principal=str(read_principal(word)))
    if word.endswith(".pub"):
        return TypedArgument(principal=str(read_principal(_key_file(word))))
    if word.startswith("time:"):
        return TypedArgument(timestamp=word.removeprefix("time:"))
    return _quoted(word) if word.startswith('"') else TypedArgument(word=word)


def _key_file(word: str) -> str:
    """Return an argument that names a key file; a misspelt one would otherwise be taken for text."""
    if not Path(word).is_file():
        raise BadInput(
            "INPUT-ARGUMENT-WORD",
            f'there is no file `{word[:64]}`: write `"{word[:64]}"` if it is meant as text',
        )
    return word


def _quoted(word: str) -> str:
    try:
        text = json.loads(word)
    except ValueError:
        text = None
    if not isinstance(text, str):
        raise BadInput("INPUT-ARGUMENT-WORD", f"`{word[:64]}` begins with a quote and is not quoted text")
    return text


# ------------------------------------------------------------ what is answered


def shown_end(end: End) -> Answer:
    """Return behind whom a list may go on, and whether it was asked."""
    if end.why is None:
        return row("goes on at", f"{end.at}: its own register was asked", domain=str(end.at), why=None)
    line = f"{end.at}, which may have passed it on without registering that here; {end.why}"
    return row("ends at", line, domain=str(end.at), why=end.why)


def membership_line(one: MembershipAnswer) -> str:
    """Return a membership of a role, in a line."""
    until = one.until or "unbounded"
    return f"{shown_call(one.role, one.arguments)} of {one.principal} until {until}  {one.id}"


def revoked_shown(found: RevokedAnswer, client: DomainClient) -> Answer:
    """Return what was revoked, and whether a broker has acted."""
    record = {name: getattr(found, name) for name in ("memberships", "is_silent", "still_open", "closes_at")}
    return Answer(row("", revoked_lines(found), revoked=found.ids, **record), published(client))


def revoked_lines(found: RevokedAnswer) -> list[str]:
    """Return what was revoked, one line each."""
    lines = [f"fell         {membership_line(one)}" for one in found.memberships]
    lines += [f"revoked      {one}" for one in found.ids]
    lines += [
        f"still open   {one.id} demands no test: a verifier that gets no list of this domain accepts it "
        + ("for ever" if one.until is None else f"until {one.until}")
        for one in found.still_open
    ]
    if found.closes_at is not None and len(found.ids) > len(found.still_open):
        what = "it" if not found.still_open else "the others"
        lines.append(
            f"at latest    {found.closes_at}: then a verifier that received nothing refuses {what} too"
        )
    if found.is_silent:
        lines.append("warning      the list is full: every right goes stale when the present list ends")
    return lines or ["nothing      rested on it"]


def published(client: DomainClient) -> Answer:
    """Return whether a broker has acted on the revocation."""
    said = {
        True: "the broker has acted on it",
        False: "no: no broker has accepted it yet; verifiers learn it with the next list",
        None: None,
    }
    return row("published", said[client.last.is_published], published=client.last.is_published)
