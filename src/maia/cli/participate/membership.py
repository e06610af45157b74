"""Who is connecting, to which network, through which broker?

`maia publish`, `maia subscribe` and `maia type fetch` take the same options;
what is the same for every command of a day can be said once, in the
environment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from maia.cli.command import arg, need, opt, options
from maia.cli.inputs import (
    moment,
    network_named,
    read_certificates,
    read_constitutions,
    read_definition,
    read_principal,
)
from maia.cli.output import note, warn
from maia.cli.trust.key import KEY_FILE, open_key
from maia.clock import system_now
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.client.api.client import Client
    from maia.client.api.moved_brokers import AskBrokers
    from maia.config.identity_file import IdentityFile
    from maia.credentials import NetworkName, Principal, SignedCertificate, SigningKey, VerifiedConstitution
    from maia.events import Instant
    from maia.net.statement_links import StatementLinks
    from maia.types import SignedDefinition, VerifiedType


WAIT_S = opt("Seconds to wait for a broker and for answers.", "--wait", default=30.0, min=0.1, max=3600.0)


IDENTITY = opt("Your identity statement; a file that is renewed is followed.", envvar="MAIA_IDENTITY")
PROVIDERS = opt("A provider that is trusted: key or .pub file. Repeat.", envvar="MAIA_PROVIDERS")


@dataclass(frozen=True, slots=True)
class Membership:
    """A member of a network, ready to connect."""

    key: SigningKey = field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    brokers: tuple[str, ...]
    wait_s: float
    wallet: Path | None = None
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    by_statement: StatementLinks | None = field(default=None, repr=False)
    identity: IdentityFile | None = field(default=None, repr=False)
    ask_brokers: AskBrokers | None = field(default=None, repr=False)
    brokers_of: tuple[Principal, ...] | None = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """Connect through the first broker that answers and proves its own right to connect."""
        from maia.client.api.client import connect
        from maia.client.api.pushed_certificates import follow_issuers, issuers_of, showing
        from maia.client.api.wallet_watch import following
        from maia.keystore.wallet_folder import WalletFolder
        from maia.net.process import beside

        wallet = None if self.wallet is None else WalletFolder(self.wallet)
        kept = None if wallet is None else wallet.read()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                connect(
                    self.brokers,
                    key=self.key,
                    network=self.network,
                    credentials=(*self.credentials, *(kept.certificates if kept else ())),
                    statements=kept.statements if kept else (),
                    constitutions=self.constitutions,
                    timeout_s=self.wait_s,
                    by_statement=self.by_statement,
                    identity=self.identity,
                    ask_brokers=self.ask_brokers,
                    brokers_of=self.brokers_of,
                    on_waiting=lambda problem: note(f"maia: {problem.message}; trying on"),
                    on_ending=warn,
                )
            )
            if wallet is not None and kept is not None:
                await stack.enter_async_context(following(client, wallet, shown=kept))
            held = (*self.credentials, *(kept.certificates if kept else ()))
            issuers = issuers_of(held, self.key.principal)
            pushed = follow_issuers(client, self.key, issuers, showing(client, self.wallet))
            await stack.enter_async_context(beside(pushed))
            yield client


@options
class Participant:
    """The options by which a command connects to a network."""

    key: Path = KEY_FILE
    credentials: list[Path] = need(
        "Files, or folders of *.cert and *.quorum. May be repeated.", "--credentials", "-c"
    )
    network: str = need("The network's name.", envvar="MAIA_NETWORK")
    coordinator: str = need("The network's owner: key, .pub file or quorum:….", envvar="MAIA_COORDINATOR")
    broker: list[str] = need(
        "A broker, such as 127.0.0.1:7400, or KEY@127.0.0.1:7401 for a statement link; "
        "give several to go on when one fails.",
        envvar="MAIA_ADDRESS",
        metavar="ADDRESS",
    )
    brokers_of: list[str] | None = opt(
        "The organisation that made the broker one, or its key; a broker of another one is not talked to. "
        "Repeat.",
        envvar="MAIA_BROKERS_OF",
    )
    wallet: Path | None = opt(
        "A wallet of `maia login`; what it renews is shown at once.", envvar="MAIA_WALLET"
    )
    identity: Path | None = IDENTITY
    provider: list[str] | None = PROVIDERS
    wait_s: float = WAIT_S
    server: str | None = opt(
        "The domain's server: while no broker is reached, it is asked where they are.", envvar="MAIA_SERVER"
    )
    domain: str | None = opt("The key that must answer there: key or .pub file.", envvar="MAIA_DOMAIN")

    def membership(self) -> Membership:
        """Open the key, the certificates and the statement that the options name."""
        from maia.config.identity_file import IdentityFile
        from maia.net.statement_links import StatementLinks
        from maia.profile.brokers_now import brokers_now

        name = network_named(self.coordinator, self.network)
        shown = tuple(read_certificates(self.credentials))
        wallets = [] if self.wallet is None else [self.wallet]
        constitutions = read_constitutions([*self.credentials, *wallets])
        signing, providers = open_key(self.key), self.provider or []
        # The key, the `@` and the address; the first two are empty for a TLS link.
        brokers = [one.rpartition("@") for one in self.broker]
        peers = {address: read_principal(word) for word, at, address in brokers if at}
        if peers and (self.identity is None or not providers):
            raise BadInput(
                "INPUT-LINK-IDENTITY",
                "a broker `KEY@HOST:PORT` is reached by a statement link: "
                "name your statement with `--identity` and the providers that you trust with `--provider`",
            )
        if self.identity is None and providers:
            raise BadInput(
                "INPUT-LINK-IDENTITY",
                "`--provider` says whom you believe in the community of your own statement: "
                "name that with `--identity`",
            )
        believed = [read_principal(one) for one in providers]
        file = None if self.identity is None else IdentityFile(self.identity, signing, believed)
        links = StatementLinks(file, system_now, peers) if file is not None and peers else None
        addresses = tuple(address for _, _, address in brokers)
        ask = None
        if self.server is not None and self.domain is not None and not peers:
            ask = partial(brokers_now, self.server, read_principal(self.domain), signing)
        brokers_of = None if not self.brokers_of else tuple(map(read_principal, self.brokers_of))
        return Membership(
            signing, name, shown, addresses, self.wait_s, self.wallet, constitutions, links, file, ask,
            brokers_of,
        )  # fmt: skip


def history_of(definition: Path, previous: list[Path] | None) -> list[SignedDefinition]:
    """Read a definition after those it was made from."""
    return [read_definition(path) for path in [*(previous or ()), definition]]


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """A topic as it was written, without its owner, and the place of its tree; 0 is the type's own."""

    word: str
    path: str
    tree: int


@options
class TypeOptions:
    """Which event type is meant: by its name, or by its file."""

    named: str | None = arg(
        "The event type: its name among --types, or NAME@OWNER; its file; or a topic, as /news/uk.",
        default=None,
        metavar="TYPE",
    )
    definition: Path | None = opt("The event type: a file made by `maia type define`.", "--definition", "-d")
    types: list[Path] | None = opt("Where types are found by name: files, or folders of *.type.")
    previous: list[Path] | None = opt("Versions that it was made from, the oldest first; may be repeated.")

    @property
    def topic(self) -> str | None:
        """Return the topic that is named in place of a type."""
        is_topic = self.named is not None and self.named.startswith("/") and not Path(self.named).is_file()
        return self.named if is_topic else None

    def topics(
        self,
        more: Iterable[str] | None,
        event_type: VerifiedType,
        constitutions: tuple[VerifiedConstitution, ...] = (),
        *,
        wallet: Path | None = None,
    ) -> tuple[list[NamedTopic], list[list[SignedDefinition]]]:
        """Return the topics that are named, and the declarations of those that lie in other trees."""
        from maia.types.definition import tree_meant

        words = dict.fromkeys([*([] if self.topic is None else [self.topic]), *(more or ())])
        named, own = {one: tree_meant(one) for one in words}, event_type.name
        if all(tree.partition("@")[0] != own.name for tree, _ in named.values()):
            return [NamedTopic(one, path, 0) for one, (_, path) in named.items()], []  # refused by the type
        trees = {own.name: 0}
        others: list[list[SignedDefinition]] = []
        for tree in (tree for tree, _ in named.values()):
            if tree not in trees:
                found = self._found(tree, constitutions, wallet)
                name = found[-1].definition.name
                is_own = (name.owner, name.name) == (own.owner, own.name)
                others += [] if is_own else [found]
                trees[tree] = 0 if is_own else len(others)
        return [NamedTopic(one, path, trees[tree]) for one, (tree, path) in named.items()], others

    def history(
        self, constitutions: tuple[VerifiedConstitution, ...] = (), *, wallet: Path | None = None
    ) -> list[SignedDefinition]:
        """Return the type that is meant, after those it was made from."""
        from maia.types.definition import tree_meant

        named, definition = self.named, self.definition
        if (named is None) == (definition is None):
            raise BadInput(
                "INPUT-NO-TYPE", "name one event type: by its name, or by its file with `--definition`"
            )
        if definition is None and named is not None and Path(named).is_file():
            definition = Path(named)
        if definition is not None:
            return history_of(definition, self.previous)
        if self.topic is not None:
            named, _ = tree_meant(self.topic)
        return self._found(str(named), constitutions, wallet)

    def _found(
        self, named: str, constitutions: tuple[VerifiedConstitution, ...], wallet: Path | None
    ) -> list[SignedDefinition]:
        """Return a type that is found by its name."""
        from maia.profile.profile import types_named, wallet_places

        places = [*(self.types or ()), *wallet_places(wallet)]
        if not places:
            raise BadInput(
                "INPUT-NO-TYPE",
                f"`{named[:64]}` is no file, and there is no place to find a type by name: "
                "say `--as PROFILE`, `--types FOLDER`, or name its file with `--definition`",
            )
        found = types_named(named, places, constitutions=constitutions, at=moment(None))
        return [one.signed for one in found]


def check_filter(text: str, event_type: VerifiedType) -> None:
    """Refuse a filter that cannot be read, or that speaks of what the type does not have."""
    from maia.predicates import parse_predicate
    from maia.types import check_predicate

    check_predicate(parse_predicate(text, event_type.vocabulary), event_type)


def verified(
    history: list[SignedDefinition],
    constitutions: tuple[VerifiedConstitution, ...] = (),
    *,
    at: Instant | None = None,
) -> VerifiedType:
    """Verify a definition after those it was made from; return the last."""
    from maia.types import verify_definition

    now, found = moment(None) if at is None else at, None
    for signed in history:
        found = verify_definition(signed, at=now, previous=found, constitutions=constitutions)
    assert found is not None  # noqa: S101 - a history has one definition at least
    return found
