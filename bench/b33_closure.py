"""Who can see what, by a hundred thousand certificates?

A thousand principals in four levels pass on rights to a hundred types, with attributes and restrictions of
their own, so that each gets something of each type from a holder above it. Our side computes the whole
closure in Spark. The peer is a single process that asks the kernel pair by pair, as a broker would: of each
type it is handed the certificates that name the type, sorted out beforehand, and it remembers each signature
that it has checked. It answers a sample of pairs, and what is compared is the time of one pair. Then one
certificate is issued, and the closure is brought up to date, against computing it anew.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from bench_spark import bench_session
from harness import Benchmark, Case, Race, Ratio, Side, at_least
from maia.credentials import (
    ALL_ATTRIBUTES,
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    VerificationCache,
    certificate_to_bytes,
    issue,
    parse_name_pattern,
)
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.predicates import ALWAYS, Comparison, Operator
from maia.spark.closure.tables import Closure, build, update
from maia.types import TypeDefinition, VerifiedType, sign_definition, verify_definition

NOW = Instant.parse("2026-11-15T12:00:00Z")
LATER = Instant.parse("2027-11-15T12:00:00Z")
UIDS = [AttributeUid(f"attribute-{number}") for number in range(6)]
LEVELS = (0.01, 0.09, 0.3, 0.6)
"""Which part of the principals is on which level below the owner."""


class World:
    """Types of one owner, and certificates of a few levels of holders for each of them."""

    def __init__(self, *, principals: int, types: int, certificates: int) -> None:
        chance = random.Random(33)
        self.owner = _key(0)
        self.keys = [_key(number) for number in range(1, principals + 1)]
        self.types = [_type(self.owner, number) for number in range(types)]
        self.pools: list[list[SignedCertificate]] = []
        levels = _levels(self.keys)
        each, more = divmod(certificates, types)
        for number, event_type in enumerate(self.types):
            wanted = each + (number < more)
            self.pools.append(list(_certificates(self.owner, levels, event_type, wanted, chance)))
        self.all = [certificate_to_bytes(one) for pool in self.pools for one in pool]


def _key(number: int) -> SigningKey:
    return SigningKey.from_seed(number.to_bytes(32, "big"))


def _type(owner: SigningKey, number: int) -> VerifiedType:
    attributes = tuple(Attribute(uid, uid, Kind.INT) for uid in UIDS)
    definition = TypeDefinition(TypeName(owner.principal, f"city.Type{number}", "0"), None, attributes)
    return verify_definition(sign_definition(definition, owner), at=NOW)


def _levels(keys: Sequence[SigningKey]) -> list[Sequence[SigningKey]]:
    levels: list[Sequence[SigningKey]] = []
    begin = 0
    for part in LEVELS:
        end = begin + max(1, round(part * len(keys)))
        levels.append(keys[begin:end])
        begin = end
    return levels


def _certificates(
    owner: SigningKey,
    levels: Sequence[Sequence[SigningKey]],
    event_type: VerifiedType,
    wanted: int,
    chance: random.Random,
) -> Iterator[SignedCertificate]:
    """Yield certificates from level to level, to each principal once and then to some of them again."""
    above: dict[SigningKey, Sequence[SigningKey]] = {}
    for upper, level in zip(([owner], *levels), levels, strict=False):
        above |= dict.fromkeys(level, upper)
    holders = list(above)
    for number in range(wanted):
        holder = holders[number] if number < len(holders) else chance.choice(holders)
        yield _certificate(chance.choice(above[holder]), holder, event_type, chance)


def _certificate(
    issuer: SigningKey, holder: SigningKey, event_type: VerifiedType, chance: random.Random
) -> SignedCertificate:
    attributes = ALL_ATTRIBUTES if chance.random() < 0.5 else frozenset(chance.sample(UIDS, 4))
    restriction = ALWAYS
    if chance.random() < 0.3:
        restriction = Comparison(UIDS[0], Operator.GE, chance.randrange(10))
    validity = UNBOUNDED if chance.random() < 0.7 else Validity(NOW, LATER)
    pattern = TypePattern(event_type.name.owner, parse_name_pattern(event_type.name.name), None)
    authority = Authority(pattern, frozenset({Action.SUBSCRIBE}), attributes, restriction)
    return issue(
        AuthorisationCertificate(issuer.principal, holder.principal, True, authority, validity), issuer
    )


class PairByPair:
    """The peer: the kernel, asked for one principal and one type after the other."""

    def __init__(self, world: World, pairs: int) -> None:
        chance = random.Random(34)
        self._world, self._cache = world, VerificationCache(certificates_max=1 << 20, bytes_max=1 << 30)
        some = sorted(chance.sample(range(len(world.types)), min(4, len(world.types))))
        self.pairs = [(chance.choice(world.keys).principal, chance.choice(some)) for _ in range(pairs)]

    def run(self) -> dict[tuple[object, int], frozenset[AttributeUid]]:
        """Ask all pairs of the sample; return which attributes each may see."""
        found: dict[tuple[object, int], frozenset[AttributeUid]] = {}
        for principal, number in self.pairs:
            event_type, pool = self._world.types[number], self._world.pools[number]
            request = Request(principal, Action.SUBSCRIBE, event_type.name, event_type)
            evidence = gather_evidence(request, pool, at=NOW, cache=self._cache)
            decision = decide(request, evidence, NO_FACTS, NOW)
            windows = decision.view.windows if isinstance(decision, Permit) else ()
            shown = (UIDS if one.attributes is ALL_ATTRIBUTES else one.attributes for one in windows)
            found[principal, number] = frozenset(uid for some in shown for uid in some)
        return found


def cases(quick: bool) -> Iterator[Case]:
    """Yield the whole closure against pair by pair, and one change against the whole closure."""
    principals, types, certificates, sample = (40, 3, 300, 20) if quick else (1_000, 100, 100_000, 200)
    world = World(principals=principals, types=types, certificates=certificates)
    peer = PairByPair(world, sample)
    numbers = count()
    with (
        tempfile.TemporaryDirectory(prefix="maia-closure-") as scratch,
        bench_session("bench 33", quick=quick, memory_mib=3072) as spark,
    ):

        def place() -> Path:
            return Path(scratch, str(next(numbers)))

        def anew() -> Closure:
            return build(spark, world.all, place(), types=[[one] for one in world.types], at=NOW)

        closure = anew()
        _check(closure, peer)
        yield Race(
            f"{certificates:,} certificates over {principals:,} principals, a pair of principal and type",
            ours=Side(run=anew, operations=principals * types, calls=1),
            peer=Side(run=peer.run, operations=sample, calls=1),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(20),
        )
        chance = random.Random(35)
        levels = _levels(world.keys)

        def changes(wanted: int) -> list[bytes]:
            new = [
                _certificate(chance.choice(levels[2]), chance.choice(levels[3]), event_type, chance)
                for event_type in chance.choices(world.types, k=wanted)
            ]
            return [certificate_to_bytes(one) for one in new]

        yield Race(
            "one more certificate, against computing the closure anew",
            ours=Side(
                run=lambda one: update(closure, place(), added=[one]),
                prepare=changes,
                calls=2 if quick else 10,
            ),
            peer=Side(run=anew, calls=1),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(100),
        )


def _check(closure: Closure, peer: PairByPair) -> None:
    """See that both ways agree on the sample before they are timed."""
    import pyarrow.parquet as pq

    rows = pq.read_table(closure.place / "rows", columns=["principal", "type", "uid"]).to_pylist()
    ours: dict[tuple[bytes, str], set[str]] = {}
    for row in rows:
        ours.setdefault((row["principal"], row["type"]), set()).add(row["uid"])
    for (principal, number), shown in peer.run().items():
        assert ours.get((principal.key, f"city.Type{number}"), set()) == shown


BENCH = Benchmark(
    number=33,
    name="closure",
    about="who can see what, by all certificates of many principals, and when one of them changes",
    cases=cases,
    stood="a single process that asks the kernel for one principal and type after the other",
    peer_lacks="the peer answers for one moment; the closure has the period of each grant",
)
