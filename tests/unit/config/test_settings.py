"""Settings are the fields of a struct: each form of value, and its edge."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from maia.config.settings import (
    Address,
    Addresses,
    BadConfig,
    Fraction,
    Mismatch,
    Paths,
    Positive,
    PrincipalWord,
    Secret,
    Text,
    Whole,
    build,
    gather,
    settings_of,
)


class Table(msgspec.Struct, frozen=True, kw_only=True):
    name: Text
    least: Whole = 0
    most: Positive = 1

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise Mismatch("most", "the least is more than the most")


class Everything(msgspec.Struct, frozen=True, kw_only=True):
    text: Text = "-"
    whole: Whole = 0
    positive: Positive = 1
    share: Fraction = 0.0
    flag: bool = False
    address: Address | None = None
    others: Addresses = ()
    files: Paths = ()
    owner: PrincipalWord | None = None
    db_login: Secret | None = msgspec.field(name="db.login", default=None)
    table: tuple[Table, ...] = ()


def read(tmp_path: Path, text: str = "", flags: dict[str, object] | None = None, **variables: str):
    file = tmp_path / "some.toml"
    file.write_text(text)
    known = settings_of(Everything)
    return build(
        Everything, known, gather(known, file=file, environment=variables, prefix="X_", flags=flags or {})
    )


def test_names_with_a_dot_are_words_of_a_table_and_variables_have_underscores(tmp_path: Path) -> None:
    assert read(tmp_path, '[db]\nlogin = "hunter2"\n').db_login == "hunter2"
    assert read(tmp_path, X_DB_LOGIN="hunter3").db_login == "hunter3"


def test_where_only_text_can_be_written_text_is_read_as_what_it_means(tmp_path: Path) -> None:
    found = read(
        tmp_path, flags={"share": "0.25", "flag": "true"}, X_WHOLE="7", X_OTHERS="a:1, b:2", X_FILES="x"
    )
    assert (found.share, found.flag, found.whole, found.others) == (0.25, True, 7, ("a:1", "b:2"))
    assert found.files == (Path("x"),)
    with pytest.raises(BadConfig, match="line 1: `whole` must be a whole number from 0"):
        read(tmp_path, 'whole = "7"\n')


def test_files_begin_beside_the_configuration_and_keys_stay_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path, 'owner = "met.pub"').owner == str(tmp_path / "met.pub")
    assert read(tmp_path, 'owner = "quorum:00"').owner == "quorum:00"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("whole = 0", "whole = -1"),
        ("whole = 2147483648", "whole = 2147483649"),
        ("positive = 1", "positive = 0"),
        ("share = 1.0", "share = 1.0000001"),
        ("share = 0.0", "share = nan"),
        ('address = "a:65535"', 'address = "a:65536"'),
        ('address = "[::1]:0"', 'address = "::1:0"'),
        ('text = "x"', 'text = "  "'),
        ("flag = true", "flag = 1"),
        (f"others = {['a:1'] * 1024}", f"others = {['a:1'] * 1025}"),
        ("table = [" + '{ name = "x" },' * 256 + "]", "table = [" + '{ name = "x" },' * 257 + "]"),
    ],
)
def test_each_form_has_an_edge(tmp_path: Path, good: str, bad: str) -> None:
    read(tmp_path, good)
    with pytest.raises(BadConfig, match=r"line 1: `.*` must be "):
        read(tmp_path, bad)


def test_words_that_do_not_fit_each_other_are_named_at_the_line_to_change(tmp_path: Path) -> None:
    text = '[[table]]\nname = "a"\n\n[[table]]\nname = "b"\nleast = 3\nmost = 2\n'
    with pytest.raises(BadConfig, match="line 7: `table` number 2: the least is more than the most"):
        read(tmp_path, text)


@pytest.mark.parametrize("wrong", ['""', "[7, 'hunter2']", "{ x = 'hunter2' }"])
def test_a_secret_is_in_no_error_and_in_no_representation(tmp_path: Path, wrong: str) -> None:
    assert "hunter2" not in repr(read(tmp_path, 'db.login = "hunter2"'))
    with pytest.raises(BadConfig, match=r"line 1: `db.login` must be text") as refused:
        read(tmp_path, f"db.login = {wrong}")
    assert "hunter2" not in str(refused.value)
