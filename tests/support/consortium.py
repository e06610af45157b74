"""Three organisations, every pair sharing both ways, and every way in which a reader can ask what it may see.

Each owns a plain and a sealed type; both names are those of the others' types, too. One seed
decides what each grants to each: all of it, some attributes, some events (also by an attribute that is not
shown), values that are changed, or several of these. A clerk of each organisation may see what that holds, a
trainee less of one owner's. What a right comes to is said here a second time, in Python.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial, reduce
from itertools import permutations
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import httpx
import paho.mqtt.client as paho
import psycopg
from paho.mqtt.enums import CallbackAPIVersion
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

import maia
from maia.api.testers import with_fetched
from maia.client.api.connection import signing_key
from maia.clock import system_now
from maia.errors import Refusal
from maia.events import Instant, Kind
from maia.gateway.server.account_folder import AccountFolder
from maia.postgres.view_definitions import DeclaredTable, view_definition
from maia.postgres.views import written
from maia.profile import read_profile
from maia.spark.governed.reader import Reader
from maia.testing import DEADLINE_S, wait_until
from maia.validity import Monitor
from maia.views import POSTGRES_TYPES
from support.nursery import Forked
from support.processes import running_maia

ORGANISATIONS = ("hamburg", "rotterdam", "customs")
PLAIN, SEALED = "Report", "Manifest"
ATTRIBUTES = {
    "number": "int", "ship": "string", "area": "string", "depth": "float",
    "cargo": "string", "at": "timestamp",
}  # fmt: skip
AREAS, CARGOES = ("north", "south", "west"), ("oil", "grain", None)
READERS = ("clerk", "trainee")
PROBES = 9
"""As many as there are combinations of area and cargo."""

Row = dict[str, Any]
Stream = tuple[str, str, str]
"""The organisation and name of a reader, and a type: `("customs", "clerk", "Report@hamburg")`."""


@dataclass(frozen=True)
class Terms:
    """How far a right reaches: in the words of a grant, and as a function."""

    words: Mapping[str, Any]
    shown: Callable[[Row], Row | None]


def random_terms(random: Random, kinds: Sequence[str], visible: Sequence[str]) -> Terms:
    """Draw a right with some of `only`, `where`, `hidden` and `set`; it restricts by what its issuer sees."""
    words: dict[str, Any] = {}
    steps: list[Callable[[Row], Row | None]] = []
    only = frozenset(ATTRIBUTES)
    others = [one for one in visible if one != "number"]
    if "where" in kinds or "hidden" in kinds:
        asked, words["where"], holds = random.choice(_conditions(random, others))
        steps.append(lambda row: row if holds(row) else None)
        if "hidden" in kinds:
            only -= {asked} - {"number"}  # by which rows are told apart
    if "set" in kinds:
        uid, words["set"], change = random.choice(_changes(random, others))
        steps.append(lambda row: row | {uid: change(row)})
    if "only" in kinds:
        only &= {"number", *random.sample(others, random.randint(1, len(others)))}
    if only != frozenset(ATTRIBUTES):
        words["only"] = sorted(only)
        steps.append(lambda row: {name: value if name in only else None for name, value in row.items()})

    def shown(row: Row | None) -> Row | None:
        for step in steps:
            row = None if row is None else step(row)
        return row

    return Terms(words, shown)


def _conditions(random: Random, visible: Sequence[str]) -> list[tuple[str, str, Callable[[Row], bool]]]:
    """Return an attribute, a condition, and what it means; what is null or hidden meets none."""
    area, depth = random.choice(AREAS), random.choice((5.0, 12.5))
    found = [
        ("area", f'area == "{area}"', lambda row: row["area"] == area),
        ("area", f'area in ("{area}", "west")', lambda row: row["area"] in (area, "west")),
        ("depth", f"depth > {depth}", lambda row: row["depth"] is not None and row["depth"] > depth),
        ("cargo", 'not cargo == "oil"', lambda row: row["cargo"] not in ("oil", None)),
    ]
    return [one for one in found if one[0] in visible] or [("number", "number >= -9000", lambda _row: True)]


def _changes(random: Random, visible: Sequence[str]) -> list[tuple[str, list[str], Callable[[Row], Any]]]:
    def known(value: Any, change: Callable[[Any], Any]) -> Any:
        return None if value is None else change(value)

    area = random.choice(AREAS)
    found = [
        (
            "depth",
            ["depth := round_to(depth, 5.0)"],
            lambda row: known(row["depth"], lambda v: 5.0 * round(v / 5.0)),
        ),
        ("ship", ["ship := first(ship, 3)"], lambda row: known(row["ship"], lambda v: v[:3])),
        ("at", ['at := truncate(at, "hour")'], lambda row: known(row["at"], lambda v: v[:13] + ":00:00Z")),
    ]
    if "area" in visible:
        changed = f'ship := first(ship, 2) when area == "{area}"'
        found.append(
            (
                "ship",
                [changed],
                lambda row: known(row["ship"], lambda v: v[:2] if row["area"] == area else v),
            )
        )
    return [one for one in found if one[0] in visible] or [
        ("cargo", ["cargo := cargo"], lambda r: r["cargo"])
    ]


_RESTRICTED = ((), ("only",), ("where",), ("hidden",))
KINDS = {
    PLAIN: (*_RESTRICTED, ("set",), ("set", "where", "only")),
    SEALED: (*_RESTRICTED, ("set",), ("set", "where", "only")),
}
LESS = (("only",), ("where",), ("hidden",), ("set",))


def rows(first: int, count: int) -> list[Row]:
    """Return events with every combination of area and cargo; numbers tell them apart."""
    return [
        {
            "number": number,
            "ship": f"ship {number % 7}",
            "area": AREAS[number % 3],
            "depth": 2.6 * (number % 9),
            "cargo": CARGOES[number // 3 % 3],
            "at": f"2026-11-17T{10 + number % 10:02}:41:0{number % 10}Z",
        }
        for number in range(first, first + count)
    ]


def _less(random: Random, held: Terms) -> Terms:
    """Draw what a member may see of what its organisation holds."""
    visible = sorted(held.words.get("only", ATTRIBUTES))
    less = random_terms(random, random.choice(LESS), visible)
    only = sorted({*less.words.get("only", visible)} & {*visible})
    return Terms({**less.words, **({"only": only} if "only" in less.words else {})}, less.shown)


def _both(first: Callable[[Row], Row | None], then: Callable[[Row], Row | None], row: Row) -> Row | None:
    seen = first(row)
    return None if seen is None else then(seen)


@dataclass
class Consortium:
    """The organisations, what each reader has to see, and what was published."""

    folder: Path
    seed: int
    organisations: dict[str, maia.Organisation] = field(default_factory=dict)
    shown: dict[Stream, Callable[[Row], Row | None]] = field(default_factory=dict)
    terms: dict[Stream, list[Mapping[str, Any]]] = field(default_factory=dict)
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)
    published: dict[str, list[Row]] = field(default_factory=dict)
    running: dict[tuple[str, str], Forked] = field(default_factory=dict)
    gateways: dict[str, Mapping[str, str]] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def profile(self, organisation: str, name: str) -> Path:
        return self.folder / organisation / f"{name}.maia"

    def expected(self, stream: Stream) -> list[Row]:
        """Return what a reader has to see of what was published so far."""
        seen = (self.shown[stream](one) for one in self.published[stream[2]])
        return [one for one in seen if one is not None]

    def streams_of(self, organisation: str, reader: str) -> list[Stream]:
        return [one for one in self.shown if one[:2] == (organisation, reader)]

    # -------------------------------------------------------- before anything runs

    def found(self) -> None:
        """Make the organisations with their types, let the first invite the others, and grant both ways."""
        random = Random(self.seed)  # noqa: S311 - test cases, not secrets
        for name in ORGANISATIONS:
            made = self.organisations[name] = maia.Organisation.create(self.folder / name)
            made.define(PLAIN, **ATTRIBUTES)
            level = "event" if name == ORGANISATIONS[-1] else "attribute"
            made.define(SEALED, **ATTRIBUTES, sealed=True, level=level)
            made.add_member("pen", may=(f"publish:{PLAIN}", f"publish:{SEALED}"))
            self.published |= {f"{PLAIN}@{name}": [], f"{SEALED}@{name}": []}
            (made.folder / "broker.toml").write_text("[log]\nroll_s = 1\n")
        first = self.organisations[ORGANISATIONS[0]]
        for other in ORGANISATIONS[1:]:
            ours = self.organisations[other]
            ours.join(first.invite(ours.principal).save(self.folder / f"{other}.invite"), name=first.name)
        pairs = list(permutations(ORGANISATIONS, 2))
        held: dict[tuple[str, str], Terms] = {}
        for kind in (PLAIN, SEALED):
            drawn = random.sample(KINDS[kind], len(pairs))
            for (owner, reader), kinds in zip(pairs, drawn, strict=True):
                terms = random_terms(random, kinds, tuple(ATTRIBUTES))
                held[reader, f"{kind}@{owner}"] = terms
                to = self.organisations[reader]
                grant = self.organisations[owner].grant(
                    to.principal, may=f"subscribe:{kind}@{owner}", delegable=True, **terms.words
                )
                to.join(grant.save(self.folder / f"{owner}-{reader}-{kind}.grant"), name=owner)
        for name in ORGANISATIONS:
            mine = {kind: terms for (reader, kind), terms in held.items() if reader == name}
            self._let_read(
                name, "clerk", {kind: (terms, Terms({}, lambda row: row)) for kind, terms in mine.items()}
            )
            owner = random.choice([one for one in ORGANISATIONS if one != name])
            less = {kind: terms for kind, terms in mine.items() if kind.endswith(owner)}
            self._let_read(
                name, "trainee", {kind: (terms, _less(random, terms)) for kind, terms in less.items()}
            )
            self._write_gateway(name)

    def _let_read(self, organisation: str, name: str, rights: Mapping[str, tuple[Terms, Terms]]) -> None:
        """Let a member read less than what was granted, and an account of a gateway likewise."""
        ours = self.organisations[organisation]
        place, _account, token = AccountFolder(ours.folder / "gateway-data").add(name, None)
        self.tokens[organisation, name] = token or ""
        alike: dict[str, list[str]] = {}
        for kind, (held, less) in rights.items():
            stream = (organisation, name, kind)
            self.terms[stream] = [held.words, less.words]
            self.shown[stream] = partial(_both, held.shown, less.shown)
            alike.setdefault(json.dumps(less.words), []).append(f"subscribe:{kind}")
        for words, may in alike.items():
            ours.add_member(name, may=may, **json.loads(words))
            ours.add_account(name, place, ours.rights(may, **json.loads(words)))

    def _write_gateway(self, name: str) -> None:
        ours = self.organisations[name]
        owners = {one.principal: other for other, one in self.organisations.items()}
        lines = ['listen = "127.0.0.1:0"', "[http]", 'listen = "127.0.0.1:0"']
        for file, signed in ours.type_files():
            owner = owners[signed.definition.name.owner]
            if owner != name:
                topic = f"{owner}/{signed.definition.name.name}"
                lines += ["[[topics]]", f'mqtt = "{topic}"', f'type = "{file.absolute()}"']
        (ours.folder / "gateway.toml").write_text("\n".join(lines) + "\n")

    # -------------------------------------------------------- servers

    def start(self, what: str, *organisations: str) -> None:
        """Start a server of each of these organisations, and wait until all are ready."""
        logs = []
        for name in organisations:
            ours = self.organisations[name]
            words = {
                "broker": ("broker", "--config", ours.folder / "broker.toml"),
                "domain": ("domain", "serve", "--config", ours.folder / "domain.toml"),
                "gateway": ("gateway", "mqtt", "--org", ours.folder),
            }[what]
            output = ours.folder / f"{what}-{len(list(ours.folder.iterdir()))}"  # of a restart, another one
            output.mkdir()
            self.running[what, name] = self.stack.enter_context(running_maia(*words, "--json", cwd=output))
            logs.append((name, output / "out.log"))
        for name, log in logs:
            process = self.running[what, name]
            wait_until(
                lambda log=log, process=process: "listening" in log.read_text() or process.poll() is not None
            )
            assert process.poll() is None, log.with_name("err.log").read_text()[-2000:]
            if what == "gateway":
                self.gateways[name] = json.loads(log.read_text())

    def kill(self, organisation: str) -> None:
        """Kill the broker of an organisation."""
        process = self.running.pop(("broker", organisation))
        process.kill()
        process.wait()

    # -------------------------------------------------------- who publishes

    def publishers(self) -> dict[str, Any]:
        """Connect those who publish, until everything ends."""
        found = {}
        for kind in self.published:
            client = self.stack.enter_context(maia.connect(self.profile(kind.partition("@")[2], "pen")))
            found[kind] = client.advertise(kind, timeout_s=DEADLINE_S)
        return found

    def publish(self, publishers: Mapping[str, Any], of: Sequence[str], first: int, count: int) -> None:
        """Publish events of some organisations' types, and remember them; negative numbers are probes."""
        for kind in self.published:
            if kind.partition("@")[2] in of:
                events = rows(first, count)
                publishers[kind].publish_many(events)
                publishers[kind].flush(timeout_s=DEADLINE_S)
                if first >= 0:
                    self.published[kind] += events


def plain(event: Mapping[str, Any]) -> Row:
    """Return an event with moments as text."""
    return {name: str(value) if isinstance(value, Instant) else value for name, value in event.items()}


@contextmanager
def consortium(folder: Path, seed: int) -> Iterator[Consortium]:
    """Run a consortium with all of its servers while the body runs."""
    made = Consortium(folder, seed)
    made.found()
    with made.stack:
        for what in ("broker", "domain", "gateway"):
            made.start(what, *ORGANISATIONS)
        yield made


# ------------------------------------------------------------ those who read as things happen


@dataclass
class Inboxes:
    """What arrives at readers, by stream; each is filled by a thread of its own."""

    found: dict[Stream, list[Row]]

    def put(self, stream: Stream, event: Row) -> None:
        self.found[stream].append(event)

    def real(self, stream: Stream) -> list[Row]:
        """Return what arrived that is no probe, in order."""
        return [one for one in self.found[stream] if one["number"] >= 0]


def follow_live(world: Consortium, stack: ExitStack) -> Inboxes:
    """Subscribe every reader to everything."""
    inboxes = Inboxes({one: [] for one in world.shown})
    for organisation in ORGANISATIONS:
        for reader in READERS:
            client = stack.enter_context(maia.connect(world.profile(organisation, reader)))
            for stream in world.streams_of(organisation, reader):
                subscription = client.subscribe(stream[2], timeout_s=DEADLINE_S)

                def read(subscription: Any = subscription, stream: Stream = stream) -> None:
                    for event in subscription:
                        inboxes.put(stream, plain(event))

                Thread(target=read, daemon=True).start()
    return inboxes


def follow_mqtt(world: Consortium, stack: ExitStack) -> Inboxes:
    """Subscribe every account by MQTT; what is null or hidden is absent."""
    inboxes = Inboxes({one: [] for one in world.shown})
    for (organisation, reader), token in world.tokens.items():
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.username_pw_set(reader, token)

        def read(_c: object, _u: object, message: Any, who: tuple[str, str] = (organisation, reader)) -> None:
            owner, _, name = message.topic.partition("/")
            inboxes.put((*who, f"{name}@{owner}"), json.loads(message.payload))

        client.on_message = read
        client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        host, _, port = world.gateways[organisation]["listening"].rpartition(":")
        client.connect(host, int(port))
        client.loop_start()
        stack.callback(client.loop_stop)
        stack.callback(client.disconnect)
    return inboxes


def follow_http(world: Consortium, stack: ExitStack) -> Inboxes:
    """Read every account's events by HTTP, as server-sent events: a stream for each owner of types."""
    inboxes = Inboxes({one: [] for one in world.shown})
    for who, owner in sorted({(one[:2], one[2].partition("@")[2]) for one in world.shown}):
        http = httpx.Client(
            base_url=f"http://{world.gateways[who[0]]['http']}",
            auth=(who[1], world.tokens[who]),
            timeout=httpx.Timeout(DEADLINE_S),
            trust_env=False,
        )
        stack.callback(http.close)

        def read(http: httpx.Client = http, who: tuple[str, str] = who, owner: str = owner) -> None:
            asked = {"topic": f"{owner}/+"}
            with suppress(httpx.HTTPError), http.stream("GET", "/v1/events", params=asked) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        event = json.loads(line.removeprefix("data: "))
                        inboxes.put((*who, f"{event['topic'].partition('/')[2]}@{owner}"), event["payload"])

        Thread(target=read, daemon=True).start()
    return inboxes


def settle(world: Consortium, publishers: Mapping[str, Any], *inboxes: Inboxes) -> None:
    """Publish probes until each reader that may see one has got one in each way."""
    probes = rows(-PROBES, PROBES)
    awaited = [one for one, shown in world.shown.items() if any(shown(each) for each in probes)]
    deadline = time.monotonic() + DEADLINE_S
    while waiting := [one for each in inboxes for one in awaited if not each.found[one]]:
        assert time.monotonic() < deadline, f"nothing reached {waiting}"
        world.publish(publishers, ORGANISATIONS, -PROBES, PROBES)
        time.sleep(0.3)


# ------------------------------------------------------------ those who ask later


def keep_durable(world: Consortium) -> None:
    """Begin a durable subscription of every reader to everything, and go away."""
    for organisation, reader in world.tokens:
        with maia.connect(world.profile(organisation, reader)) as client:
            for stream in world.streams_of(organisation, reader):
                client.subscribe(stream[2], durable=stream[2], timeout_s=DEADLINE_S)


def read_durable(world: Consortium) -> dict[Stream, list[Row]]:
    """Go on with the durable subscriptions; a gap would be among the rows."""
    found: dict[Stream, list[Row]] = {}
    for organisation, reader in world.tokens:
        with maia.connect(world.profile(organisation, reader)) as client:
            for stream in world.streams_of(organisation, reader):
                subscription = client.subscribe(stream[2], durable=stream[2], timeout_s=DEADLINE_S)
                mine = found[stream] = []
                while len(mine) < len(world.expected(stream)):
                    some = subscription.some(timeout_s=DEADLINE_S / 2)
                    if not some:
                        break
                    mine += [plain(one) for one in some if one["number"] >= 0]
                mine += [{"missed": str(one)} for one in subscription.missed]
    return found


def read_spark(world: Consortium, spark: SparkSession) -> dict[Stream, list[Row]]:
    """Return every reader's table of the log of its own broker; one job reads all.

    On a machine that is too busy, a list of revocations comes late, and a table asks to be asked for again.
    """
    for _ in range(10):
        try:
            with ExitStack() as logs:
                return _read_spark(world, spark, logs)
        except Refusal as problem:
            if problem.code != "PIPELINE-GRANT-ENDED":
                raise
        except PythonException as problem:
            if "ask for the table again" not in str(problem):
                raise
    raise AssertionError("Spark could not read the tables")


def _read_spark(world: Consortium, spark: SparkSession, logs: ExitStack) -> dict[Stream, list[Row]]:
    tables = []
    for number, (organisation, reader, kind) in enumerate(world.shown):
        log = logs.enter_context(maia.open_log(as_=world.profile(organisation, reader)))
        table = log.table(kind).to_spark(spark)
        moment = F.date_format("at", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("at")
        columns = F.struct(*(moment if name == "at" else F.col(name) for name in table.columns))
        row = F.to_json(columns, {"ignoreNullFields": "false"})
        tables.append(table.where("number >= 0").select(F.lit(number), "number", row))
    found: dict[Stream, list[Row]] = {one: [] for one in world.shown}
    streams = list(world.shown)
    for number, _, row in sorted(reduce(DataFrame.unionAll, tables).collect()):
        found[streams[number]].append(json.loads(row))
    return found


def read_arrow(world: Consortium, of: Sequence[tuple[str, str]] | None = None) -> dict[Stream, list[Row]]:
    """Return the same tables without Spark, of all readers or of some.

    A restriction of a trainee alone on sealed attributes that it does not see is answered from the moment on
    at which the key server has met the trainee: so everyone looks once before anything is published.
    """
    found: dict[Stream, list[Row]] = {}
    for organisation, reader in world.tokens if of is None else of:
        with maia.open_log(as_=world.profile(organisation, reader)) as log:
            for stream in world.streams_of(organisation, reader):
                read = log.table(stream[2]).to_arrow().to_pylist()
                found[stream] = sorted(map(_of_moment, read), key=lambda row: row["number"])
    return {one: [row for row in each if row["number"] >= 0] for one, each in found.items()}


def _of_moment(row: Mapping[str, Any]) -> Row:
    return {**row, "at": None if row["at"] is None else f"{row['at'].astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"}


def read_sql(world: Consortium, session: psycopg.Connection) -> dict[Stream, list[Row]]:
    """Return what the view of every reader shows of tables at the owners, which have everything."""
    for kind, events in world.published.items():
        columns = ", ".join(f"{name} {POSTGRES_TYPES[Kind(one)]}" for name, one in ATTRIBUTES.items())
        session.execute(f'CREATE TEMPORARY TABLE "{kind}" ({columns})')
        with session.cursor().copy(f'COPY "{kind}" FROM STDIN') as copy:
            for event in events:
                copy.write_row([event[name] for name in ATTRIBUTES])
    found: dict[Stream, list[Row]] = {}
    for organisation, reader in world.tokens:
        profile, now, standing = (
            read_profile(world.profile(organisation, reader)),
            system_now(),
            Monitor(),
        )
        held = profile.certificates()
        for statement in asyncio.run(with_fetched(held, now=now)):
            standing.receive(statement, now)
        for stream in world.streams_of(organisation, reader):
            versions = profile.lineage(stream[2], at=now)
            columns = {one.uid: one.name for one in versions[-1].attributes}
            table = DeclaredTable(stream[2], ("pg_temp", stream[2]), versions, columns=columns)
            view = view_definition(table, Reader(signing_key(profile).principal, held), standing, now)
            text = f"SELECT * FROM ({written(view.query, session)}) AS shown ORDER BY number"
            names = [one.name for one in view.columns]
            shown = session.execute(text.encode()).fetchall()
            found[stream] = [_of_moment(dict(zip(names, row, strict=True))) for row in shown]
    return found
