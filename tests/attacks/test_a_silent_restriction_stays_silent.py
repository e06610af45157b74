"""Two worlds differ in events that a subscriber may not see. What it receives is the same, byte by byte."""

from __future__ import annotations

import pytest

from maia.broker import BrokerLimits
from maia.credentials import Action
from maia.predicates import Comparison, Not, Operator
from maia.testing import NetClient, key_of
from maia.wire.messages import AskState, DeliverLogged, Seen
from support.numberplate import NUMBERPLATE, RECORDING, Net, sighting
from support.transcripts import Transcript

WITHHELD = "WITHHELD"
HERE, THERE, BETWEEN = "CCS broker", "Met broker", "third broker"
AUDITOR = "auditor"


class Story:
    """A city in which some sightings are withheld from the auditor, or were never made."""

    def __init__(self, *, withholds: bool, at: str, publisher_at: str) -> None:
        self.net, self.withholds, self.at, self.publisher_at = (
            Net(open_borders=True),
            withholds,
            at,
            publisher_at,
        )
        limits = BrokerLimits(durable_frames_under_way=2)
        for name, seeds in ((HERE, []), (THERE, [HERE]), (BETWEEN, [HERE, THERE])):
            self.net.broker(name, seeds=seeds, recording=RECORDING, limits=limits)
        self.transcript, self.next_sequence = Transcript(), 0
        self.camera = self._camera()
        self.witness = self._witness()

    def _camera(self) -> NetClient:
        camera = self.net.client("camera at Victoria", self.publisher_at)
        camera.next_sequence = self.next_sequence
        camera.advertise(ref=1)
        return camera

    def _witness(self) -> NetClient:
        """Connect another subscriber at the auditor's broker, which gets everything."""
        witness = self.net.client("billing office", self.at)
        witness.subscribe()
        return witness

    def sees(self, *frames: tuple[str, ...]) -> None:
        """Publish frames one after the other; where nothing is withheld, there is nothing to withhold."""
        for frame in frames:
            plates = [plate for plate in frame if self.withholds or plate != WITHHELD]
            if plates:
                self.camera.publish(1, *map(sighting, plates))
        self.net.advance(1)

    def auditor(self) -> NetClient:
        """Connect, subscribe at once and durably, ask for the state, and ask for what will be refused."""
        right = self.net.cast.right(
            key_of(AUDITOR).principal,
            Action.SUBSCRIBE,
            restriction=Not(Comparison(NUMBERPLATE, Operator.EQ, WITHHELD)),
        )
        client = self.net.guest(AUDITOR, right, at=self.at)
        client.durable(ref=1)
        client.subscribe(ref=2)
        client.say(AskState(102, 2))
        client.advertise(ref=3)
        assert client.code_of(3) is not None
        self.net.advance(5)
        return client

    def leaves(self, client: NetClient, *, acknowledges: bool) -> None:
        logged = client.all_heard(DeliverLogged)
        if acknowledges and logged:
            client.say(Seen(1, logged[-1].position))
        if not client.closed:
            client.hang_up()
        self.transcript.add(*client.heard)

    def restart(self) -> None:
        self.next_sequence = self.camera.next_sequence
        self.net.restart(self.at)
        if self.publisher_at == self.at:
            self.camera = self._camera()
        self.witness = self._witness()
        self.net.advance(30)


def played(*, withholds: bool, at: str, publisher_at: str) -> Story:
    story = Story(withholds=withholds, at=at, publisher_at=publisher_at)
    w = (WITHHELD,)
    story.sees(w, ("A0",), w, w)
    first = story.auditor()  # the state: A0, whatever came after it
    story.sees(w, ("A1",), w, ("A2", WITHHELD, "A3"), w)  # at once, and durably
    story.leaves(first, acknowledges=True)
    story.sees(w, (WITHHELD, "B1"), w, w, ("B2",), ("B3", "B4", WITHHELD), w, ("B5",), w)  # while it is away
    second = story.auditor()
    story.leaves(second, acknowledges=False)
    story.restart()
    story.sees(w, ("C1",), w)
    third = story.auditor()
    story.sees(("C2",), w)
    # Acknowledging makes room for more of what was missed.
    for message in third.all_heard(DeliverLogged):
        third.say(Seen(1, message.position))
    story.leaves(third, acknowledges=True)
    story.leaves(story.auditor(), acknowledges=True)
    return story


@pytest.mark.parametrize("at", [HERE, THERE, BETWEEN])
@pytest.mark.parametrize("publisher_at", [HERE, THERE])
def test_what_a_subscriber_receives_does_not_depend_on_what_is_withheld_from_it(at, publisher_at) -> None:
    """A91: live, durable after absence, the state, after a restart, refusals; over one broker or three."""
    with_, without = (played(withholds=one, at=at, publisher_at=publisher_at) for one in (True, False))
    assert with_.transcript.lines == without.transcript.lines
    plates = {event[NUMBERPLATE] for event in with_.witness.events()}
    assert WITHHELD in plates, "nothing was withheld"
    everything = b"".join(with_.transcript.lines)
    unseen = [
        plate for plate in ("A0", "A1", "A3", "B1", "B4", "C1", "C2") if plate.encode() not in everything
    ]
    assert not unseen
    assert WITHHELD.encode() not in everything


def test_labels_and_positions_count_nothing() -> None:
    """A91, A69: they look like random bytes, others for each stream and each cursor."""
    net = Net()
    net.broker(HERE, recording=RECORDING)
    office = net.client("billing office", HERE)
    first, second = office.durable("one"), office.durable("another")
    for name in ("camera at Victoria", "camera at Hyde Park"):
        camera = net.client(name, HERE, key=net.cast.keys["camera at Victoria"])
        camera.advertise(ref=1)
        for _ in range(20):
            camera.publish(1, sighting())
    logged = office.all_heard(DeliverLogged)
    labels, positions = {one.label for one in logged}, {one.position for one in logged}
    assert {one.ref for one in logged} == {first, second}
    assert (len(labels), len(positions)) == (40, 80)
    assert len({one.stream for one in logged}) == 2
    for random in (labels, positions):
        # Of independent random bytes, hardly any two agree in the first or in the last four.
        assert len({one[:4] for one in random}) == len({one[-4:] for one in random}) == len(random)
    numbers = [number.to_bytes(4) for number in range(1, 81)]
    assert not any(number in one for one in labels | positions for number in numbers)
    assert camera.stream not in b"".join(one.stream + one.label for one in logged)
