"""Topics on the command line: what is declared, what is granted, and what is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.cli import main
from maia.cli.participate.subscribe import _payload_text


@pytest.fixture
def maia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run commands in a folder with the keys of a city and a reader, and the topics below /news."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAIA_PASSPHRASE", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    for who in ("city", "reader"):
        assert run("key", "new", f"{who}.key")[0] == 0
    assert run("topic", "declare", "/news", "-k", "city.key", "-o", "news.type")[0] == 0
    return run


def attributes(run, *words: str) -> list[tuple[str, str]]:
    status, out, err = run("topic", "declare", *words, "-k", "city.key", "-o", "t.type", "--json", "--force")
    assert status == 0, err
    return [(one["name"], one["kind"]) for one in json.loads(out)["attributes"]]


def test_plain_topics_have_a_payload_and_texts(maia):
    plain = [("topic", "string"), ("payload", "bytes"), ("content_type", "string")]
    assert attributes(maia, "/news") == plain
    assert attributes(maia, "/news", "--text", "headline") == [*plain, ("headline", "string")]


def test_typed_topics_have_the_attributes_that_are_given_or_of_a_definition(maia):
    assert attributes(maia, "/prices", "-a", "price:float") == [("topic", "string"), ("price", "float")]
    defined = ("type", "define", "-k", "city.key", "--name", "city.Car", "-a", "plate:string", "-o", "c.type")
    assert maia(*defined)[0] == 0
    assert attributes(maia, "/cars", "--like", "c.type") == [("topic", "string"), ("plate", "string")]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["/admin"], "INPUT-NAME"),
        (["/"], "INPUT-TOPIC-PATTERN"),
        (["news"], "INPUT-TOPIC-PATTERN"),
        (["/+"], "INPUT-NAME"),
        (["/news/uk"], "INPUT-TOPIC-DECLARATION"),
        (["/news", "--text", "a", "-a", "b:int"], "INPUT-TOPIC-DECLARATION"),
    ],
)
def test_what_is_no_tree_is_not_declared(maia, words, code):
    status, _, err = maia("topic", "declare", *words, "-k", "city.key", "-o", "bad.type", "--json")
    assert (status, json.loads(err)["error"]["code"]) == (2, code)


def issued(run, *words: str) -> dict[str, object]:
    issue = ("cert", "issue", "-k", "city.key", "--subject", "reader.pub", "--days", "1", "--force")
    status, out, err = run(*issue, "-d", "news.type", "-o", "r.cert", "--json", *words)
    return json.loads(out)["grants"] if status == 0 else json.loads(err)["error"]


def test_a_certificate_to_subscribe_includes_the_topics_below(maia):
    grants = issued(maia, "--topic", "/news/uk", "--action", "subscribe")
    assert grants["where"] == 'levels(topic, "/news/uk/#")'
    assert grants["resource"].endswith("topic.news, *]")


def test_a_certificate_to_publish_is_for_the_topics_it_names(maia):
    grants = issued(maia, "--topic", "/news", "--topic", "/news/+/sport", "--action", "publish")
    assert grants["where"] == 'levels(topic, "/news") or levels(topic, "/news/+/sport")'


def test_a_restriction_and_attributes_come_beside_the_topics(maia):
    words = ("--where", 'content_type == "text/plain"', "--attribute", "payload")
    grants = issued(maia, "--topic", "/news/#", "--action", "subscribe", *words)
    assert grants["where"] == 'levels(topic, "/news/#") and content-type == "text/plain"'
    assert sorted(grants["attributes"]) == ["payload", "topic"]


@pytest.mark.parametrize(
    "words",
    [
        ["--topic", "/news/uk", "--action", "subscribe", "--action", "publish"],
        ["--topic", "/news", "--topic", "/prices", "--action", "subscribe"],
        ["--topic", "/prices", "--action", "subscribe"],
        ["--topic", "/news", "--network", "City", "--action", "subscribe"],
    ],
)
def test_a_grant_that_is_not_clear_is_refused(maia, words):
    assert issued(maia, *words)["code"] == "INPUT-GRANT"


def test_an_event_that_is_on_no_declared_topic_is_not_sent(maia):
    defined = ("type", "define", "-k", "city.key", "--name", "city.Car", "-a", "plate:string", "-o", "c.type")
    assert maia(*defined)[0] == 0
    where = ("--network", "N", "--coordinator", "city.pub", "--broker", "127.0.0.1:1", "--credentials", ".")
    send = ("publish", "-k", "city.key", *where, "--json")
    for words, code in (
        (("-d", "c.type", "--topic", "/news", "--payload", "x"), "INPUT-EVENT"),
        (("-d", "news.type", "--payload", "x"), "INPUT-EVENT"),
        (("-d", "news.type", "--topic", "/prices", "--payload", "x"), "INPUT-NAME"),
        (("-d", "news.type", "--topic", "/news/+", "--payload", "x"), "INPUT-NAME"),
    ):
        status, _, err = maia(*send, *words)
        assert (status, json.loads(err)["error"]["code"]) == (2, code), words


def test_a_payload_is_shown_as_text_where_it_is_text():
    assert _payload_text(b"fog", None) == "fog"
    assert _payload_text("Nebel über der Elbe\n".encode(), None) == "Nebel über der Elbe\n"
    assert _payload_text(b"\x00\xff", None) == "00ff"
    assert _payload_text(b"\x1b[2J", None) == "1b5b324a", "nothing that moves the cursor"
    assert _payload_text(b"a\xff", "text/plain") == "a\\xff"
