"""What did the author of a Spark job ask of the `maia` format, and can it be done?

Options are text, and Spark shows them in plans and in its user interface. So
they name files and never hold what is in them, and an option that is not
known here is refused together with its nearest neighbour: a misspelt `filter`
must not become no filter at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.errors import BadInput
from maia.predicates import ALWAYS, AllOf, Predicate, parse_predicate
from maia.spark.source.member import Member, verified
from maia.types import VerifiedType, check_predicate

if TYPE_CHECKING:
    from maia.credentials import SigningKey
    from maia.types import SignedDefinition

_PASSPHRASE: Final = "MAIA_PASSPHRASE"  # noqa: S105 - the name of a variable, not a secret
_SHOWN: Final = 80
_NEEDED: Final = ("broker", "key", "credentials", "network", "coordinator", "definition")
_OWN: Final = frozenset(
    {
        *_NEEDED,
        "brokersOf",
        "profile",
        "type",
        "previous",
        "filter",
        "durable",
        "readers",
        "maxRowsPerBatch",
        "rows",
        "seconds",
        "wait",
        "job",
        "order",
        "failOnDataLoss",
        "settle",
    }
)
OF_LOGS: Final = frozenset({"log", "columns", "since", "until", "asOf", "meta", "ledger", "complete"})
"""What is said of a recorded log alone (`recorded.py`)."""
_BY_LOWER_CASE: Final = {name.lower(): name for name in _OWN | OF_LOGS}
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path", "outputmode"})
"""What Spark itself may put among the options of a stream."""

READERS: Final = 4
READERS_MAX: Final = 256
ROWS_PER_BATCH: Final = 10_000
ROWS_PER_BATCH_MAX: Final = 1_000_000
SECONDS_MAX: Final = 3600.0


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of one source or sink, checked; files are read when they are needed."""

    brokers: tuple[str, ...]
    key: Path
    credentials: tuple[Path, ...]
    network: str
    coordinator: str
    definitions: tuple[Path, ...]
    """The versions that the type was made from, oldest first, and the type."""
    filter: str
    durable: str | None
    readers: int
    """How many tasks of a batch read from the log at once; without a durable name there is one reader."""
    rows_per_batch: int
    rows: int | None
    seconds: float | None
    wait_s: float
    job: str | None
    order: tuple[str, ...] = field(default=())
    settle_s: float = 2.0
    """What is there now has arrived when nothing came for so long."""
    brokers_of: tuple[str, ...] = ()
    """The organisations whose brokers to talk to, by key or .pub file; none: those of any."""
    fails_on_loss: bool = True
    """Whether a stream ends when the event log has lost something that it should have had."""

    def history(self) -> list[SignedDefinition]:
        """Read the type's definition after those it was made from."""
        from maia.config.input_files import read_definition

        return [read_definition(path) for path in self.definitions]

    def event_type(self) -> VerifiedType:
        """Return the version of the type whose names this job uses, verified."""
        from maia.config.constitutions import read_constitutions

        return verified(self.history(), read_constitutions(self.credentials))

    def predicate(self, event_type: VerifiedType) -> Predicate:
        """Return the filter that was asked for, checked against the type."""
        asked = parse_predicate(self.filter, event_type.vocabulary) if self.filter else ALWAYS
        check_predicate(asked, event_type)
        return asked

    def narrowed(self, event_type: VerifiedType, pushed: tuple[Predicate, ...]) -> Predicate:
        """Return the filter that was asked for and, all at once, what Spark pushed down."""
        return AllOf((self.predicate(event_type), *pushed)) if pushed else self.predicate(event_type)

    def member(self) -> Member:
        """Read every file that the options name: the key, certificates, statements and definitions."""
        from maia.config.constitutions import read_quorums
        from maia.config.input_files import read_certificates, read_owner, read_principal
        from maia.credentials import certificate_to_bytes, evidence_to_text, statement_to_bytes
        from maia.spark.governed.right_watch import read_statements
        from maia.types import definition_to_bytes

        # What lies in wallets beside the certificates, and says that they still count.
        said = read_statements(path for path in self.credentials if path.is_dir())
        quorums = read_quorums(self.credentials).values()
        return Member(
            seed=self._signing_key().reveal_seed(),
            brokers=self.brokers,
            network=self.network,
            coordinator=str(read_owner(self.coordinator)),
            certificates=tuple(map(certificate_to_bytes, read_certificates(self.credentials))),
            statements=tuple(map(statement_to_bytes, said)),
            quorums=tuple(evidence_to_text(evidence) for evidence, _ in quorums),
            definitions=tuple(map(definition_to_bytes, self.history())),
            wait_s=self.wait_s,
            brokers_of=tuple(str(read_principal(one)) for one in self.brokers_of),
        )

    def _signing_key(self) -> SigningKey:
        from maia.keystore.key_files import WrongPassphrase, load_signing_key

        given = os.environ.get(_PASSPHRASE)
        try:
            return load_signing_key(self.key)
        except WrongPassphrase:
            if given is None:
                raise WrongPassphrase(
                    f"the key file is encrypted; set {_PASSPHRASE} where the driver starts"
                ) from None
            return load_signing_key(self.key, given)


def resolved(given: Mapping[str, str]) -> dict[str, str]:
    """Return options by their own names, and those that a profile stands for in place of the profile."""
    words = known_options(given)
    if of_logs := sorted(OF_LOGS & words.keys()):
        raise BadInput(
            "INPUT-SPARK-OPTION", f"option `{of_logs[0]}` is of a recorded log: give option `log`, too"
        )
    if words.get("profile"):
        words = _of_profile(words, words.get("type", "")) | words
    elif words.get("type"):
        raise BadInput(
            "INPUT-SPARK-OPTION",
            "option `type` is a name among the types of a profile: give option `profile`, too",
        )
    return {name: word for name, word in words.items() if name not in {"profile", "type"}}


def job_options(given: Mapping[str, str], *, has_files: bool = True) -> JobOptions:
    """Check the options of a source or sink; Spark has them in lower case.

    What plans a query need not have the files that they name: the driver has them, and has checked them.
    """
    words = resolved(given)
    for name in _NEEDED:
        if not words.get(name):
            raise BadInput("INPUT-SPARK-OPTION", f"option `{name}` is missing")
    brokers, durable = listed(words["broker"]), _durable(words.get("durable"))
    if durable is not None and len(brokers) != 1:
        raise BadInput(
            "INPUT-SPARK-OPTION", "a durable subscription lives at one broker; option `broker` names several"
        )
    readers = _whole("readers", words, most=READERS_MAX)
    if readers is not None and readers > 1 and durable is None:
        raise BadInput(
            "INPUT-SPARK-OPTION",
            "what is not read from a log has one reader, on the driver: option `readers` needs `durable`",
        )
    return JobOptions(
        brokers=brokers,
        brokers_of=listed(words.get("brokersOf", "")),
        key=_file("key", words["key"]) if has_files else Path(words["key"]),
        credentials=tuple(map(Path, listed(words["credentials"]))),
        network=words["network"],
        coordinator=words["coordinator"],
        definitions=tuple(map(Path, (*listed(words.get("previous", "")), words["definition"]))),
        filter=words.get("filter", ""),
        durable=durable,
        readers=readers or READERS,
        rows_per_batch=_whole("maxRowsPerBatch", words, most=ROWS_PER_BATCH_MAX) or ROWS_PER_BATCH,
        rows=_whole("rows", words, most=ROWS_PER_BATCH_MAX),
        seconds=_seconds("seconds", words),
        wait_s=_seconds("wait", words) or 30.0,
        job=words.get("job") or None,
        order=listed(words.get("order", "")),
        settle_s=_seconds("settle", words) or 2.0,
        fails_on_loss=yes_or_no("failOnDataLoss", words, "true"),
    )


def _of_profile(words: Mapping[str, str], type_name: str) -> dict[str, str]:
    """Return the options that a profile stands for; each of them can still be given beside it."""
    from maia.clock import system_now
    from maia.config.input_files import read_definition
    from maia.profile import find_profile

    profile = find_profile(words["profile"])
    settings = profile.settings
    found = {
        "broker": ",".join(settings.brokers),
        "brokersOf": ",".join(map(str, settings.brokers_of)),
        "key": str(settings.key or ""),
        "credentials": ",".join(map(str, settings.credentials)),
        "network": str(settings.network or ""),
        "coordinator": str(settings.coordinator or ""),
    }
    if words.get("definition"):
        return found
    if not type_name:
        raise BadInput(
            "INPUT-SPARK-OPTION", 'name the type: `.load("LabResult")`, or option `type` or `definition`'
        )
    places = [
        file
        for place in settings.types
        for file in (sorted(place.glob("*.type")) if place.is_dir() else [place])
    ]
    by_id = {read_definition(file).id: str(file) for file in places}
    files = [by_id[version.signed.id] for version in profile.lineage(type_name, at=system_now())]
    return found | {"definition": files[-1], "previous": ",".join(files[:-1])}


def known_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return options by their own names; what is loaded beside a profile, `.load("LabResult")`, is a type."""
    words: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower in _BY_LOWER_CASE:
            words[_BY_LOWER_CASE[lower]] = value.strip()
        elif lower not in _OF_SPARK:
            near = get_close_matches(lower, _BY_LOWER_CASE, n=1)
            hint = f"; did you mean `{_BY_LOWER_CASE[near[0]]}`?" if near else ""
            raise BadInput("INPUT-SPARK-OPTION", f"there is no option `{_escaped(name)}`{hint}")
    path = next((value.strip() for name, value in given.items() if name.lower() == "path"), "")
    if words.get("profile") and path:
        words.setdefault("type", path)
    return words


def _file(name: str, word: str) -> Path:
    path = Path(word)
    try:
        is_there = path.is_file()
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        # What was given is not repeated: it may be the key itself.
        raise BadInput(
            "INPUT-SPARK-OPTION",
            f"option `{name}` does not name a file on this machine; keys are never options",
        )
    return path


def listed(words: str) -> tuple[str, ...]:
    """Return the words of an option that takes several, with commas between them."""
    return tuple(word.strip() for word in words.split(",") if word.strip())


def _durable(name: str | None) -> str | None:
    if not name:
        return None
    if len(name) > 128 or not all("!" <= letter <= "~" for letter in name):
        raise BadInput(
            "INPUT-SPARK-OPTION", "option `durable` is a name of 1 to 128 visible ASCII characters"
        )
    return name


def _whole(name: str, words: Mapping[str, str], *, most: int) -> int | None:
    word = words.get(name)
    if word is None:
        return None
    if not (word.isascii() and word.isdigit() and len(word) <= 12 and 1 <= int(word) <= most):
        raise BadInput(
            "INPUT-SPARK-OPTION",
            f"option `{name}` is `{_escaped(word)}`; it takes a whole number from 1 to {most}",
        )
    return int(word)


def _seconds(name: str, words: Mapping[str, str]) -> float | None:
    word = words.get(name)
    if word is None:
        return None
    try:
        seconds = float(word)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= SECONDS_MAX:
        raise BadInput(
            "INPUT-SPARK-OPTION",
            f"option `{name}` is `{_escaped(word)}`; it takes seconds, up to {SECONDS_MAX:g}",
        )
    return seconds


def yes_or_no(name: str, words: Mapping[str, str], default: str) -> bool:
    """Return what an option says that is `true` or `false`."""
    word = words.get(name, default).lower()
    if word not in {"true", "false"}:
        raise BadInput(
            "INPUT-SPARK-OPTION", f"option `{name}` is `{_escaped(word)}`; it takes `true` or `false`"
        )
    return word == "true"


def _escaped(text: str) -> str:
    return text[:_SHOWN].encode("unicode_escape").decode()
