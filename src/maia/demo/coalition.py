"""A coalition at sea: who sees which contact, and which routers work together? (Gismo.)

Three nations, each with an identity provider and a router in a mesh, six people on
ships and staffs. Contacts are published on topics. Certificates say what each may see of them; then
requirements decide, in the words of the paper's figure 2: what a publisher asks of subscribers and a
subscriber of publishers, over statements of the providers that a router trusts. Routers prove their boot by
a TPM, and demand a level of their neighbours. Each round publishes the same six contacts, while the world
has changed in between.
"""

from __future__ import annotations

import atexit
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from maia.clock import system_now
from maia.config.input_files import read_identity
from maia.credentials.requirements import (
    NO_ATTRIBUTES,
    Attributes,
    attributes_of_identity,
    is_met,
    parse_requirement,
)
from maia.demo.world import ANY, Happening, Sending, Story, StoryReader, StoryWorld
from maia.errors import MaiaError
from maia.organisation import Organisation

if TYPE_CHECKING:
    from maia.client.api.subscription import ReceivedEvent
    from maia.demo.stage import Stage
    from maia.keystore.tpm import Tpm

# Norway and the Netherlands do not know each other's providers: trust is never transitive.
TRUSTS: Final = {
    "norway": ("norway", "britain"),
    "britain": ("norway", "britain", "netherlands"),
    "netherlands": ("britain", "netherlands"),
}
ROUTERS: Final = {"norway": "Oslo", "britain": "London", "netherlands": "Den Haag"}
NEIGHBOURS: Final = {
    "norway": ("britain",),
    "britain": ("norway", "netherlands"),
    "netherlands": ("britain",),
}
LOSES_ITS_LEVEL: Final = "netherlands"
DEMAND: Final = "tpm-integrity >= 2"
"""What every router demands of its neighbours."""
_LEVEL, _PCRS = 2, (0, 7)
_APPROVED: Final = ((0, b"firmware 5.2"), (7, b"secure boot on"))
_CHANGED: Final = ((0, b"firmware 5.2, changed"), (7, b"secure boot off"))
_LAST_STATEMENT_S: Final = 12
"""A client looks at its file every second, and has to have shown the statement while it holds."""
_WAIT_S: Final = 60.0

HIGHEST: Final = '(sec_clearance="NATO secret")'
CLEARED: Final = 'not (sec_clearance="NATO restricted")'
FIGURE_2: Final = '(nationality="uk") or (sec_clearance="NATO secret")'
"""What the subscription in figure 2 of the paper asks for."""
_SECRET, _CONFIDENTIAL, _RESTRICTED = (
    f"-a 'sec_clearance=NATO {level}'" for level in ("secret", "confidential", "restricted")
)
PEOPLE: Final = {
    # nation, attributes, and the nation at whose router the person is connected
    "anna": ("norway", f"-a nationality=no {_SECRET}", "norway"),
    "kent": ("britain", f"-a nationality=uk {_CONFIDENTIAL}", "britain"),
    "bo": ("norway", f"-a nationality=no {_SECRET}", "norway"),
    "brown": ("britain", f"-a nationality=uk {_CONFIDENTIAL}", "britain"),
    "vries": ("netherlands", f"-a nationality=nl {_SECRET}", "norway"),
    "smit": ("netherlands", f"-a nationality=nl {_RESTRICTED}", "netherlands"),
}
TREE: Final = "topic.contacts"
"""The type whose events are on the topics below `/contacts`."""
CONTACTS: Final = (
    ("anna", "/contacts/surface", ANY, "off Stad"),
    ("anna", "/contacts/surface/convoy", CLEARED, "Sognefjord"),
    ("anna", "/contacts/submarine", HIGHEST, "Hardangerfjord"),
    ("anna", "/contacts/submarine", '(nationality="no")', "Vestfjord"),
    ("kent", "/contacts/surface", CLEARED, "Dogger Bank"),
    ("kent", "/contacts/submarine", FIGURE_2, "Dover Strait"),
)
"""By whom, on which topic, what the publisher requires of subscribers, and where."""

_SETUP: Final = """\
org new norway
org new britain
org new netherlands
topic declare /contacts -a vessel:string -a place:string -a source:string --protection signed --org norway
grant britain/britain.pub --org norway --delegable --may 'publish:/contacts/#' \\
    --may 'subscribe:/contacts/#' -o britain.grant
grant netherlands/netherlands.pub --org norway --may 'subscribe:/contacts/#' --delegable -o netherlands.grant
network join britain.grant --org britain
network join netherlands.grant --org netherlands
member add anna --org norway --may 'publish:/contacts/#'
member add bo --org norway --may 'subscribe:/contacts/#'
member add kent --org britain --may 'publish:/contacts/#'
member add brown --org britain --may 'subscribe:/contacts/#'
member add vries --org netherlands --may 'subscribe:/contacts/#'
member add smit --org netherlands --may 'subscribe:/contacts/#' --only vessel,place
"""


# ------------------------------------------------------------ providers, routers and people


def statement_of(who: str) -> Path:
    """Return the file with the statement of a person, or of a nation's router."""
    return (
        Path(who, "router.identity")
        if who in TRUSTS
        else Path(PEOPLE[who][0], f"{who}.maia", f"{who}.identity")
    )


def _ask(world: StoryWorld, who: str, more: str = "") -> None:
    """Let a person, or a router, ask its provider for a statement."""
    key = f"--as {who} -k {who}/broker.key" if who in TRUSTS else f"--as {who}"
    world.maia(f"domain identity {key} -o {statement_of(who)} --force {more}")
    while attributes(who) is None:  # it begins with a whole second
        time.sleep(0.05)


def _server(nation: str) -> str:
    return f"--server {Organisation(nation).addresses['server']} --domain {nation}/{nation}.pub"


def _start(world: StoryWorld) -> None:
    """Start the providers, register people and routers, let routers prove their boot, and start them."""
    from maia.testing.software_tpm import registers

    for nation in TRUSTS:
        world.settings(
            f"{nation}/domain.toml", '[identity]\ncommunity = "coalition.north"\nlifetime_s = 900\n'
        )
    world.up(*world.servers("server"))
    root = _make_machines()
    values = {str(pcr): registers(*_APPROVED)[pcr].hex() for pcr in _PCRS}
    boot = {"name": "router 5.2", "level": _LEVEL, "values": values}
    Path("boots.json").write_text(json.dumps({"pcrs": _PCRS, "configurations": [boot]}), encoding="utf-8")
    Path("maker.der").write_bytes(root)
    for nation, router in ROUTERS.items():
        identifier = f"{router.replace(' ', '-').lower()}.routers"
        world.maia(f"domain subject add {nation}/broker.pub {identifier} --as {nation}")
        world.maia(f"tpm approve boots.json --root maker.der -k {nation}/{nation}.key {_server(nation)}")
    for who, (nation, attributes, _) in PEOPLE.items():
        world.maia(
            f"domain subject add {nation}/{who}.maia/{who}.pub {who}@{nation} {attributes} --as {nation}"
        )
    world.maia("domain trust add netherlands/netherlands.pub netherlands --as norway")
    world.maia("domain trust add norway/norway.pub norway --as britain")
    for nation in TRUSTS:
        _boot(world, nation, _APPROVED)
    world.maia("org new ports")  # free addresses, at which routers listen for links of statements
    addresses = dict(zip(TRUSTS, Organisation("ports").addresses.values(), strict=True))
    shutil.rmtree("ports")
    for nation, trusted in TRUSTS.items():
        peers = [f"{_key(one)}@{addresses[one]}" for one in NEIGHBOURS[nation]]
        providers = [str(Organisation(one).principal) for one in trusted]
        text = Path(nation, "broker.toml").read_text(encoding="utf-8")
        own = f'join = []\nrouting = "mesh"\nneighbours = {json.dumps(peers)}\n{text}'
        own += f'[identity]\nstatement = "router.identity"\nproviders = {json.dumps(providers)}\n'
        own += f'demand = "{DEMAND}"\nlisten = "{addresses[nation]}"\n'
        Path(nation, "broker.toml").write_text(own, encoding="utf-8")
    for who, (_, _, at) in PEOPLE.items():
        _ask(world, who)
        file = statement_of(who).with_name("profile.toml")
        lines = [
            line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("brokers")
        ]
        lines += [f'identity = "{who}.identity"', f'brokers = ["{_key(at)}@{addresses[at]}"]']
        lines += [f"providers = {json.dumps([str(Organisation(one).principal) for one in TRUSTS[at]])}"]
        file.write_text("\n".join(lines), encoding="utf-8")
    world.up(*world.servers("broker"))


_MACHINES: Final[dict[str, tuple[Callable[..., object], Tpm]]] = {}
"""How the machine of each router is booted, and its TPM."""


def _make_machines() -> bytes:
    """Make a machine with a TPM for each router; return the certificate of the TPMs' maker.

    The TPMs are emulated by swtpm where that is installed, and else by a class in Python.
    """
    from maia.keystore.tpm import Tpm2Tools
    from maia.testing.software_tpm import Maker, SoftwareTpm
    from maia.testing.swtpm import EmulatedMachine, LocalAuthority, missing_emulator

    if missing_emulator():
        maker = Maker("Maker of the coalition's TPMs")
        for nation in TRUSTS:
            made = SoftwareTpm(maker)
            _MACHINES[nation] = made.boot, made
        return maker.root
    folder = Path(mkdtemp(prefix="maia-tpm-"))  # the path of a socket is short
    authority = LocalAuthority(folder / "maker")
    for nation in TRUSTS:
        machine = EmulatedMachine(folder / nation, authority)
        atexit.register(machine.switch_off)
        tools = Tpm2Tools(machine.address, folder / nation / "keys", machine.boot_log)
        _MACHINES[nation] = machine.boot, tools
    return authority.certificate


def _key(nation: str) -> str:
    return Path(nation, "broker.pub").read_text(encoding="utf-8").strip()


def _boot(world: StoryWorld, nation: str, events: tuple[tuple[int, bytes], ...]) -> str | None:
    """Boot a router's machine, quote, and renew the router's statement; return the code of a refusal."""
    from maia.api.client import DomainClient
    from maia.keystore.key_files import load_signing_key
    from maia.keystore.tpm import prove_boot

    ours, code = Organisation(nation), None
    boot, tpm = _MACHINES[nation]
    boot(*events)
    key = load_signing_key(Path(nation, "broker.key"))
    with DomainClient(ours.addresses["server"], domain=ours.principal, key=key) as provider:
        try:
            prove_boot(provider, tpm)
        except MaiaError as problem:
            code = problem.code
    _ask(world, nation)
    return code


# ------------------------------------------------------------ what the kernel says


def attributes(who: str) -> Attributes | None:
    """Return what a person's or a router's statement says; None if it is not in force."""
    statement = read_identity(statement_of(who)).statement
    return attributes_of_identity(statement) if statement.is_in_force(system_now()) else None


def linked() -> dict[str, frozenset[str]]:
    """Return the neighbours that each router has to have, by the statements of all."""
    said = {one: attributes(one) or NO_ATTRIBUTES for one in TRUSTS}

    def accepts(one: str, other: str) -> bool:
        return other in TRUSTS[one] and is_met(parse_requirement(DEMAND), said[other])

    return {
        one: frozenset(other for other in near if accepts(one, other) and accepts(other, one))
        for one, near in NEIGHBOURS.items()
    }


def obstacle(_stage: Stage, reader: StoryReader, by: str, requires: str) -> str | None:
    """Say why a reader must not see what one publishes with a requirement; None if it has to."""
    shown, (author_of, _, author_at), at = attributes(reader.profile), PEOPLE[by], PEOPLE[reader.profile][2]
    if shown is None:
        return "x"
    reached, links = {author_at}, linked()
    while more := {other for one in reached for other in links[one]} - reached:
        reached |= more
    if at not in reached:
        return "c"
    if not is_met(parse_requirement(requires), shown):
        return "s"
    # The author counts where the reader's router knows the provider that states who the author is.
    known = (attributes(by) or NO_ATTRIBUTES) if author_of in TRUSTS[at] else NO_ATTRIBUTES
    return None if is_met(parse_requirement(reader.requires), known) else "p"


_LEGEND: Final = {
    "s": "does not meet it", "p": "wants other publishers", "t": "wants other topics",
    "x": "statement expired", "c": "router cut off",
}  # fmt: skip


# ------------------------------------------------------------ rounds


def _contacts(number: int) -> list[tuple[str, str, Happening, str]]:
    return [
        (
            by,
            TREE,
            {"topic": topic, "vessel": f"{number}", "place": place, "source": f"sensor of {by}"},
            requires,
        )
        for by, topic, requires, place in CONTACTS
    ]


def _probes(number: int) -> list[Sending]:
    return [
        (by, of, {**event, "vessel": f"probe {number}"}, requires)
        for by, of, event, requires in _contacts(number)
    ]


def _round(stage: Stage, title: str) -> None:
    """Publish all contacts once, and show who saw what, and why the others did not."""
    _until(
        stage, f"{title}: neighbours are those that the statements say", lambda: measured(stage) == linked()
    )
    stage.settle()
    rounds = stage.record.setdefault("rounds", [])
    assert isinstance(rounds, list)  # noqa: S101 - made in the line above
    before = len(stage.published)
    for by, of, event, requires in _contacts(len(rounds) + 1):
        stage.send(by, of, [event], requires, is_close_up=True)
    stage.receive()
    rows, marks, contacts = [["by", "on", "for subscribers with", *stage.inboxes]], set[str](), []
    for one in (one for one in stage.published[before:] if not one.is_probe):
        cells, received = list[str](), dict[str, object]()
        for who, inbox in stage.inboxes.items():
            seen = [
                event for event in inbox.events if one.expected.get(who, one.event).items() <= event.items()
            ]
            on_topic = "●" if inbox.reader.asks_for(one.event) else "t"
            mark = obstacle(stage, inbox.reader, one.by, one.requires) or on_topic
            cells.append(mark if bool(seen) is (mark == "●") else "✗")
            marks.add(mark)
            received |= {who: [dict(event) for event in seen]} if seen else {}
            _check_author(stage, inbox.reader, one.by, seen)
        topic = str(one.event["topic"]).removeprefix("/contacts")
        rows.append([one.by, topic, "anything" if one.requires == ANY else one.requires, *cells])
        contacts.append(
            {"by": one.by, "requires": one.requires, "received": received, "expected": one.expected}
        )
    stage.say(title)
    stage.show(rows)
    neighbours = measured(stage)
    alone = "".join(
        f"; {ROUTERS[one]} has no neighbours without `{DEMAND}`"
        for one, near in neighbours.items()
        if not near
    )
    stage.show(
        [["● seen; not seen: " + ", ".join(f"{one} {_LEGEND[one]}" for one in sorted(marks - {"●"})) + alone]]
    )
    near = {one: sorted(others) for one, others in neighbours.items()}
    rounds.append({"title": title, "contacts": contacts, "neighbours": near})


def _check_author(stage: Stage, reader: StoryReader, by: str, seen: list[ReceivedEvent]) -> None:
    """A reader knows of an author what a provider states that its router trusts, and nothing else."""
    known = f"{by}@{PEOPLE[by][0]}" if PEOPLE[by][0] in TRUSTS[PEOPLE[reader.profile][2]] else None
    for event in seen:
        stage.expect(f"{reader.name} knows who {by} is", event.publisher.identifier, known)


def measured(stage: Stage) -> dict[str, frozenset[str]]:
    """Return the neighbours of each router, as its own status names them."""
    names = {_key(nation): nation for nation in TRUSTS}
    return {
        # A router that follows its own streams is a client of itself.
        nation: frozenset(names[one] for one in _peers(stage, nation) if one in names) - {nation}
        for nation in TRUSTS
    }


def _peers(stage: Stage, nation: str) -> list[str]:
    links = stage.world.maia(f"status --data {nation}/broker-data", changes=False)["links"]
    return [one["peer"] for one in links]


def _until(stage: Stage, claim: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)
    stage.expect(claim, done())


# ------------------------------------------------------------ acts


def _people_connect(stage: Stage) -> None:
    def guest(who: str, shown: Path, at: str, out: str) -> str:
        return f"domain identity --guest {shown} --as {who} {_server(at)} -o {out}.identity"

    from maia.testing.swtpm import missing_emulator

    missing = missing_emulator()
    without = f"a TPM in Python, because `{missing[0]}` is not installed" if missing else "swtpm"
    stage.say(f"The routers have proved their boot with {without}")
    stage.attempt("Smit of the Netherlands asks Britain, which has no Dutch guests",
                  stage.maia, guest("smit", statement_of("smit"), "britain", "no"))  # fmt: skip
    stage.maia(guest("vries", statement_of("vries"), "norway", "guest"))
    shutil.copy("guest.identity", statement_of("vries"))
    stage.attempt("Vries asks Britain for a guest statement on his guest statement of Norway",
                  stage.maia, guest("vries", Path("guest.identity"), "britain", "no"))  # fmt: skip
    for reader in stage.story.readers:
        stage.join(reader)
    _round(
        stage, "Vries of the Netherlands is a guest in Oslo: Norway states again what his home states of him"
    )


def _clearance_is_raised(stage: Stage) -> None:
    stage.maia(
        "domain subject add britain/brown.maia/brown.pub brown@britain -a nationality=uk "
        f"{_SECRET} --as britain"
    )
    _ask(stage.world, "brown")
    _round(stage, "Brown's clearance is raised to NATO secret; his link stays, and shows the new statement")


def _statement_expires(stage: Stage) -> None:
    _ask(stage.world, "bo", f"--lifetime-s {_LAST_STATEMENT_S}")
    stage.maia("domain subject remove norway/bo.maia/bo.pub --reason 'his posting has ended' --as norway")
    stage.attempt("Bo asks for one more statement", stage.maia, "domain identity --as bo -o no.identity")
    bo = str(stage.members["bo"].principal)
    _until(stage, "Bo's link ends with his statement", lambda: bo not in _peers(stage, "norway"))
    _round(stage, "Bo leaves the service; his last statement has expired, and Oslo has ended his link")


def _boot_changes(stage: Stage) -> None:
    code = stage.refused["Den Haag quotes a boot with changed firmware"] = _boot(
        stage.world, LOSES_ITS_LEVEL, _CHANGED
    )
    stage.expect("a changed boot is refused", code is not None)
    _round(stage, "Den Haag has booted changed firmware: its quote is genuine, and not approved")
    stage.expect("an approved boot is accepted", _boot(stage.world, LOSES_ITS_LEVEL, _APPROVED), None)
    _round(stage, "Den Haag has booted what is approved, proves it, and is back")


STORY: Final = Story(
    name="coalition",
    before="""\
Norway, Britain and the Netherlands share contacts at sea, on topics, over three
routers. Every person and router has a statement of its nation's identity provider:
nationality and clearance of people, the proved boot of routers. Publishers say who
may see a contact, readers say whose contacts they want and on which topic, routers
say which routers they work with.
""",
    setup=_SETUP,
    start=_start,
    obstacle=obstacle,
    readers=(
        StoryReader("Bo", "bo", TREE, "NATO secret, until he leaves", topic="/contacts", joins_later=True),
        StoryReader("Brown", "brown", TREE, "confidential, then secret", topic="/contacts", joins_later=True),
        StoryReader("Vries", "vries", TREE, "a guest in Oslo, who wants Norwegians, on the surface",
               requires='(nationality="no")', topic="/contacts/surface", joins_later=True),
        StoryReader("Smit", "smit", TREE, "vessels and places", topic="/contacts", joins_later=True),
    ),
    probes=_probes,
    is_probe=lambda event: str(event["vessel"]).startswith("probe"),
    acts=(_people_connect, _clearance_is_raised, _statement_expires, _boot_changes),
    close_ups=0,
    next=("maia tpm --help", "docs/identity.md"),
)  # fmt: skip
