"""A clinic: a broker that records, a database with a connector, doctors who prescribe, a pharmacy that reads.

The broker and the connector are processes, and so is the database's server where a test wants to kill it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import maia
from maia.config.input_files import read_certificates, read_definition, read_principal
from maia.credentials import NetworkName
from maia.keystore.key_files import load_signing_key
from maia.testing import Program, Server, free_ports, wait_until
from support import postgres as server
from support.network_process import NETWORK, config, issue, lets_connect, make_keys
from support.processes import Answer, forked
from support.processes import maia as command

__all__ = ["Clinic", "KillableServer", "clinic", "killable_server"]

TYPES = {
    "Prescribe": ("doctor:string", "patient:string", "drug:string", "dose:int"),
    "Prescription": ("patient:string", "drug:string", "dose:int"),
    "Bed": ("operation:string", "ward:string", "patient:string", "note:string"),
}
RIGHTS = {
    "broker": {},
    "connector": {"Prescribe": "subscribe", "Prescription": "publish", "Bed": "publish"},
    "doctor": {"Prescribe": "publish"},
    "pharmacy": {"Prescription": "subscribe"},
}
STORE = """
[[store]]
name = "prescribed"
definition = "prescribe.type"
table = "prescribed"
"""
RELEASE = """
[[release]]
name = "prescriptions"
definition = "prescription.type"
table = "prescriptions"
"""
BEDS = """
[[release]]
name = "beds"
definition = "bed.type"
table = "beds"
on = ["insert", "update", "delete", "truncate"]
operation = "operation"
"""
DERIVE = """
[[release]]
name = "prescriptions"
definition = "prescription.type"

[[derive]]
store = "prescribed"
release = "prescriptions"
query = '''
SELECT a.patient, a.drug, a.dose FROM arrived a JOIN treats t ON (t.doctor, t.patient) = (a.doctor, a.patient)
ORDER BY a.maia_position, a.maia_row
'''
"""


@dataclass
class Clinic:
    """The files of the clinic, and what runs in it."""

    home: Path
    database: str
    broker_address: str

    connects_to: list[str] = field(default_factory=list)
    """Brokers that the connector has before the members' own."""
    partner: str = ""
    """How the database of a partner is reached, where there is one."""

    # -------------------------------------------------------- processes

    def broker(self, who: str = "broker") -> AbstractContextManager[Program]:
        """Run the broker, or another one; each records durably."""
        return self._process(who, "listening on", "broker", "-c", f"../{who}.toml")

    def add_broker(self, who: str) -> None:
        """Have another broker of the organisation, which members connect to; the connector has both."""
        assert command("key", "new", f"{who}.key", cwd=self.home).returncode == 0
        lets_connect(self.home, who, brokers=(who,))
        let_broker(self.home, who)
        (port,) = free_ports(1)
        log = f'join = "{self.broker_address}"\n[log]\nfolder = "{who}-log"\n'
        settings = config(who, log).replace("127.0.0.1:0", f"127.0.0.1:{port}")
        (self.home / f"{who}.toml").write_text(settings.replace('data = "data"', f'data = "{who}-data"'))
        self.connects_to, self.broker_address = [self.broker_address], f"127.0.0.1:{port}"

    def connector(self, *, ready: bool = True) -> AbstractContextManager[Program]:
        """Run the connector, and wait until it is ready."""
        says = "connected to" if ready else ""
        return self._process("connector", says, "postgres", "run", "-c", "../connector.toml")

    @contextmanager
    def _process(self, who: str, says: str, *words: object) -> Iterator[Program]:
        server = Server(words, self.home / who, forked)
        try:
            yield server.ready(says).process if says else server.process
        finally:
            server.kill()

    def replica(self, *words: object, ready: bool = True) -> AbstractContextManager[Program]:
        """Run the partner's replica of the beds."""
        says = "connected to" if ready else ""
        about = ("Bed", "beds", "--as", self.home / "partner.maia", "--database", self.partner)
        return self._process("replica", says, "postgres", "replicate", *about, *words)

    def replace_broker(self) -> None:
        """Put another broker, with its own key and log, at the same address."""
        for name in ("broker.key", "broker.pub"):
            (self.home / name).unlink()
        for name in ("broker-certs", "data", "log"):
            shutil.rmtree(self.home / name)
        assert command("key", "new", "broker.key", cwd=self.home).returncode == 0
        lets_connect(self.home, "broker")
        let_broker(self.home, "broker")

    def errors(self, who: str) -> str:
        """Return what a process wrote to its log."""
        return (self.home / who / "err.log").read_text()

    # -------------------------------------------------------- the database

    def postgres(self, *words: object) -> Answer:
        """Run one of the connector's commands to its end."""
        return command("postgres", *words, "-c", "connector.toml", cwd=self.home)

    def install(self, declared: str) -> None:
        """Declare stores and releases, and install them."""
        self.declare(declared)
        done = self.postgres("install")
        assert done.returncode == 0, done.stderr

    def declare(self, declared: str) -> None:
        """Write the connector's file."""
        head = (
            config("connector").replace('listen = "127.0.0.1:0"\n', "").replace('"data"', '"connector-data"')
        )
        brokers = [*self.connects_to, self.broker_address]
        (self.home / "connector.toml").write_text(
            f'database = "{self.database}"\nbroker = {brokers}\n{head}{declared}'
        )

    def sql(self, *statements: str, at: str = "") -> list[tuple[object, ...]]:
        """Run statements in one transaction, at the clinic or elsewhere; return the rows of the last."""
        with psycopg.connect(at or self.database) as connection:
            for statement in statements:
                found = connection.execute(statement)
            return found.fetchall() if found.description else []

    # -------------------------------------------------------- members

    def member(self, who: str):
        """Connect a member of the clinic to the broker."""
        return maia.connect(
            self.broker_address,
            key=load_signing_key(self.home / f"{who}.key"),
            network=NetworkName(read_principal(str(self.home / "pito.pub")), NETWORK),
            credentials=read_certificates([self.home / f"{who}-certs"]),
            types=[self.definition(name) for name in TYPES],
            dial_again_s=0.05,
        )

    def definition(self, name: str):
        """Return the definition of a type."""
        return read_definition(self.home / f"{name.lower()}.type")

    def partner_may(self, *see: str) -> None:
        """Let a partner subscribe to what is released of beds."""
        assert command("key", "new", "partner.key", cwd=self.home).returncode == 0
        lets_connect(self.home, "partner")
        issue(self.home, "partner", "subscribe", "-d", "bed.type", *see, name="beds")
        profile = self.home / "partner.maia"
        profile.mkdir()
        (profile / "profile.toml").write_text(
            f'key = "../partner.key"\ncredentials = "../partner-certs"\ntypes = "../bed.type"\n'
            f'network = "{NETWORK}"\ncoordinator = "../pito.pub"\nbrokers = ["{self.broker_address}"]\n'
        )

    def prescribe(self, *events: dict[str, object]) -> None:
        """Let the doctor publish, until the broker has recorded everything."""

        async def publish() -> None:
            async with self.member("doctor") as doctor:
                publisher = await doctor.advertise("Prescribe")
                await publisher.publish_many(events)
                await publisher.flush()

        asyncio.run(publish())

    def subscribe(self) -> None:
        """Let the pharmacy begin at the end of the log."""
        assert self.read(0) == []

    def read(
        self, count: int, *, of: str = "Prescription", who: str = "pharmacy", more_s: float = 0.3
    ) -> list[dict[str, object]]:
        """Let the pharmacy read until it has so many events; anything that still follows is read as well."""

        async def take() -> list[dict[str, object]]:
            async with self.member(who) as reader:
                subscription = await reader.subscribe(of, durable=of)
                taken: list[dict[str, object]] = []
                async with asyncio.timeout(120):
                    while len(taken) < count:
                        taken += [dict(one) for one in await subscription.some(1000, timeout_s=30)]
                while more := await subscription.some(1000, timeout_s=more_s):
                    taken += [dict(one) for one in more]
                await subscription.unsubscribe()
                return taken

        return asyncio.run(take())


def let_broker(home: Path, who: str) -> None:
    """Let a broker record every type, and sign what is published through it."""
    for name in TYPES:
        for action in ("subscribe", "publish"):
            issue(home, who, action, "-d", f"{name.lower()}.type", name=f"{action}-{name}")


def prepare(home: Path, database: str) -> Clinic:
    """Make keys, types, certificates and the broker's file."""
    make_keys(home, *RIGHTS)
    lets_connect(home, *RIGHTS)
    for name, attributes in TYPES.items():
        words = [word for one in attributes for word in ("-a", one)]
        made = command(
            "type", "define", "-k", "pito.key", "--name", name, *words, "-o", f"{name.lower()}.type", cwd=home
        )
        assert made.returncode == 0, made.stderr
    for who, rights in RIGHTS.items():
        for name, action in rights.items():
            issue(home, who, action, "-d", f"{name.lower()}.type", name=f"{action}-{name}")
    let_broker(home, "broker")
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    log = '[log]\nfolder = "log"\n'
    (home / "broker.toml").write_text(config("broker", log).replace("127.0.0.1:0", address))
    return Clinic(home, database, address)


@pytest.fixture
def clinic(tmp_path: Path, postgres_server: str) -> Iterator[Clinic]:
    """A clinic with a database of its own on the suite's server."""
    with own_database(postgres_server) as address:
        yield prepare(tmp_path, address)


@contextmanager
def own_database(server: str) -> Iterator[str]:
    """Make a database on a server, and drop it afterwards."""
    name = f"clinic_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.replace("dbname=postgres", f"dbname={name}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


# ------------------------------------------------------------ a server that can be killed


class KillableServer:
    """A PostgreSQL server whose crash loses nothing that was committed."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder, self._binaries = folder, binaries
        self.address = f"host={folder} user=maia dbname=postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def put_back(self, backup: Path) -> None:
        """Kill the server, and put an older copy of its folder in place of the present one."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.copy(backup, self.folder / "data")
        self.start()

    def back_up(self, backup: Path) -> None:
        """Copy the folder of the server, which is stopped meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=60)
        self.copy(self.folder / "data", backup)
        self.start()

    def copy(self, source: Path, target: Path) -> None:
        """Copy a folder with its owners and modes."""
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)

    def start(self) -> None:
        """Start it, again after a crash."""
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                server.server_command(self._binaries, self.folder),
                stderr=log,
                **server.ownership(server.unprivileged_user(), self.folder),
            )
        server.wait_for(self._process, self.address, self.folder / "log")

    def kill(self) -> None:
        """Kill the server and every backend, as a crash of the machine does."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)  # it starts no backend while we look
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        process.wait()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        # Its memory is free when the last one has ended; before that, no server starts in this folder.
        wait_until(lambda: not any(_is_alive(child) for child in children))


def _is_alive(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def killable_server() -> Iterator[KillableServer]:
    """A server of the test's own, running."""
    folder = Path(tempfile.mkdtemp(prefix="maia-pg-", dir="/tmp"))
    try:
        user = server.unprivileged_user()
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        binaries = server.reachable(server.postgres_binaries(), user, folder)
        server.make_cluster(binaries, folder, user)
        running = KillableServer(folder, binaries)
        running.start()
        try:
            yield running
        finally:
            running.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
