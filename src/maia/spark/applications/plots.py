"""Which picture shows a result?

`maia pipeline run --plot FILE` asks. Spark makes each picture's data small
first, whatever the size of the result, and only that is brought here. The
same result gives the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput, Unavailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame


FORMS: Final = ("png", "svg", "pdf")
_POINTS_MAX: Final = 20_000
_LINES_MAX: Final = 5
_BARS_MAX: Final = 20

# Any: rows of Spark have columns of any type.
_Rows = Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Picture:
    """How a result is made small, and how that is painted."""

    shrink: Callable[[DataFrame], DataFrame]
    paint: Callable[[Axes, _Rows], None]


def draw(name: str, result: DataFrame, *, form: str) -> bytes:
    """Return a picture of an application's result."""
    if form not in FORMS:
        raise BadInput("INPUT-PLOT", f"pictures are {', '.join(FORMS)}, and `{form[:20]}` is none of them")
    figure = _figure()
    picture = _PICTURES[name]
    axes = figure.add_subplot()
    rows = picture.shrink(result).limit(_POINTS_MAX).collect()
    picture.paint(axes, rows)
    if not rows:
        axes.text(0.5, 0.5, "nothing to show", ha="center", transform=axes.transAxes)
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    buffer = BytesIO()
    figure.savefig(buffer, format=form, dpi=120, metadata=dates[form])
    return buffer.getvalue()


def _figure() -> Figure:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise Unavailable(
            "UNAVAILABLE-PLOTS",
            "pictures need matplotlib, which comes with the extra `plots`: pip install 'maia-pubsub[plots]'",
        ) from missing
    mpl.rcParams["svg.hashsalt"] = "maia"  # the same results give the same file
    return Figure(figsize=(9, 5), layout="constrained")


# ------------------------------------------------------------ billing


def _charges_by_day(charges: DataFrame) -> DataFrame:
    pounds = (F.sum("charge_pence") / 100).alias("pounds")
    return charges.groupBy("day").agg(F.count("*").alias("vehicles"), pounds).orderBy("day")


def _paint_charges(axes: Axes, rows: _Rows) -> None:
    axes.bar([f"{row.day:%a %d %b}" for row in rows], [row.vehicles for row in rows])
    axes.set_ylabel("vehicles charged")
    axes.tick_params("x", rotation=60)
    axes.set_title(f"Congestion charge: £{sum(row.pounds for row in rows):,.0f} in {len(rows)} days")


# ------------------------------------------------------------ statistics


def _traffic_by_hour(counts: DataFrame) -> DataFrame:
    days = F.count_distinct(F.to_date("starts_at"))
    hourly = (F.sum("sightings") / days).alias("sightings")
    return counts.groupBy("location", F.hour("starts_at").alias("hour")).agg(hourly)


def _paint_traffic(axes: Axes, rows: _Rows) -> None:
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        total[row.location] += row.sightings
    cameras = sorted(total, key=lambda camera: -total[camera])
    table = [[0.0] * 24 for _ in cameras]
    for row in rows:
        table[cameras.index(row.location)][row.hour] = row.sightings
    if rows:
        image = axes.imshow(table, aspect="auto", cmap="viridis")
        axes.figure.colorbar(image, ax=axes, label="sightings per hour")
    axes.set_yticks(range(len(cameras)), cameras)
    axes.set_xlabel("hour of the day (UTC)")
    axes.set_title("Traffic by camera and hour; no numberplate was read")


# ------------------------------------------------------------ tracking


def _paint_path(axes: Axes, rows: _Rows) -> None:
    days: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        days[row.day].append(row)
    places = {place: at for at, place in enumerate(sorted({row.location for row in rows}))}
    for day, steps in days.items():
        hours = [step.timestamp.hour + step.timestamp.minute / 60 for step in steps]
        drawn = axes.plot(hours, [places[step.location] for step in steps], ".-", linewidth=0.8)
        if len(days) <= _LINES_MAX * 2:
            drawn[0].set_label(f"{day:%a %d %b}")
    axes.set_yticks(range(len(places)), list(places))
    axes.set_xlabel("hour of the day (UTC)")
    axes.set_title("Path of one vehicle, a line for each day")
    _legend(axes)


# ------------------------------------------------------------ ticker


def _busiest_instruments(prices: DataFrame) -> DataFrame:
    volume = prices.groupBy("stock").agg(F.sum("shares").alias("volume"))
    busiest = volume.orderBy(F.desc("volume"), "stock").limit(_LINES_MAX)
    hour = F.date_trunc("hour", "starts_at").alias("hour")
    hourly = (F.sum(F.col("price") * F.col("shares")) / F.sum("shares")).alias("price")
    return prices.join(busiest, "stock").groupBy("stock", hour).agg(hourly).orderBy("hour", "stock")


def _paint_prices(axes: Axes, rows: _Rows) -> None:
    stocks: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        stocks[row.stock].append(row)
    # Hours are side by side, because between two days of trading there is nothing to see.
    places = {hour: at for at, hour in enumerate(sorted({row.hour for row in rows}))}
    for stock, hours in sorted(stocks.items()):
        compared = [100 * row.price / hours[0].price for row in hours]
        axes.plot([places[row.hour] for row in hours], compared, label=stock)
    marks = [(at, hour) for hour, at in places.items()][:: max(1, len(places) // 10)]
    axes.set_xticks([at for at, _ in marks], [f"{hour:%d %b %H:%M}" for _, hour in marks], rotation=45)
    axes.set_ylabel("volume-weighted price, first hour = 100")
    axes.set_title("The instruments with the largest volume")
    _legend(axes)


# ------------------------------------------------------------ environment


def _noise_by_hour(hours: DataFrame) -> DataFrame:
    hour = F.hour("starts_at").alias("hour")
    return (
        hours.groupBy("district", hour).agg(F.avg("noise_db").alias("noise_db")).orderBy("district", "hour")
    )


def _paint_noise(axes: Axes, rows: _Rows) -> None:
    districts: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        districts[row.district].append(row)
    for district, hours in districts.items():
        axes.plot([row.hour for row in hours], [row.noise_db for row in hours], label=district)
    axes.set_xlabel("hour of the day (UTC)")
    axes.set_ylabel("noise, dB")
    axes.set_title("Noise by district and hour")
    _legend(axes)


# ------------------------------------------------------------ prescription audit


def _busiest_prescribers(days: DataFrame) -> DataFrame:
    names = ("prescriptions", "untreated", "unusual")
    sums = (F.sum(name).alias(name) for name in names)
    suspicious = F.col("untreated") + F.col("unusual")
    return days.groupBy("prescriber").agg(*sums).orderBy(F.desc(suspicious), "prescriber").limit(_BARS_MAX)


def _paint_prescribers(axes: Axes, rows: _Rows) -> None:
    names = [row.prescriber for row in rows]
    untreated = [row.untreated for row in rows]
    axes.bar(names, untreated, label="patient not treated")
    axes.bar(names, [row.unusual for row in rows], bottom=untreated, label="unusual dose")
    axes.set_ylabel("prescriptions of controlled drugs")
    axes.tick_params("x", rotation=60)
    axes.set_title("Prescribers with the most to ask about; no patient was read")
    _legend(axes)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="small", ncols=2)


_PICTURES: Final[Mapping[str, _Picture]] = {
    "billing": _Picture(_charges_by_day, _paint_charges),
    "statistics": _Picture(_traffic_by_hour, _paint_traffic),
    "tracking": _Picture(lambda path: path.orderBy("day", "step"), _paint_path),
    "ticker": _Picture(_busiest_instruments, _paint_prices),
    "environment": _Picture(_noise_by_hour, _paint_noise),
    "prescription-audit": _Picture(_busiest_prescribers, _paint_prescribers),
}
