"""X4 (d): the watcher asks the domain where certificates say, and a view ends with its right."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import psycopg

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.clock import system_now
from maia.errors import MaiaError
from maia.keystore.wallet_folder import WalletFolder
from maia.postgres.view_watch import ViewWatch
from maia.postgres.views import ViewOutcome
from maia.types import definition_to_text
from maia.views import POSTGRES_TYPES
from maia.views.to_sql import quoted
from support.domain_server import key_of
from support.tested_rights import NUMBERPLATE, domain_with_locations, logged_in


def laid_out(home: Path, server: str) -> Path:
    """Make a table and a role, and the file that lets clark read the table by it."""
    columns = ", ".join(
        f"{quoted(one.name)} {POSTGRES_TYPES[one.kind]}" for one in NUMBERPLATE.definition.attributes
    )
    with psycopg.connect(server, autocommit=True) as administrator:
        for statement in (
            "DROP SCHEMA IF EXISTS followed CASCADE",
            "DROP TABLE IF EXISTS public.followed_sightings",
            "DROP ROLE IF EXISTS followed_clark",
            f"CREATE TABLE public.followed_sightings ({columns})",
            "INSERT INTO public.followed_sightings DEFAULT VALUES",
            "CREATE ROLE followed_clark LOGIN",
        ):
            administrator.execute(statement)
    (home / "np.type").write_text(definition_to_text(NUMBERPLATE), encoding="utf-8")
    file = home / "views.toml"
    file.write_text(
        f'database = "{server}"\nschema = "followed"\n'
        '[[tables]]\ntable = "followed_sightings"\ntypes = ["np.type"]\n'
        f'[[readers]]\nprincipal = "{key_of("clark").principal}"\nrole = "followed_clark"\n'
        'credentials = ["wallet"]\n'
    )
    return file


def test_what_is_wrong_with_one_reader_or_the_database_stops_nothing_else(
    tmp_path: Path, postgres_server: str
):
    """A reader whose certificates cannot be read has none; a watcher waits for a database that is gone."""
    file = laid_out(tmp_path, postgres_server)
    text = file.read_text()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "right.cert").write_text("(signed (cert")
    another = f'[[readers]]\nprincipal = "{key_of("ada").principal}"\nrole = "followed_ada"\n'
    file.write_text(f'{text}{another}credentials = ["broken"]\n')
    found = {one.role: one.problem.code for one in ViewWatch(file, system_now).install() if one.problem}
    assert found == {"followed_clark": "INPUT-FILE", "followed_ada": "INPUT-FILE"}, "neither has a wallet"

    file.write_text(text.replace("host=/", "host=/nowhere/"))
    (tmp_path / "wallet").mkdir()
    over, problems, outcomes = Event(), [], []

    def on_problem(problem: MaiaError) -> None:
        problems.append(problem.code)
        file.write_text(text)

    def on_outcomes(found: list[ViewOutcome]) -> None:
        outcomes.extend(one.problem.code for one in found if one.problem)
        over.set()

    ViewWatch(file, system_now).run(over, on_outcomes, on_problem)
    assert problems == ["UNAVAILABLE-DATABASE"]
    assert outcomes == ["POLICY-NO-CHAIN"]


def test_a_view_ends_with_the_fact_behind_its_right(tmp_path: Path, postgres_server: str):
    """The wallet has no statement: the domain is asked, and what it says last decides."""
    (tmp_path / "met").mkdir()
    with domain_with_locations(tmp_path / "met") as met:
        wallet = WalletFolder(tmp_path / "wallet")
        kept = logged_in(met, "clark")
        wallet.keep(kept, domain=met.key.principal, address=met.address, now=system_now())
        for statement in wallet.folder.glob("*.statement"):
            statement.unlink()
        watch = ViewWatch(laid_out(tmp_path, postgres_server), system_now)
        (made,) = watch.install()
        assert made.shows, made.problem
        assert made.until is not None, "a right on a timed list ends with the list, unless it is renewed"
        (renewed,) = watch.renew()
        assert renewed.what == "renewed"
        with psycopg.connect(f"{postgres_server} user=followed_clark") as reader:
            count = reader.execute(
                "SELECT count(*) FROM followed.followed_clark_followed_sightings"
            ).fetchone()
        assert count == (1,)
        row = bodies.FactBody("clerk", [bodies.TypedArgument(principal=str(key_of("clark").principal))])
        with met.admin() as admin:
            admin.call("POST", "/v1/facts/retraction", row, answer=answers.RevokedAnswer)
        (gone,) = watch.renew()
        assert gone.problem is not None
        assert (gone.what, gone.problem.code) == ("removed", "POLICY-REVOKED")
