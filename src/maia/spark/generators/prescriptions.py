"""What do a hospital's doctors prescribe, at any size?

The Prescribe event of OASIS'08 (section 7.2) as a hospital keeps it: with the
patient's reference, which an auditor sees in place of the patient, and whether the
doctor treats that patient. Doctors prefer some drugs and have habits of dose; some
prescribe too much now and then, and some for patients of others.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from maia.events import Kind
from maia.spark.generators.generator import (
    DAY_US,
    Bits,
    Generator,
    Numbers,
    Rhythm,
    bell,
    chance,
    cut,
    moments,
    named,
)

DRUGS: Final = (
    ("morphine", "A", 10.0),
    ("fentanyl", "A", 0.4),
    ("methadone", "A", 30.0),
    ("codeine", "B", 30.0),
    ("ketamine", "B", 40.0),
    ("diazepam", "C", 5.0),
    ("ibuprofen", "none", 400.0),
    ("amoxicillin", "none", 500.0),
)
"""Name, class, and the usual dose in milligrams."""

_CLINIC: Final = Rhythm((2, 2, 1, 1, 1, 2, 6, 18, 40, 48, 46, 38, 26, 30, 40, 42, 34, 20, 12, 9, 7, 5, 4, 3))
_DOCTORS: Final = 200
_PATIENTS: Final = 1 << 14
_EXCESS: Final = 6.0
"""A dose that is too high is so many times the usual one."""
_USUAL: Final = np.array([dose for _, _, dose in DRUGS], np.float64)


def _made(numbers: Numbers, seed: int, per_day: int) -> tuple[Any, ...]:
    # Any: pyarrow is not typed.
    bits, what = chance(numbers, seed=seed, purpose=1), chance(numbers, seed=seed, purpose=2)
    # A product of two chances is small more often than not: some doctors write most of the prescriptions.
    doctor = (cut(bits, 0, 16) * cut(bits, 16, 16) >> 16) * _DOCTORS >> 16
    patient = cut(bits, 32, 14)
    # A doctor has a favourite drug, which is half of what he prescribes.
    favourite = cut(chance(doctor, seed=seed, purpose=6), 0, 3)
    drug = np.where(cut(what, 0, 1) == 0, favourite, cut(what, 1, 3))
    habit = 0.75 + cut(chance(doctor * len(DRUGS) + drug, seed=seed, purpose=3), 0, 6) / 128.0
    is_too_much = (cut(what, 32, 5) == 0) & (doctor % 10 == 0)
    dose = _USUAL[drug] * habit * np.maximum(1.0 + 0.15 * bell(chance(numbers, seed=seed, purpose=4)), 0.3)
    dose = np.where(is_too_much, dose * _EXCESS, dose)
    # Of one doctor in five, one prescription in 64 is for a patient of another doctor.
    is_treated = (cut(what, 40, 6) != 0) | (doctor % 5 != 0)
    return (
        moments(_since_start(numbers, bits, per_day)),
        named(doctor, tuple(f"Dr {number + 1:03}" for number in range(_DOCTORS))),
        named(patient, tuple(f"patient {number + 1:05}" for number in range(_PATIENTS))),
        _references(chance(patient, seed=seed, purpose=5)),
        named(drug, tuple(name for name, _, _ in DRUGS)),
        named(drug, tuple(each for _, each, _ in DRUGS)),
        pa.array(np.floor(dose * 100.0 + 0.5) / 100.0),
        pa.array(is_treated),
    )


def _since_start(numbers: Numbers, bits: Bits, per_day: int) -> Numbers:
    """Return microseconds since the start; one in 128 is up to an hour late."""
    day, number = numbers // per_day, numbers % per_day
    late = np.where(cut(bits, 46, 7) == 0, cut(bits, 46, 18) * 13_000, 0)
    moment: Numbers = day * DAY_US + _CLINIC.moments(number, per_day=per_day) - late
    return np.maximum(moment, 0)


def _references(bits: Bits) -> Any:
    """Spell references of 16 hexadecimal digits."""
    # Any: pyarrow is not typed.
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    spelt = np.empty((len(bits), 16), np.uint8)
    for place in range(16):
        spelt[:, place] = digits[cut(bits, 4 * place, 4)]
    return pa.array(spelt.view("S16").ravel(), pa.binary()).cast(pa.string())


PRESCRIPTIONS: Final = Generator(
    name="prescriptions",
    about="what a hospital's doctors prescribe: habits of dose, excesses, patients of others",
    columns=(
        ("time", Kind.TIMESTAMP),
        ("prescriber", Kind.STRING),
        ("patient", Kind.STRING),
        ("reference", Kind.STRING),
        ("drug", Kind.STRING),
        ("drug_class", Kind.STRING),
        ("dose", Kind.FLOAT),
        ("treated", Kind.BOOL),
    ),
    make=_made,
)
