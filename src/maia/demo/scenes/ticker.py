"""A stock ticker: who has paid for which flow, and what does a customer see? (Dissertation, 1.2.1.)

The exchange publishes every trade, in flows of shares, commodities and
derivatives, and sells the flows to brokerages for a period paid in advance:
a certificate that ends with the contract. A brokerage passes on what it has to
customers, by a policy of its own, while their accounts are open. Accounts open and
close all the time; the exchange has nothing to do with that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from maia.demo.scenes.scene import (
    HOLDER,
    Database,
    Derived,
    Happening,
    Held,
    Organisation,
    Publisher,
    Reader,
    Scene,
    attributes,
)
from maia.events import Instant

if TYPE_CHECKING:
    from maia.demo.scenes.play import Stage


_TRADE, _SURVEILLED = "exchange.StockTicker", "exchange.Surveillance"
_EXCHANGE: Final = "exchange"
_FLOOR: Final = "trading floor"
_ROWS: Final = 400
"""How many generated trades there are; half of them before an account closes."""
_SEED: Final = 2003

_ASHDOWN: Final = """\
policy "Ashdown, stockbrokers"

type Trade = exchange.StockTicker
fact account(who: principal, plan: string)
fact dealer(who: principal, firm: string)

role premium
role basic
role dealing_desk(firm: string)

rule premium
    while account(holder, "premium")
    for 1 days
rule basic
    while account(holder, "basic")
    for 1 days
rule dealing_desk(f)
    while dealer(holder, f)
    for 1 days

# A premium customer has every flow that the firm pays for, at once and to the cent.
grant premium
    may subscribe Trade(time, flow, stock, shares, price)

# A basic customer has shares, by the minute and to the pound.
grant basic
    may subscribe Trade(time, flow, stock, price)
    where flow == "shares"
    set time := truncate(time, "minute")
    set price := round_to(price, 1.0)

# The firm's own dealers see who traded with them.
grant dealing_desk(f)
    may subscribe Trade(*)
    where seller == $f or buyer == $f
end
"""
_BROOK: Final = """\
policy "Brook, stockbrokers"

type Trade = exchange.StockTicker
fact account(who: principal)

role customer

rule customer
    while account(holder)
    for 1 days

# The policy grants every flow; the firm has paid for shares, so that is what its customers get.
grant customer
    may subscribe Trade(*)
end
"""


_REGULATOR: Final = """\
policy "Financial regulator"

type Surveillance = exchange.Surveillance
fact investigates(who: principal, reason: string)

role investigator(reason: string)

rule investigator(r)
    while investigates(holder, r)
    for 1 days

grant investigator(r)
    may subscribe Surveillance(*)
    where reason == $r
end
"""
_WATCHED: Final = frozenset({("MAI", "merger talks"), ("TIN", "strike at the mine")})
_SURVEILLANCE: Final = """\
SELECT a.time, a.stock, a.shares, a.price, a.seller, a.buyer, w.reason
FROM arrived a JOIN watched w ON w.stock = a.stock
ORDER BY a.maia_position, a.maia_row
"""


def _surveilled(event: Happening, watched: Collection[tuple[str, str]]) -> list[tuple[str, Happening]]:
    """Say what the query has to make of a trade."""
    shown = {name: value for name, value in event.items() if name != "flow"}
    return [
        (_SURVEILLED, {**shown, "reason": reason}) for stock, reason in watched if stock == event["stock"]
    ]


def _trade(flow: str, stock: str, price: float, seller: str, buyer: str) -> Happening:
    return {
        "time": Instant.parse("2026-11-02T10:31:47Z"),
        "flow": flow,
        "stock": stock,
        "shares": 250,
        "price": price,
        "seller": seller,
        "buyer": buyer,
    }


_SHOWN: Final = (
    _trade("shares", "MAI", 182.37, "Brook", "Ashdown"),
    _trade("derivatives", "FTX", 7411.5, "Calder", "Holt"),
    _trade("commodities", "TIN", 64.02, "Ashdown", "Elm Street"),
)


def _generated() -> list[Happening]:
    from maia.spark.generators import TRADES

    rows = TRADES.rows(rows=_ROWS, seed=_SEED, per_day=_ROWS).to_pylist()
    return [{**row, "time": Instant.from_datetime(row["time"])} for row in rows]


async def _trades_are_made(stage: Stage) -> None:
    await stage.publish(_FLOOR, _SHOWN, is_close_up=True)
    stage.say("three trades: shares, a derivative, a commodity")
    delivered = await stage.publish(_FLOOR, _generated()[: _ROWS // 2])
    stage.say(f"{_ROWS // 2} more trades of the morning: {delivered:,} deliveries")


async def _some_ask_for_more(stage: Stage) -> None:
    definition = stage.world.cast.definitions[_TRADE]
    carol, bob = stage.clients["Carol"], stage.clients["Bob"]
    at_ashdown = replace(stage.scene.reader("Carol"), organisation="Ashdown")
    await stage.attempt(
        "Carol logs in at Ashdown, where she has no account",
        asyncio.to_thread(stage.world.log_in, at_ashdown),
    )
    await stage.attempt("Carol asks who bought", carol.subscribe(definition, 'buyer == "Ashdown"'))
    await stage.attempt("Bob asks who sold", bob.subscribe(definition, 'seller == "Calder"'))
    await stage.attempt("Bob publishes a trade", bob.advertise(definition))


async def _an_account_is_closed(stage: Stage) -> None:
    await stage.retract("Bob", "account", HOLDER, "basic")
    code = await stage.ending_of("Bob")
    if code is None:
        stage.broken.append("Bob's account was closed, and his subscription goes on")
    stage.say(f"Bob closes his account at Ashdown; his subscription ends with {code}")
    delivered = await stage.publish(_FLOOR, _generated()[_ROWS // 2 :])
    stage.say(f"{_ROWS // 2} trades of the afternoon: {delivered:,} deliveries, none to Bob")


async def _flows_are_separate(stage: Stage) -> None:
    """Check what each customer received for flows that were not paid for, and for what Bob was not to see."""
    both = {"shares", "derivatives"}
    paid = {"Alice": both, "Bob": {"shares"}, "dealing desk": both, "Carol": {"shares"}}
    for who, flows in paid.items():
        seen = stage.values_seen(who)
        if seen["flow"] != flows:
            stage.broken.append(f"{who} saw other flows than {', '.join(sorted(flows))}")
        if who != "dealing desk" and (seen["seller"] or seen["buyer"]):
            stage.broken.append(f"{who} saw who traded")
    await stage.check_stored()


def _customer(name: str, firm: str, fact: tuple[str, ...], sees: str, application: str | None) -> Reader:
    return Reader(
        name, firm, f"{firm} broker", ((fact[0], (HOLDER, *fact[1:])),), _TRADE, sees, application=application
    )


TICKER: Final = Scene(
    name="ticker",
    before="""\
A stock exchange publishes every trade: time, flow, stock, shares, price, seller and
buyer. It sells flows to brokerages, and brokerages sell them on to customers.
  Ashdown  has paid for shares and derivatives; Brook for shares, without names
  Alice    is a premium customer of Ashdown: all it has, at once, to the cent
  Bob      is a basic customer of Ashdown: shares, by the minute, to the pound
  the dealing desk of Ashdown sees the firm's own trades with the other side
  Carol    is a customer of Brook, whose policy grants more than it has paid for
  the investigator of the regulator gets the trades of one watched stock, released
           by the exchange's PostgreSQL database with the commit that stores them
""",
    network="Exchange",
    owner=_EXCHANGE,
    types={
        _TRADE: attributes(
            "time:timestamp flow:string stock:string shares:int price:float seller:string buyer:string"
        ),
        _SURVEILLED: attributes(
            "time:timestamp stock:string shares:int price:float seller:string buyer:string reason:string"
        ),
    },
    brokers=("exchange broker", "Ashdown broker", "Brook broker"),
    organisations=(
        Organisation(
            "Ashdown", "Ashdown broker", _ASHDOWN, (Held(_TRADE, where='flow in ("shares", "derivatives")'),)
        ),
        Organisation(
            "Brook",
            "Brook broker",
            _BROOK,
            (
                Held(
                    _TRADE, where='flow == "shares"', attributes=("time", "flow", "stock", "shares", "price")
                ),
            ),
        ),
        Organisation("regulator", "exchange broker", _REGULATOR, (Held(_SURVEILLED),)),
    ),
    database=Database(
        "exchange database",
        "exchange broker",
        _TRADE,
        (Derived(_SURVEILLED, _SURVEILLANCE),),
        "watched",
        ("stock", "reason"),
        _WATCHED,
        _surveilled,
    ),
    publishers=(Publisher(_FLOOR, "exchange broker", _TRADE),),
    readers=(
        _customer("Alice", "Ashdown", ("account", "premium"), "two flows, exact", "ticker"),
        _customer("Bob", "Ashdown", ("account", "basic"), "shares, coarse", None),
        _customer("dealing desk", "Ashdown", ("dealer", "Ashdown"), "trades of the firm", None),
        Reader(
            "investigator",
            "regulator",
            "exchange broker",
            (("investigates", (HOLDER, "merger talks")),),
            _SURVEILLED,
            "trades of one watched stock",
        ),
        _customer("Carol", "Brook", ("account",), "shares, exact", "ticker"),
    ),
    probes=((_FLOOR, _trade("shares", "MAI", 1.0, "Ashdown", "Brook")),),
    acts=(_trades_are_made, _some_ask_for_more, _an_account_is_closed, _flows_are_separate),
)
