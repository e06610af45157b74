"""A109, A121: a broker that catches up gets what it may record and no more, and is not deceived by it."""

from __future__ import annotations

from itertools import count

import pytest
from msgspec.structs import replace

from maia.broker.log.progress import identity_of
from maia.broker.settings import BrokerLimits
from maia.broker.streams import catch_up, log_requests
from maia.credentials import Action, SigningKey, Validity
from maia.events import Instant, frame_of
from maia.policy.view_bytes import EVERYTHING
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.sealing import EpochKeys, Publication, Sealer
from maia.sealing.groups.key_group import GroupId
from maia.testing import NetClient, key_of, random_from, shown
from maia.types import SealingLevel, type_id
from maia.wire.codec import decode, decode_recorded, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.log_places import signed_place
from maia.wire.messages import (
    Carried,
    DeliverLogged,
    FetchLog,
    Interest,
    LogAnswered,
    LogFetched,
    LogPlace,
    Missed,
    Offer,
    RecordedRun,
    Seen,
    Wanted,
)
from maia.wire.names import filter_to_bytes
from support.numberplate import (
    EVERY_KEY,
    NUMBERPLATE,
    NUMBERPLATE_KINDS,
    READ,
    RECORDING,
    WRITE,
    Net,
    SealedNet,
    camera_and_reader,
    sighting,
)
from support.sealing import seal_one

CAMERA = "camera at Victoria"
LOG = b"l" * 16


class Town:
    """One recording broker with a right to the type, a durable subscriber, and brokers that tests make up."""

    def __init__(self, **settings: object) -> None:
        self.net = Net(verify_in_transit=1.0, recording=RECORDING, open_borders=True, **settings)
        key, credentials = self.net.cast.identity("CCS broker")
        own = self.net.cast.right(key.principal, Action.SUBSCRIBE)
        self.broker = self.net.broker(credentials=(*credentials, own))
        self.office = self.net.client("billing office")
        self.ref = self.office.durable()
        name = self.net.cast.type_name
        self.type_id = type_id(name.owner, name.name)
        self.numbers = count(1)
        self.camera: NetClient | None = None

    def neighbour(self) -> NetClient:
        """Connect a peer that may connect, and says that it is a broker."""
        key = SigningKey.from_seed(next(self.numbers).to_bytes(32))
        right = (self.net.cast.broker_right(key),)
        address = f"{key.principal.key.hex()[:8]}:1"
        return self.net.client(address, key=key, credentials=right, address=address)

    def offer(self, neighbour: NetClient) -> FetchLog:
        """Let a neighbour offer the type; return what it is asked for."""
        self.only_offer(neighbour)
        return neighbour.last(FetchLog)

    def only_offer(self, neighbour: NetClient) -> None:
        """Let a neighbour offer the type, by a camera's true request."""
        camera = NetClient(self.net, self.net.cast.keys[CAMERA], self.net.cast.certificates)
        proof = camera.request(Action.PUBLISH)
        neighbour.say(Offer(self.type_id, True, proof, shown(self.net.cast.certificates)))

    def frame(self, number: int, *, of_type: bytes | None = None) -> bytes:
        frame = frame_of([sighting(f"plate {number}")], NUMBERPLATE_KINDS)
        publisher, columns = self.net.cast.principal(CAMERA).key, frame_to_columns(frame)
        about = of_type or self.type_id, publisher, b"s" * 16, number
        return encode(Carried(*about, int(self.net.now), 1, [], columns))

    def answer(
        self, neighbour: NetClient, asked: FetchLog, *numbers: int, upto: int = 9, end: int = 9
    ) -> None:
        """Let a neighbour answer with these frames, and say that this was all."""
        self.fetched(neighbour, asked, [self.frame(number) for number in numbers], upto=upto, end=end)
        neighbour.say(LogAnswered(asked.id, is_whole=True))

    def fetched(
        self,
        neighbour: NetClient,
        asked: FetchLog,
        frames: list[bytes],
        *,
        upto: int = 9,
        end: int = 9,
        **more: object,
    ) -> None:
        """Let a neighbour answer with these frames."""
        place = LogPlace(neighbour.principal.key, LOG, upto)
        answer = LogFetched(asked.id, place, end, True, b"", False, frames, **more)
        neighbour.say(signed_place(answer, self.net.cast.network, neighbour.key))

    def recorded(self) -> list[int]:
        return [identity_of(decode_recorded(one.data))[1] for one in self.net.log().safe]

    def missed(self) -> list[str]:
        return [one.code for one in self.office.all_heard(Missed)]

    # ---- as the one that is asked

    def publish(self, *plates: str) -> None:
        if self.camera is None:
            self.camera = self.net.client(CAMERA)
            self.camera_ref = self.camera.advertise()
        for plate in plates:
            self.camera.publish(self.camera_ref, sighting(plate))

    def want(
        self, neighbour: NetClient, name: str = "reader", wanted: Predicate = ALWAYS, **limits: object
    ) -> None:
        """Let a neighbour want something on behalf of a reader, whose right is as limited as this."""
        right = self.net.cast.right(key_of(name).principal, Action.SUBSCRIBE, **limits)
        reader = NetClient(self.net, key_of(name), (right,))
        proof = reader.request(Action.SUBSCRIBE, wanted)
        entry = Wanted(b"i" * 16, filter_to_bytes(wanted), proof, shown((right,)))
        neighbour.say(Interest(self.type_id, [entry], []))

    def fetch(
        self, neighbour: NetClient, *places: LogPlace, since: int = 0, runs=(), views=()
    ) -> list[LogFetched]:
        """Let a neighbour ask for all that is recorded; return what it was sent."""
        number = next(self.numbers).to_bytes(16)
        neighbour.say(FetchLog(number, self.type_id, since, list(places), list(runs), list(views)))
        assert number in [one.id for one in neighbour.all_heard(LogAnswered)]
        return [one for one in neighbour.all_heard(LogFetched) if one.id == number]


def plates_in(answers: list[LogFetched]) -> list[str]:
    frames = [decode(data) for answer in answers for data in answer.frames]
    events = [event for one in frames for event in columns_to_frame(one.columns, one.rows).events()]
    return [str(event[NUMBERPLATE]) for event in events]


@pytest.fixture
def town() -> Town:
    return Town()


def test_rows_of_which_others_recorded_a_part_are_recorded_once(town: Town) -> None:
    """Brokers record what they were sent for readers of their own; tables of the log repeat no row."""
    frame = frame_of([sighting(plate) for plate in "abc"], NUMBERPLATE_KINDS)

    def part(number: int, *rows: int) -> bytes:
        left = frame if len(rows) == frame.rows else frame.take(rows)
        about = town.type_id, town.net.cast.principal(CAMERA).key, b"s" * 16, number, int(town.net.now)
        kept = [] if len(rows) == frame.rows else list(rows)
        return encode(Carried(*about, left.rows, kept, frame_to_columns(left)))

    neighbours = []
    for answer in ([part(0, 1)], [part(0, 0, 1, 2), part(1, 0), part(1, 0, 1, 2)]):
        neighbours.append(town.neighbour())
        asked = town.offer(neighbours[-1])
        town.fetched(neighbours[-1], asked, answer)
        for one in neighbours:
            one.say(LogAnswered(asked.id, is_whole=True))
    found = [decode_recorded(one.data) for one in town.net.log().safe]
    assert [(one.sequence, one.kept, one.rows) for one in found] == [(0, [1], 1), (0, [0, 2], 2), (1, [], 3)]


def test_what_is_fetched_is_recorded_in_its_order_and_once(town: Town) -> None:
    """A109: reordered within an answer, and repeated by another broker and later."""
    first, second = town.neighbour(), town.neighbour()
    town.answer(first, town.offer(first), 2, 0, 1)
    assert town.recorded() == [0, 1, 2]
    assert [event[NUMBERPLATE] for event in town.office.logged_events()] == ["plate 0", "plate 1", "plate 2"]
    asked = town.offer(second)
    assert [(run.first, run.last) for run in asked.recorded] == [(0, 2)]
    town.answer(first, first.last(FetchLog), 0, 1, 2)
    town.answer(second, asked, 0, 1, 2, 1)
    assert town.recorded() == [0, 1, 2]
    assert not town.missed()


def test_a_range_that_is_withheld_or_comes_late_is_reported(town: Town) -> None:
    """A109: a hole in the numbers, and what fills it too late to be delivered in its order."""
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), 0, 1, 4)
    assert town.missed() == ["UNAVAILABLE-LOG-GAP"]
    town.net.advance(40)
    town.office.durable(ref=town.ref)
    town.net.advance(21)
    town.answer(liar, liar.last(FetchLog), 2, 3, upto=10, end=10)
    assert town.recorded() == [0, 1, 4, 2, 3]
    logged = town.office.all_heard(DeliverLogged)
    assert [one.is_late for one in logged] == [False, False, False, True, True]
    assert town.missed() == ["UNAVAILABLE-LOG-GAP"]


def missing(town: Town) -> int:
    """Return how many publications the operator is told that the log lacks."""
    return town.broker.parts.recording.status()["missing_events"]


def test_a_hole_is_kept_and_counted_and_filled_by_whoever_has_it(town: Town) -> None:
    """A122: over a restart, behind places that were reached before, and delivered late and marked so."""
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), 0, 1, 4)
    assert missing(town) == 2
    town.net.restart("CCS broker")
    town.office = town.net.client("billing office")
    ref = town.office.durable()
    assert missing(town) == 2
    other = town.neighbour()
    asked = town.offer(other)
    assert [(one.first, one.last) for one in asked.missing] == [(2, 3)]
    assert [(one.first, one.last) for one in asked.recorded] == [(0, 1), (4, 4)], "these are not sent again"
    town.answer(other, asked, 2)
    assert missing(town) == 1
    town.net.advance(40)
    town.office.durable(ref=ref)
    town.net.advance(21)
    again = other.last(FetchLog)
    assert [(one.first, one.last) for one in again.missing] == [(3, 3)]
    assert not again.places, "what is missing is asked for from where nothing was"
    town.answer(other, again, 3)
    assert missing(town) == 0
    assert [one.is_late for one in town.office.all_heard(DeliverLogged)] == [False] * 3 + [True] * 2
    assert town.missed() == ["UNAVAILABLE-LOG-GAP"]


def test_a_log_that_took_the_place_of_a_lost_one_is_the_same_after_the_next_crash(town: Town) -> None:
    """A122: it has fewer positions than were known before, and would be taken for lost once more."""
    town.publish("A", "B", "C")
    town.net.advance(70)
    town.net.crash("CCS broker")
    town.net.log().safe.clear()
    town.net.restart("CCS broker")
    assert town.broker.parts.recording.is_replaced
    town.net.crash("CCS broker")
    town.net.restart("CCS broker")
    assert not town.broker.parts.recording.is_replaced


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_found_late_is_marked_for_who_came_back_meanwhile(town: Town, restarts: bool) -> None:
    """A122: the link that was handed the later ones is gone, and so may be the broker's memory of it."""
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), 0, 1, 4)
    for logged in town.office.all_heard(DeliverLogged):
        town.office.say(Seen(town.ref, logged.position))
    town.office.hang_up()
    town.net.advance(61)
    town.answer(liar, liar.last(FetchLog), 2, 3, upto=10, end=10)
    assert town.recorded() == [0, 1, 4, 2, 3]
    if restarts:
        town.net.advance(70)
        town.net.restart("CCS broker")
    town.office = town.net.client("billing office")
    town.office.durable()
    town.net.advance(5)
    logged = town.office.all_heard(DeliverLogged)
    assert [(one.rows, one.is_late) for one in logged] == [(1, True)] * 2


def test_a_hole_outlives_the_log_that_had_it(town: Town) -> None:
    """A122: what was recorded is asked for by when, and what was missing still by its numbers."""
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), 0, 1, 4)
    town.net.advance(70)
    assert missing(town) == 2
    town.net.crash("CCS broker")
    town.net.log().safe.clear()
    town.net.restart("CCS broker")
    town.office = town.net.client("billing office")
    town.office.durable()
    assert missing(town) == 2
    other = town.neighbour()
    asked = town.offer(other)
    assert [(one.first, one.last) for one in asked.missing] == [(2, 3)]
    town.answer(other, asked, 2, 3)
    assert (missing(town), town.recorded()) == (0, [2, 3])


def test_a_hole_is_counted_while_others_are_asked_and_what_finds_no_room_is_one(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A122: slowness hides no loss, and the end of a stream is missed though nothing comes behind it."""
    monkeypatch.setattr(catch_up, "HELD_BYTES_MAX", 1200)
    slow = town.neighbour()
    asked = town.offer(slow)
    for number in range(2, 12):
        slow.say_bytes(town.frame(number))
    held = len(town.broker.parts.recording.progress[town.type_id].held)
    assert held
    assert missing(town) == 12 - held, "what waits in memory is not missing, the rest is"
    slow.hang_up()
    town.net.advance(40)
    assert town.recorded() == list(range(2, 2 + held))
    assert missing(town) == 12 - held
    (noted,) = town.broker.noted("events-missed")
    assert noted["missing"] == 12 - held
    town.net.restart("CCS broker")
    town.office = town.net.client("billing office")
    town.office.durable()
    assert missing(town) == 12 - held, "a restart forgets nothing of it"
    other = town.neighbour()
    asked = town.offer(other)
    assert [(one.first, one.last) for one in asked.missing] == [(0, 1), (2 + held, 11)]
    town.answer(other, asked, *range(12), upto=12, end=12)
    assert missing(town) == 0
    assert sorted(town.recorded()) == list(range(12))


def test_a_question_that_was_interrupted_goes_on_where_it_was(town: Town) -> None:
    """A122: a right that pauses each half minute would never see the end of a long log."""
    source = town.neighbour()
    town.answer(source, town.offer(source), 0, 5)
    town.net.advance(3)
    asked = source.last(FetchLog)
    assert not asked.places
    town.answer(source, asked, 1, upto=3)
    asked = source.last(FetchLog)
    assert [one.position for one in asked.places] == [3]
    town.fetched(source, asked, [], upto=6, is_early=True)
    source.say(LogAnswered(asked.id, is_whole=True))
    town.net.advance(10)
    asked = source.last(FetchLog)
    assert [one.position for one in asked.places] == [3]
    town.answer(source, asked, 2, 3, 4)
    assert missing(town) == 0


def test_a_stream_that_does_not_begin_at_its_beginning_has_a_hole(town: Town) -> None:
    """A121: what is withheld of a beginning is missed as what is withheld in the middle."""
    liar, other = town.neighbour(), town.neighbour()
    town.answer(liar, town.offer(liar), 3)
    assert (missing(town), town.missed()) == (3, []), "most often its broker says that it began before"
    town.net.advance(3)
    again = liar.last(FetchLog)
    assert [(one.first, one.last) for one in again.missing] == [(0, 2)]
    for one in (liar, other):
        town.answer(one, again)
    assert (missing(town), town.missed()) == (3, ["UNAVAILABLE-LOG-GAP"])
    town.only_offer(other)
    town.net.advance(10)
    again = other.last(FetchLog)
    town.answer(liar, again)
    town.answer(other, again, 0, 1, 2)
    assert missing(town) == 0


def test_what_a_recorder_has_and_will_not_send_is_missing_no_more(town: Town) -> None:
    """A stream that began before somebody recorded it, or before its right: its recorder says so."""
    source = town.neighbour()
    asked = town.offer(source)
    run = RecordedRun(town.net.cast.principal(CAMERA).key, b"s" * 16, b"", 0, 4)
    town.fetched(source, asked, [town.frame(5)], settled=[run])
    source.say(LogAnswered(asked.id, is_whole=True))
    assert (missing(town), town.missed()) == (0, [])


def test_a_broker_says_which_numbers_it_refused_and_which_it_has(town: Town) -> None:
    """The word of the broker that acknowledged: it is asked about numbers, and names no others."""
    town.publish("A")
    town.camera.next_sequence += 3
    town.publish("B")
    town.net.advance(10)
    asker = town.neighbour()
    town.want(asker)
    stream = town.camera.stream
    about = town.net.cast.principal(CAMERA).key, stream, b""
    number = next(town.numbers).to_bytes(16)
    asker.say(FetchLog(number, town.type_id, int(town.net.now), [], [], [], [RecordedRun(*about, 0, 9)]))
    (answer,) = asker.all_heard(LogFetched)
    assert plates_in([answer]) == []
    assert sorted((one.first, one.last) for one in answer.settled) == [(0, 0), (1, 3), (4, 4)]
    assert missing(town) == 0


def test_a_gap_notice_waits_for_a_subscriber_that_is_away_and_survives_a_restart(town: Town) -> None:
    """A109: the notice is for every durable subscription, whether its owner is there or not."""
    town.office.hang_up()
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), 0, 1, 4)
    town.net.restart("CCS broker")
    town.office = town.net.client("billing office")
    town.office.durable()
    assert len(town.office.logged_events()) == 3
    assert town.missed() == ["UNAVAILABLE-LOG-GAP"]


def test_what_was_published_where_no_broker_records_is_reported_once(town: Town) -> None:
    """A109: the broker was down, and one of those that publish the type has no log."""
    source = town.neighbour()
    source.say(LogAnswered(town.offer(source).id, is_whole=False))
    assert not town.missed(), "nothing was cut off"
    town.net.restart("CCS broker")
    town.office, source = town.net.client("billing office"), town.neighbour()
    town.office.durable()
    source.say(LogAnswered(town.offer(source).id, is_whole=False))
    town.net.advance(5)  # until the subscription is accepted
    assert town.missed() == ["UNAVAILABLE-LOG-NOT-FETCHED"]
    town.net.advance(61)
    source.say(LogAnswered(source.last(FetchLog).id, is_whole=False))
    assert town.missed() == ["UNAVAILABLE-LOG-NOT-FETCHED"]


def test_behind_a_page_with_nothing_to_record_the_next_one_is_asked_for(town: Town) -> None:
    """A109: a broker whose log is empty waits for its disk only if something is on its way there."""
    source = town.neighbour()
    town.answer(source, town.offer(source), upto=5, end=9)
    town.answer(source, source.last(FetchLog), 0, 1)
    assert town.recorded() == [0, 1]


def test_what_no_broker_asked_for_is_no_answer(town: Town) -> None:
    """A109, A66: made-up numbers of requests, another neighbour's, and answers after the answer."""
    liar, other = town.neighbour(), town.neighbour()
    asked = town.offer(liar)
    town.answer(other, asked, 0)
    town.answer(liar, FetchLog(b"x" * 16, town.type_id, 0, [], []), 1)
    town.answer(liar, asked, 2)
    town.answer(liar, asked, 3)
    assert town.recorded() == [2]


def test_an_answer_of_another_type_ends_the_link(town: Town) -> None:
    """A109: a fetched frame is of the type that was asked for."""
    liar = town.neighbour()
    asked = town.offer(liar)
    town.fetched(liar, asked, [town.frame(0, of_type=b"t" * 32)])
    assert liar.bye == "PROTOCOL-CATCH-UP"
    assert not town.recorded()


def test_an_answer_that_is_too_long_ends_the_link(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A109: what one request brings is bounded, so that an answer does not fill memory or disk."""
    monkeypatch.setattr(log_requests, "_ANSWER_BYTES_MAX", 1000)
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), *range(20))
    assert liar.bye == "PROTOCOL-CATCH-UP"
    assert not town.recorded()


def test_a_place_stays_where_it_was_until_the_askers_interests_are_known(town: Town) -> None:
    """A broker that starts asks before its interests have come: what others had for it is not left out."""
    source = town.neighbour()
    asked = town.offer(source)
    assert EVERYTHING in asked.views
    assert len(asked.views) == 2, "the broker's own and that of the office"
    town.fetched(source, asked, [], is_early=True)
    source.say(LogAnswered(asked.id, is_whole=True))
    town.net.advance(3)
    again = source.last(FetchLog)
    assert again.id != asked.id
    assert not again.places
    town.answer(source, again, 0)
    assert town.recorded() == [0]


def test_an_answer_says_whether_it_is_for_all_who_ask(town: Town) -> None:
    """Of what is released for a class, the answer is early until an interest of the class has come."""
    town.publish("a")
    asker = town.neighbour()
    town.want(asker)
    (answer,) = town.fetch(asker, views=[EVERYTHING])
    assert not answer.is_early
    (answer,) = town.fetch(asker, views=[EVERYTHING, b"another class   "])
    assert answer.is_early


def test_a_log_without_end_that_does_not_move_is_left(town: Town) -> None:
    """A109: a broker that always has more, at the same place, is not asked again and again."""
    liar = town.neighbour()
    town.answer(liar, town.offer(liar), 0, upto=5, end=1 << 40)
    assert len(liar.all_heard(FetchLog)) == 2
    town.answer(liar, liar.last(FetchLog), 1, upto=5, end=1 << 40)
    assert len(liar.all_heard(FetchLog)) == 2


@pytest.mark.parametrize("repeats", [False, True])
def test_a_place_in_a_log_is_the_word_of_its_own_broker(town: Town, repeats: bool) -> None:
    """A121: a neighbour says how far another log was looked through, or repeats what was said to others."""
    victim, liar = town.neighbour(), town.neighbour()
    asked = town.offer(victim)
    town.answer(victim, asked, 0, upto=5, end=5)
    place = LogPlace(victim.principal.key, LOG, 10**6)
    answer = LogFetched(town.offer(liar).id, place, 10**6, True, b"", False, [])
    said = signed_place(replace(answer, id=asked.id), town.net.cast.network, victim.key)
    liar.say(replace(answer, signature=said.signature if repeats else b"s" * 64))
    assert liar.bye == "PROTOCOL-CATCH-UP"
    town.answer(victim, victim.last(FetchLog), upto=5, end=5)
    town.net.advance(61)
    assert [one.position for one in victim.last(FetchLog).places] == [5]


def test_a_position_beyond_the_log_is_no_place_in_it(town: Town) -> None:
    """A121: whoever is made to believe that it has seen what does not exist yet is sent all of it."""
    town.publish("A", "B")
    neighbour = town.neighbour()
    town.want(neighbour)
    (answer,) = town.fetch(neighbour)
    ahead = LogPlace(answer.place.broker, answer.place.log, 10**6)
    (again,) = town.fetch(neighbour, ahead)
    assert plates_in([again]) == ["A", "B"]
    assert again.place == answer.place


def test_a_broker_says_that_a_place_in_its_log_is_not_there_any_more(town: Town) -> None:
    """A121: a place is of the run that recorded it; a restart loses none, so nobody is told then."""
    neighbour = town.neighbour()
    town.want(neighbour)
    (empty,) = town.fetch(neighbour)
    town.publish("A", "B")
    (answer,) = town.fetch(neighbour, empty.place)
    town.net.restart("CCS broker")
    town.camera = None
    neighbour = town.neighbour()
    town.want(neighbour)
    for place, plates in ((empty.place, ["A", "B"]), (answer.place, [])):
        (again,) = town.fetch(neighbour, place)
        assert (plates_in([again]), again.was_put_back) == (plates, False)
    town.publish()
    town.camera.next_sequence = 2
    town.publish("C")
    run = town.fetch(neighbour)[-1].place.log
    assert run != answer.place.log
    (again,) = town.fetch(neighbour, LogPlace(answer.place.broker, run, answer.place.position))
    assert (plates_in([again]), again.was_put_back) == (["A", "B", "C"], True)


def test_a_right_opens_nothing_that_was_recorded_before_it_began(town: Town) -> None:
    """A121: `since` is the asker's word, a right that begins now opens no log of the past, and no cut log."""
    town.publish("A")
    town.net.advance(10)
    neighbour, begins = town.neighbour(), town.net.now // 1_000_000
    later = Validity(Instant(begins * 1_000_000), Instant((begins + 900) * 1_000_000))
    town.want(neighbour, validity=later)
    town.publish("B")
    (answer,) = town.fetch(neighbour)
    assert (plates_in([answer]), answer.is_cut) == (["B"], False)
    whole = town.broker.parts.recording.place_at(0)
    assert [one.is_whole for one in town.fetch(neighbour, whole)] == [False]


def test_a_right_that_is_renewed_in_time_goes_on_and_one_that_was_away_begins_again(town: Town) -> None:
    """A121: renewing a right is no loss, and what was recorded in a pause between two rights stays shut."""
    now = town.net.now // 1_000_000

    def held(first: int, last: int) -> Validity:
        return Validity(Instant((now + first) * 1_000_000), Instant((now + last) * 1_000_000))

    neighbour = town.neighbour()
    town.want(neighbour, validity=held(-60, 10))
    town.publish("A")
    assert plates_in(town.fetch(neighbour)) == ["A"]
    town.net.advance(9)
    town.want(neighbour, validity=held(8, 20))
    assert plates_in(town.fetch(neighbour)) == ["A"]
    town.net.advance(15)
    town.publish("B")
    town.net.advance(10)
    town.want(neighbour, validity=held(30, 900))
    town.publish("C")
    assert plates_in(town.fetch(neighbour)) == ["C"]


def test_what_arrives_meanwhile_is_bounded_and_recorded_behind_what_was_missed(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A109: a neighbour that does not answer makes the broker keep little, and nothing is out of order."""
    monkeypatch.setattr(catch_up, "HELD_BYTES_MAX", 1200)
    source = town.neighbour()
    asked = town.offer(source)
    for number in range(2, 12):
        source.say_bytes(town.frame(number))
    assert not town.recorded()
    assert town.broker.counts["maia_catch_up_overflows_total"] > 0
    town.answer(source, asked, 0, 1)
    town.answer(source, source.last(FetchLog), *range(12), upto=10, end=10)
    assert town.recorded() == list(range(12))


def test_a_neighbour_without_interest_is_sent_nothing(town: Town) -> None:
    """A109, A67: the right to connect is no right to a log."""
    town.publish("A", "B")
    stranger = town.neighbour()
    assert town.fetch(stranger) == []


def test_a_neighbour_is_sent_what_its_interest_admits(town: Town) -> None:
    """A109: rows outside of a proved filter stay where they are, and the answer says that it is cut."""
    town.publish("A", "B", "A")
    neighbour = town.neighbour()
    only = Comparison(NUMBERPLATE, Operator.EQ, "A")
    town.want(neighbour, wanted=only, restriction=only)
    answers = town.fetch(neighbour)
    assert plates_in(answers) == ["A", "A"]
    assert [one.is_cut for one in answers] == [True]


def test_a_right_that_has_ended_opens_no_log(town: Town) -> None:
    """A109, A36: what was recorded while a right held is not sent once it has ended."""
    town.publish("A")
    neighbour, now = town.neighbour(), town.net.now // 1_000_000
    ends = Validity(Instant((now - 60) * 1_000_000), Instant((now + 30) * 1_000_000))
    town.want(neighbour, validity=ends)
    assert plates_in(town.fetch(neighbour)) == ["A"]
    town.net.advance(40)
    assert plates_in(town.fetch(neighbour)) == []


def test_a_place_and_the_runs_that_are_known_are_respected_and_long_ago_is_too_long() -> None:
    """A109: nothing is sent twice, and nothing that is older than the operator allows."""
    town = Town(limits=BrokerLimits(catch_up_s=100))
    town.publish("A", "B", "C")
    neighbour = town.neighbour()
    town.want(neighbour)
    (answer,) = town.fetch(neighbour)
    assert plates_in([answer]) == ["A", "B", "C"]
    behind = LogPlace(answer.place.broker, answer.place.log, 2)
    assert plates_in(town.fetch(neighbour, behind)) == ["C"]
    first = decode(answer.frames[0])
    run = RecordedRun(first.publisher, first.stream, b"", 0, 1)
    assert plates_in(town.fetch(neighbour, runs=[run])) == ["C"]
    around = [RecordedRun(first.publisher, first.stream, b"", number, number) for number in (0, 2)]
    assert plates_in(town.fetch(neighbour, runs=around)) == ["B"], (
        "of a stream with a hole, what is around it"
    )
    assert plates_in(town.fetch(neighbour, LogPlace(answer.place.broker, b"o" * 16, 2))) == ["A", "B", "C"]
    for _ in range(4):
        town.net.advance(50)
        town.want(neighbour)
    (answer,) = town.fetch(neighbour, behind)
    assert (plates_in([answer]), answer.is_whole) == ([], False)


def test_who_catches_up_is_not_taken_for_one_that_causes_too_much_work(town: Town) -> None:
    """What was missed is sent as fast as it is read: a link not read seems to be gone."""
    for _ in range(60):
        town.publish("x" * 20_000)
    neighbour = town.neighbour()
    town.want(neighbour)
    for _ in range(30):
        assert town.fetch(neighbour)
    assert "maia_links_slowed_total" not in town.broker.counts


def test_requests_without_end_cost_little_room(town: Town) -> None:
    """A109, A89: of one neighbour, so many requests are under way and no more."""
    town.publish("A")
    neighbour, other = town.neighbour(), town.neighbour()
    town.only_offer(other)  # it never answers
    town.want(neighbour)
    for number in range(1, 1200):
        neighbour.say(FetchLog(number.to_bytes(16), town.type_id, 0, [], []))
    state = town.broker.parts
    assert len(state.log_requests) <= 1100
    assert town.broker.counts["maia_catch_up_dropped_total"] > 0
    town.net.advance(70)
    assert len(state.log_requests) <= 2


@pytest.mark.parametrize("is_forged", [False, True])
def test_a_sealed_frame_is_fetched_as_it_travelled_and_a_forged_one_is_refused(is_forged: bool) -> None:
    """A109, A90: whoever passes an answer on changes no byte of it unnoticed."""
    net = SealedNet(SealingLevel.ATTRIBUTE)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    for name, seeds in (("CCS broker", []), ("Met broker", ["CCS broker"])):
        net.hold(net.broker(name, seeds=seeds, recording=RECORDING), *EVERY_KEY)
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    net.crash("Met broker")
    camera.publish(1, sighting("AE05 XYZ"))
    if is_forged:
        net.tamper = _forged
    net.hold(net.restart("Met broker"), *EVERY_KEY)
    net.advance(5)
    published, fetched = ([one.data for one in net.log(name).safe] for name in ("CCS broker", "Met broker"))
    assert len(published) == 2
    assert fetched == (published[:1] if is_forged else published)
    assert bool(net.brokers["Met broker"].counts.get("maia_frames_refused_total")) is is_forged


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_reader_signed_and_a_log_fetched_uses_up_no_number_of_a_publisher(restarts: bool) -> None:
    """A109, A66, A85: publications count whoever of those entitled signed them; a reader is none of them."""
    net = SealedNet(SealingLevel.ATTRIBUTE)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    net.entitle("a reader's broker", READ)
    for name, seeds in (("CCS broker", []), ("Met broker", ["CCS broker"])):
        net.hold(net.broker(name, seeds=seeds, recording=RECORDING), *EVERY_KEY)
    camera, reader = camera_and_reader(net)
    reader.durable()
    camera.publish(1, sighting("one"))
    net.crash("Met broker")
    camera.publish(1, sighting("two"))
    ring, frame = net.ring(*EVERY_KEY), frame_of([sighting("forged")], NUMBERPLATE_KINDS)
    keys = EpochKeys(net.type_id, 1, lambda uid: ring.key(GroupId(net.type_id, uid), 1))
    sealer = Sealer(net.cast.identity("a reader's broker")[0], random=random_from(b"r"), process_id=lambda: 1)
    about = [Publication(camera.principal, camera.stream, number, int(net.now), 1) for number in range(2, 6)]
    forged = [encode(seal_one(sealer, one, frame, keys, SealingLevel.ATTRIBUTE)) for one in about]

    def add(message: object) -> object:
        is_answer = isinstance(message, LogFetched) and message.frames
        return replace(message, frames=[*message.frames, *forged]) if is_answer else message

    net.tamper = add
    net.hold(net.restart("Met broker"), *EVERY_KEY)
    net.advance(5)
    net.tamper = None
    assert len(net.log("Met broker").safe) == 6, "what is on record is for readers to judge"
    if restarts:
        net.hold(net.restart("Met broker"), *EVERY_KEY)
        net.advance(5)
    reader = net.client("CCS", "Met broker")
    reader.durable()
    camera.publish(1, sighting("three"))
    camera.publish(1, sighting("four"))
    assert [one[NUMBERPLATE] for one in reader.logged_events()] == ["one", "two", "three", "four"]


@pytest.mark.parametrize("first", [1_000_000, 2])
def test_what_a_reader_signed_neither_makes_a_hole_nor_hides_one(first: int) -> None:
    """A121, A85: a number of its own choice is no million missing ones, and not one that is withheld."""
    net = SealedNet(SealingLevel.ATTRIBUTE)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    net.entitle("a reader's broker", READ)
    for name, seeds in (("CCS broker", []), ("Met broker", ["CCS broker"])):
        key, credentials = net.cast.identity(name)
        own = net.cast.right(key.principal, Action.SUBSCRIBE)
        net.hold(
            net.broker(name, credentials=(*credentials, own), seeds=seeds, recording=RECORDING), *EVERY_KEY
        )
    camera, reader = camera_and_reader(net)
    reader.durable()
    for plate in ("one", "two"):
        camera.publish(1, sighting(plate))
    net.crash("Met broker")
    for plate in ("three", "four"):
        camera.publish(1, sighting(plate))
    ring, frame = net.ring(*EVERY_KEY), frame_of([sighting("forged")], NUMBERPLATE_KINDS)
    keys = EpochKeys(net.type_id, 1, lambda uid: ring.key(GroupId(net.type_id, uid), 1))
    sealer = Sealer(net.cast.identity("a reader's broker")[0], random=random_from(b"r"), process_id=lambda: 1)
    about = Publication(camera.principal, camera.stream, first, int(net.now), 1)
    forged = encode(seal_one(sealer, about, frame, keys, SealingLevel.ATTRIBUTE))

    def withhold(message: object) -> object:
        if not isinstance(message, LogFetched) or not message.frames:
            return message
        return replace(message, frames=[*message.frames[1:], forged])

    net.tamper = withhold
    net.hold(net.restart("Met broker"), *EVERY_KEY)
    net.advance(1)
    assert len(net.log("Met broker").safe) == 4, "what is on record is for readers to judge"
    assert net.brokers["Met broker"].parts.recording.status()["missing_events"] == 1
    net.tamper = None
    net.advance(70)
    assert net.brokers["Met broker"].parts.recording.status()["missing_events"] == 0
    assert len(net.log("Met broker").safe) == 5


def _forged(message: object) -> object:
    if not isinstance(message, LogFetched) or not message.frames:
        return message
    frames = [encode(replace(decode(one), published_at=1)) for one in message.frames]
    return replace(message, frames=frames)
