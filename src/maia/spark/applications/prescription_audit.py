"""Which controlled drugs did each doctor authorise, day by day, and is anything unusual in it?

The auditor asks (OASIS'08, section 7.2), who sees controlled drugs without
patients: a reference stands for each, and a flag says whether the doctor treats
that patient. A dose is unusual if it is several times the mean of the other
doses of this drug by this doctor in the same four weeks. Sums are exact
decimals, so that they do not depend on the order in which events come.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput
from maia.events import Kind
from maia.spark.applications.application import Application

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DOSE: Final = "decimal(14,4)"
_SUM: Final = "decimal(24,4)"
_TIMES_MAX: Final = 1000.0


@dataclass(frozen=True, slots=True)
class PrescriptionTerms:
    """Which classes are controlled, what is unusual, and how late an event may be."""

    classes: tuple[str, ...] = ("A", "B")
    history_days: int = 28
    times: float = 3.0
    """A dose of more than so many times the mean of the others is unusual."""
    others_min: int = 5
    """With fewer others there is no history to compare with."""
    late_days: int = 2

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.history_days < 1 or self.others_min < 1 or self.late_days < 0:
            raise BadInput(
                "INPUT-PIPELINE-TERM",
                "a history has a day and another dose at least, and a delay is not negative",
            )
        if not 0.0 < self.times <= _TIMES_MAX or not self.classes:
            raise BadInput(
                "INPUT-PIPELINE-TERM",
                "a class is named, and a dose is compared with some times the mean, 1000 at most",
            )


def prescription_audit(events: DataFrame, terms: PrescriptionTerms) -> DataFrame:
    """Return for each doctor, drug and day: prescriptions, patients, milligrams, untreated, unusual."""
    controlled = events.where(F.col("drug_class").isin(list(terms.classes))).dropna(
        subset=["time", "prescriber", "drug", "dose"]
    )
    one = F.struct(
        "time", F.col("dose").cast(_DOSE).alias("dose"), "reference", F.col("treated").alias("treated")
    )
    histories = (
        controlled.withWatermark("time", f"{terms.late_days} days")
        .groupBy("prescriber", "drug", F.window("time", f"{terms.history_days} days").alias("window"))
        # A list, because two equal prescriptions of a day are two: the auditor may see no time of the day.
        .agg(F.collect_list(one).alias("written"))
        .withColumn("total", _sum_of(F.col("written")))
        .withColumn("days", F.array_distinct(F.transform("written", lambda each: F.to_date(each["time"]))))
    )
    by_day = histories.select(
        "prescriber",
        "drug",
        F.col("window.start").alias("since"),
        "written",
        "total",
        F.explode("days").alias("day"),
    ).withColumn("that_day", F.filter("written", lambda each: F.to_date(each["time"]) == F.col("day")))
    return by_day.select(
        "prescriber",
        "drug",
        "since",
        "day",
        F.size("that_day").alias("prescriptions"),
        F.size(F.array_distinct(F.transform("that_day", lambda each: each["reference"]))).alias("patients"),
        _sum_of(F.col("that_day")).cast("double").alias("dose"),
        F.size(F.filter("that_day", lambda each: ~F.coalesce(each["treated"], F.lit(False)))).alias(
            "untreated"
        ),
        F.size(F.filter("that_day", lambda each: _is_unusual(each["dose"], terms))).alias("unusual"),
    )


def _sum_of(prescriptions: Column) -> Column:
    return F.aggregate(
        prescriptions, F.lit(0).cast(_SUM), lambda total, each: (total + each["dose"]).cast(_SUM)
    )


def _is_unusual(dose: Column, terms: PrescriptionTerms) -> Column:
    others = F.size("written") - 1
    times = F.lit(Decimal(str(terms.times))).cast("decimal(8,4)")
    return (others >= terms.others_min) & (dose * others > times * (F.col("total") - dose))


def _totals() -> dict[str, Column]:
    return {
        "prescribers": F.count_distinct("prescriber"),
        "days": F.count_distinct("day"),
        "prescriptions": F.coalesce(F.sum("prescriptions"), F.lit(0)),
        "untreated": F.coalesce(F.sum("untreated"), F.lit(0)),
        "unusual": F.coalesce(F.sum("unusual"), F.lit(0)),
        "most_unusual_prescriber": F.max_by("prescriber", F.struct("unusual", "prescriber")),
    }


PRESCRIPTION_AUDIT: Final = Application(
    name="prescription-audit",
    about="controlled drugs by doctor and day: patients not treated, unusual doses; never a patient",
    reads={
        "time": Kind.TIMESTAMP,
        "prescriber": Kind.STRING,
        "reference": Kind.STRING,
        "drug": Kind.STRING,
        "drug_class": Kind.STRING,
        "dose": Kind.FLOAT,
        "treated": Kind.BOOL,
    },
    never_reads=frozenset({"patient"}),
    keys=("prescriber", "drug", "since"),
    terms=PrescriptionTerms(),
    compute=prescription_audit,
    totals=_totals,
    generator="prescriptions",
)
