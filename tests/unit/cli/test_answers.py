"""One answer is read by people and by programs: what a row says, and what it becomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.cli.command import arg, described, flag, need, opt, options
from maia.cli.output import Answer, begin, row, rows, several, show, table, use_json
from maia.events import Instant

MOMENT = Instant.parse("2026-11-15T08:30:00Z")


@pytest.fixture(autouse=True)
def for_people():
    begin()
    yield
    begin()


def test_a_row_is_a_line_for_people_and_fields_for_programs(capsys) -> None:
    said = Answer(
        row("written to", Path("a.type"), file=Path("a.type")),
        row("member", ["lab", "desk"], members=["lab", "desk"]),
        row("comment", None, comment=""),
        row(id=b"\x01\xff"),
        rows(valid_until=MOMENT, is_whole=True),
        row("", "done"),
    )
    assert show(said) == 0
    assert capsys.readouterr().out.splitlines() == [
        "written to   a.type", "member       lab", "member       desk",
        "valid until  2026-11-15T08:30:00Z", "is whole     yes", "done",
    ]  # fmt: skip
    use_json(True)
    show(said)
    assert json.loads(capsys.readouterr().out) == {
        "file": "a.type", "members": ["lab", "desk"], "comment": "", "id": "01ff",
        "valid_until": "2026-11-15T08:30:00Z", "is_whole": True,
    }  # fmt: skip


def test_an_answer_that_is_no_has_an_exit_status_of_its_own(capsys) -> None:
    assert show(Answer(row("", "does not cover", covers=False), no=True)) == 1
    assert capsys.readouterr().out == "does not cover\n"


def test_a_line_for_people_alone_is_nothing_to_a_program(capsys) -> None:
    use_json(True)
    show(row("", "3 found"))
    assert capsys.readouterr().out == ""


def test_several_answers_are_a_list_under_one_name(capsys) -> None:
    parts = [row("lab", "lab.maia", member="lab"), row("desk", "desk.maia", member="desk")]
    found = several("members", parts, apart=True)
    assert found.lines == ["lab          lab.maia", "", "desk         desk.maia"]
    assert found.record == {"members": [{"member": "lab"}, {"member": "desk"}]}
    assert several("members", [], none="no members").lines == ["no members"]


def test_a_table_fits_eighty_columns_and_cuts_the_widest_first() -> None:
    lines = table(["plate", "place"], [["AE05 XYZ", "x" * 200], ["B", "Soho"]])
    assert lines[0] == "plate     place"
    assert lines[2] == "B         Soho"
    assert [len(line) for line in lines] == [15, 80, 14]
    assert lines[1].startswith("AE05 XYZ  xxx")
    assert lines[1].endswith("…")


@options
class Signing:
    key: Path = need("The key.", "--key", "-k")
    force: bool = flag("Replace it.")


def test_a_declaration_becomes_options_help_and_examples() -> None:
    def issue(
        *, name: str = arg("What."), signing: Signing, days: int = opt("How long.", default=7)
    ) -> Answer:
        """Issue it.

        Examples:
            maia cert issue NAME -k a.key
              --days 3
            maia cert issue OTHER (a remark)
        """
        return row("", name, name=name, key=signing.key, force=signing.force, days=days)

    found = described(issue, "cert issue")
    assert found["help"] == "Issue it."
    assert (
        found["epilog"]
        == "Examples: maia cert issue NAME -k a.key --days 3; maia cert issue OTHER (a remark)"
    )
    assert found["callback"](name="n", key=Path("a.key"), force=True, days=3, as_json=True) == 0
    assert Signing(key=Path("b.key")) == Signing(key=Path("b.key"), force=False)
