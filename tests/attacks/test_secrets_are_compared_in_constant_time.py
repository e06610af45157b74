"""A79: a comparison that stops at the first wrong byte tells how many were right.

Secrets, tokens and authentication codes are compared by `same_secret` alone.
One test reads the source of every module. The others run each place that
checks one with bytes that cannot be compared in any other way.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import pytest

import maia
from maia.credentials import same_secret
from maia.events import AttributeUid, Instant
from maia.net.status_endpoint import StatusEndpoint, StatusSource
from maia.predicates import ALWAYS
from maia.sealing import Secret
from maia.sealing.filters import proofs as filter_proofs
from maia.sealing.filters import sealed_filters as filters
from maia.sealing.filters.proofs import OpenedProof, check_made_by_a_member, seal_proof
from maia.sealing.filters.sealed_filters import open_filter
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys import epochs
from maia.sealing.keys.epochs import EpochStatement, check_meant, commitment
from maia.sealing.tree import node_secrets
from maia.sealing.tree.rekey import PathNeeded
from maia.spark.keys import key_server as desk_module
from maia.spark.keys.key_server import job_desk
from maia.testing.refusals import raises
from reference.tree_store import Scheme
from support.key_trees import GROUP, member_of, tree_of
from support.sealed_filters import random_from, ring, sealed

HOME = Path(maia.__file__).parent
PLATE = AttributeUid("plate")

MAKES_A_SECRET = frozenset({
    "_mac", "_stretched", "commitment", "confirmation", "derive", "keyed_mark", "reveal", "reveal_seed",
})  # fmt: skip
"""Functions whose answer is a secret, or shows that somebody knows one."""

SECRET_WORDS = frozenset({"mac", "macs", "passphrase", "password", "secret", "secrets", "tag", "token"})
"""What secrets are called, as a word of a name."""
NUMBERS = frozenset({"bytes", "count", "from"})
"""Last words of names that say how many or where, and nothing secret."""


# ------------------------------------------------------------ what the source says


def compared_otherwise(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of every secret that is compared by `==`, `!=`, `in` or `not in`."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = list(ast.walk(function))
            comparisons = [node for node in inside if isinstance(node, ast.Compare)]
            assigned = [node for node in inside if comparisons and isinstance(node, ast.Assign)]
            held = frozenset(
                target.id
                for node in assigned
                if _secret_in(node.value, frozenset()) is not None
                for target in node.targets
                if isinstance(target, ast.Name)
            )
            for node in comparisons:
                yield from _in_comparison(node, held)


def _in_comparison(node: ast.Compare, held: frozenset[str]) -> Iterator[tuple[int, str]]:
    sides = [node.left, *node.comparators]
    for operator, one, other in zip(node.ops, sides, sides[1:], strict=False):
        by_value = isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
        is_empty = any(isinstance(side, ast.Constant) and not side.value for side in (one, other))
        if by_value and not is_empty:
            # What stands on the right of `in` may be a table whose keys are public.
            is_table = isinstance(operator, ast.In | ast.NotIn) and isinstance(
                other, ast.Name | ast.Attribute
            )
            found = (_secret_in(side, held) for side in ((one,) if is_table else (one, other)))
            yield from ((node.lineno, name) for name in found if name is not None)


def _secret_in(node: ast.expr, held: frozenset[str]) -> str | None:
    """Return the name by which an expression is a secret, if it is one."""
    match node:
        case ast.Name(name):
            return name if name in held or _sounds_secret(name) else None
        case ast.Attribute(_, name):
            return name if _sounds_secret(name) else None
        case ast.Call(ast.Attribute(ast.Name("hmac"), "digest" | "new")):
            return "hmac"
        case ast.Call(ast.Name(name) | ast.Attribute(_, name)) if name in MAKES_A_SECRET:
            return name
        case ast.Call(ast.Name("blake2b"), _, keywords) if any(one.arg == "key" for one in keywords):
            return "blake2b"
        case ast.Call(ast.Name("bytes" | "str" | "bytearray" | "memoryview"), [inner, *_]):
            return _secret_in(inner, held)
        case ast.Call(ast.Attribute(inner, "hex" | "strip" | "encode" | "decode" | "digest" | "lower")):
            return _secret_in(inner, held)
        case ast.Subscript(inner) | ast.UnaryOp(_, inner) | ast.NamedExpr(_, inner) | ast.Starred(inner):
            return _secret_in(inner, held)
        case ast.BinOp(left, _, right):
            return _secret_in(left, held) or _secret_in(right, held)
        case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
            return next((name for part in parts if (name := _secret_in(part, held))), None)
    return None


def _sounds_secret(name: str) -> bool:
    words = name.lower().split("_")
    return words[-1] not in NUMBERS and not SECRET_WORDS.isdisjoint(words)


def test_no_module_compares_a_secret_by_itself() -> None:
    """A79: every comparison in Maia is checked."""
    files = sorted(HOME.rglob("*.py"))
    assert len(files) > 300
    found = {
        (file.relative_to(HOME).as_posix(), line, name)
        for file in files
        for line, name in compared_otherwise(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_one_function_compares_secrets() -> None:
    """A79: nothing else calls `compare_digest`, so that there is one place to look at."""
    users = [
        (file.name, node.lineno)
        for file in HOME.rglob("*.py")
        if "compare_digest" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr == "compare_digest")
        or (isinstance(node, ast.Name) and node.id == "compare_digest")
        or (isinstance(node, ast.alias) and node.name == "compare_digest")
    ]
    assert [name for name, _ in users] == ["keys.py"]


@pytest.mark.parametrize(
    "comparison",
    [
        "mac == _mac(self.token, asked)",
        "_mac(grant.token, asked) != question[:32]",
        "shown.strip().encode() == self._token",
        "token in self.known",
        "shown in (self.token, other)",
        "(grant, mac) == known",
        "self.reveal() == other.reveal()",
        "keyed_mark(key, data) != part.mark",
        "node_secrets.confirmation(root, group, 1) != rekey.said",
        "hmac.digest(key, data, 'sha256') == given",
        "blake2b(data, key=key).digest() == given",
        "proof.tag.hex() == given",
        "given == made",
        "1 < 2 != given_token",
    ],
)
def test_the_reader_of_sources_finds_what_it_looks_for(comparison: str) -> None:
    """A79: what a hurried change would write, in place of the call."""
    source = f"def check(self):\n    made = keyed_mark(key, data)[:16]\n    if {comparison}:\n        pass\n"
    assert list(compared_otherwise(source)) != []


@pytest.mark.parametrize(
    "comparison",
    [
        "same_secret(mac, _mac(token, asked))",
        "len(token) != SECRET_BYTES",
        "passphrase == ''",
        "secret is None",
        "node in secrets",
        "one == other",
    ],
)
def test_the_reader_of_sources_leaves_the_rest_alone(comparison: str) -> None:
    assert list(compared_otherwise(f"def check(self):\n    return {comparison}\n")) == []


# ------------------------------------------------------------ what happens


class Uncomparable(bytes):
    """Bytes that a test of equality, or a set, may not look at; only a buffer's reader may."""

    def __eq__(self, other: object) -> NoReturn:
        raise AssertionError("a secret was compared, and not in constant time")

    __ne__ = __eq__
    __lt__ = __le__ = __gt__ = __ge__ = __eq__  # type: ignore[assignment]  # no order tells it either

    def __hash__(self) -> NoReturn:
        raise AssertionError("a secret was hashed")


def uncomparable(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> None:
    """Let a function return what it returns, in a form that cannot be compared."""
    real = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given, **named: Uncomparable(real(*given, **named)))


def test_same_secret_compares_no_other_way() -> None:
    """A79: the one function itself."""
    one, same, other = Uncomparable(b"x" * 32), Uncomparable(b"x" * 32), Uncomparable(b"y" * 32)
    assert same_secret(one, same)
    assert not same_secret(one, other)
    assert not same_secret(one, Uncomparable(b"x" * 31))


def test_the_job_desk_and_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A79: the authentication code of questions and of answers, over a real connection."""
    uncomparable(monkeypatch, desk_module, "_mac")
    monkeypatch.setattr(desk_module, "_PAUSES_S", ())
    with job_desk() as desk:
        shown = desk.open(None, frozenset())
        assert shown.keys_of([1]) == {}
        with raises("UNAVAILABLE-JOB-DESK"):
            replace(shown, token=bytes(32)).keys_of([1])
        real = desk.answer
        desk._server.desk = type("Lies", (), {"answer": lambda _, asked: bytes(32) + real(asked)[32:]})()
        with raises("PROTOCOL-JOB-DESK"):
            shown.keys_of([1])


@pytest.mark.parametrize(("shown", "status"), [("t" * 64, 200), ("t" * 63 + "u", 401), ("t" * 63, 401)])
def test_the_status_endpoint(shown: str, status: int) -> None:
    """A79: the token, over a real connection."""

    async def ask() -> bytes:
        told = StatusSource(is_ready=lambda: True, metrics=lambda: b"", status=dict)
        endpoint = StatusEndpoint(told, token="t" * 64)
        endpoint._token = Uncomparable(endpoint._token)
        host, _, port = (await endpoint.start("127.0.0.1:0")).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /status HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {shown}\r\n\r\n"
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.read(), 180)
        writer.close()
        await endpoint.stop()
        return answer

    assert int(asyncio.run(ask()).split(b" ")[1]) == status


def test_secrets_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A79: `Secret` has an equality, which is the same function."""
    one, same, other = (Secret.from_bytes(sha256(name).digest()) for name in (b"a", b"a", b"b"))
    uncomparable(monkeypatch, Secret, "reveal")
    assert one == same
    assert one != other


def test_sealed_filters_and_their_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A79: the marks of parts, and the tag that only a member can make."""
    keys = ring(None, PLATE)
    made = sealed(ALWAYS, keys)
    proof = seal_proof(
        made, OpenedProof(b"request", ()), uids=frozenset({PLATE}), keys=keys, random=random_from("proof")
    )
    assert proof is not None
    for module in (filters, filter_proofs):
        uncomparable(monkeypatch, module, "keyed_mark")
    assert check_made_by_a_member(made, proof, keys)
    with raises("SEALING-NOT-BY-A-MEMBER"):
        check_made_by_a_member(made, replace(proof, tag=bytes(len(proof.tag))), keys)


def test_parts_of_sealed_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A79: the mark of a part is made anew from what the part says."""
    from maia.predicates import Comparison, Operator

    keys = ring(None, PLATE)
    made = sealed(Comparison(PLATE, Operator.EQ, "AE05 XYZ"), keys)
    uncomparable(monkeypatch, filters, "keyed_mark")
    assert open_filter(made, keys).opened != ALWAYS
    forged = replace(made.parts[0], mark=bytes(len(made.parts[0].mark)))
    with raises("SEALING-FILTER-DOES-NOT-OPEN"):
        open_filter(replace(made, parts=(forged, *made.parts[1:])), keys)


def test_what_a_manager_committed_itself_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A79: the commitment to a group's secret."""
    group = GroupId(b"T" * 32, PLATE)
    meant, other = (Secret.from_bytes(sha256(name).digest()) for name in (b"meant", b"other"))
    said = EpochStatement(b"T" * 32, 1, Instant(5), {group: commitment(meant, group, 1)}, None)
    uncomparable(monkeypatch, epochs, "commitment")
    check_meant(meant, group, said)
    with raises("PROTOCOL-SECRET-NOT-MEANT"):
        check_meant(other, group, said)


@pytest.mark.parametrize("scheme", Scheme)
def test_the_confirmation_of_a_group_secret(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    """A79: in a path and in a rekey message."""
    tree = tree_of(b"Ann", b"Bob", b"Cem", scheme=scheme)
    path = tree.path(b"Ann")
    following = tree.refresh().broadcast
    uncomparable(monkeypatch, node_secrets, "confirmation")
    member = type(member_of(tree, b"Bob"))
    followed = member(group=GROUP, path=path)
    assert followed.apply(following) == tree.secret
    with raises("PROTOCOL-TREE-PATH"):
        member(group=GROUP, path=replace(path, confirmation=bytes(len(path.confirmation))))
    forged = bytearray(following)
    at = following.index(bytes(tree.confirmation))
    forged[at] ^= 1
    with pytest.raises(PathNeeded):
        member(group=GROUP, path=path).apply(bytes(forged))
