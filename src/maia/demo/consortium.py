"""Two ports and a customs agency share what they know of ships: who sees what of whom, and until when?

The tutorial docs/tutorials/consortium.md as a demonstration: folders, grants and
profiles as its commands make them, and the servers of all three, each a process. What
each reader has to see of an event is written down here beside what is published. A
reader that sees anything else, or a ledger that says anything else, makes it fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Console

from maia.api.client import DomainClient
from maia.api.requests import FactBody, LoginBody, TypedArgument
from maia.api.responses import News, RevokedAnswer, WalletAnswer
from maia.client.api.connection import Connection, signing_key
from maia.credentials import Principal, certificate_from_bytes, statement_from_bytes
from maia.demo.processes import BROKER_FILE, DOMAIN_FILE, Child, start, stop_all
from maia.demo.program import typed_command
from maia.demo.scenes.screen import load_servers, print_aligned
from maia.errors import MaiaError
from maia.ledger.files import disclosures_in
from maia.organisation import Organisation

if TYPE_CHECKING:
    from maia.client.api.blocking_client import BlockingClient, BlockingSubscription
    from maia.profile import Profile

BEFORE: Final = """\
Two ports and a customs agency share what they know of ships, over servers of their own.
  Hamburg    owns `ShipMovement`, and `Manifest`, which travels sealed
  Rotterdam  owns another type `ShipMovement`; its pilot sees Hamburg's ships, with the
             draught rounded to five metres
  customs    sees Rotterdam's ships; its desk sees which ship has a manifest in Hamburg,
             and an inspector also the cargo, while on duty

"""
_MOVEMENT, _MANIFEST, _BERTH = "ShipMovement@hamburg", "Manifest", "ShipMovement@rotterdam"
_POLICY: Final = """\
policy "Customs"
fact on_duty(who: principal)
role inspector
rule inspector
    while on_duty(holder)
    for 1 day
grant inspector
    may subscribe to Manifest(ship, cargo)
end
"""
_A = TypeVar("_A")
_PROBE: Final = "probe"
"""The ship of events that only show that a reader is reached."""
_ARRIVE_S: Final = 90.0
_ROWS: Final = 20


@dataclass(slots=True)
class _Stream:
    """What a reader subscribes to, and what it received."""

    who: str
    of: str
    subscription: BlockingSubscription
    received: int = 0
    seen: set[str] = field(default_factory=set)
    ended: str | None = None

    def take(self, count: int = 1, *, timeout_s: float = _ARRIVE_S) -> list[dict[str, object]]:
        """Return the next events without probes, as many as arrive in time."""
        found: list[dict[str, object]] = []
        try:
            while len(found) < count and (some := self.subscription.some(1, timeout_s=timeout_s)):
                self.received += 1
                self.seen |= {name for name, value in some[0].items() if value is not None}
                found += [dict(one) for one in some if one["ship"] != _PROBE]
        except MaiaError as problem:
            self.ended = problem.code
        return found


@dataclass(slots=True)
class _Play:
    """What the acts work with, and what they leave."""

    organisations: dict[str, Organisation]
    children: dict[str, Child]
    say: Callable[[str], None]
    stack: ExitStack
    clients: dict[str, BlockingClient] = field(default_factory=dict)
    streams: list[_Stream] = field(default_factory=list)
    refused: dict[str, str | None] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def expect(self, claim: str, found: object, wanted: object = True) -> None:
        """Take note of a claim that does not hold."""
        if found != wanted:
            self.broken.append(claim)

    def sees(self, stream: _Stream, wanted: list[dict[str, object]]) -> str:
        """Expect exactly these events next, in this order; return the last one in words."""
        found = stream.take(len(wanted))
        self.expect(f"the {stream.who} sees of {stream.of} what it was granted", found, wanted)
        last = found[-1].items() if found else ()
        return ", ".join(f"{name} {'·' if value is None else value}" for name, value in last) or "NOTHING"

    def end_of(self, stream: _Stream) -> str:
        """Expect the end of a subscription, and no event before it; return the code."""
        self.expect(
            f"the {stream.who} sees no more of {stream.of}", (stream.take(), bool(stream.ended)), ([], True)
        )
        return stream.ended or "NO END"

    def profile(self, name: str) -> Profile:
        """Return the profile of a member."""
        members = (one for ours in self.organisations.values() for one in ours.members())
        return next(one for one in members if one.name == name)

    def connect(self, name: str, **options: object) -> None:
        """Connect a member, until the play ends."""
        quiet = {"on_waiting": lambda _: None, "on_warning": lambda _: None}
        self.clients[name] = self.stack.enter_context(Connection(self.profile(name), quiet | options))

    def subscribe(self, who: str, of: str, *, durable: str | None = None) -> _Stream:
        """Subscribe, and publish probes until one arrives."""
        asked = self.clients[who].subscribe(of, durable=durable, timeout_s=_ARRIVE_S)
        self.streams.append(stream := _Stream(who, of, asked))
        deadline = time.monotonic() + _ARRIVE_S
        while not stream.received and time.monotonic() < deadline:
            self.publish(of, _PROBE, rows=1)
            stream.take(timeout_s=0.5)
        self.expect(f"{of} reaches the {who}", stream.received > 0)
        return stream

    def publish(self, of: str, ship: str, *, rows: int = _ROWS) -> None:
        """Publish some events about a ship."""
        for number in range(rows):
            match of:
                case "Manifest":
                    self.clients["tower"].publish(of, ship=ship, cargo="coffee", value=90_000 + number)
                case "ShipMovement@hamburg":
                    self.clients["tower"].publish(of, ship=ship, quay="Burchard", draught=13.4)
                case _:
                    self.clients["pilot"].publish(of, ship=ship, berth=number)

    def attempt(self, title: str, trying: Callable[..., object], *words: object) -> None:
        """Try what has to be refused, and note the code."""
        self.refused[title] = None
        try:
            trying(*words)
            self.broken.append(f"{title}: something stops it")
        except MaiaError as problem:
            self.refused[title] = problem.code

    def ask_customs(self, who: Profile, page: str, body: FactBody | LoginBody, answer: type[_A]) -> _A:
        """Call the server of customs."""
        ours = self.organisations["customs"]
        server = DomainClient(ours.addresses["server"], domain=ours.principal, key=signing_key(who))
        with server as office:
            return office.call("POST", page, body, answer=answer)


def _founded(folder: Path) -> dict[str, Organisation]:
    """Make three organisations with types, members and grants, as sections 1, 2 and 5 of the tutorial do."""
    names = ("hamburg", "rotterdam", "customs")
    hamburg, rotterdam, customs = made = [Organisation.create(folder / name) for name in names]
    hamburg.define("ShipMovement", ship="string", quay="string", draught="float")
    hamburg.define("Manifest", ship="string", cargo="string", value="int", sealed=True)
    hamburg.add_member("tower", may=("publish:ShipMovement", "publish:Manifest"))
    rotterdam.define("ShipMovement", ship="string", berth="int")
    rounding, both = ["draught := round_to(draught, 5.0)"], ("subscribe:ShipMovement", "subscribe:Manifest")
    rounded = hamburg.grant(rotterdam.principal, may="subscribe:ShipMovement", set=rounding, delegable=True)
    rotterdam.join(rounded.save(folder / "rotterdam.grant"), name="hamburg")
    manifests = hamburg.grant(customs.principal, may=both, delegable=True)
    customs.join(manifests.save(folder / "hamburg-customs.grant"), name="hamburg")
    berths = rotterdam.grant(customs.principal, may=f"subscribe:{_BERTH}", delegable=True)
    customs.join(berths.save(folder / "rotterdam-customs.grant"), name="rotterdam")
    rotterdam.add_member("pilot", may=(f"publish:{_BERTH}", f"subscribe:{_MOVEMENT}"))
    customs.add_member("desk", may=f"subscribe:{_BERTH}")
    customs.add_member("desk", may="subscribe:Manifest", only=["ship"])
    customs.add_member("inspector")
    (customs.folder / "customs.policy").write_text(_POLICY, encoding="utf-8")
    (customs.folder / DOMAIN_FILE).write_text('[policy]\nfile = "customs.policy"\n', encoding="utf-8")
    for ours in made:
        (ours.folder / BROKER_FILE).write_text('[ledger]\nfolder = "ledger"\nall = true\n', encoding="utf-8")
    return dict(zip(names, made, strict=True))


@contextmanager
def _at_work(organisations: dict[str, Organisation]) -> Iterator[dict[str, Child]]:
    """Run a broker and a domain's server for each organisation while the body runs."""
    children: dict[str, Child] = {}
    try:
        for file in (BROKER_FILE, DOMAIN_FILE):  # a server waits for its broker
            what = file.removesuffix(".toml")
            begun = [start(f"{what} of {one.name}", one.folder, file=file) for one in organisations.values()]
            children |= {one.name: one.process for one in begun}
            for one in begun:
                one.address()
        yield children
    finally:
        stop_all(list(children.values()))


def _act(play: _Play) -> None:
    """Let each see what it was granted, try for more, lose a broker, and lose rights."""
    hamburg, customs = play.organisations["hamburg"], play.organisations["customs"]
    for name in ("tower", "pilot", "desk"):
        play.connect(name)
    ships = play.subscribe("pilot", _MOVEMENT)
    manifests = play.subscribe("desk", _MANIFEST)
    berths = play.subscribe("desk", _BERTH, durable="berths")
    for of in (_MOVEMENT, _MANIFEST, _BERTH):
        play.publish(of, "Otto")
    seen = play.sees(ships, [{"ship": "Otto", "quay": "Burchard", "draught": 15.0}] * _ROWS)
    play.say(f"Rotterdam's pilot sees {seen}: of 13.4, rounded")
    listed = play.sees(manifests, [{"ship": "Otto", "cargo": None, "value": None}] * _ROWS)
    moored = [{"ship": "Otto", "berth": number} for number in range(_ROWS)]
    play.say(f"the desk of customs sees {listed}, and from Rotterdam {play.sees(berths, moored)}")
    _try_for_more(play)

    berths.subscription.acknowledge()
    play.children["broker of customs"].kill()
    play.publish(_BERTH, "Emma")
    again = start("broker of customs", customs.folder, file=BROKER_FILE)
    play.children[again.name] = again.process
    again.address()
    seen = play.sees(berths, [{**one, "ship": "Emma"} for one in moored])
    play.expect("a killed broker misses nothing", berths.subscription.missed, ())
    play.say(f"the broker of customs is killed, and fetches the {_ROWS} events that it missed, to {seen}")

    who = play.profile("inspector")
    duty = FactBody("on_duty", [TypedArgument(principal=str(signing_key(who).principal))])
    play.ask_customs(customs.profile, "/v1/facts", duty, News)
    wallet = play.ask_customs(who, "/v1/login", LoginBody([]), WalletAnswer)
    held = [*who.certificates(), *map(certificate_from_bytes, wallet.chains)]
    statements = [*map(statement_from_bytes, wallet.statements)]
    play.connect(who.name, credentials=held, statements=statements, types=customs.definitions())
    cargo = play.subscribe(who.name, _MANIFEST)
    play.publish(_MANIFEST, "Emma")
    seen = play.sees(cargo, [{"ship": "Emma", "cargo": "coffee", "value": None}] * _ROWS)
    play.sees(manifests, [{"ship": "Emma", "cargo": None, "value": None}] * _ROWS)
    play.ask_customs(customs.profile, "/v1/facts/retraction", duty, RevokedAnswer)
    play.say(f"an inspector on duty sees {seen}; off duty, {play.end_of(cargo)}")

    hamburg.revoke(hamburg.folder.parent / "hamburg-customs.grant", reason="the agreement has ended")
    ended = play.end_of(manifests)
    play.publish(_BERTH, "Otto")
    seen = play.sees(berths, moored)
    play.expect("customs stays in the network", customs.principal in hamburg.invited())
    play.say(f"Hamburg revokes its grant: {ended}; customs goes on with Rotterdam's {seen}")


def _try_for_more(play: _Play) -> None:
    hamburg, customs = play.organisations["hamburg"], play.organisations["customs"]
    desk, pilot = play.clients["desk"], play.clients["pilot"]
    either = partial(customs.add_member, "desk", may="subscribe:ShipMovement")
    play.attempt("customs grants its desk `ShipMovement`, of either port", either)
    play.attempt("the desk filters manifests by cargo", desk.subscribe, _MANIFEST, 'cargo == "coffee"')
    play.attempt("the pilot subscribes to manifests", pilot.subscribe, hamburg.event_type(_MANIFEST).signed)
    play.attempt("the pilot publishes as Hamburg", pilot.publish, _MOVEMENT, {"ship": "Otto"})


def _who_saw_what(play: _Play) -> list[dict[str, object]]:
    """Compare what arrived with the ledgers of the brokers, which have stopped."""
    folders = [ours.folder / "ledger" for ours in play.organisations.values()]
    ledgers = [one for folder in folders for one in disclosures_in(folder)]
    found = []
    for one in play.streams:
        key, kind = signing_key(play.profile(one.who)).principal, one.subscription.event_type
        told = [each for each in ledgers if each.type_id == kind.type_id and Principal(each.recipient) == key]
        names = {each.uid: each.name for each in kind.attributes}
        shown = sorted({names[uid] for each in told for uid in each.attributes})
        rows = sum(each.rows for each in told)
        claim = f"the ledgers say of {one.of} what the {one.who} saw"
        # A frame that a killed broker sends again is in its ledger twice, and is received once.
        play.expect(claim, (rows >= one.received, shown), (True, sorted(one.seen)))
        found.append({
            "reader": one.who, "of": one.of, "received": one.received, "in ledgers": rows,
            "attributes": ", ".join(shown), "until": one.ended or "now",
        })  # fmt: skip
    return found


def play_story(folder: Path, *, started_at: float, quiet: bool) -> tuple[dict[str, object], list[str]]:
    """Play the story; return its record, and the claims that do not hold."""
    load_servers()
    screen = Console(quiet=quiet, highlight=False, emoji=False, markup=False)

    def say(sentence: str) -> None:
        screen.print(f"  {time.time() - started_at:6.2f} s  {sentence}", soft_wrap=True)

    organisations = _founded(folder)
    say("three organisations, with grants for each other")
    with _at_work(organisations) as children:
        say(f"{', '.join(children)}: {len(children)} processes")
        with ExitStack() as stack:
            play = _Play(organisations, children, say, stack)
            _act(play)
    readers = _who_saw_what(play)
    screen.print("\nWho saw what, probes included:")
    print_aligned(screen, [list(readers[0]), *([str(cell) for cell in one.values()] for one in readers)])
    screen.print("\nWho tried for more:")
    print_aligned(screen, [[title, code or "NOTHING STOPPED IT"] for title, code in play.refused.items()])
    record = {"readers": readers, "refused": play.refused, "played_s": round(time.time() - started_at, 3)}
    return record, play.broken


def after() -> list[str]:
    """Return the lines that say what to try next."""
    return [
        "",
        "Every delivery went over TLS between processes, and the ledgers say the same.",
        f"Next: docs/tutorials/consortium.md, the same command by command; {typed_command()} demo --help",
    ]
