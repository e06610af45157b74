"""A broker's configuration: three sources, one answer, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.broker.server.config import BrokerConfig, read_config
from maia.config.settings import BadConfig
from support.processes import maia

WHOLE = """\
# Met's broker
key = "met-broker.key"
network = "UK Police Network"
coordinator = "pito.pub"
credentials = ["certs", "extra.cert"]
listen = "127.0.0.1:7403"
join = ["127.0.0.1:7401"]
data = "met-data"
lease_s = 20
verify_in_transit = 0.5
keys = ["127.0.0.1:7500"]
share_plaintext = false
require_install = false

[limits]
links = 100
types = 7
"""


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        file = tmp_path / "broker.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def configured(file: Path | None, flags: dict[str, object] | None = None, **environment: str) -> BrokerConfig:
    return read_config(file, flags=flags or {}, environment=environment)


def test_a_file_says_everything_and_its_paths_begin_beside_it(written) -> None:
    file = written(WHOLE)
    config = configured(file)
    assert config.key == file.parent / "met-broker.key"
    assert config.credentials == (file.parent / "certs", file.parent / "extra.cert")
    assert config.coordinator == str(file.parent / "pito.pub")
    assert (config.listen, config.join, config.lease_s) == ("127.0.0.1:7403", ("127.0.0.1:7401",), 20)
    assert (config.verify_in_transit, config.require_install) == (0.5, False)
    assert (config.keys, config.share_plaintext) == (("127.0.0.1:7500",), False)
    assert (config.limits.links, config.limits.types, config.limits.streams) == (100, 7, 65_536)


def test_a_flag_wins_over_the_environment_and_the_environment_over_the_file(written) -> None:
    file = written(WHOLE)
    config = configured(
        file, {"listen": "127.0.0.1:1"}, MAIA_BROKER_LISTEN="127.0.0.1:2", MAIA_BROKER_LEASE_S="9"
    )
    assert (config.listen, config.lease_s) == ("127.0.0.1:1", 9)


def test_everything_can_be_said_without_a_file() -> None:
    flags = {"key": "b.key", "network": "N", "coordinator": "ed25519:x", "credentials": ["certs"]}
    config = configured(
        None, flags, MAIA_BROKER_JOIN="127.0.0.1:1, 127.0.0.1:2", MAIA_BROKER_LIMITS_LINKS="5"
    )
    assert config.join == ("127.0.0.1:1", "127.0.0.1:2")
    assert config.limits.links == 5
    assert config.coordinator == "ed25519:x"


def test_recording_can_be_said_in_a_file_a_variable_or_a_flag(written) -> None:
    config = configured(
        written(WHOLE + '\n[log]\nfolder = "log"\ntypes = ["a", "b"]\n'),
        {"log.durable": "false"},
        MAIA_BROKER_LOG_KEEP_DAYS="7",
    )
    assert config.log_folder is not None
    assert config.log_folder.name == "log"
    assert (config.log_types, config.log_durable, config.log_keep_days) == (("a", "b"), False, 7)
    with pytest.raises(BadConfig, match="the option `--log-durable`"):
        configured(written(WHOLE), {"log.durable": "perhaps"})


def test_defaults_are_on_loopback_and_nothing_is_open_to_other_machines(written) -> None:
    config = configured(written('key="k"\nnetwork="N"\ncoordinator="c"\ncredentials="x"\n'))
    assert config.listen.startswith("127.0.0.1:")
    assert config.status is not None
    assert config.status.startswith("127.0.0.1:")
    assert config.require_install


WRONG = [
    ('key = "a"\nlisten = 7400\n', "line 2: `listen` must be HOST:PORT such as `127.0.0.1:7400`, not `7400`"),
    ('key = "a"\nlisten = "7400"\n', "line 2: `listen` must be HOST:PORT"),
    ('key = "a"\nlisten = "127.0.0.1:70000"\n', "line 2: `listen` must be HOST:PORT"),
    ('key = "a"\n\nlisen = "127.0.0.1:1"\n', "line 3: `lisen` is not a setting; did you mean `listen`?"),
    ('key = "a"\n[limits]\nlinks = 0\n', "line 3: `limits.links` must be a whole number from 1"),
    ('key = "a"\n[limits]\nlinks = true\n', "line 3: `limits.links` must be a whole number"),
    ('limits.links = "many"\nkey = "a"\n', "line 1: `limits.links` must be a whole number"),
    ('key = "a"\n[limits]\nbytes = 3\n', "line 3: `limits.bytes` is not a setting"),
    ('key = "a"\n\n[policy]\nx = 1\n', "line 4: `policy.x` is not a setting"),
    ('key = "a"\nlease_s = 1.5\n', "line 2: `lease_s` must be a whole number"),
    ('key = "a"\nverify_in_transit = 1.5\n', "line 2: `verify_in_transit` must be a fraction"),
    ('key = "a"\nverify_in_transit = nan\n', "line 2: `verify_in_transit` must be a fraction"),
    ('key = "a"\nrequire_install = "yes"\n', "line 2: `require_install` must be true or false"),
    (
        'key = "a"\njoin = ["127.0.0.1:1", 5]\n',
        "line 2: `join` must be HOST:PORT such as `127.0.0.1:7400`, or KEY@HOST:PORT for a statement link",
    ),
    ('key = "a"\nstatus = "0.0.0.0:80"\n', "line 2: `status` must be on this machine's loopback"),
    ('key = "a"\nlog_format = "xml"\n', "line 2: `log_format` must be one of auto, json, text"),
    ('key = "a"\n[log]\ntypes = ["*", "x"]\n', "line 3: `log.types` must be `*` alone"),
    ('key = "a"\n[log]\ntypes = []\n', "line 3: `log.types` must be `*` alone, or the names"),
    ('key = "a"\n[log]\ndurable = "yes"\n', "line 3: `log.durable` must be true or false"),
    ('key = "a"\n[log]\nkeep_days = 0\n', "line 3: `log.keep_days` must be a whole number from 1"),
    ('key = "a"\n[log]\nfoldr = "x"\n', "line 3: `log.foldr` is not a setting; did you mean `log.folder`?"),
    ('key = "a"\nkey = "b"\n', "line 2: this is not TOML"),
    ('key = "a\n', "line 1: this is not TOML"),
    ('key = "a"\n', "`network` is missing"),
]


ENOUGH = {"MAIA_BROKER_NETWORK": "N", "MAIA_BROKER_COORDINATOR": "c", "MAIA_BROKER_CREDENTIALS": "x"}


@pytest.mark.parametrize(("text", "complaint"), WRONG, ids=[complaint for _, complaint in WRONG])
def test_an_error_names_the_file_the_line_and_the_key(written, text: str, complaint: str) -> None:
    with pytest.raises(BadConfig) as caught:
        configured(written(text), **({} if "missing" in complaint else ENOUGH))
    assert "broker.toml" in caught.value.message
    assert complaint in caught.value.message


def test_a_misspelt_variable_is_refused_and_not_ignored() -> None:
    with pytest.raises(BadConfig, match=r"MAIA_BROKER_LISTN.*did you mean `listen`"):
        configured(None, {}, MAIA_BROKER_LISTN="127.0.0.1:1")


def test_a_wrong_variable_and_a_wrong_flag_are_named() -> None:
    enough: dict[str, object] = {"key": "k", "network": "N", "coordinator": "c", "credentials": ["x"]}
    with pytest.raises(BadConfig, match="the environment variable `MAIA_BROKER_LEASE_S`: `lease_s` must be"):
        configured(None, enough, MAIA_BROKER_LEASE_S="soon")
    with pytest.raises(BadConfig, match="the option `--lease-s`: `lease_s` must be"):
        configured(None, enough | {"lease_s": 0})


@pytest.mark.parametrize("text", ["[" * 5000, "a = " + "[" * 5000, "\x00", 'x = "\\ud800"', "a.b.c.d = 1\n"])
def test_no_file_ends_in_anything_but_one_of_our_errors(written, text: str) -> None:
    with pytest.raises(BadConfig):
        configured(written(text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="there is no file"):
        configured(tmp_path / "none.toml")


@pytest.fixture
def router(tmp_path: Path) -> Path:
    """Return the key file of a router whose certificate lies beside it."""
    for words in (
        ("key", "new", "owner.key"),
        ("key", "new", "north.key"),
        (
            *("cert", "issue", "-k", "owner.key", "--subject", "north.pub", "--owner", "owner.pub"),
            *(
                "--network",
                "Valley",
                "--action",
                "connect",
                "--action",
                "broker",
                "--days",
                2,
                "-o",
                "north.cert",
            ),
        ),
    ):
        assert maia(*words, cwd=tmp_path).returncode == 0
    return tmp_path / "north.key"


def test_a_router_of_a_mesh_needs_its_key_and_its_neighbours(router: Path) -> None:
    """I8: its network and whom it trusts are in the certificate beside its key."""
    config = configured(None, {"key": str(router), "neighbours": ["127.0.0.1:1", "127.0.0.1:2"]})
    assert (config.routing, config.neighbours) == ("mesh", ("127.0.0.1:1", "127.0.0.1:2"))
    assert (config.network, config.credentials) == ("Valley", (router.with_suffix(".cert"),))
    assert config.coordinator == router.with_name("owner.pub").read_text().strip()
    alone = configured(None, {"key": str(router)}, MAIA_BROKER_ROUTING="mesh")
    assert (alone.routing, alone.neighbours) == ("mesh", ())


def test_what_a_router_of_a_mesh_lacks_is_named(router: Path, written) -> None:
    neighbours = {"key": str(router), "neighbours": ["127.0.0.1:1"]}
    with pytest.raises(BadConfig, match="--join`: `join` is for the rendezvous"):
        configured(None, {**neighbours, "join": ["127.0.0.1:2"]})
    with pytest.raises(BadConfig, match="`neighbours` are for a mesh"):
        configured(written(WHOLE.replace("join", "neighbours")), {"routing": "rendezvous"})
    router.with_suffix(".cert").rename(router.with_name("other.cert"))
    with pytest.raises(BadConfig, match="has no certificates beside it"):
        configured(None, neighbours)
    router.with_name("north-certs").mkdir()
    with pytest.raises(BadConfig, match="name 0 networks; say `network` and `coordinator`"):
        configured(None, neighbours)
