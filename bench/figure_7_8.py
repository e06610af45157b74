"""Figure 7.8 of the dissertation with our numbers: throughput by number of attributes.

Events in the clear, sealed as a whole, and sealed by attribute; one by one as
in the paper, and in frames of 256. What is counted is the work of publisher,
both brokers and subscriber, in processor time. The paper prints two numbers,
both for attribute level and single events: 46 % of the plaintext throughput
with one attribute, and 11.7 % with ten.
"""

from __future__ import annotations

from maia.types import SealingLevel
from paper_figures import Found, PaperFigure, in_turns, prose, short, table, verdict
from plots import save, subplots
from sealed_path import Proof, Setting, side

PAPER = {1: 0.46, 10: 0.117}
CLEAR, SIGNED = "plaintext", "attribute level, signed"
WAYS: dict[str, tuple[SealingLevel | None, Proof]] = {
    CLEAR: (None, Proof.NONE),
    "event level": (SealingLevel.EVENT, Proof.NONE),
    "attribute level": (SealingLevel.ATTRIBUTE, Proof.NONE),
    SIGNED: (SealingLevel.ATTRIBUTE, Proof.TOGETHER),
}
SINGLE, FRAMES = "single events", "frames of 256"
SHAPES = {SINGLE: (1, 64), FRAMES: (256, 8)}


def measure(quick: bool) -> Found:
    """Return the events a second of every way, by shape and number of attributes."""
    attributes = (1, 10) if quick else (1, 5, 10, 15, 20, 25)
    return {
        shape: {str(number): _point(number, *of, quick) for number in attributes}
        for shape, of in SHAPES.items()
    }


def _point(attributes: int, rows: int, together: int, quick: bool) -> dict[str, int]:
    runs = {
        way: side(Setting(attributes, rows, level, proof, together)) for way, (level, proof) in WAYS.items()
    }
    us = in_turns(runs, rounds=1 if quick else 5, slice_s=0.001 if quick else 0.03)
    return {way: round(rows * together / one * 1e6) for way, one in us.items()}


def draw(found: Found) -> None:
    """Draw throughput on the left and its share of the plaintext throughput on the right."""
    figure, rows = subplots(len(found), 2, size=(9, 7), sharex=True)
    for (shape, points), (left, right) in zip(found.items(), rows, strict=True):
        numbers = [int(number) for number in points]
        for way in WAYS:
            rates = [point[way] for point in points.values()]
            left.plot(numbers, [rate / 1000 for rate in rates], marker="o", markersize=3, label=way)
            shares = [100 * point[way] / point[CLEAR] for point in points.values()]
            right.plot(numbers, shares, marker="o", markersize=3)
        if shape == SINGLE:
            printed = [100 * share for share in PAPER.values()]
            right.plot(list(PAPER), printed, "kx", label="attribute level in the paper")
            for number, share in zip(PAPER, printed, strict=True):
                right.annotate(
                    f"{share:g} %", (number, share), (6, 4), textcoords="offset points", fontsize=8
                )
        left.set_title(f"{shape}: thousand events a second", fontsize=10)
        right.set_title(f"{shape}: share of plaintext, %", fontsize=10)
        left.set_yscale("log")
        right.set_ylim(0, 105)
    rows[0][0].legend(fontsize=8)
    rows[0][1].legend(fontsize=8)
    for axes in rows[-1]:
        axes.set_xlabel("attributes of 30 characters")
    figure.tight_layout()
    save(figure, "figure-7-8")


def describe(found: Found) -> list[str]:
    """Return the share of plaintext throughput that is left, at the paper's two points and at the end."""
    rows: list[list[object]] = []
    for number in found[SINGLE]:
        printed = PAPER.get(int(number))
        shares = [
            found[shape][number][way] / found[shape][number][CLEAR]
            for shape, way in (
                (SINGLE, "event level"),
                (SINGLE, "attribute level"),
                (SINGLE, SIGNED),
                (FRAMES, SIGNED),
            )
        ]
        rows.append(
            [
                number,
                "–" if printed is None else f"{100 * printed:g} %",
                *(f"{100 * one:.0f} %" for one in shares),
            ]
        )
    one_left, ten_left = (
        found[SINGLE][number]["attribute level"] / found[SINGLE][number][CLEAR] for number in ("1", "10")
    )
    head = [
        "attributes",
        "paper, attribute level",
        "event level",
        "attribute level",
        SIGNED,
        "the same in frames of 256",
    ]
    return [
        *table(head, rows),
        *prose(
            "Share of the plaintext throughput that is left; all columns but the last are single events. The",
            "paper's case is *attribute level*, which proves nothing of its publisher.",
            f"{verdict(ten_left < one_left < 1, 'Its claim, that ten attributes leave less than one,')}",
            f"{100 * one_left:.0f} % with one attribute, {100 * ten_left:.0f} % with ten, which is",
            f"{short(ten_left / PAPER[10])} times what is left in the paper: AES is in hardware, and one",
            "cipher serves all attributes that the same readers see.",
        ),
    ]


FIGURES = (
    PaperFigure("figure-7-8", "Figure 7.8: throughput by number of attributes", "MAIA 7.7.1", measure, draw,
                describe),
)  # fmt: skip
