"""A108: a function that an operator registered for conditions is slow, fails, lies, floods or is curious."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from maia.config import row_sources
from maia.config.settings import BadConfig
from maia.credentials import UNBOUNDED, Action, Transformation
from maia.events import AttributeUid, PresentValue, Value
from maia.expressions import parse_rule
from maia.keystore.lookup_tables import functions_in, read_lookups, refresh_lookups
from maia.policy.facts import WorldFunction
from maia.testing import key_of
from support.coalition import member, publish
from support.domain_server import RecordedNotes
from support.numberplate import LOCATION, NUMBERPLATE_ATTRIBUTES, Net

MINISTER = "ward of the minister"  # a value of the table; it must be in no log
OWNER = key_of("hospital").principal


class Endpoint:
    """An HTTP endpoint that answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.body, self.status, self.drips = b"[]", 200, False
        self.asked: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("content-length", 0))
                endpoint.asked.append(f"{self.requestline} {self.headers} {self.rfile.read(length)!r}")
                self.send_response(endpoint.status)
                self.end_headers()
                try:
                    for number in range(20_000 if endpoint.drips else 1):
                        self.wfile.write(b" " if endpoint.drips and number else endpoint.body)
                        self.wfile.flush()
                        time.sleep(0.05 if endpoint.drips else 0)
                except OSError:
                    pass

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/sites"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def registered(folder: Path, url: str, clock: Clock) -> tuple[dict, WorldFunction]:
    (folder / "lookups.toml").write_text(f"""
[[lookups]]
name = "site"
of = "client-address"
issuer = "{OWNER}"
key = "string"
value = "string"
source = "http"
url = "{url}"
columns = ["address", "site"]
every_s = 1
stale_s = 30
""")
    tables = read_lookups(folder / "lookups.toml", clock)
    (function,) = functions_in(tables)
    return tables, function


def test_whatever_an_endpoint_does_the_last_good_answer_ages_and_then_nothing_is_known(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sources, "READ_S", 0.4)
    monkeypatch.setattr(row_sources, "BYTES_MAX", 10_000)
    clock, records = Clock(), RecordedNotes()
    tables, function = registered(tmp_path, endpoint.url, clock)

    def ask() -> Value:
        clock.now += 2
        asyncio.run(refresh_lookups(tables, records))
        return function.find("10.1.2.3")

    endpoint.body = json.dumps([{"address": "10.1.2.3", "site": MINISTER}]).encode()
    assert ask() == MINISTER
    for status, body, drips in (
        (500, endpoint.body, False),  # failing
        (302, endpoint.body, False),  # sent elsewhere
        (200, b"[[", False),  # no answer
        (200, endpoint.body, True),  # slow: a byte now and then, and no end
        (200, b"[" + b'{"address": "x", "site": "y"},' * 1000, False),  # flooding
        (
            200,
            json.dumps([[MINISTER, MINISTER], [MINISTER, "other"]]).encode(),
            False,
        ),  # contradicting itself
        (200, json.dumps([["10.1.2.3", [MINISTER]]]).encode(), False),  # another kind
        (200, json.dumps([["10.1.2.3", MINISTER, MINISTER]]).encode(), False),  # another shape
    ):
        endpoint.status, endpoint.body, endpoint.drips = status, body, drips
        assert ask() == MINISTER, "what was read before counts, for the stated time"
    clock.now += 30
    assert ask() is None
    logged = repr(records.notes)
    assert logged.count("UNAVAILABLE-FACT") == 9
    assert MINISTER not in logged, "no value is in a log"
    assert "10.1.2.3" not in logged
    assert not any("10.1.2.3" in one or MINISTER in one for one in endpoint.asked), (
        "it is asked with no value"
    )


@pytest.mark.parametrize("answer", [None, 1, True, "", "street"], ids=repr)
def test_a_function_that_lies_or_knows_nothing_shows_no_more_than_the_policy(
    answer: PresentValue | None,
) -> None:
    """Only the one value of the right kind that the policy names opens the exact place."""
    net = Net()
    owner = net.cast.owner.principal
    of = AttributeUid("client-address")
    function = WorldFunction(owner, AttributeUid("site"), of, lambda _: answer, 5.0)
    net.broker("Met broker", functions=(function,))
    names = {one.name: one for one in NUMBERPLATE_ATTRIBUTES}
    rule = parse_rule('location := first(location, 1) when not world.site == "ward"', names)
    right = net.cast.right(
        key_of("reader"),
        Action.SUBSCRIBE,
        validity=UNBOUNDED,
        transformations=(Transformation(owner, (rule,)),),
    )
    anna = member(net, "anna", "Met broker", Action.PUBLISH)
    reader = net.guest("reader", right, at="Met broker", remote="10.1.2.3")
    reader.subscribe()
    publish(anna, anna.advertise(), "A")
    (event,) = reader.take_events()
    assert event.get(LOCATION) in (None, "S")


def test_a_function_asks_about_nothing_but_what_is_known_when_a_right_is_decided(tmp_path: Path) -> None:
    text = f"""
[[lookups]]
name = "site"
of = "patient"
issuer = "{OWNER}"
key = "string"
value = "string"
source = "file"
path = "x.csv"
columns = ["a", "b"]
"""
    (tmp_path / "lookups.toml").write_text(text)
    with pytest.raises(BadConfig, match="known when a right is decided"):
        read_lookups(tmp_path / "lookups.toml")
