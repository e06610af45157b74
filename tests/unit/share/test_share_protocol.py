"""Pages, addresses, ranges and settings of a sharing server."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.config.settings import BadConfig
from maia.errors import BadInput, Refusal
from maia.events import Instant
from maia.share.addresses import AddressBook, FileAddress
from maia.share.application import _range_of
from maia.share.config import read_config
from maia.share.protocol import PAGE_MAX, PageQuery, moment_of, page_of

NOW = Instant.parse("2026-11-15T12:00:00Z")
FILE = "5e" * 32
BOOK = AddressBook(b"s" * 32)
ADDRESS = FileAddress("3f0a9c2e71d44b0e", "LabResult", b"c" * 32, int(NOW) + 1)


@given(st.integers(0, 40), st.integers(1, 50))
def test_pages_show_each_item_once_and_in_order(number: int, most: int) -> None:
    items, token, found = [{"name": str(one)} for one in range(number)], "", []
    while True:
        page = page_of(items, PageQuery(most, token))
        found += page["items"]
        if not (token := page.get("nextPageToken", "")):
            break
    assert found == items


def test_a_page_is_bounded() -> None:
    items = [{"name": str(one)} for one in range(PAGE_MAX + 1)]
    assert len(page_of(items, PageQuery(2**31 - 1))["items"]) == PAGE_MAX
    assert page_of(items, PageQuery(0)) == {"items": [], "nextPageToken": "MA"}


def test_an_address_says_what_was_written_and_nothing_else() -> None:
    text = BOOK.write(FILE, ADDRESS)
    assert BOOK.read(FILE, text, NOW) == ADDRESS
    for file, said, at in (
        ("0" * 64, text, NOW),
        (FILE, text, Instant(NOW + 1)),
        (FILE, text[:-4], NOW),
        (FILE, "", NOW),
        ("../x", text, NOW),
    ):
        with pytest.raises(Refusal):
            BOOK.read(file, said, at)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for other in letters.replace(text[-1], ""):  # some of which are the same bytes in base64
        with pytest.raises(Refusal):
            BOOK.read(FILE, text[:-1] + other, NOW)
    with pytest.raises(Refusal):
        AddressBook(b"t" * 32).read(FILE, text, NOW)
    assert "sss" not in repr(BOOK)


@given(st.binary(max_size=80))
def test_no_other_bytes_are_an_address(data: bytes) -> None:
    with pytest.raises(Refusal):
        BOOK.read(FILE, data.hex(), NOW)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 9))
def test_a_range_is_inside_its_file(first: int, last: int, size: int) -> None:
    whole = bytes(range(size))
    try:
        begin, end, status = _range_of(f"bytes={first}-{last}", size)
    except BadInput:
        assert first >= size or last < first
    else:
        assert (whole[begin : end + 1], status) == (whole[first : last + 1], 206)


@pytest.mark.parametrize(
    "text",
    ["2026-11-15T12:00:00Z", "2026-11-15 12:00:00", "2026-11-15T13:00:00+01:00", "2026-11-15 12:00:00.0"],
)
def test_a_moment_is_read_as_clients_write_it(text: str) -> None:
    assert moment_of(text) == NOW


@pytest.mark.parametrize("text", ["", "x", "2026-13-01", "99999-01-01", "0001-01-01T00:00:00+14:00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        moment_of(text)


def config(tmp_path: Path, text: str) -> object:
    file = tmp_path / "share.toml"
    file.write_text(text)
    return read_config(file, flags={}, environment={})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('listen = "0.0.0.0:8890"', "tokens would travel in clear"),
        ('[tls]\ncertificate = "x.crt"', "go together"),
        ("address_s = 86400", "from 10 to 3600"),
        ('endpoint = "ftp://x"', "must be an address"),
        ('share = "a/b"', "letters, digits"),
        ('password = "x"', "is not a setting"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_a_port_is_opened(
    tmp_path: Path, more: str, said: str
) -> None:
    with pytest.raises(BadConfig, match=said):
        config(tmp_path, f'log = "log"\ndata = "data"\n{more}\n')


def test_a_server_shares_one_log_that_it_names(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="`log` is missing"):
        config(tmp_path, 'data = "data"\n')
    for one in ("a", "b"):
        (tmp_path / "logs" / one).mkdir(parents=True)
    with pytest.raises(BadConfig, match="several logs"):
        config(tmp_path, f'log = "{tmp_path}/logs/*"\ndata = "data"\n')
