"""What would these brokers and clients do together, if time and the network were ours to command?

Any number of nodes run in one process on one virtual clock. They are the
objects that run in production: the same `handle`, the same bytes. Everything
that a real network leaves to chance comes from one seed, so a run can be
repeated exactly, in another process too:

    network = Simulation(seed=48113, cast=cast)
    network.broker("north")
    office = network.client("office", "north")
    network.run_for(60)
    network.crash("north")
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from maia.broker import Broker, BrokerSettings
from maia.broker.log.recording import first_to_reread
from maia.client import ClientSettings
from maia.credentials import Principal, SigningKey
from maia.domain import DomainSettings, KeyServer
from maia.errors import BadInput, Unavailable
from maia.events import SECOND, Instant
from maia.sealing import Secret
from maia.testing.cast import BEGINNING, Cast, address_of
from maia.testing.simulation.clients import SimulatedClient
from maia.testing.simulation.hosts import Build, Host, Power, SimulatedLogs, log_at_start
from maia.testing.simulation.schedule import STEPS_KEPT, Schedule, Trace
from maia.testing.simulation.transport import Transport
from maia.testing.simulation.weather import CALM, NO_CHAOS, Chaos, Partitions, Weather
from maia.wire.effects import (
    Close,
    Count,
    Dial,
    Disclose,
    Effect,
    Input,
    Keep,
    LinkOpened,
    Note,
    ReadLater,
    ReadLog,
    Received,
    Record,
    Send,
    Tick,
    WakeAt,
)

STEPS_MAX: Final = 10_000_000
_NOTES_KEPT: Final = 4096
_TAIL: Final = 40


class Simulation:
    """Hosts, the connections between them, and the one clock that moves them all."""

    def __init__(
        self,
        seed: int,
        *,
        cast: Cast | None = None,
        now: Instant = BEGINNING,
        weather: Weather = CALM,
        gives_up_s: float = 20.0,
        steps_max: int = STEPS_MAX,
        steps_kept: int = STEPS_KEPT,
    ) -> None:
        """Begin at `now` with no hosts; `gives_up_s` bounds how long a node waits for a silent peer."""
        self.seed, self._cast = seed, cast
        self.on_effects: Callable[[Host, Sequence[Effect]], None] = lambda _host, _effects: None
        """Called with what a node asks for, before it is done."""
        self.trace = Trace(steps_kept)
        self.notes: deque[tuple[str, Note]] = deque(maxlen=_NOTES_KEPT)
        self.hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self._steps_left = steps_max
        self._schedule = Schedule(now)
        self._order = self.chance("order")
        self._partitions = Partitions(weather)
        self._transport = Transport(
            self._schedule,
            chance_for=self.chance,
            happen=self._happen,
            partitions=self._partitions,
            gives_up_s=gives_up_s,
        )
        logs = SimulatedLogs(after=self.after, happen=self._happen, now=lambda: self._schedule.now)
        # Any: the table pairs each class of effect with a method for exactly that class.
        self._performers: dict[type, Callable[[Host, Any], None]] = {
            Send: self._send,
            Count: self._count,
            WakeAt: self._wake_at,
            Keep: self._keep,
            Dial: self._dial,
            Close: self._close,
            ReadLater: lambda _host, _effect: None,  # messages are handed over one by one as it is
            Note: self._note,
            Record: logs.record,
            ReadLog: logs.read,
            Disclose: lambda host, effect: host.ledger.append(effect.data),
        }

    # ------------------------------------------------------------ what there is

    def chance(self, purpose: str) -> Random:
        """Return a source of chance for one purpose; drawing from one leaves the others as they are."""
        return Random(f"{self.seed}/{purpose}")  # noqa: S311 - repeatable is what we want here

    @property
    def now(self) -> Instant:
        """Return the true time, which no node knows."""
        return Instant(self._schedule.now)

    def host(self, name: str) -> Host:
        """Return a host by its name."""
        if name not in self.hosts:
            raise BadInput("SIMULATION-HOST", f"there is no host `{name}`")
        return self.hosts[name]

    def add_node(
        self,
        name: str,
        principal: Principal,
        build: Build,
        *,
        address: str | None = None,
        skew_s: float = 0.0,
    ) -> Host:
        """Add a host and start its node at once; one without an address cannot be dialled."""
        if name in self.hosts or (address is not None and address in self._by_address):
            raise BadInput("SIMULATION-HOST", f"there is a host `{name}`, or one at `{address}`, already")
        host = self.hosts[name] = Host(
            name, principal, address, build, self.chance(f"host/{name}"), skew=round(skew_s * SECOND)
        )
        if address is not None:
            self._by_address[address] = host
        self.restart(name)
        return host

    @property
    def cast(self) -> Cast:
        """Return who takes part."""
        if self._cast is None:
            raise BadInput("SIMULATION-HOST", "this simulation was given no cast")
        return self._cast

    def broker(
        self,
        name: str,
        *,
        seeds: Sequence[str] = (),
        ahead_s: float = 0.0,
        make: Callable[..., Broker] = Broker,
        **settings: Any,  # of a broker
    ) -> Host:
        """Start a broker of the cast, or another one with a right to connect; its clock may be ahead."""
        key, credentials = self.cast.identity(name)
        known = {"credentials": credentials, "seeds": tuple(map(address_of, seeds)), **settings}
        own = BrokerSettings(network=self.cast.network, address=address_of(name), **known)
        return self.add_broker(name, key, own, skew_s=ahead_s, make=make)

    def client(
        self, who: str, *at: str, key: SigningKey | None = None, ahead_s: float = 0.0, **settings: Any
    ) -> SimulatedClient:
        """Connect a member of the cast to the first of some brokers that answers."""
        known = {"credentials": self.cast.certificates, **settings}
        own = ClientSettings(network=self.cast.network, addresses=tuple(map(address_of, at)), **known)
        return self.add_client(who, key or self.cast.keys[who], own, skew_s=ahead_s)

    def add_broker(
        self,
        name: str,
        key: SigningKey,
        settings: BrokerSettings,
        *,
        skew_s: float = 0.0,
        make: Callable[..., Broker] = Broker,
    ) -> Host:
        """Add a broker at the address of its settings."""

        def build(kept: Mapping[str, bytes], random: Callable[[int], bytes]) -> Broker:
            log = log_at_start(self.hosts[name], first_to_reread(kept))
            return make(key, settings, random=random, kept=kept, log=log)

        return self.add_node(name, key.principal, build, address=settings.address, skew_s=skew_s)

    def add_key_server(
        self, name: str, key: SigningKey, settings: DomainSettings, *, skew_s: float = 0.0
    ) -> Host:
        """Add a key server at the address of its settings; its disk is sealed with a key of its own."""
        at_rest = Secret.fresh(self.chance(f"at rest/{name}").randbytes)

        def build(kept: Mapping[str, bytes], random: Callable[[int], bytes]) -> KeyServer:
            return KeyServer(key, settings, at_rest=at_rest, random=random, kept=kept)

        return self.add_node(name, key.principal, build, address=settings.address, skew_s=skew_s)

    def add_client(
        self, name: str, key: SigningKey, settings: ClientSettings, *, skew_s: float = 0.0
    ) -> SimulatedClient:
        """Add a client; it looks for a broker at once."""
        client = SimulatedClient(self, name, key, settings)
        self.add_node(name, key.principal, client.build, skew_s=skew_s)
        return client

    def node(self, name: str) -> Broker:
        """Return the broker that runs at a host."""
        node = self.host(name).node
        if not isinstance(node, Broker):
            raise BadInput("SIMULATION-HOST", f"no broker runs at `{name}`")
        return node

    def act(self, name: str, action: Callable[[Instant], Sequence[Effect]]) -> None:
        """Let the application at a host do something: call its node, and perform what it asks for."""
        host = self.host(name)
        self.trace.add(self._schedule.now, name, "Act", "")
        self._perform(host, action(host.clock(self._schedule.now)))

    # ------------------------------------------------------------ time

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule a call at a later time, for no host."""
        self._schedule.add(self._schedule.now + round(seconds * SECOND), self._order, action)

    def run_for(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self._schedule.now + round(seconds * SECOND)
        taken = self._schedule.run(until, steps_max=self._steps_left)
        self._steps_left -= taken
        self._check_steps()
        self._schedule.now = until

    def run_until(self, condition: Callable[[], bool], *, at_most: float) -> None:
        """Let time pass until something holds; `SIMULATION-NOT-IN-TIME` after `at_most` seconds."""
        until = self._schedule.now + round(at_most * SECOND)
        while not condition():
            if not self._step(until):
                self._schedule.now = until
                if condition():
                    return
                raise Unavailable(
                    "SIMULATION-NOT-IN-TIME",
                    f"it does not hold after {at_most} simulated seconds\n{self.story()}",
                )

    def _step(self, until: int) -> bool:
        self._check_steps()
        self._steps_left -= 1
        return self._schedule.step(until)

    def _check_steps(self) -> None:
        if not self._steps_left:
            raise Unavailable(
                "SIMULATION-STEPS", f"there were more steps than this network may take\n{self.story()}"
            )

    def story(self) -> str:
        """Return the seed and the last steps, for the person who looks into a failure."""
        return f"seed {self.seed}, {self.trace.count} steps, the last of which were\n{self.trace.tail(_TAIL)}"

    # ------------------------------------------------------------ trouble

    def crash(self, name: str, *, dark: bool = False) -> None:
        """Take a host's node and connections, never its disk; `dark` takes the machine too."""
        host = self.host(name)
        if host.node is None:
            return
        self.trace.add(self._schedule.now, name, "Crash", dark)
        host.end(Power.DARK if dark else Power.KILLED)
        self._transport.lose(host)

    def crash_within(self, name: str, effects: int) -> None:
        """Crash a host after so many more effects, between two that belong together if it so happens."""
        self.host(name).effects_left = effects

    def restart(self, name: str) -> None:
        """Start a host's node from what its disk holds; nothing happens if it runs."""
        host = self.host(name)
        if host.node is not None:
            return
        self.trace.add(self._schedule.now, name, "Start", host.life)
        node = host.begin(self.chance(f"node/{name}/{host.life}").randbytes)
        self._perform(host, node.start(host.clock(self._schedule.now)))

    def put_to_sleep(self, name: str) -> None:
        """Stop a host's process, not its machine: connections stay open, and what arrives waits."""
        host = self.host(name)
        if host.node is not None and host.asleep is None:
            self.trace.add(self._schedule.now, name, "Sleep", "")
            host.asleep = []

    def wake_up(self, name: str) -> None:
        """Let a process go on: it reads the clock before it reads what has arrived."""
        host = self.host(name)
        waiting, host.asleep = host.asleep or (), None
        for happened in sorted(waiting, key=lambda happened: not isinstance(happened, Tick)):
            self._happen(host, happened)

    def set_clock(self, name: str, *, skew_s: float) -> None:
        """Set a host's clock wrong, or right with 0."""
        host = self.host(name)
        host.skew = round(skew_s * SECOND)
        self.trace.add(self._schedule.now, name, "Clock", host.skew)
        if host.wake_at is not None:
            self._ask_to_wake(host)

    def partition(self, *groups: Iterable[str]) -> None:
        """Keep the groups apart from each other and from hosts in none of them."""
        self._partitions.split([[self.host(name) for name in group] for group in groups])
        self.trace.add(self._schedule.now, "*", "Partition", str(self._partitions))
        self._cut_and_mend()

    def heal(self) -> None:
        """End the partition."""
        self.partition()

    def set_weather(self, weather: Weather, *, between: tuple[str, str] | None = None) -> None:
        """Change how connections between two hosts fare, or all those of which nothing else was said."""
        self._partitions.set_weather(weather, between)

    def set_chaos(self, chaos: Chaos = NO_CHAOS, *, among: Iterable[str] = ()) -> None:
        """Let connections between the named hosts, or all if none is named, break their promises."""
        self._partitions.set_chaos(chaos, frozenset(among))

    def _cut_and_mend(self) -> None:
        for connection in self._transport.connections():
            if self._partitions.is_reachable(connection.dialling.host, connection.accepting.host):
                self._transport.mend(connection)
            else:
                self._transport.cut(connection)

    # ------------------------------------------------------------ what happens, and what is asked for

    def _happen(self, host: Host, happened: Input) -> None:
        """Tell a node what has happened, and do what it asks for."""
        if host.node is None:
            return
        if host.asleep is not None:
            host.asleep.append(happened)
            return
        now = self._schedule.now
        self._write_down(host, happened)
        try:
            effects = host.node.handle(happened, host.clock(now))
        except Exception as problem:
            problem.add_note(f"`{host.name}` failed on {happened!r} in {self.story()}")
            raise
        self._perform(host, effects)

    def _write_down(self, host: Host, happened: Input) -> None:
        now, what = self._schedule.now, type(happened).__name__
        if type(happened) is Received:
            self.trace.add(now, host.name, what, happened.link, happened.data)
        elif isinstance(happened, LinkOpened):
            self.trace.add(now, host.name, what, happened.link, happened.peer.key)
        else:
            self.trace.add(now, host.name, what, "")

    def _perform(self, host: Host, effects: Sequence[Effect]) -> None:
        self.on_effects(host, effects)
        if host.effects_left is None:  # and nothing here sets it
            for effect in effects:
                self._performers[type(effect)](host, effect)
            return
        for effect in effects:
            if host.effects_left is not None:
                if host.effects_left == 0:
                    self.crash(host.name)
                    return
                host.effects_left -= 1
            self._performers[type(effect)](host, effect)

    def _send(self, host: Host, effect: Send) -> None:
        self._transport.send(host, effect.link, effect.data)

    def _close(self, host: Host, effect: Close) -> None:
        self._transport.close(host, effect.link)

    def _dial(self, host: Host, effect: Dial) -> None:
        self._transport.dial(host, self._by_address.get(effect.address), effect.address)

    def _count(self, host: Host, effect: Count) -> None:
        host.counts[effect.name] += effect.amount

    def _note(self, host: Host, effect: Note) -> None:
        self.notes.append((host.name, effect))

    def _keep(self, host: Host, effect: Keep) -> None:
        if effect.data is None:
            host.disk.pop(effect.name, None)
        else:
            host.disk[effect.name] = effect.data

    def _wake_at(self, host: Host, effect: WakeAt) -> None:
        if host.wake_at is None or effect.at < host.wake_at:
            host.wake_at = effect.at
            self._ask_to_wake(host)

    def _ask_to_wake(self, host: Host) -> None:
        assert host.wake_at is not None  # noqa: S101 - the caller has just set it
        host.wakes_asked += 1
        self._schedule.add(host.wake_at - host.skew, host.chance, partial(self._wake, host, host.wakes_asked))

    def _wake(self, host: Host, number: int) -> None:
        if host.wake_at is None or number != host.wakes_asked:
            return
        host.wake_at = None
        self._happen(host, Tick())
