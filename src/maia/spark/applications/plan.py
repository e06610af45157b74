"""What is Spark's plan, without the values that the policy compares with?

`maia pipeline explain` asks. Spark's own plan spells out every literal, and a
restriction's literal may be a suspect's numberplate. So this plan is written
from the operators: what each is, which columns it reads and which it hands
on. Values are never asked for, and a column whose name is not one of the
table's or the result's, which Spark may have made from a value, is not named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["columns_read", "plan_lines"]

_DEPTH_MAX: Final = 200
_UNNAMED: Final = "…"


def plan_lines(frame: DataFrame) -> list[str]:
    """Return the physical plan, the result first, each operator below what it feeds."""
    known = {*frame.columns, *columns_read(frame)}
    return [f"{'  ' * depth}{_described(node, known)}" for depth, node in _nodes(frame)]


def columns_read(frame: DataFrame) -> set[str]:
    """Return the columns that are read from storage, once Spark has pruned."""
    return {name for _, node in _nodes(frame) if node.children().isEmpty() for name in _names(node.output())}


def _nodes(frame: DataFrame) -> Iterator[tuple[int, Any]]:
    # Any: py4j, through which PySpark calls Java, is not typed.
    waiting = [(0, frame._jdf.queryExecution().sparkPlan())]
    while waiting:
        depth, node = waiting.pop()
        if depth > _DEPTH_MAX:
            continue
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(list(_items(node.children())))]


def _described(node: Any, known: set[str]) -> str:
    looks_at, hands_on = _shown(node.references().toSeq(), known), _shown(node.output(), known)
    if node.children().isEmpty():
        return f"{node.nodeName().strip()}: reads {hands_on}"
    return f"{node.nodeName()}: reads {looks_at}; passes on {hands_on}"


def _shown(attributes: Any, known: set[str]) -> str:
    names = dict.fromkeys(name if name in known else _UNNAMED for name in _names(attributes))
    return ", ".join(names) or "nothing"


def _names(attributes: Any) -> list[str]:
    return [attribute.name() for attribute in _items(attributes)]


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(at) for at in range(sequence.size()))
