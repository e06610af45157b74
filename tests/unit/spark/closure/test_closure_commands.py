"""`maia pipeline closure`, `match`, `what-if`, and `maia domain policy check --against`, in one session."""

from __future__ import annotations

import json
from base64 import b64encode

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maia.cli.main import main
from maia.credentials import AuthorisationCertificate, certificate_to_bytes, certificate_to_text, issue
from maia.credentials.encoding.certificates import certificate_from_bytes
from maia.keystore.key_files import create_key_file
from maia.policy.view import View, Window, see
from maia.predicates import ALWAYS, parse_predicate
from maia.roles import parse_policy, possible_rights
from maia.types import definition_to_text
from maia.views import arrow_schema
from support.governed import (
    ATTRIBUTES,
    NOON,
    OWNER,
    PLATE,
    READER,
    SPEED,
    Recorded,
    grant,
    key_of,
    sightings,
    typed,
)

ANNA = key_of("anna")
POLICY = """\
policy "Police"
type Numberplate = uk.gov.Numberplate
fact on_duty(who: principal)
role officer()
rule officer()
    while on_duty(holder)
    until revoked
grant officer()
    may subscribe to Numberplate({attributes})
end
"""


@pytest.fixture
def desk_top(tmp_path, monkeypatch, sparkling):
    """A log of a hundred sightings, two certificates, and a Spark session that is running already."""
    log = Recorded(tmp_path / "events")
    log.publish(sightings(100))
    log.write()
    (tmp_path / "pool").mkdir()
    (tmp_path / "owner").mkdir()
    for name, one in (("reader", grant(READER, [PLATE])), ("anna", grant(ANNA, [SPEED]))):
        (tmp_path / "pool" / f"{name}.cert").write_text(certificate_to_text(one))
    (tmp_path / "plate.type").write_text(definition_to_text(log.event_type.signed))
    create_key_file(tmp_path / "owner.key", OWNER)
    monkeypatch.chdir(tmp_path)
    return log


ASKER = ["-d", "plate.type", "-k", "owner.key", "--credentials", "owner", "--json"]


def said(capsys) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_revoked_certificate_is_replayed_and_shows_in_the_difference(desk_top, capsys):
    assert (
        main(["pipeline", "closure", "build", "old", "--pool", "pool", "--types", "plate.type", "--json"])
        == 0
    )
    since = ["--since", "old", "--remove", "pool/reader.cert"]
    assert main(["pipeline", "closure", "build", "new", *since, "--json"]) == 0
    capsys.readouterr()
    assert main(["pipeline", "closure", "diff", "old", "new", "--json"]) == 0
    (gone,) = said(capsys)
    assert (gone["change"], gone["principal"], gone["attribute"]) == (
        "less",
        str(READER.principal),
        "numberplate",
    )
    who_can = ["pipeline", "closure", "who-can", "old", "--type"]
    for asked, there in (
        (["uk.gov.Numberplates"], "did you mean `uk.gov.Numberplate`"),
        (["Numberplate@nobody"], "there are uk.gov.Numberplate@"),
        (["uk.gov.Numberplate", "--attribute", "plate"], "it has numberplate, "),
    ):
        assert main([*who_can, *asked]) == 2  # that nobody can see it would be no answer
        assert there in capsys.readouterr().err
    asked = ["pipeline", "what-if", "--revoke", "pool/reader.cert", "--pool", "pool", "--log", "events"]
    assert main([*asked, "--examples", "1", *ASKER]) == 0
    (found,) = said(capsys)
    assert (found["principal"], found["rows_before"], found["rows_after"]) == (str(READER.principal), 100, 0)
    assert found["less"] == {"numberplate": 90}
    assert found["examples"][0]["before"].keys() <= {"numberplate"}
    assert main([*asked[:3], "ab" * 32, *asked[4:], *ASKER]) == 2  # it is not in the pool


def test_a_closure_is_built_compared_and_asked_in_an_object_store(
    desk_top, spark_in_store, bucket, capsys, monkeypatch
):
    old, new = str(bucket / "old"), str(bucket / "new")
    build = ["pipeline", "closure", "build"]
    pool = ["--pool", "pool", "--types", "plate.type", "--json"]
    assert main([*build, old, *pool]) == 0
    assert main([*build, new, "--since", old, "--remove", "pool/reader.cert", "--json"]) == 0
    capsys.readouterr()
    assert main(["pipeline", "closure", "diff", old, new, "--json"]) == 0
    assert [(one["change"], one["attribute"]) for one in said(capsys)] == [("less", "numberplate")]
    assert main(["pipeline", "closure", "who-can", new, "--type", "uk.gov.Numberplate", "--json"]) == 0
    assert str(ANNA.principal) in {one["principal"] for one in said(capsys)}
    for words, code in (
        ([*build, old, *pool], "INPUT-CLOSURE"),
        (["pipeline", "closure", "diff", old, f"{old}er"], "INPUT-CLOSURE"),
        ([*build, "hdfs://nowhere/new", *pool], "PLACE-"),
    ):
        assert main(words) == 2
        told = capsys.readouterr()
        assert code in told.out + told.err
        assert len((told.out + told.err).splitlines()) == 1


def test_a_policy_is_compared_with_what_was_seen_before_it_is_loaded(desk_top, capsys, tmp_path):
    types = {"uk.gov.Numberplate": desk_top.event_type}
    old = parse_policy(
        POLICY.format(attributes="numberplate, speed"), origin="old", domain=OWNER.principal, types=types
    )
    (right,) = possible_rights(old, "officer", [], READER.principal, NOON)
    certificate = AuthorisationCertificate(
        OWNER.principal, READER.principal, False, right.authority, grant().certificate.validity
    )
    signed = certificate_to_bytes(issue(certificate, OWNER))
    assert certificate_from_bytes(signed).certificate == certificate
    entry = {
        "certificate": b64encode(signed).decode(),
        "rule": right.grant.id,
        "membership": "5f",
        "revoked_at": None,
    }
    (tmp_path / "register.json").write_text(json.dumps({"register": [entry]}))
    (tmp_path / "old.policy").write_text(old.text)
    (tmp_path / "new.policy").write_text(POLICY.format(attributes="numberplate, location"))
    words = [
        "domain",
        "policy",
        "check",
        "new.policy",
        "--types",
        "plate.type",
        "--domain",
        str(OWNER.principal),
    ]
    words += ["--against", "events", "--register", "register.json", "--in-force", "old.policy"]
    assert main([*words, *ASKER]) == 0
    summary, found = said(capsys)
    assert summary == {"fall": 1, "come": 1, "notes": []}
    assert (found["less"], found["more"]) == ({"speed": 100}, {"location": 100})


def test_subscriptions_are_matched_as_the_kernel_shows_them(desk_top, capsys, tmp_path):
    events = sightings(100)
    pq.write_table(pa.table(_columns(events)), tmp_path / "city.parquet")
    asked = [
        ("plates", READER, 'numberplate < "AE00050"'),
        ("fast", ANNA, "speed >= 90"),
        ("all", ANNA, "true"),
    ]
    refused = [("hidden", READER, "speed > 3"), ("stranger", key_of("nobody"), "true")]
    lines = [
        json.dumps({"subscription": name, "principal": str(who.principal), "filter": wanted})
        for name, who, wanted in (*asked, *refused)
    ]
    (tmp_path / "asked.jsonl").write_text("\n".join(lines))
    shown = {READER: {PLATE}, ANNA: {SPEED}}
    names = {one.uid: one.name for one in ATTRIBUTES}
    expected = set()
    for name, who, wanted in asked:
        view = View(
            (Window(ALWAYS, frozenset(shown[who])),), parse_predicate(wanted, desk_top.event_type.vocabulary)
        )
        for row, event in enumerate(events):
            seen = see(view, {uid: value for uid, value in event.items() if value is not None})
            if seen is not None:
                expected.add((row, name, frozenset(names[uid] for uid in seen)))
    match = ["pipeline", "match", "asked.jsonl", "--pool", "pool"]
    assert main([*match, "-d", "plate.type", "--from", "city.parquet", "--out", "matches", "--json"]) == 0
    (said_of_files,) = said(capsys)
    rows = pq.read_table(tmp_path / "matches").to_pylist()
    assert {(one["row"], one["subscription"], frozenset(one["attributes"])) for one in rows} == expected
    assert (len(rows), said_of_files["events"], said_of_files["classes"]) == (len(expected), 100, 3)
    assert said_of_files["refused_first"].keys() == {"hidden", "stranger"}
    # The owner may read everything in the log, and gets the same counts; the reader of plates may not ask.
    assert main([*match, "--log", "events", *ASKER]) == 0
    (said_of_log,) = said(capsys)
    assert {**said_of_log, "out": "matches"} == said_of_files
    # A filter that no event passes is answered with an empty table of the same columns.
    never = json.dumps(
        {"subscription": "never", "principal": str(ANNA.principal), "filter": "speed < 3 and speed > 9"}
    )
    (tmp_path / "never.jsonl").write_text(never)
    words = [
        "pipeline",
        "match",
        "never.jsonl",
        "--pool",
        "pool",
        "-d",
        "plate.type",
        "--from",
        "city.parquet",
    ]
    assert main([*words, "--out", "none", "--json"]) == 0
    assert said(capsys)[0]["matches"] == 0
    empty = pq.read_table(tmp_path / "none")
    assert (empty.num_rows, empty.column_names) == (0, ["file", "row", "subscription", "attributes"])
    create_key_file(tmp_path / "reader.key", READER)
    blind = ["-d", "plate.type", "-k", "reader.key", "--credentials", "pool/reader.cert"]
    assert main([*match, "--log", "events", *blind]) == 3
    assert "PIPELINE-WHAT-IF-BLIND" in capsys.readouterr().err


def test_a_line_that_is_no_subscription_is_named_before_spark_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plate.type").write_text(definition_to_text(typed().signed))
    (tmp_path / "right.cert").write_text(certificate_to_text(grant()))
    pq.write_table(pa.table(_columns(sightings(1))), tmp_path / "city.parquet")
    words = ["pipeline", "match", "asked.jsonl", "--pool", "right.cert", "-d", "plate.type"]
    twice = json.dumps({"subscription": "a", "principal": str(READER.principal)})
    for lines, number in ((["{}"], 1), ([""], 1), ([twice, twice], 2), ([twice, " " * (1 << 16)], 2)):
        (tmp_path / "asked.jsonl").write_text("".join(f"{line}\n" for line in lines))
        assert main([*words, "--from", "city.parquet"]) == 2
        said_why = capsys.readouterr().err
        assert f"line {number}" in said_why
        assert "[INPUT-PIPELINE-SUBSCRIPTIONS]" in said_why


def _columns(events):
    schema = arrow_schema({one.uid: one.kind for one in ATTRIBUTES})
    return {
        one.name: pa.array([event[one.uid] for event in events], schema.field(one.uid).type)
        for one in ATTRIBUTES
    }
