"""What a transformation has made of a value is remembered, within limits, and never changes the answer."""

from __future__ import annotations

from maia.credentials import SigningKey, Transformation
from maia.events import Attribute, AttributeUid, Column, Frame, Kind
from maia.expressions import TransformationKeys, parse_rule
from maia.policy.view import View, Window, see
from maia.predicates import ALWAYS
from maia.views import frame_transformers as module

ISSUER = SigningKey.from_seed(b"i" * 32)
KEYS = TransformationKeys({ISSUER.principal.key: b"k" * 32})
PLATE, SPEED = AttributeUid("1"), AttributeUid("2")


RULES = ("plate := pseudonym(plate)", "speed := round_to(speed, 10)")
NAMES = {"plate": Attribute("plate", PLATE, Kind.STRING), "speed": Attribute("speed", SPEED, Kind.INT)}


def view() -> View:
    step = Transformation(ISSUER.principal, tuple(parse_rule(text, NAMES) for text in RULES))
    return View((Window(ALWAYS, frozenset({PLATE, SPEED}), (step,)),))


def test_more_values_than_there_is_room_for_come_to_what_the_kernel_says(monkeypatch) -> None:
    monkeypatch.setattr(module, "_RESULTS_MAX", 50)
    shown = view()
    through = module.transforming_frames(shown, KEYS)
    for start in (0, 40, 80, 20):
        plates = tuple(None if number % 7 == 0 else f"plate {number}" for number in range(start, start + 60))
        frame = Frame(
            60, {PLATE: Column(Kind.STRING, plates), SPEED: Column(Kind.INT, tuple(range(start, start + 60)))}
        )
        made, _ = through(frame)
        assert made is not None
        expected = [see(shown, event, KEYS) for event in frame.events()]
        found = [{uid: value for uid, value in row.items() if value is not None} for row in made.events()]
        assert found == expected


def test_what_is_remembered_is_bounded_in_number_and_length() -> None:
    results = module._Results(lambda value: value)
    for number in range(3 * module._RESULTS_MAX):
        assert results[number] == number
        assert len(results) <= module._RESULTS_MAX + 2
    long = "x" * (module._LENGTH_MAX + 1)
    assert results[long] == long
    assert long not in results
    assert results[None] is None
