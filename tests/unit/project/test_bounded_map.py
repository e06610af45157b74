"""A bounded map: what is used stays, and of too much the least recently used goes first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maia.bounded_map import BoundedMap


def test_the_least_recently_used_entry_makes_room() -> None:
    known: BoundedMap[str, int] = BoundedMap(2)
    known.put("a", 1)
    known.put("b", 2)
    assert known.use("a") == 1
    known.put("c", 3)
    assert list(known) == ["a", "c"]
    assert known.get("b") is None
    assert "b" not in known


def test_to_ask_for_an_entry_changes_nothing() -> None:
    known: BoundedMap[str, int] = BoundedMap(2)
    known.put("a", 1)
    known.put("b", 2)
    assert known.get("a") == 1
    known.put("c", 3)
    assert list(known) == ["b", "c"]


def test_what_makes_room_is_handed_over_and_what_is_popped_is_not() -> None:
    gone: list[tuple[str, int]] = []
    known: BoundedMap[str, int] = BoundedMap(1, evicted=lambda key, value: gone.append((key, value)))
    known.put("a", 1)
    known.put("a", 2)
    known.put("b", 3)
    assert known.pop("b") == 3
    assert known.pop("b") is None
    assert gone == [("a", 2)]


def test_an_entry_larger_than_the_limit_is_not_held() -> None:
    known: BoundedMap[str, bytes] = BoundedMap(9, bytes_max=4, size_of=lambda _, value: len(value))
    known.put("a", b"1234")
    known.put("b", b"12345")
    assert (len(known), known.bytes) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from(["put", "use", "pop"]), st.integers(0, 6), st.binary(max_size=9))))
def test_the_limits_hold_and_bytes_are_the_sum_of_the_sizes(
    steps: list[tuple[str, int, bytes]],
) -> None:
    known: BoundedMap[int, bytes] = BoundedMap(4, bytes_max=20, size_of=lambda _, value: len(value))
    for act, key, value in steps:
        match act:
            case "put":
                known.put(key, value)
                assert known.get(key) == value
            case "use":
                known.use(key)
            case _:
                known.pop(key)
        assert len(known) <= 4
        assert known.bytes == sum(map(len, known.values())) <= 20
    known.clear()
    assert (len(known), known.bytes) == (0, 0)
