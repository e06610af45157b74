"""A stock ticker: who has paid for which flow, and what does a customer see? (Dissertation, 1.2.1.)

The exchange publishes every trade, in flows of shares, commodities and
derivatives, and sells the flows to brokerages for a period paid in advance:
a grant that ends with the contract. A brokerage passes on what it has to
customers, by a policy of its own, while their accounts are open. Accounts open and
close all the time; the exchange has nothing to do with that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from maia.demo.world import Database, Happening, Made, Story, StoryReader, on_staff
from maia.events import SECOND, Instant
from maia.organisation import Organisation

if TYPE_CHECKING:
    from maia.demo.stage import Stage

_ROWS: Final = 400
"""How many generated trades there are; half of them before an account closes."""
_SEED: Final = 2003
_DAY: Final = 86_400 * SECOND

_SETUP: Final = """\
org new exchange
org new ashdown
org new brook
type define StockTicker time:timestamp flow:string stock:string shares:int price:float seller:string \\
    buyer:string --org exchange
type define Surveillance time:timestamp stock:string shares:int price:float seller:string buyer:string \\
    reason:string --org exchange
grant ashdown/ashdown.pub --org exchange --may subscribe:StockTicker --days 30 --delegable -o ashdown.grant \\
    --where 'flow in ("shares", "derivatives")'
grant brook/brook.pub --org exchange --may subscribe:StockTicker --days 30 --delegable -o brook.grant \\
    --where 'flow == "shares"' --only time,flow,stock,shares,price
network join ashdown.grant --org ashdown
network join brook.grant --org brook
member add floor --org exchange --may publish:StockTicker
member add database --org exchange --may subscribe:StockTicker --may publish:Surveillance
member add investigator --org exchange
member add alice --org ashdown
member add bob --org ashdown
member add dealers --org ashdown
member add carol --org brook
"""
_LOGINS: Final = (
    on_staff("exchange", {"investigator": "investigates HOLDER 'merger talks'"})
    + on_staff(
        "ashdown",
        {
            "alice": "account HOLDER premium",
            "bob": "account HOLDER basic",
            "dealers": "dealer HOLDER Ashdown",
        },
    )
    + on_staff("brook", {"carol": "account HOLDER"})
)

_ASHDOWN: Final = """\
policy "Ashdown, stockbrokers"

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
    may subscribe StockTicker(time, flow, stock, shares, price)

# A basic customer has shares, by the minute and to the pound.
grant basic
    may subscribe StockTicker(time, flow, stock, price)
    where flow == "shares"
    set time := truncate(time, "minute")
    set price := round_to(price, 1.0)

# The firm's own dealers see who traded with them.
grant dealing_desk(f)
    may subscribe StockTicker(*)
    where seller == $f or buyer == $f
end
"""
_BROOK: Final = """\
policy "Brook, stockbrokers"

fact account(who: principal)

role customer

rule customer
    while account(holder)
    for 1 days

# The policy grants every flow; the firm has paid for shares, so that is what its customers get.
grant customer
    may subscribe StockTicker(*)
end
"""


_EXCHANGE: Final = """\
policy "Stock exchange"

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


def _surveilled(event: Happening, watched: Collection[tuple[str, str]]) -> Made:
    """Say what the query has to make of a trade."""
    shown = {name: value for name, value in event.items() if name != "flow"}
    return [
        ("Surveillance", {**shown, "reason": reason}) for stock, reason in watched if stock == event["stock"]
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


def _trades_are_made(stage: Stage) -> None:
    stage.publish("floor", "StockTicker", _SHOWN, is_close_up=True)
    stage.say("three trades: shares, a derivative, a commodity")
    delivered = stage.publish("floor", "StockTicker", _generated()[: _ROWS // 2])
    stage.say(f"{_ROWS // 2} more trades of the morning: {delivered:,} deliveries")


def _some_ask_for_more(stage: Stage) -> None:
    carol, bob = stage.client("carol"), stage.client("bob")
    ashdown = Organisation("ashdown").addresses["server"]
    login = f"login --as carol --server {ashdown} --domain ashdown/ashdown.pub --wallet other-wallet"
    stage.attempt("Carol logs in at Ashdown, where she has no account", stage.maia, login)
    stage.attempt("Carol asks who bought", carol.subscribe, "StockTicker", 'buyer == "Ashdown"')
    stage.attempt("Bob asks who sold", bob.subscribe, "StockTicker", 'seller == "Calder"')
    stage.attempt("Bob publishes a trade", bob.advertise, "StockTicker")


def _an_account_is_closed(stage: Stage) -> None:
    stage.maia("domain fact retract account ashdown/bob.maia/bob.pub basic --as ashdown")
    stage.say(f"Bob closes his account at Ashdown; his subscription ends with {stage.end_of('Bob')}")
    delivered = stage.publish("floor", "StockTicker", _generated()[_ROWS // 2 :])
    stage.say(f"{_ROWS // 2} trades of the afternoon: {delivered:,} deliveries, none to Bob")


def _flows_are_separate(stage: Stage) -> None:
    """Check what each customer received for flows that were not paid for, and for what Bob was not to see."""
    both = {"shares", "derivatives"}
    for who, flows in {"Alice": both, "Bob": {"shares"}, "dealing desk": both, "Carol": {"shares"}}.items():
        seen = stage.inboxes[who].values()
        stage.expect(f"{who} sees the flows {', '.join(sorted(flows))}", seen["flow"], flows)
        if who != "dealing desk":
            stage.expect(f"{who} does not see who traded", seen["seller"] | seen["buyer"], set())
    stage.check_stored()


STORY: Final = Story(
    name="ticker",
    before="""\
A stock exchange publishes every trade: time, flow, stock, shares, price, seller and
buyer. It sells flows to brokerages, and brokerages sell them on to customers.
  Ashdown  has paid for shares and derivatives; Brook for shares, without names
  Alice    is a premium customer of Ashdown: all it has, at once, to the cent
  Bob      is a basic customer of Ashdown: shares, by the minute, to the pound
  the dealing desk of Ashdown sees the firm's own trades with the other side
  Carol    is a customer of Brook, whose policy grants more than it has paid for
  the investigator gets the trades of one watched stock, released
           by the exchange's PostgreSQL database with the commit that stores them
""",
    setup=_SETUP,
    policies={"exchange": _EXCHANGE, "ashdown": _ASHDOWN, "brook": _BROOK},
    logins=_LOGINS,
    readers=(
        StoryReader("Alice", "alice", "StockTicker", "two flows, exact", application="ticker"),
        StoryReader("Bob", "bob", "StockTicker", "shares, coarse"),
        StoryReader("dealing desk", "dealers", "StockTicker", "trades of the firm"),
        StoryReader("investigator", "investigator", "Surveillance", "trades of one watched stock"),
        StoryReader("Carol", "carol", "StockTicker", "shares, exact", application="ticker"),
    ),
    probes=lambda number: [
        ("floor", "StockTicker", {**_SHOWN[0], "time": Instant(number * _DAY)})
    ],
    acts=(_trades_are_made, _some_ask_for_more, _an_account_is_closed, _flows_are_separate),
    database=Database(
        "exchange database", "exchange", "StockTicker", {"Surveillance": _SURVEILLANCE}, "watched",
        ("stock", "reason"), _WATCHED, _surveilled,
    ),
)  # fmt: skip
