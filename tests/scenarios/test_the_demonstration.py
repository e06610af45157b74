"""The numberplate story of the dissertation (3.7, 5.2) as `make demo` tells it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from maia.broker.server.server import TapFile
from maia.clock import system_now
from maia.credentials import Action
from maia.demo.acts import Attempt, LivePlay, Revocation, attempts
from maia.demo.carriage import Carriage, carriage_of, words_to_look_for
from maia.demo.live_network import connected, starting_nodes
from maia.demo.met_domain import MET_DOMAIN, add_met_domain
from support.numberplate import (
    CARRIER,
    NUMBERPLATE_KINDS,
    OFFICES,
    SUSPECT,
    Received,
    add_carrier,
    ask,
    city_traffic,
    close_up,
    play,
    tell_numberplate_story,
)
from maia.demo.processes import RECEIVED_FILE
from maia.events import Instant
from maia.policy import Denial, Permit
from maia.routing.overlay.table import closeness, node_id_of_key, node_id_of_type
from maia.types import type_id, validity_type_id
from maia.wire.codec import encode
from maia.wire.messages import Carried, Publish
from reference import pipeline_applications as by_hand
from support.nursery import maia_command
from support.processes import Answer, maia, running_maia, until

NOON = Instant.parse("2026-11-15T12:00:00Z")
STORY = tell_numberplate_story(b"a fixed seed", now=NOON)


def test_each_reader_sees_exactly_its_part() -> None:
    sightings = [
        {"numberplate": SUSPECT, "timestamp": NOON, "location": "Victoria"},
        {"numberplate": "LB02 KRT", "timestamp": NOON, "location": "Victoria"},
    ]
    billing, statistics, detective = play(STORY, sightings, now=NOON).received
    assert billing.events == (
        {"numberplate": SUSPECT, "timestamp": NOON, "location": None},
        {"numberplate": "LB02 KRT", "timestamp": NOON, "location": None},
    )
    assert statistics.events == ({"numberplate": None, "timestamp": NOON, "location": "Victoria"},) * 2
    assert detective.events == ({"numberplate": SUSPECT, "timestamp": NOON, "location": "Victoria"},)


@pytest.mark.parametrize("claimed", ["Euston", None])
def test_the_camera_publishes_from_victoria_whatever_it_writes(claimed: str | None) -> None:
    played = play(STORY, [{"numberplate": "LB02 KRT", "timestamp": NOON, "location": claimed}], now=NOON)
    assert [event["location"] for event in played.sent] == ["Victoria"]


def test_those_who_try_for_more_are_refused_each_for_its_own_reason() -> None:
    assert [attempt.code for attempt in attempts(STORY, now=NOON)] == [
        "CREDENTIAL-SIGNATURE",
        "CREDENTIAL-NOT-DELEGABLE",
        "POLICY-EXPIRED",
        "POLICY-ATTRIBUTE-NOT-READABLE",
    ]


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Run the demonstration over real processes, with Spark, and few generated sightings."""
    plot = tmp_path_factory.mktemp("demo") / "traffic.png"
    command = [maia_command(), "demo", "--rows", "2000", "--plot", str(plot), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_the_network_delivers_what_the_kernel_says_although_a_broker_is_killed(demonstrated) -> None:
    assert demonstrated["killed"] == "PITO broker"
    assert (demonstrated["failed"], demonstrated["lost"]) == ([], [])
    received = demonstrated["received"]
    assert [len(received[office]) for office in OFFICES] == [6, 6, 2]
    assert [demonstrated["deliveries"][office] for office in OFFICES] == [2006, 2006, 9]
    assert all(event["location"] is None for event in received["billing office"])
    assert all(event["numberplate"] is None for event in received["statistics office"])
    assert all(event["location"] == "Victoria" for event in received["Detective Smith"])


def test_a_court_order_is_revoked_and_the_detectives_stream_ends_while_billing_goes_on(demonstrated) -> None:
    """P7, A35: over the Met's HTTP interface, the network, and the detective's own broker."""
    revocation = demonstrated["revocation"]
    assert revocation["code"] == "POLICY-REVOKED"
    assert revocation["delay_ms"] > 0
    assert (revocation["delivered_after"], revocation["still_subscribed"]) == (0, 0)
    assert revocation["suspect_seen_after"] == 8
    assert (revocation["billing_after"], revocation["statistics_after"]) == (1001, 1001)


def test_each_office_finds_in_the_log_what_it_saw_live(demonstrated) -> None:
    """D10: the log was recorded sealed, by the very network; a broker died in between."""
    lake = demonstrated["lake"]
    assert lake["events"] == 2006 + lake["trials"]
    billing, statistics, _ = OFFICES
    assert {one["office"]: (one["rows"], one["same"]) for one in lake["offices"] if not one["refused"]} == {
        office: (demonstrated["deliveries"][office], True) for office in (billing, statistics)
    }


def test_the_log_is_no_way_around_a_revocation(demonstrated) -> None:
    """A44: the detective saw some of these events live, and reads none of them now."""
    detective = demonstrated["lake"]["offices"][-1]
    assert detective["office"] == "Detective Smith"
    assert (detective["refused"], detective["rows"]) == ("POLICY-REVOKED", 0)
    assert (detective["rows_live"], detective["columns_read"]) == (9, [])


def test_spark_makes_the_bill_and_each_vehicle_is_charged_once_a_day(demonstrated) -> None:
    lake, owed = demonstrated["lake"], by_hand.charges(traffic_as_delivered())
    assert lake["bill"]["same"]
    assert (lake["bill"]["charges"], lake["bill"]["pounds"]) == (len(owed), len(owed) * 15)
    assert lake["bill"]["vehicles"] == len({plate for plate, *_ in owed})
    assert lake["most_seen"]["sightings"] > lake["most_seen"]["charges"] == 1


def test_spark_counts_and_draws_the_traffic(demonstrated) -> None:
    lake, counts = demonstrated["lake"], by_hand.counts(traffic_as_delivered())
    assert lake["traffic"]["same"]
    assert (lake["traffic"]["sightings"], lake["traffic"]["windows"]) == (2006, len(counts))
    assert Path(lake["plot"]).read_bytes().startswith(b"\x89PNG")


def test_no_place_was_ever_in_what_spark_made_for_the_billing_office(demonstrated) -> None:
    """Issue 5: by the columns that were read, by the values, and by a search that finds them elsewhere."""
    lake = demonstrated["lake"]
    offices = {one["office"]: one for one in lake["offices"]}
    assert offices["billing office"]["columns_read"] == ["numberplate", "timestamp"]
    assert offices["billing office"]["values"]["location"] == 0
    assert offices["statistics office"]["columns_read"] == ["location", "timestamp"]
    log, billing, control = lake["searches"]
    assert (log["found"], billing["found"]) == ([], [])
    assert min(log["searched"], billing["searched"]) > 10_000
    assert len(control["found"]) == control["looked_for"] == 20


def traffic_as_delivered() -> list[dict[str, object]]:
    """All sightings of the demonstration's usual seed, as plain Python has them."""
    seen = [*play(STORY, close_up(), now=NOON).sent, *city_traffic(2000, seed=2003)]
    return [{**event, "timestamp": event["timestamp"].to_datetime()} for event in seen]


def test_a_probing_filter_and_a_revoked_right_are_refused_by_brokers_too(demonstrated) -> None:
    by_title = {one["title"]: one["code"] for one in demonstrated["attempts"][-2:]}
    assert list(by_title.values()) == ["POLICY-ATTRIBUTE-NOT-READABLE", "POLICY-REVOKED"]
    assert all(title.startswith("over the network") for title in by_title)


def test_a_broker_without_rights_carries_the_events_and_can_read_nothing(demonstrated) -> None:
    """Issue 4: computed from every byte that its process received and kept."""
    carrier = demonstrated["carrier"]
    assert carrier["broker"] == CARRIER
    assert carrier["is_whole"]
    assert carrier["events"] >= 4, "it was not on the way"
    assert carrier["interests"] >= 2
    assert (carrier["found"], carrier["in_clear"]) == ([], 0)
    # The same search finds every word where it may be read.
    assert carrier["found_elsewhere"] == carrier["looked_for"] > 15


def test_what_the_broker_in_the_middle_could_see_is_what_it_was_sent(demonstrated) -> None:
    carrier = demonstrated["carrier"]
    name = STORY.definition.definition.name
    assert len(carrier["type_ids"]) == 1
    assert name.name not in json.dumps(carrier)
    for frame in carrier["frames"]:
        assert sorted(frame["uids"]) == sorted(NUMBERPLATE_KINDS)
        assert len(bytes.fromhex(frame["excerpt"])) == 12
        assert frame["size"] > 300
    # Equal plates look different each time, and every frame was carried once.
    assert len({frame["excerpt"] for frame in carrier["frames"]}) == len(carrier["frames"])
    assert len({tuple(frame["frame"]) for frame in carrier["frames"]}) == len(carrier["frames"])


def test_the_third_domain_has_the_right_to_connect_and_no_other() -> None:
    cast = add_carrier(STORY, b"a fixed seed")
    granted = [one.certificate.authority for one in cast.credentials[CARRIER]]
    assert {action for one in granted for action in one.actions} == {Action.CONNECT}
    point = node_id_of_type(type_id(STORY.network.owner, STORY.definition.definition.name.name))
    nodes = {who: node_id_of_key(cast.keys[who].principal.key) for who in (CARRIER, *cast.brokers)}
    assert min(nodes, key=lambda who: closeness(nodes[who], point)) == CARRIER


def test_neither_the_broker_in_the_middle_nor_the_key_server_is_missed(tmp_path: Path) -> None:
    """The rendezvous of a sealed type dies, then the key server, then a reader's broker: nobody is lost."""
    seed, now = os.urandom(32), system_now()
    story = tell_numberplate_story(seed, now=now)
    with starting_nodes(story, add_carrier(story, seed), tmp_path) as starting:
        nodes = starting.ready()

        async def played() -> None:
            async with connected(nodes, lambda *_told: None) as network, asyncio.timeout(180):
                await network.settle()
                for one in (nodes.brokers[CARRIER], nodes.key_server, nodes.brokers["PITO broker"]):
                    one.kill()
                    await network.settle()

        asyncio.run(played())


def test_every_command_of_the_playground_can_be_typed_and_all_processes_end_with_it() -> None:
    """Issue 16: `--keep` prints commands for a profile of each person; here they are typed, one by one."""
    with started("demo", "--keep") as demo:
        try:
            printed = _lines_until(demo, "status --data")
            shown = printed[: printed.index("Next:")]
            assert (len(shown) <= 45, max(map(len, shown)) <= 80) == (True, True), "\n".join(printed)
            processes = _children_of(demo.pid)
            folder = Path(next(line for line in printed if line.startswith("cd "))[3:])
            _type_all(folder, [found[1] for one in printed if (found := _COMMAND.match(one))])
            demo.send_signal(signal.SIGINT)
            assert demo.wait(180) == 130
        finally:
            demo.kill()
    assert len(processes) == 6
    assert not [pid for pid in processes if _is_there(pid)]
    assert not folder.exists()


_COMMAND = re.compile(r"(?:\S*maia|python -m maia\.cli) (.*)")


def _type_all(folder: Path, commands: list[str]) -> None:
    billing, statistics, smith, publish, explain, revoke, appoint, status = commands
    for words, hidden in ((billing, "location"), (statistics, "numberplate")):
        answer = typed(folder, words)
        events = [json.loads(line) for line in answer.stdout.splitlines()]
        assert [(len(one), one[hidden]) for one in events] == [(3, None)] * 3, answer
    with running_maia(*shlex.split(smith), cwd=folder) as stream:
        until(lambda: read(folder / "out.log") != "")  # from now on there is a way to her broker
        assert typed(folder, publish).returncode == 0
        until(lambda: '"Victoria"' in read(folder / "out.log"))
        assert typed(folder, explain).stdout.startswith("no [POLICY-ATTRIBUTE-NOT-READABLE]")
        assert "the broker has acted on it" in typed(folder, revoke).stdout
        assert stream.wait(60) == 3
    assert "POLICY-REVOKED" in read(folder / "err.log")
    seen = [json.loads(line) for line in read(folder / "out.log").splitlines()]
    assert {event["numberplate"] for event in seen} == {SUSPECT}
    order, login = appoint.split(" && ")
    assert typed(folder, order).returncode == 0
    assert "np_tracker(AE05 XYZ)" in typed(folder, _COMMAND.match(login)[1]).stdout
    assert typed(folder, f"{smith} --count 1").returncode == 0
    assert "UK Police Network" in typed(folder, status).stdout


def test_a_demonstration_that_is_ended_leaves_no_process() -> None:
    with started("demo") as demo:
        try:
            _lines_until(demo, "the first event")
            processes = _children_of(demo.pid)
            demo.send_signal(signal.SIGTERM)
            assert demo.wait(180) == 130
        finally:
            demo.kill()
    assert len(processes) >= 5
    assert not [pid for pid in processes if _is_there(pid)]


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "maia.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def typed(folder: Path, words: str) -> Answer:
    """Run a command as it was printed; it ends by itself."""
    answer = maia(*shlex.split(words), cwd=folder)
    assert "Traceback" not in answer.stderr, answer.stderr
    return answer


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _lines_until(demo: subprocess.Popen[str], last: str) -> list[str]:
    printed = []
    for line in demo.stdout or ():
        printed.append(line.rstrip("\n"))
        if last in line:
            return printed
    raise AssertionError("\n".join(printed))


def _children_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


PLAYED = play(STORY, [{"numberplate": SUSPECT, "timestamp": NOON, "location": "Victoria"}], now=NOON)


def claimed(received: tuple[Received, ...], tried: frozenset[Instant] = frozenset()) -> LivePlay:
    refused = (Attempt("a probe", "POLICY", ""),)
    return LivePlay(received, PLAYED, PLAYED, tried, "PITO broker", 0.1, 0.1, None, refused, {})


def test_a_difference_between_network_and_kernel_is_a_failure() -> None:
    """What the demonstration claims is computed: it would notice a lost, a doubled or a wider delivery."""
    billing, statistics, detective = PLAYED.received
    assert claimed(PLAYED.received).differences() == []
    lost = claimed((billing, statistics, Received("Detective Smith", ())))
    assert (len(lost.differences()), lost.lost()) == (1, ["Detective Smith"])
    doubled = claimed((Received("billing office", billing.events * 2), statistics, detective))
    assert (len(doubled.differences()), doubled.lost()) == (1, [])
    wider = claimed((Received("billing office", detective.events), statistics, detective))
    assert len(wider.differences()) == 1


REVOCATION = Revocation(
    80.0, 70.0, "POLICY-REVOKED", "", received_before=dict.fromkeys(OFFICES, 3), published_before=3
)
AFTER = {"received": dict(zip(OFFICES, (9, 9, 3), strict=True)), "suspect_seen": 2, "still_subscribed": 0}


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({}, None),
        ({"received": dict(zip(OFFICES, (9, 9, 4), strict=True))}, "1 sightings reached the detective"),
        ({"received": dict(zip(OFFICES, (3, 9, 3), strict=True))}, "the billing office receives nothing"),
        ({"received": dict(zip(OFFICES, (9, 3, 3), strict=True))}, "the statistics office receives nothing"),
        ({"suspect_seen": 0}, "was not seen again"),
        ({"still_subscribed": 1}, "still has 1 subscriptions"),
    ],
)
def test_a_revocation_that_comes_to_nothing_or_to_too_much_is_a_failure(changes, claim) -> None:
    broken = list(REVOCATION.and_then(**{**AFTER, **changes}).broken_claims())
    assert (len(broken), claim is None or claim in broken[0]) == (0 if claim is None else 1, True)
    played = replace(claimed(PLAYED.received), revocation=REVOCATION.and_then(**{**AFTER, **changes}))
    assert played.differences() == broken


def test_a_subscription_that_ends_for_another_reason_is_a_failure() -> None:
    stale = replace(REVOCATION.and_then(**AFTER), code="POLICY-STALE")
    assert ["another reason: POLICY-STALE" in one for one in stale.broken_claims()] == [True]
    for who, revocation in (("billing office", REVOCATION.and_then(**AFTER)), ("Detective Smith", None)):
        ended = replace(claimed(PLAYED.received), revocation=revocation, ended={who: "POLICY-REVOKED"})
        assert ended.differences() == [f"the subscription of the {who} has ended: POLICY-REVOKED"]


def test_the_detective_has_no_right_but_that_of_the_mets_policy() -> None:
    story, cast = add_met_domain(STORY, add_carrier(STORY, b"a fixed seed"), b"a fixed seed")
    assert isinstance(ask(STORY, "Detective Smith", Action.SUBSCRIBE, now=NOON), Permit)
    assert isinstance(ask(story, "Detective Smith", Action.SUBSCRIBE, now=NOON), Denial)
    assert cast.keys[MET_DOMAIN].principal == STORY.principal("Met")


SIGHTINGS = [{"numberplate": "LB02 KRT", "timestamp": NOON, "location": "Victoria"}]
WORDS = words_to_look_for(STORY, SIGHTINGS)


def carriage_with(home: Path, *messages: bytes, **files: bytes) -> Carriage:
    """Look at a broker that received and kept exactly this."""
    with TapFile(home / RECEIVED_FILE) as heard:
        for message in messages:
            heard.write(message)
    for name, content in files.items():
        (home / name).write_bytes(content)
    return carriage_of("third", home, WORDS)


def test_the_search_would_notice_whatever_must_not_be_there(tmp_path: Path) -> None:
    """Each word, in each way of writing it, among what was received or in a file that is kept."""
    for number, (word, ways) in enumerate(WORDS.items()):
        for way in ways:
            (home := tmp_path / f"{number}-{ways.index(way)}").mkdir()
            found = carriage_with(home, kept=b"\x00\x01" + way + b"\x02").found
            assert word in found
            assert any(word in claim for claim in carriage_of("third", home, WORDS).broken_claims())


def test_an_event_in_clear_and_a_record_that_is_not_whole_are_failures(tmp_path: Path) -> None:
    plain = encode(Publish(1, 0, int(NOON), 1, []))
    for name in ("clear", "cut", "full"):
        (tmp_path / name).mkdir()
    assert carriage_with(tmp_path / "clear", plain).in_clear == 1
    whole = carriage_with(tmp_path / "cut", plain, plain)
    assert (whole.is_whole, whole.messages) == (True, 2)
    cut = (tmp_path / "cut" / RECEIVED_FILE).read_bytes()[:-1]
    (tmp_path / "cut" / RECEIVED_FILE).write_bytes(cut)
    assert not carriage_of("third", tmp_path / "cut", WORDS).is_whole
    with TapFile(tmp_path / "full" / RECEIVED_FILE, bytes_max=len(plain) + 4) as full:
        for _ in range(3):
            full.write(plain)
    short = carriage_of("third", tmp_path / "full", WORDS)
    assert (short.is_whole, short.messages) == (False, 1)
    assert "not everything" in next(iter(short.broken_claims()))


def test_statements_that_are_for_every_client_are_no_events_in_clear(tmp_path: Path) -> None:
    """The stream on which the Met says what is revoked is public; any other type is not."""
    public = validity_type_id(STORY.principal("Met"))
    for kind, in_clear in ((public, 0), (b"\x01" * 32, 1)):
        (home := tmp_path / kind.hex()[:8]).mkdir()
        message = Carried(kind, STORY.principal("Met").key, b"s" * 16, 1, int(NOON), 1, [], [])
        with TapFile(home / RECEIVED_FILE) as heard:
            heard.write(encode(message))
        assert carriage_of("third", home, WORDS, public={public}).in_clear == in_clear
