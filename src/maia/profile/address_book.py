"""By which names does this user know keys and types, and who chose each name?

    ~/.config/maia/*.pub                 the user's own book: what `maia key remember` keeps
    lab.maia/*.pub, hospital/*.pub …     the profile and the organisation in use, its members and grantees
    hospital/introduced/*.name           what a granting organisation calls itself
    certs/*.cert                         name certificates whose issuer is known by one of the files above

The order is the order of trust. Names are for people who read: a name is shown
with the beginning of its key, and with who chose it unless the user did. A
principal can deceive by what it calls itself and by what it names others (A14, A25), so such a
name never replaces one of the user's own, is never shown for another key, and is
never looked up where a principal is wanted. Nothing here decides about a right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Final

from maia.config.input_files import BadFile, read_certificates, read_definition, read_principal, read_text
from maia.config.type_folder import verified_lineage
from maia.credentials import NameCertificate, Principal, TypeName, check_signature
from maia.credentials.names import is_reserved, type_id
from maia.errors import MaiaError
from maia.events import AttributeUid, Instant
from maia.private_files import exposure
from maia.profile.files import ORGANISATION_FILE, PROFILE_FILE, PROFILE_SUFFIX
from maia.types import SignedDefinition
from maia.types.verified import validity_type_id, validity_type_name

INTRODUCED: Final = "introduced"
"""Where an organisation keeps what others call themselves."""
KNOWN: Final = "known"
"""Where an organisation keeps the public keys that it has granted something to."""
ITSELF: Final = "itself"
OWN: Final = "you"
FILES_MAX: Final = 4096
_DIGITS: Final = 8
"""At least so many digits of a key are shown beside its name."""
_NAME_MAX: Final = 64
_UNCLEAR: Final = re.compile(r"[`\"'()…\\/]|ed25519:")
_ID: Final = re.compile(r"(?<![0-9a-z:])(`?)((?:ed25519:)?[0-9a-f]{64})(?![0-9a-f@])(`?)")
"""A key before an `@` is part of an address, which people copy."""
_PREFIX: Final = "ed25519:"


@dataclass(frozen=True, slots=True)
class KnownName:
    """One name of a key, who chose it, and where it is written."""

    principal: Principal
    name: str
    chosen_by: str
    """`you`, `itself`, or the key that issued a name certificate."""
    place: Path


@dataclass(frozen=True, slots=True)
class AddressBook:
    """The names of keys and types that one user knows."""

    keys: Mapping[str, KnownName] = field(default_factory=dict)
    """By the written key, the most trusted name of it."""
    types: Mapping[str, TypeName] = field(default_factory=dict)
    """By the digest that routes a type, in hexadecimal."""
    attributes: Mapping[tuple[str, str], Mapping[AttributeUid, str]] = field(default_factory=dict)
    """By the owner and the name of a type, what its attributes are called."""

    def shown(self, key: str) -> str:
        """Return a key for people: its name and the beginning of it; the whole of a key without a name."""
        known = self.keys.get(key)
        return key if known is None else f"{self._called(known)} ({self._short(key)})"

    def named(self, text: str) -> str:
        """Return a text for people, with each known key and type in it by its name."""
        return _ID.sub(self._replaced, text)

    def names_in(self, text: str) -> dict[str, dict[str, str]]:
        """Return what is known of the keys and types in a text, for programs, which get the whole ids."""
        found: dict[str, dict[str, str]] = {}
        for _, word, _ in _ID.findall(text):
            if word in self.keys:
                found[word] = {"name": self.keys[word].name, "chosen_by": self.keys[word].chosen_by}
            elif word in self.types:
                found[word] = {"name": self.types[word].name, "owner": str(self.types[word].owner)}
        return found

    def find(self, name: str) -> Principal:
        """Return the key that the user calls so: `lab`, or `hospital/broker` where several have one name."""
        place, _, last = name.rpartition("/")
        own = [one for one in self.keys.values() if one.chosen_by == OWN]
        meant = [one for one in own if one.name == last and place in ("", one.place.parent.name)]
        shown = name[:_NAME_MAX].encode("unicode_escape").decode()
        if len(meant) == 1:
            return meant[0].principal
        if meant:
            several = ", ".join(f"`{one.place.parent.name}/{one.name}`" for one in meant)
            raise BadFile(f"`{shown}` means several keys: {several}")
        near = get_close_matches(last[:_NAME_MAX], [one.name for one in own], n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise BadFile(f"there is no file `{shown}`, and no key that you know by this name{hint}")

    def _called(self, known: KnownName) -> str:
        if known.chosen_by == ITSELF:
            return f'self-named "{known.name}"'
        if known.chosen_by != OWN:
            return f'"{known.name}" of {self._called(self.keys[known.chosen_by])}'
        same = [one for one in self.keys.values() if (one.name, one.chosen_by) == (known.name, OWN)]
        return known.name if len(same) == 1 else f"{known.place.parent.name}/{known.name}"

    def _short(self, key: str) -> str:
        """Return the beginning of a key, as long as it takes to tell it from every other known one."""
        digits = _DIGITS
        while sum(one.startswith(key[: len(_PREFIX) + digits]) for one in self.keys) > 1:
            digits += 4
        return f"{key[: len(_PREFIX) + digits]}…"

    def _replaced(self, found: re.Match[str]) -> str:
        before, word, after = found.groups()
        if word in self.types:
            name, owner = self.types[word].name, self.keys.get(str(self.types[word].owner))
            whose = f" of {self._called(owner)}" if owner is not None and is_reserved(name) else ""
            return f"{before}{name}{whose}{after} (type {word[:_DIGITS]}…)"
        if word not in self.keys:
            return found.group()
        return f"{before}{self._called(self.keys[word])}{after} ({self._short(word)})"


def load_book(places: Iterable[Path], *, own: Path, at: Instant) -> AddressBook:
    """Read the names in the user's own folder, and in profiles and organisations; skip what is no name."""
    folders = [one for one in dict.fromkeys(places) if one.is_dir() and exposure(one) is None]
    mine = [own] if own.is_dir() and exposure(own) is None else []
    book: dict[str, KnownName] = {}
    for file in islice(_public_files(mine, folders), FILES_MAX):
        with suppress(MaiaError):
            _add(book, KnownName(read_principal(str(file)), file.stem, OWN, file))
    for file in islice(_in(folders, f"{INTRODUCED}/*.name"), FILES_MAX):
        with suppress(MaiaError):
            key, _, name = read_text(file).strip().partition(" ")
            _add(book, KnownName(read_principal(key), name, ITSELF, file))
    for file in islice(_in(folders, "certs/*.cert"), FILES_MAX):
        with suppress(MaiaError):
            _add_certified(book, file, at)
    types, attributes = _types(_definitions(folders), at)
    streams = {
        validity_type_id(one.principal).hex(): validity_type_name(one.principal) for one in book.values()
    }
    return AddressBook(book, streams | types, attributes)


def with_types(known: AddressBook, definitions: Sequence[SignedDefinition], *, at: Instant) -> AddressBook:
    """Return what is known after some definitions have come, such as those in a grant."""
    types, attributes = _types(definitions, at)
    return replace(known, types={**known.types, **types}, attributes={**known.attributes, **attributes})


def own_places(profile: Path | None, here: Path) -> list[Path]:
    """Return the folders whose names count: a profile, its organisation, and the organisations here."""
    around = [one for one in (here, *here.parents) if (one / ORGANISATION_FILE).is_file()][:1]
    below = [] if around else [one.parent for one in islice(sorted(here.glob(f"*/{ORGANISATION_FILE}")), 64)]
    used = [] if profile is None else [profile, profile.absolute().parent]
    return [one for one in (*used, *around, *below) if _is_ours(one)]


def introduction(principal: Principal, name: str) -> tuple[str, str]:
    """Return the file, and what is in it, that remember how another organisation calls itself."""
    return f"{str(principal).removeprefix(_PREFIX)[:32]}.name", f"{principal} {name}\n"


def clear_name(name: str) -> str:
    """Return a name that can be shown on a line; raise for one that could pass for something else."""
    if not (name.isprintable() and 0 < len(name.strip()) <= _NAME_MAX) or _UNCLEAR.search(name):
        shown = name[:_NAME_MAX].encode("unicode_escape").decode()
        raise BadFile(
            f"`{shown}` is no name: at most {_NAME_MAX} printable characters, no quotes, brackets or /"
        )
    return name


def _is_ours(folder: Path) -> bool:
    return any((folder / one).is_file() for one in (PROFILE_FILE, ORGANISATION_FILE))


def _public_files(mine: list[Path], folders: list[Path]) -> Iterator[Path]:
    # A profile that was put aside has the key of another name, and gives that no second meaning.
    members = (one for one in _in(folders, f"*{PROFILE_SUFFIX}/*.pub") if one.stem == one.parent.stem)
    return chain(_in(mine, "*.pub"), _in(folders, "*.pub"), _in(folders, f"{KNOWN}/*.pub"), members)


def _in(folders: list[Path], pattern: str) -> Iterator[Path]:
    return chain.from_iterable(sorted(folder.glob(pattern)) for folder in folders)


def _add(book: dict[str, KnownName], one: KnownName) -> None:
    """Take a name unless the key has one already, or another key has it; unclear ones are left out."""
    clear_name(one.name)
    is_taken = one.chosen_by == ITSELF and any(
        one.name.casefold() == known.name.casefold() for known in book.values()
    )
    if not is_taken:
        book.setdefault(str(one.principal), one)


def _add_certified(book: dict[str, KnownName], file: Path, at: Instant) -> None:
    (signed,) = read_certificates([file])
    certificate = signed.certificate
    if not isinstance(certificate, NameCertificate) or not isinstance(certificate.subject, Principal):
        return
    by = str(certificate.issuer)
    # One that demands a test may have been revoked: whether it was, only a verifier with statements knows.
    if by not in book or certificate.validity.tests or not certificate.validity.contains(at):
        return
    check_signature(signed)
    if book[by].chosen_by in (OWN, ITSELF):
        _add(book, KnownName(certificate.subject, certificate.name, by, file))


def _definitions(folders: list[Path]) -> list[SignedDefinition]:
    by_id: dict[bytes, SignedDefinition] = {}
    for file in islice(_in(folders, "types/*.type"), FILES_MAX):
        with suppress(MaiaError):
            definition = read_definition(file)
            by_id[definition.id] = definition
    return list(by_id.values())


def _types(
    found: Sequence[SignedDefinition], at: Instant
) -> tuple[dict[str, TypeName], dict[tuple[str, str], Mapping[AttributeUid, str]]]:
    """Return the types whose definitions were signed by their owners."""
    names = dict.fromkeys((one.definition.name.owner, one.definition.name.name) for one in found)
    types: dict[str, TypeName] = {}
    attributes: dict[tuple[str, str], Mapping[AttributeUid, str]] = {}
    for owner, name in names:
        with suppress(MaiaError):
            lineage = verified_lineage(found, owner=owner, name=name, version=None, at=at)
            types[type_id(owner, name).hex()] = lineage[-1].name
            attributes[str(owner), name] = {
                one.uid: one.name for version in lineage for one in version.attributes
            }
    return types, attributes
