"""The settings of a domain's access control service: what is wrong is named, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.config.settings import BadConfig
from maia.credentials.appointments import ParameterKind
from maia.domain.server.config import DomainConfig, read_domain_config

HEAD = 'key = "met.key"\nnetwork = "Met"\ncoordinator = "met.pub"\ncredentials = "certs"\ndata = "data"\n'
FACT = (
    '[[facts]]\nname = "on_duty"\nsource = "file"\npath = "a.csv"\ncolumns = ["who"]\nkinds = ["principal"]\n'
)

OTHER = (
    '[[facts]]\nname = "cases"\npath = "b.csv"\nsource = "file"\ncolumns = ["who"]\nkinds = ["principal"]\n'
)
QUERY = (
    '[[facts]]\nname = "shift"\nkinds = ["string"]\nquery = """\nselect x\nwhere source = 1\n"""\n'
    'source = "sqlite"\npath = "x"\n'
)


def read(tmp_path: Path, text: str, **environment: str) -> DomainConfig:
    file = tmp_path / "met.toml"
    file.write_text(HEAD + text)
    return read_domain_config(file, flags={}, environment=environment)


def test_a_domain_that_says_nothing_of_it_is_a_key_server(tmp_path: Path) -> None:
    assert read(tmp_path, "").access is None


def test_every_table_is_read(tmp_path: Path) -> None:
    text = """
[api]
listen = "127.0.0.1:0"
skew_s = 5
[broker]
addresses = ["127.0.0.1:7400"]
hear = "court.pub"
[policy]
file = "met.policy"
types = "types"
parents = { home = "home.policy", area = "area.policy" }
[statements]
period_s = 10
lead_s = 2
[rights]
seconds = 60
[[push]]
subject = "b.pub"
folder = "b"
"""
    access = read(tmp_path, text + FACT).access
    assert access is not None
    assert (access.api_listen, access.api_skew_s, access.statements_period_s) == ("127.0.0.1:0", 5, 10)
    assert access.broker_addresses == ("127.0.0.1:7400",)
    assert access.broker_hear == (str(tmp_path / "court.pub"),)
    assert list(access.policy_parents) == ["home", "area"], "each may import the ones before it"
    assert access.facts[0].kinds == (ParameterKind.PRINCIPAL,)
    assert access.push[0].folder == tmp_path / "b"


def test_the_environment_says_where_the_database_is(tmp_path: Path) -> None:
    found = read(tmp_path, "", MAIA_DOMAIN_DATABASE_URL="postgresql://u:hunter2@db/x").access
    assert found is not None
    assert found.database_url == "postgresql://u:hunter2@db/x"
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ('[api]\nlisten = "here"\n', 7, "api.listen"),
        ('[api]\nlisten = "127.0.0.1:0"\nspeed = 1\n', 8, "api.speed"),
        ('[database]\nurl = "mysql://u:hunter2@x"\n', 7, "database.url"),
        ('[policy]\nparents = "home.policy"\n', 7, "policy.parents"),
        ("[statements]\nperiod_s = 0\n", 7, "statements.period_s"),
        ('[broker]\naddresses = ["no port"]\n', 7, "broker.addresses"),
        ("facts = 1\n", 6, "facts"),
        (FACT.replace('name = "on_duty"\n', ""), 6, "name"),
        (FACT.replace('"file"', '"oracle"'), 8, "source"),
        (FACT.replace('"principal"', '"person"'), 11, "person"),
        (FACT.replace('path = "a.csv"\n', ""), 6, "path"),
        (FACT.replace('["who"]', '["who", "when"]'), 10, "columns"),
        (FACT + "every_s = 100\n", 12, "stale_s"),
        (FACT + "colour = 1\n", 12, "colour"),
        (FACT + FACT, 13, "already"),
        (
            FACT.replace('"file"', '"http"').replace('path = "a.csv"', 'url = "http://roster.example/x"'),
            9,
            "https",
        ),
        ('[[push]]\nsubject = "b.pub"\n', 6, "folder"),
        ('[[push]]\nsubject = "b.pub"\nfolder = "b"\n[[push]]\nsubject = "c.pub"\n', 9, "folder"),
        (FACT + OTHER.replace("columns", "colums"), 16, "colums"),
        (
            FACT + OTHER.replace('"cases"\n', '"cases"\n\n# where they are kept\n', 1) + "every_s = 0\n",
            20,
            "every_s",
        ),
        (OTHER.replace('source = "file"\n', "") + FACT, 6, "source"),
        (
            FACT.replace("[[facts]]", '[[ "facts" ]]  # who is here') + OTHER.replace('"b.csv"', "7"),
            14,
            "path",
        ),
        (QUERY + FACT.replace('"file"', '"fil"'), 17, "source"),
        (QUERY.replace('"sqlite"', '"sqlit"'), 13, "source"),
        (QUERY.replace('"sqlite"', '"postgresql"'), 6, "url"),
        ('facts = [{ name = "x", source = "oracle", kinds = [] }]\n', 6, "source"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, word: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read(tmp_path, text)
    assert f"line {line}:" in refused.value.message, refused.value.message
    assert word in refused.value.message
    assert "hunter2" not in refused.value.message
