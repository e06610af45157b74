"""A shared table is what a right shows: it grows by files, and hides what is hidden, also in its versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maia.credentials import SignedCertificate, SigningKey, certificate_to_text
from maia.errors import Refusal, Unavailable
from maia.keystore.key_files import create_key_file
from maia.ledger.files import read_ledger
from maia.ledger.records import LedgerReader
from maia.profile import read_profile
from maia.profile.profile import write_profile
from maia.share import tables as tables_module
from maia.share.config import ShareConfig
from maia.share.recipients import Recipient, RecipientFolder
from maia.share.rights import SharedName, table_names
from maia.share.tables import SharedTables, Shown
from maia.share.versions import TableVersion
from maia.spark.governed.plan import Access, governed_read
from maia.spark.governed.reader import Reader
from maia.spark.keys.key_server import job_desk
from maia.types import SealingLevel, definition_to_text
from support.governed import (
    CAMERA,
    NOON,
    PLACE,
    PLATE,
    READER,
    SPEED,
    Recorded,
    at,
    between,
    grant,
    sightings,
)


@dataclass
class World:
    """A log, a server's tables, and recipients."""

    folder: Path
    log: Recorded
    tables: SharedTables
    recipients: RecipientFolder

    def record(self, rows: int, first: int = 0) -> None:
        """Record so many sightings in one segment."""
        self.log.publish(sightings(rows, first))
        self.log.write()

    def member(self, name: str, *certificates: SignedCertificate, key: SigningKey = READER) -> Recipient:
        """Make a member, and a recipient that reads under its right."""
        place = self.folder / f"{name}.maia"
        for below in ("certs", "types"):
            (place / below).mkdir(parents=True)
        place.chmod(0o700)
        create_key_file(place / "own.key", key)
        (place / "types" / "plate.type").write_text(definition_to_text(self.log.event_type.signed))
        self.give(name, *certificates)
        write_profile(place, {"key": "own.key", "credentials": ["certs"], "types": ["types"]})
        return self.recipients.add(name, place, str(key.principal), days=9, now=NOON)[0]

    def give(self, name: str, *certificates: SignedCertificate) -> None:
        """Give a member certificates."""
        for one in certificates:
            file = self.folder / f"{name}.maia" / "certs" / f"{one.id.hex()[:12]}.cert"
            file.write_text(certificate_to_text(one))

    def newest(self, recipient: Recipient, *, hand_out: bool = False) -> tuple[TableVersion, pa.Table]:
        """Return the newest version of the table, and its rows."""
        self.tables._looks.clear()  # else the log is not looked at again within a second
        with self.tables.newest(recipient, self.named(recipient)) as shown:
            return self.read(recipient, shown, hand_out=hand_out)

    def read(
        self, recipient: Recipient, shown: Shown, *, hand_out: bool = False
    ) -> tuple[TableVersion, pa.Table]:
        """Return what is shown."""
        if hand_out:
            self.tables.hand_out(recipient, shown, shown.version.files)
        files = [self.folder / "data" / "files" / one.names[0] for one in shown.version.files]
        found = [pq.read_table(one) for one in files]
        return shown.version, pa.concat_tables(found) if found else shown.right.arrow_schema.empty_table()

    def named(self, recipient: Recipient) -> SharedName:
        """Return the name of the table."""
        return self.tables.rights.named(recipient, "types", "uk_gov_Numberplate")


def world(folder: Path, **settings: object) -> World:
    data = folder / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    config = ShareConfig(log=str(folder / "log"), data=data, refresh_s=1, **settings)
    log = Recorded(folder / "log")
    return World(folder, log, SharedTables(config), RecipientFolder(data))


@pytest.fixture
def city(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "log").mkdir()
    made = world(tmp_path)
    yield made
    made.tables.close()


def test_a_table_grows_by_a_file_and_keeps_those_before(city: World) -> None:
    whole = city.member("whole", grant())
    city.record(20)
    first, rows = city.newest(whole)
    assert rows.num_rows == 20
    city.record(5, 20)
    second, more = city.newest(whole)
    assert more.num_rows == 25
    assert second.version > first.version
    assert second.files[: len(first.files)] == first.files
    assert city.newest(whole)[0] == second
    with city.tables.at(whole, city.named(whole), first.version) as shown:
        assert city.read(whole, shown)[1].equals(rows)


def test_what_is_hidden_makes_no_version(city: World) -> None:
    """A91: rows that a right hides move neither the version nor a file, also of an empty table."""
    fast = city.member("fast", grant(attributes=[PLACE, SPEED], restriction="speed >= 90"))
    city.record(80)
    empty, rows = city.newest(fast)
    assert (rows.num_rows, rows.column_names) == (0, ["location", "speed"])
    city.record(5)
    assert city.newest(fast)[0].version == empty.version
    city.record(20, 80)
    full, rows = city.newest(fast)
    assert rows.column("speed").to_pylist() == list(range(90, 100))
    city.record(80)
    again, _ = city.newest(fast)
    assert (again.version, again.files) == (full.version, full.files)


def test_small_files_that_become_many_are_written_anew(city: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_module, "SMALL_MAX", 3)
    whole = city.member("whole", grant())
    counts = []
    for first in range(0, 60, 10):
        city.record(10, first)
        version, rows = city.newest(whole)
        counts.append(len(version.files))
        assert sorted(one or "" for one in rows.column("numberplate").to_pylist()) == sorted(
            str(one[PLATE] or "") for one in sightings(first + 10)
        )
    assert counts == [1, 2, 3, 4, 1, 2]


def test_files_that_have_gone_are_written_again_and_older_versions_say_so(city: World) -> None:
    whole = city.member("whole", grant())
    city.record(20)
    first, _ = city.newest(whole)
    city.record(20, 20)
    second, rows = city.newest(whole)
    city.tables.files.bytes_max = 1
    with pytest.raises(Unavailable) as full:
        city.tables.files.put(b"xx", ".reads")
    assert full.value.code == "UNAVAILABLE-SHARE-FULL"
    city.tables.files.bytes_max = 1 << 20
    third, again = city.newest(whole)
    assert again.sort_by("seen").equals(rows.sort_by("seen"))
    assert third.version > second.version
    with (
        pytest.raises(Unavailable) as gone,
        city.tables.at(whole, city.named(whole), first.version),
    ):
        pass
    assert gone.value.code == "UNAVAILABLE-SHARE-GONE"


def test_members_with_the_same_right_share_files_and_others_do_not(city: World) -> None:
    """D19: each has what it is handed on record, by its own key and certificates."""
    slow = {"attributes": [PLATE, SPEED], "restriction": "speed < 10"}
    one = city.member("one", grant(**slow))
    two = city.member("two", grant(CAMERA, **slow), key=CAMERA)
    other = city.member("other", grant(**(slow | {"restriction": "speed < 11"})))
    city.record(20)
    versions = [city.newest(each, hand_out=True)[0] for each in (one, two, other)]
    assert versions[0].files == versions[1].files != versions[2].files
    city.tables.chain()
    found = list(read_ledger(city.folder / "data" / "ledger", LedgerReader()))
    assert {disclosed.recipient for disclosed in found} == {READER.principal.key, CAMERA.principal.key}
    parts = list((city.folder / "data" / "ledger" / "reads").glob("*/*.part"))
    assert sorted(one.parent.name.split("-")[1] for one in parts) == sorted(
        each.id for each in (one, two, other)
    )


def test_a_right_that_is_a_period_shows_that_period(city: World) -> None:
    past = city.member("past", grant(validity=between(-2, -1)), grant(validity=between(1, 2)))
    for hours in (-3, -1.5, 0, 1.5, 3):
        city.log.publish(sightings(1, int(hours * 10) + 50), published_at=at(hours))
    city.log.write()
    assert city.newest(past)[1].num_rows == 2
    city.give("past", grant(validity=between(-4, 4)))
    assert city.newest(past)[1].num_rows == 5


def test_a_member_without_a_right_has_no_table(city: World) -> None:
    city.record(3)
    none = city.member("none")
    assert city.tables.rights.listed(none) == []
    with pytest.raises(Refusal) as refused:
        city.newest(none)
    assert refused.value.code == "NOT-SHARED"
    with pytest.raises(Refusal) as unknown:
        city.tables.rights.named(none, "types", "other")
    assert unknown.value.message == refused.value.message


def test_names_are_what_clients_can_write(city: World) -> None:
    whole = city.member("whole", grant())
    (name,) = table_names(read_profile(Path(whole.profile))).values()
    assert (name.schema, name.table, name.word) == ("types", "uk_gov_Numberplate", "uk.gov.Numberplate")
    assert city.tables.rights.named(whole, "TYPES", "UK_GOV_numberplate") == name


def test_a_class_of_right_is_all_that_decides_what_is_shown(tmp_path: Path) -> None:
    """D19: a hidden attribute, a row less, another time, a signer that is revoked: other files."""
    log = Recorded(tmp_path, SealingLevel.ATTRIBUTE)

    def class_of(*rights: SignedCertificate, who: SigningKey = READER, signed: bool = True) -> bytes:
        with job_desk() as desk:
            keys = log.keys(desk)
            keys = keys if signed else replace(keys, signers={})
            read = Reader(who.principal, rights)
            return governed_read(Access(read, (log.event_type,), keys)).shown_class

    plain = class_of(grant())
    assert plain == class_of(grant()) == class_of(grant(CAMERA), who=CAMERA)
    blurred = "location := first(location, 3)"
    others = [
        class_of(grant(attributes=[PLATE])),
        class_of(grant(restriction="speed < 50")),
        class_of(grant(validity=between(0, 1))),
        class_of(grant(), signed=False),
        class_of(grant(rule=blurred)),
        class_of(grant(CAMERA, rule=blurred), who=CAMERA),
    ]
    assert len({plain, *others}) == 1 + len(others)
