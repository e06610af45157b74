"""What does a chain of five certificates cost that nobody has seen before?

Five Ed25519 checks cannot be avoided, so they are the floor. Ours begins at
the bytes as they travel and ends with a proof: read strictly, signatures,
validity, links, reduction. The first case reads certificates whose parts
(keys, types, dates) were met before, as a broker does all day; the second
meets every part for the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import count as count_from
from itertools import islice

from biscuit_auth import Biscuit, BiscuitBuilder, BlockBuilder, KeyPair
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from harness import Benchmark, Case, Race, Ratio, Side, at_most
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    Principal,
    SignedCertificate,
    SigningKey,
    TypePattern,
    Validity,
    VerificationCache,
    VerifiedChain,
    certificate_to_bytes,
    issue,
    parse_name_pattern,
    verify_chain,
)
from maia.events import AttributeUid, Instant

NOW = Instant.parse("2026-11-15T12:00:00Z")
TODAY = Validity(Instant.parse("2026-11-15T00:00:00Z"), Instant.parse("2026-11-15T23:59:59Z"))
LENGTH = 5

_NUMBERS = count_from(1)


def keys(seed: str, count: int = LENGTH + 1) -> list[SigningKey]:
    """Return keys that belong to `seed` alone."""
    return [SigningKey.from_seed(sha256(f"{seed} {place}".encode()).digest()) for place in range(count)]


def authority(owner: Principal, place: int, name: str = "Numberplate") -> Authority:
    """Return what the certificate at `place` grants: the last ones narrow actions and attributes."""
    actions = frozenset({Action.SUBSCRIBE} if place >= 3 else {Action.PUBLISH, Action.SUBSCRIBE})
    resources = TypePattern(owner, parse_name_pattern(f"uk.gov.pito.{name}"), None)
    if place < LENGTH - 1:
        return Authority(resources, actions)
    seen = frozenset({AttributeUid("numberplate"), AttributeUid("timestamp")})
    return Authority(resources, actions, seen)


def chain_between(people: Sequence[SigningKey], name: str = "Numberplate") -> list[SignedCertificate]:
    """Return a chain from the first to the last of `people`."""
    owner = people[0].principal
    return [
        issue(
            AuthorisationCertificate(
                people[place].principal,
                people[place + 1].principal,
                may_delegate=True,
                authority=authority(owner, place, name),
                validity=TODAY,
            ),
            people[place],
        )
        for place in range(len(people) - 1)
    ]


def proved(data: Sequence[bytes], people: Sequence[SigningKey], cache: VerificationCache) -> VerifiedChain:
    """Go from bytes to a proof."""
    return verify_chain(
        tuple([cache.read(one) for one in data]),
        root=people[0].principal,
        subject=people[-1].principal,
        at=NOW,
        cache=cache,
    )


def five_raw_checks(chain: Sequence[SignedCertificate]) -> Side:
    """Return the floor: five signature checks on prepared keys and messages, and nothing else."""
    work = [
        (
            Ed25519PublicKey.from_public_bytes(one.certificate.issuer.key),
            one.signature,
            b"maia/1/certificate\x00" + one.body,
        )
        for one in chain
    ]

    def run() -> None:
        for key, signature, message in work:
            key.verify(signature, message)

    return Side(run)


def biscuit_of_five_blocks() -> Side:
    """Return biscuit's part of the job: read five signed blocks from bytes and check their signatures."""
    root = KeyPair()
    facts = 'right("uk.gov.pito.Numberplate", "subscribe"); check if time($t), $t <= 2026-11-15T23:59:59Z'
    token = BiscuitBuilder(facts).build(root.private_key)
    for _ in range(LENGTH - 1):
        token = token.append(BlockBuilder('check if right("uk.gov.pito.Numberplate", "subscribe")'))
    data, public = bytes(token.to_bytes()), root.public_key
    return Side(lambda: Biscuit.from_bytes(data, public))


def fresh_chains(count: int) -> list[tuple[list[bytes], list[SigningKey]]]:
    """Return chains in which no key and no type was met before."""
    made = []
    for number in islice(_NUMBERS, count):
        people = keys(f"fresh {number}")
        made.append(([certificate_to_bytes(one) for one in chain_between(people, f"Type{number}")], people))
    return made


def cases(quick: bool) -> Iterator[Case]:
    """Yield the floor, biscuit, and the second chain that shares four certificates with the first."""
    people = keys("known")
    chain = chain_between(people)
    data = [certificate_to_bytes(one) for one in chain]
    assert proved(data, people, VerificationCache()).authority == authority(people[0].principal, LENGTH - 1)
    cold = Side(lambda: proved(data, people, VerificationCache()))
    calls = 4 if quick else 60

    yield Race(
        "bytes to proof, against five raw Ed25519 checks",
        ours=cold,
        peer=five_raw_checks(chain),
        ratio=Ratio.OURS_OVER_PEER,
        target=at_most(1.05),
    )
    yield Race(
        "the same, every key and type met for the first time",
        ours=Side(lambda new: proved(*new, VerificationCache()), prepare=fresh_chains, calls=calls),
        peer=five_raw_checks(chain),
        ratio=Ratio.OURS_OVER_PEER,
        target=at_most(1.05),
    )
    yield Race(
        "bytes to proof, against biscuit with five blocks",
        ours=cold,
        peer=biscuit_of_five_blocks(),
        ratio=Ratio.OURS_OVER_PEER,
        target=at_most(0.65),
    )

    def fifth_certificates(count: int) -> list[tuple[list[bytes], list[SigningKey], VerificationCache]]:
        prepared = []
        for number in islice(_NUMBERS, count):
            others = [*people[:-1], *keys(f"another {number}", 1)]
            cache = VerificationCache()
            proved(data, people, cache)
            prepared.append(([*data[:-1], certificate_to_bytes(chain_between(others)[-1])], others, cache))
        return prepared

    yield Race(
        "a second chain that shares four certificates, against the first",
        ours=Side(lambda second: proved(*second), prepare=fifth_certificates, calls=calls),
        peer=cold,
        ratio=Ratio.OURS_OVER_PEER,
        target=at_most(0.25),
    )


BENCH = Benchmark(
    number=2,
    name="cold-chain",
    about="a chain of five certificates that was never seen before, from bytes to proof",
    cases=cases,
    stood="biscuit 1,098 µs; five Ed25519 checks 663 µs",
    peer_lacks="raw checks decide nothing; biscuit checks its signatures here, and its Datalog does not run",
)
