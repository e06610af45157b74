"""The simulated network keeps the promises of a real one, breaks what real ones break, and repeats itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maia.credentials import SigningKey
from maia.testing.refusals import raises
from maia.testing.simulation import BEGINNING, Chaos, Simulation, Weather
from maia.wire.effects import Close, LinkOpened, Send, Tick
from support.echo_nodes import add_echo

SECOND = 1_000_000
WORDS = [b"%d" % number for number in range(50)]
TESTS = Path(__file__).resolve().parents[2]


def pair(seed: int = 1, *, answers: bool = False, **named):
    """Return a network in which `one` has dialled `two`."""
    network = Simulation(seed, **named)
    two = add_echo(network, "two", answers=answers)
    one = add_echo(network, "one", dials=["two"])
    network.run_until(lambda: "LinkOpened" in two().kinds(), at_most=60)
    return network, one, two


# ------------------------------------------------------------ connections


def test_both_ends_learn_who_is_at_the_other_and_who_dialled():
    network, one, two = pair()
    (_, of_one), (_, of_two) = one().happened[0], two().happened[0]
    assert of_one == LinkOpened(of_one.link, network.host("two").principal, "two")
    assert of_two == LinkOpened(of_two.link, network.host("one").principal, None)


def test_a_message_is_answered_after_some_time_of_a_clock_that_no_peer_waits_for():
    network, one, _two = pair(answers=True)
    said_at = network.now
    network.act("one", one().say(b"hello"))
    network.run_until(lambda: one().heard == [b"hello"], at_most=5)
    assert said_at < network.now < said_at + 5 * SECOND


@pytest.mark.parametrize("seed", range(5))
def test_messages_of_one_link_stay_in_order_in_any_weather(seed):
    network, one, two = pair(seed, weather=Weather(spread_s=0.5, gust_chance=0.3, gust_s=5.0))
    for word in WORDS:
        network.act("one", one().say(word))
        network.run_for(0.05)
    network.run_for(600)
    assert two().heard == WORDS


def test_messages_of_two_links_overtake_each_other():
    network = Simulation(3)
    hub = add_echo(network, "hub")
    left, right = add_echo(network, "left", dials=["hub"]), add_echo(network, "right", dials=["hub"])
    network.run_for(1)
    for number in range(20):
        network.act("left", left().say(b"L%d" % number))
        network.act("right", right().say(b"R%d" % number))
    network.run_for(1)
    both = [word[:1] for word in hub().heard]
    assert both != sorted(both)
    assert both != [b"L", b"R"] * 20


def test_a_slow_link_passes_so_many_bytes_in_a_second():
    network, one, two = pair()
    network.set_weather(Weather(bytes_per_s=1000), between=("one", "two"))
    network.act("one", one().say(*[b"x" * 100] * 20))
    network.run_for(1)
    assert 8 <= len(two().heard) <= 10
    network.run_for(1.5)
    assert len(two().heard) == 20


def test_a_closed_link_delivers_what_was_sent_before_and_both_sides_learn_of_its_end():
    network, one, two = pair(answers=True)
    link = one().link
    network.act("one", lambda _now: [Send(link, b"last"), Close(link, "TEST"), Send(link, b"too late")])
    network.run_for(5)
    assert two().heard == [b"last"]
    assert one().heard == []
    assert one().kinds().count("LinkClosed") == two().kinds().count("LinkClosed") == 1


def test_no_peer_at_an_address_is_a_failed_dial():
    network = Simulation(1)
    lonely = add_echo(network, "lonely", dials=["nowhere"])
    network.run_for(1)
    assert lonely().kinds() == ["DialFailed"]


# ------------------------------------------------------------ clocks


def test_the_earliest_moment_that_was_asked_for_counts():
    network, one, _two = pair()
    begun = network.now
    network.act("one", one().wake_at(begun + 5 * SECOND, begun + 2 * SECOND, begun + 9 * SECOND))
    network.run_for(60)
    assert [at for at, what in one().happened if what == Tick()] == [begun + 2 * SECOND]


def test_a_node_sees_its_own_clock_and_wakes_by_it():
    network = Simulation(1)
    ahead = add_echo(network, "ahead", skew_s=10.0)
    network.act("ahead", ahead().wake_at(BEGINNING + 15 * SECOND))
    network.run_for(4)
    assert ahead().happened == []
    network.run_for(2)
    assert ahead().happened == [(BEGINNING + 15 * SECOND, Tick())]


def test_a_clock_that_is_set_back_lets_its_node_sleep_longer():
    network = Simulation(1)
    node = add_echo(network, "node")
    network.act("node", node().wake_at(BEGINNING + 10 * SECOND))
    network.run_for(5)
    network.set_clock("node", skew_s=-20)
    network.run_for(24)
    assert node().happened == []
    network.run_for(2)
    assert node().happened == [(BEGINNING + 10 * SECOND, Tick())]


# ------------------------------------------------------------ failures


def test_a_crash_takes_the_node_and_its_links_and_leaves_its_disk():
    network, one, two = pair()
    network.crash("two")
    network.run_for(5)
    assert one().kinds()[-1] == "LinkClosed"
    network.restart("two")
    assert two().lives == 2
    assert two().happened == []


def test_a_host_that_went_dark_leaves_its_peers_in_the_dark_for_a_while():
    network, one, _two = pair(gives_up_s=20)
    network.crash("two", dark=True)
    network.run_for(0.1)
    assert "LinkClosed" not in one().kinds()
    network.run_for(20)
    assert one().kinds()[-1] == "LinkClosed"


def test_a_message_to_an_earlier_life_tells_its_sender_that_the_link_is_gone():
    network, one, two = pair(gives_up_s=1e6)
    network.crash("two", dark=True)
    network.restart("two")
    network.run_for(60)
    assert "LinkClosed" not in one().kinds()
    network.act("one", one().say(b"are you there"))
    network.run_for(1)
    assert one().kinds()[-1] == "LinkClosed"
    assert two().happened == []


def test_a_host_can_fail_between_two_effects_of_one_step():
    network, one, two = pair()
    network.crash_within("one", effects=2)
    network.act("one", one().say(b"a", b"b", b"c", b"d"))
    network.run_for(5)
    assert network.host("one").node is None
    assert two().heard in ([], [b"a"], [b"a", b"b"])


def test_a_partition_holds_messages_up_and_a_quick_heal_loses_none():
    network, one, two = pair(gives_up_s=1e6)
    network.act("one", one().say(*WORDS[:10]))
    network.partition(["one"], ["two"])
    network.act("one", one().say(*WORDS[10:30]))
    network.run_for(60)
    assert two().heard == []
    network.heal()
    network.act("one", one().say(*WORDS[30:]))
    network.run_for(60)
    assert two().heard == WORDS


def test_a_long_partition_ends_the_link_on_both_sides_and_fails_dials():
    network, one, two = pair(gives_up_s=20)
    network.partition(["one"])
    network.run_for(21)
    assert one().kinds()[-1] == two().kinds()[-1] == "LinkClosed"
    stranger = add_echo(network, "stranger", dials=["one"])
    network.run_for(21)
    assert stranger().kinds() == ["DialFailed"]


def test_chaos_drops_doubles_and_turns_round_messages_where_it_was_asked_to():
    network, one, two = pair()
    network.set_chaos(Chaos(drop=0.2, double=0.2, overtake=0.3, concerns=lambda data: data != b"0"))
    network.act("one", one().say(*WORDS))
    network.run_for(5)
    heard = two().heard
    assert set(heard) < set(WORDS)
    assert len(set(heard)) < len(heard)
    assert heard.count(b"0") == 1
    first = sorted(set(heard), key=heard.index)
    assert first != sorted(first, key=int)
    network.set_chaos()
    network.act("one", one().say(*WORDS))
    network.run_for(5)
    assert two().heard[len(heard) :] == WORDS


# ------------------------------------------------------------ replay


def busy_run(seed: int) -> str:
    """Return the fingerprint of a run with a bit of everything."""
    network = Simulation(seed)
    hub = add_echo(network, "hub", answers=True)
    nodes = {name: add_echo(network, name, dials=["hub"]) for name in ("a", "b", "c")}
    network.run_for(1)
    network.set_chaos(Chaos(drop=0.1, double=0.1, overtake=0.1))
    for name, node in nodes.items():
        network.act(name, node().say(*WORDS))
    network.run_for(0.01)
    network.partition(["a", "hub"])
    network.run_for(5)
    network.heal()
    network.crash("hub")
    network.run_for(30)
    assert hub().heard
    return network.trace.fingerprint


def test_one_seed_is_one_run_and_another_seed_is_another():
    assert busy_run(48113) == busy_run(48113) != busy_run(48114)


def test_one_seed_is_one_run_in_another_process_too():
    code = "import test_simulated_network as t; print(t.busy_run(48113))"
    path = os.pathsep.join([str(TESTS), str(Path(__file__).parent), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == busy_run(48113)


def test_who_waits_in_vain_is_told_the_seed_and_what_happened_last():
    network, _one, _two = pair(48113)
    with raises("SIMULATION-NOT-IN-TIME", match=r"(?s)seed 48113, .*two\s+LinkOpened"):
        network.run_until(lambda: False, at_most=1)


def test_nodes_that_keep_each_other_busy_are_stopped():
    network, one, _two = pair(answers=True, steps_max=500)
    one().answers = True
    network.act("one", one().say(b"ping"))
    with raises("SIMULATION-STEPS"):
        network.run_for(1e6)


def test_a_node_that_fails_says_where_and_with_which_seed():
    network, one, two = pair(48113)
    two().handle = None
    network.act("one", one().say(b"x"))
    with pytest.raises(TypeError) as caught:
        network.run_for(1)
    assert "`two` failed on Received" in caught.value.__notes__[0]
    assert "seed 48113" in caught.value.__notes__[0]


def test_the_trace_keeps_its_last_steps_only():
    network, one, _two = pair(answers=True, steps_kept=10)
    network.act("one", one().say(*WORDS))
    network.run_for(5)
    assert network.trace.count > 100
    assert len(list(network.trace)) == 10


def test_names_and_addresses_are_used_once():
    network, _one, _two = pair()
    with raises("SIMULATION-HOST"):
        add_echo(network, "two")
    with raises("SIMULATION-HOST"):
        network.crash("three")
    with raises("SIMULATION-HOST"):
        network.add_node("three", SigningKey.from_seed(b"3" * 32).principal, lambda *_: None, address="two")


@pytest.mark.parametrize("bad", [{"least_s": -1}, {"gust_chance": -0.1}, {"bytes_per_s": 0}])
def test_weather_in_which_time_runs_backwards_is_refused(bad):
    with pytest.raises(ValueError, match=r"negative|partition"):
        Weather(**bad)


@pytest.mark.parametrize("bad", [{"drop": 1.1}, {"double": -0.1}])
def test_chances_lie_between_zero_and_one(bad):
    with pytest.raises(ValueError, match="chance"):
        Chaos(**bad)
