"""What is a story, and how do its organisations come to run?

A story is data: the `maia` commands that set its organisations up, as an operator would type
them, policies, readers, and acts. The commands are run here as they are written,
in one folder; then each organisation's broker and domain server run with the settings that the
commands have written, each a process of its own. Where a database takes part, it is a
PostgreSQL server of this run alone, with `maia postgres run`.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, Final

from maia.demo.processes import Child, beside, load, start, stop_all
from maia.errors import Unavailable
from maia.events import Instant, Value
from maia.predicates.path_patterns import parse_path_pattern

Happening = Mapping[str, Value]
"""An event by attribute names, as a publisher writes it or a reader sees it."""
# Any: it is done on a `Stage`, which is made of a story.
Act = Callable[[Any], None]
"""Something that happens: it publishes, runs a command, or tries what must be refused."""
Made = list[tuple[str, Happening]]
Sending = tuple[str, str, Happening] | tuple[str, str, Happening, str]
"""By whom, of what, an event, and what is required of subscribers."""

ANY: Final = "true"
"""What is required of the other side where nothing is."""
FIRST_REAL: Final = Instant.parse("2000-01-01T00:00:00Z")
HEARD: Final = "received"
"""Where a broker that is listened to writes what it receives."""
SECRETS: Final = "transformations.key"
_GENERATED: Final = ".generated.toml"
_STORED: Final = "stored"
_CHOOSES_PORTS: Final = ("org new ", "broker add ")
_PORT: Final = re.compile(r"127\.0\.0\.1:(\d+)")


class CommandFailed(Unavailable):
    """A command of the demonstration was refused, or could not be carried out."""

    code = "UNAVAILABLE-DEMO-COMMAND"

    def __init__(self, line: str, told: str, message: str) -> None:
        """Say which command, and with which code it ended."""
        self.told = told
        super().__init__(f"`maia {line}`: {message} [{told}]")


@dataclass(frozen=True, slots=True)
class StoryReader:
    """A member that subscribes: what it is called, its profile, the type, and what it sees in a few words."""

    name: str
    profile: str
    of: str
    sees: str
    shown_as: str | None = None
    """The type that its right converts events into."""
    requires: str = ANY
    """What it requires of publishers."""
    durable: str | None = None
    application: str | None = None
    """What it has Spark make of the log."""
    joins_later: bool = False
    """Whether an act lets it subscribe."""
    topic: str | None = None
    """The topic that it asks for, with those below."""

    def asks_for(self, event: Happening) -> bool:
        """Return whether an event is on a topic that it asks for, where it asks for topics."""
        if self.topic is None:
            return True
        return replace(parse_path_pattern(self.topic), has_rest=True).matches(str(event["topic"]))


@dataclass(frozen=True, slots=True)
class Database:
    """A database that takes part: it stores a type, and releases what its queries make of it."""

    name: str
    organisation: str
    of: str
    derives: Mapping[str, str]
    """The query that makes each type."""
    table: str
    """The table that the queries ask, with two columns of text."""
    columns: tuple[str, str]
    rows: frozenset[tuple[str, str]]
    makes: Callable[[Happening, Collection[tuple[str, str]]], Made]
    """Says without SQL what the queries have to make of an event while the table holds these rows."""
    is_needed: bool = False
    """Whether the story makes no sense without it."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A database of another organisation that replicates what the first one releases of a type."""

    organisation: str
    profile: str
    of: str
    table: str
    shown_as: str
    """The definition of the type that its right converts events into."""


def is_from_1970(event: Happening) -> bool:
    """Return whether an event has a moment that is none of a story's: probes have one."""
    return any(isinstance(value, Instant) and value < FIRST_REAL for value in event.values())


@dataclass(frozen=True, slots=True)
class Story:
    """A story that can be played."""

    name: str
    before: str
    """What a newcomer reads first."""
    setup: str
    """Commands before the servers run: organisations, types, grants, members."""
    readers: tuple[StoryReader, ...]
    probes: Callable[[int], list[Sending]]
    """By whom, of what, and an event of this number: each reader sees one; they show that readers
    are reached, and that nothing is under way any more."""
    acts: tuple[Act, ...]
    is_probe: Callable[[Happening], bool] = is_from_1970
    """Recognises a probe by whatever a reader sees of it."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """The policy of each organisation that has one."""
    logins: str = ""
    """Commands when the servers run: facts, appointments, logins."""
    secrets_of: str | None = None
    """The organisation whose policy has pseudonyms or noise, if one has."""
    database: Database | None = None
    replica: Replica | None = None
    listened_to: tuple[str, ...] = ()
    """The brokers that write down all that they receive."""
    obstacle: Callable[[Any, StoryReader, str, str], str | None] = lambda *_: None
    """Says why a reader must not see what one publishes with a requirement, whatever its certificates say."""
    prepare: Callable[[StoryWorld], None] = lambda _world: None
    """Whatever else is done before the servers run."""
    start: Callable[[StoryWorld], None] = lambda world: world.up(*world.servers())
    """How the servers start."""
    finish: Act = lambda _stage: None
    """Whatever else is found when all has been played, and the brokers have stopped."""
    close_ups: int = 1
    """How many events are shown one by one without `--details`."""
    kills_brokers: bool = False
    """Whether a broker is killed: what it sends again is in its ledger twice."""
    next: tuple[str, ...] = ("docs/scenarios.md", "docs/interaction.md")

    def without_database(self) -> Story:
        """Return the story without its database, and without the readers of what that releases."""
        released = () if self.database is None else self.database.derives
        return replace(
            self, database=None, readers=tuple(one for one in self.readers if one.of not in released)
        )


@dataclass(slots=True)
class StoryWorld:
    """The folder in which everything is, and all that runs."""

    story: Story
    folder: Path
    children: dict[str, Child] = field(default_factory=dict)
    commands: int = 0
    """How many commands were run that change something: after each, rights may be others."""
    database: str = ""
    """How the PostgreSQL server of this run is reached."""
    replica: str = ""
    """How that of the organisation with a replica is reached."""
    holds_ports: bool = False
    """Whether ports that are chosen are held until `let_go`."""
    held: dict[str, socket.socket] = field(default_factory=dict)
    """What holds each."""

    # Any: what a command answers to `--json` is read as it was written.
    def maia(self, line: str, *, changes: bool = True) -> dict[str, Any]:
        """Run one command, as it would be typed in the folder; return its record."""
        from maia.cli.main import INTERRUPTED, main

        self.commands += changes
        said, problem = StringIO(), StringIO()
        with redirect_stdout(said), redirect_stderr(problem):
            status = main([*shlex.split(line), "--json"])
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status:
            last = (problem.getvalue() or said.getvalue()).strip().rpartition("\n")[2]
            error = (
                json.loads(last)["error"]
                if last.startswith('{"error"')
                else {"code": str(status), "message": last}
            )
            raise CommandFailed(line, error["code"], error["message"])
        if self.holds_ports and line.startswith(_CHOOSES_PORTS):
            self.hold_ports()
        return dict(json.loads(said.getvalue().splitlines()[-1]))

    def hold_ports(self) -> None:
        """Take the numbers of the organisations' ports for UDP, where no server listens.

        Who sets organisations up beside this chooses no port that is held; servers listen some seconds later.
        """
        for file in self.folder.glob("*/organisation.toml"):
            for port in _PORT.findall(file.read_text(encoding="utf-8")):
                if port not in self.held:
                    one = self.held[port] = socket.socket(type=socket.SOCK_DGRAM)
                    with suppress(OSError):  # it is another's meanwhile, who may need it for UDP
                        one.bind(("127.0.0.1", int(port)))

    def let_go(self) -> None:
        """Hold no ports any more."""
        for one in self.held.values():
            one.close()

    def prepare(self) -> None:
        """Do what else is done before the servers run: keys of transformations, ledgers, policies."""
        story = self.story
        story.prepare(self)
        if story.secrets_of:
            self.maia(f"key transformations {SECRETS} --issuer {story.secrets_of}/{story.secrets_of}.pub")
        for home, broker in self._brokers():
            secrets = f'transformation_keys = "../{SECRETS}"\n' if story.secrets_of else ""
            ledger = f'[ledger]\nfolder = "{_ledger_of(broker)}"\nall = true\n'
            self.settings(f"{home.name}/{broker}.toml", f"{secrets}{ledger}")
        for one, policy in story.policies.items():
            (self.folder / one / "the.policy").write_text(policy, encoding="utf-8")
            self.settings(f"{one}/domain.toml", '[policy]\nfile = "the.policy"\n')

    def type_all(self, lines: str) -> None:
        """Run commands, one a line; a line goes on after a backslash."""
        for line in lines.replace("\\\n", " ").splitlines():
            if line.strip():
                self.maia(line)

    def organisations(self) -> list[str]:
        """Return the folders of the organisations."""
        return sorted(one.parent.name for one in self.folder.glob("*/organisation.toml"))

    def settings(self, file: str, text: str) -> None:
        """Write settings of the operator's, which win over the generated ones."""
        with (self.folder / file).open("a", encoding="utf-8") as own:
            own.write(text)

    def _brokers(self) -> list[tuple[Path, str]]:
        """Return each broker: its organisation's folder, and what its files are called."""
        homes = [self.folder / one for one in self.organisations()]
        files = [path for home in homes for path in sorted(home.glob(f"*{_GENERATED}"))]
        named = [(path.parent, path.name.removesuffix(_GENERATED)) for path in files]
        return [one for one in named if one[1] != "domain"]

    def ledgers(self) -> list[Path]:
        """Return the folder with the ledger of each broker."""
        return [home / _ledger_of(broker) for home, broker in self._brokers()]

    def servers(self, *kinds: str) -> list[str]:
        """Return the names of the servers of all organisations, as `maia up` runs them."""
        named = {
            "broker": [f"{broker} of {home.name}" for home, broker in self._brokers()],
            "server": [f"server of {one}" for one in self.organisations()],
        }
        return [one for kind in kinds or named for one in named[kind]]

    def up(self, *names: str) -> None:
        """Start servers, and wait until all are ready."""
        for child in [self.start(one) for one in names]:
            child.ready()

    def start(self, name: str) -> Child:
        """Start one server, or start it again."""
        what, _, organisation = name.partition(" of ")
        home = self.folder / organisation
        if what == "server":
            words = ["domain", "serve", "--config", str(home / "domain.toml")]
        elif (home, what) in self._brokers():
            words = ["broker", "--config", str(home / f"{what}.toml")]
        else:
            words = self._connector() if what == "connector" else self._replica()
        heard = home / HEARD if what == "broker" and organisation in self.story.listened_to else None
        self.children[name] = start(name, words, home / f"{what}.log", heard=heard)
        return self.children[name]

    def stop(self, *names: str) -> None:
        """Stop the processes of these names that run, all at once."""
        stop_all(child for name, child in self.children.items() if name in names)

    # ------------------------------------------------------------ the database

    def _connector(self) -> list[str]:
        assert self.story.database is not None  # noqa: S101 - only stories with one ask
        home = self.folder / self.story.database.organisation
        return ["postgres", "run", "-c", str(home / "connector.toml"), "--as", str(home / "database.maia")]

    def _replica(self) -> list[str]:
        one = self.story.replica
        assert one is not None  # noqa: S101 - only stories with one ask
        profile = self.folder / one.organisation / f"{one.profile}.maia"
        shown_as = ["--shown-as", str(self.folder / one.shown_as)]
        words = ["postgres", "replicate", one.of, one.table, *shown_as]
        return [*words, "--as", str(profile), "--database", self.replica]

    # Any: rows of PostgreSQL have columns of any type.
    def sql(self, statement: str, *values: str, at: str = "") -> list[tuple[Any, ...]]:
        """Ask the database of this run, or another; the statement is the story's own."""
        import psycopg

        with psycopg.connect(at or self.database) as connection:
            found = connection.execute(statement.encode(), values)
            return found.fetchall() if found.description else []

    def stored(self) -> int:
        """Return how many events the database has stored."""
        return int(self.sql(f"SELECT count(*) FROM {_STORED}")[0][0])  # noqa: S608 - our own name

    def install_database(self, one: Database) -> None:
        """Make the table that the queries ask, install the connector, and run it."""
        first, second = one.columns
        self.sql(f"CREATE TABLE {one.table} ({first} text NOT NULL, {second} text NOT NULL)")
        for row in sorted(one.rows):
            self.sql(f"INSERT INTO {one.table} VALUES (%s, %s)", *row)  # noqa: S608 - our own name
        tables = [("store", {"name": _STORED, "definition": f"types/{one.of}.type", "table": _STORED})]
        for name, query in one.derives.items():
            tables += [("release", {"name": name.lower(), "definition": f"types/{name}.type"})]
            tables += [("derive", {"store": _STORED, "release": name.lower(), "query": query})]
        lines = [f"database = {json.dumps(self.database)}"]
        for table, settings in tables:
            lines += [f"[[{table}]]", *(f"{name} = {json.dumps(value)}" for name, value in settings.items())]
        file = self.folder / one.organisation / "connector.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        self.maia(f"postgres install -c {shlex.quote(str(file))} --as {one.organisation}/database.maia")
        self.start(f"connector of {one.organisation}").ready()


def _ledger_of(broker: str) -> str:
    return "ledger" if broker == "broker" else f"{broker}-ledger"


@contextmanager
def world_at_work(story: Story, folder: Path) -> Iterator[StoryWorld]:
    """Set the organisations of a story up, and run their servers while the body runs, in their folder."""
    world = StoryWorld(story, folder, holds_ports=True)
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        stack.callback(world.let_go)
        stack.callback(lambda: world.stop(*world.children))
        with beside(lambda: world.type_all(story.setup)) as is_set_up:
            load()
            is_set_up()
        world.hold_ports()  # a copy of this process has set up, and holds them no more
        world.prepare()
        story.start(world)
        if story.database is not None:
            from maia.testing.postgres_server import postgres_binaries, running_server

            world.database = stack.enter_context(running_server(postgres_binaries()))
            world.install_database(story.database)
            if story.replica is not None:
                world.replica = stack.enter_context(running_server(postgres_binaries()))
                world.start(f"replica of {story.replica.organisation}").ready()
        world.type_all(story.logins)
        yield world


def staff_roles(*names: str) -> str:
    """Return the part of a policy that makes roles of what a member works as, each for a day."""
    rules = (f'rule {name}\n    while works_as(holder, "{name}")\n    for 1 days\n' for name in names)
    return "".join(
        ["fact works_as(who: principal, what: string)\n\n", *(f"role {name}\n" for name in names), *rules]
    )


def on_staff(organisation: str, facts: Mapping[str, str]) -> str:
    """Return commands: an organisation asserts a fact about each member, the HOLDER, who then logs in."""
    keys = {who: f"{organisation}/{who}.maia/{who}.pub" for who in facts}
    return "".join(
        f"domain fact assert {fact.replace('HOLDER', keys[who])} --as {organisation}\n"
        f"login --as {organisation}/{who}.maia\n"
        for who, fact in facts.items()
    )
