"""Which type does a word mean: `ShipMovement`, or `ShipMovement@hamburg` where two owners have one?

After the `@` stands the owner: by the name that the user has given its key
(`address_book.py`), or by the beginning of the key. What an owner calls itself is shown
and never looked up. A word that means several types is refused, and the answer lists what to say; one that
means none of a member's types is answered with the right that is missing, and how to get it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final

from maia.clock import system_now
from maia.config.input_files import read_definitions, read_owner
from maia.credentials import Owner
from maia.errors import MaiaError
from maia.private_files import own_folder
from maia.profile.address_book import ITSELF, OWN, AddressBook, load_book, own_places
from maia.profile.files import ORGANISATION_FILE, PROFILE_FILE, UnknownTypeName
from maia.types import VerifiedType
from maia.types.definition import TREE_PREFIX

_SHOWN_MAX: Final = 20
_BEHIND: Final = re.compile(r"[A-Za-z0-9_-]@([A-Za-z_][^\s(),\"@:]*)")
_KEY: Final = re.compile(r"ed25519:[0-9a-f]{8,64}|quorum:[0-9a-f]{8,64}")
_WHOLE_KEY: Final = re.compile(r"(?:ed25519|quorum):[0-9a-f]{64}")


def type_meant(
    word: str, known: Iterable[tuple[Owner, str]], *, folders: Iterable[Path] = ()
) -> tuple[Owner, str]:
    """Return the owner and the full name of the known type that a word means; the last part is enough.

    Names of owners are those of the user, of these profiles and organisations, and of the ones here.
    """
    name, at, whose = word.partition("@")
    owned, folders = set(known), list(folders)
    meant = _called_so(name, owned)
    shown = word[:128].encode("unicode_escape").decode()
    if not meant:
        names = sorted({one for _, one in owned})
        near = get_close_matches(name[:64], names, n=1, cutoff=0.75)
        if near and name.startswith(TREE_PREFIX) and near[0].startswith(TREE_PREFIX):
            asked, meant_by = ("/" + one.removeprefix(TREE_PREFIX) for one in (shown, near[0]))
            raise UnknownTypeName(f"there are no topics `{asked}`; did you mean `{meant_by}`?")
        if near:
            raise UnknownTypeName(f"there is no type `{shown}`; did you mean `{near[0]}`?")
        there = ", ".join(names[:_SHOWN_MAX]) or "none yet"
        raise UnknownTypeName(_not_granted(word, folders) or f"there is no type `{shown}`; there are {there}")
    if len(meant) == 1 and not at:
        return next(iter(meant))
    book = _book(folders)
    fitting = [one for one in meant if not at or _is_called(one[0], whose, book)]
    if len(fitting) == 1:
        return fitting[0]
    called = sorted((of, _called(owner, book, owned)) for owner, of in fitting or meant)
    ways = ", ".join(map("@".join, called))
    if fitting:
        raise UnknownTypeName(f"`{shown}` means {len(fitting)} types here: say which of {ways}")
    if near := get_close_matches(whose[:64], [owner for _, owner in called], n=1, cutoff=0.75):
        (there, *_) = ("@".join(one) for one in called if one[1] == near[0])
        raise UnknownTypeName(f"there is no type `{shown}`; did you mean `{there}`?")
    raise UnknownTypeName(_not_granted(word, folders) or f"there is no type `{shown}`; there are {ways}")


def words_for(
    known: Iterable[tuple[Owner, str]], *, folders: Iterable[Path] = ()
) -> dict[str, tuple[Owner, str]]:
    """Return types by words that `type_meant` takes: a name, or NAME@OWNER where owners share it."""
    owned = set(known)
    counted = Counter(name for _, name in owned)
    book = _book(folders) if len(counted) < len(owned) else AddressBook()
    return {
        name if counted[name] == 1 else f"{name}@{_written(owner, book, owned)}": (owner, name)
        for owner, name in owned
    }


def _called_so(name: str, owned: Iterable[tuple[Owner, str]]) -> set[tuple[Owner, str]]:
    """Return the types of this name, or else those whose last part it is."""
    types = set(owned)
    return {one for one in types if one[1] == name} or {
        one for one in types if one[1].rpartition(".")[2] == name
    }


def _not_granted(word: str, folders: Iterable[Path]) -> str | None:
    """Say which right a member of an organisation lacks, and how it gets it; None if it is no member."""
    member = next((one for one in folders if (one / PROFILE_FILE).is_file()), None)
    if member is None or not (member.absolute().parent / ORGANISATION_FILE).is_file():
        return None
    org, who = member.absolute().parent, member.stem
    shown = word[:128].encode("unicode_escape").decode()
    add = f"`maia member add {who} --org {org.name} --may subscribe:{shown}` (or `publish:`)"
    name, at, whose = word.partition("@")
    with suppress(MaiaError):
        known = [one.definition.name for one in read_definitions([org / "types"])]
        meant = _called_so(name, ((one.owner, one.name) for one in known))
        if any(not at or _is_called(owner, whose, _book([org])) for owner, _ in meant):
            return (
                f"`{who}` has no right to `{shown}`, which `{org.name}` knows: {add} gives it one, "
                f"or `maia login --as {who}` if a role does"
            )
    return (
        f"neither `{who}` nor `{org.name}` has a type `{shown}`: ask its owner for a grant, which `maia "
        f"network join` takes in, or define it (`maia type define`); then {add}"
    )


class NamedTypes(dict[str, VerifiedType]):
    """Types by the words of a text, each found when it is first asked for; refused as by `type_meant`.

    Of owners that share a whole name, `own` is meant: what others register changes no text of ours (A71).
    """

    def __init__(
        self,
        known: Iterable[VerifiedType],
        *,
        own: Owner,
        folders: Iterable[str | Path] = (),
        owners: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self._owners = owners
        self._known = {(one.name.owner, one.name.name): one for one in known}
        self._own, self._folders = own, tuple(map(Path, folders))

    def __missing__(self, word: str) -> VerifiedType:
        name, _, whose = word.partition("@")
        said = f"{name}@{self._owners[whose]}" if whose in self._owners else word
        ours = set[str]() if "@" in word else {name for owner, name in self._known if owner == self._own}
        asked = [one for one in self._known if one[0] == self._own or one[1] not in ours]
        return self.setdefault(word, self._known[type_meant(said, asked, folders=self._folders)])


def owner_named(whose: str, *, folders: Iterable[Path] = ()) -> Owner | None:
    """Return the owner that is written behind an `@`: a whole key, or a name that the user knows."""
    with suppress(MaiaError):
        return read_owner(whose) if _WHOLE_KEY.fullmatch(whose) else _book(folders).find(whose)
    return None


def owners_named(text: str, *, folders: Iterable[Path] = ()) -> dict[str, str]:
    """Return the keys of the owners that a text names behind an `@`, by the names that the user knows."""
    found: dict[str, str] = {}
    words = set(_BEHIND.findall(text))
    book = _book(folders) if words else AddressBook()
    for word in words:
        with suppress(MaiaError):
            found[word] = str(book.find(word))
    return found


def _book(folders: Iterable[Path]) -> AddressBook:
    try:
        here = Path.cwd()
        places = [one for folder in (*folders, None) for one in own_places(folder, here)]
        return load_book(dict.fromkeys(places), own=own_folder(), at=system_now())
    except (OSError, RuntimeError):  # no home, or a working folder that is gone
        return AddressBook()


def _is_called(owner: Owner, whose: str, book: AddressBook) -> bool:
    if _KEY.fullmatch(whose):
        return str(owner).startswith(whose)
    known = book.keys.get(str(owner))
    if known is not None and known.chosen_by == OWN and known.name == whose:
        return True
    try:
        return book.find(whose) == owner
    except MaiaError:
        return False


def _called(owner: Owner, book: AddressBook, owned: Iterable[tuple[Owner, str]]) -> str:
    """Return what can be written behind the `@`, and for a stranger what it calls itself."""
    known = book.keys.get(str(owner))
    itself = f' (self-named "{known.name}")' if known is not None and known.chosen_by == ITSELF else ""
    return _written(owner, book, owned) + itself


def _written(owner: Owner, book: AddressBook, owned: Iterable[tuple[Owner, str]]) -> str:
    """Return what can be written behind the `@`: the user's name of an owner, or enough of its key."""
    known = book.keys.get(str(owner))
    if known is not None and known.chosen_by == OWN:
        return known.name
    others = {str(one) for one, _ in owned} - {str(owner)}
    kind, _, digits = str(owner).partition(":")
    length = next(
        size for size in range(8, 65) if not any(one.startswith(f"{kind}:{digits[:size]}") for one in others)
    )
    return f"{kind}:{digits[:length]}"
