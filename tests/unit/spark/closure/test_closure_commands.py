"""`maia pipeline closure`, `what-if` and `maia domain policy check --against`, in the suite's own session."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import nullcontext

import pytest

from maia.cli.main import main
from maia.credentials import AuthorisationCertificate, certificate_to_bytes, certificate_to_text, issue
from maia.credentials.encoding.certificates import certificate_from_bytes
from maia.keystore.key_files import create_key_file
from maia.roles import parse_policy, possible_rights
from maia.types import definition_to_text
from support.governed import NOON, OWNER, PLATE, READER, SPEED, Recorded, grant, key_of, sightings

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
def desk_top(tmp_path, monkeypatch, spark):
    """A log of a hundred sightings, two certificates, and a Spark session that is running already."""
    monkeypatch.setattr("maia.cli.pipeline.closure.spark_for", lambda *_, **__: nullcontext(spark))
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
    asked = ["pipeline", "what-if", "--revoke", "pool/reader.cert", "--pool", "pool", "--log", "events"]
    assert main([*asked, "--examples", "1", *ASKER]) == 0
    (found,) = said(capsys)
    assert (found["principal"], found["rows_before"], found["rows_after"]) == (str(READER.principal), 100, 0)
    assert found["less"] == {"numberplate": 90}
    assert found["examples"][0]["before"].keys() <= {"numberplate"}
    assert main([*asked[:3], "ab" * 32, *asked[4:], *ASKER]) == 2  # it is not in the pool


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
