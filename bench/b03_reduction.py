"""What does it cost to reduce five certificates to one 5-tuple?

Compared with one Ed25519 check, as in the dissertation's table 4.7. The
certificates are read from bytes first, as in a broker, so equal parts are one
object. Two chains are reduced: one that passes the same right on, as domains
and sub-domains do, and one in which every certificate narrows another field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256

from b02_cold_chain import LENGTH, TODAY, keys
from harness import Benchmark, Case, Race, Ratio, Side, at_least
from maia.credentials import (
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    TypePattern,
    Validity,
    VerificationCache,
    certificate_from_bytes,
    certificate_to_bytes,
    intersect,
    issue,
    parse_name_pattern,
    reduce_chain,
)
from maia.credentials.chains.chain import ChainLinks
from maia.events import AttributeUid, Instant

BOTH = frozenset({Action.PUBLISH, Action.SUBSCRIBE})
MORNING = Validity(TODAY.not_before, Instant.parse("2026-11-15T11:59:59Z"))
PEOPLE = keys("reduction")
OWNER = PEOPLE[0].principal
NUMBERPLATE = TypePattern(OWNER, parse_name_pattern("uk.gov.pito.Numberplate"), None)

SAME = [(Authority(NUMBERPLATE, BOTH), TODAY)] * LENGTH
NARROWING = [
    (Authority(TypePattern(OWNER, parse_name_pattern("uk.gov.*"), None), BOTH), TODAY),
    (Authority(NUMBERPLATE, BOTH), TODAY),
    (Authority(AnyResource(), BOTH), MORNING),
    (Authority(NUMBERPLATE, frozenset({Action.SUBSCRIBE})), TODAY),
    (Authority(NUMBERPLATE, frozenset({Action.SUBSCRIBE}), frozenset({AttributeUid("timestamp")})), TODAY),
]


def links(grants: Sequence[tuple[Authority, Validity]]) -> tuple[AuthorisationCertificate, ...]:
    """Return a chain as a broker has read it."""
    made = [
        issue(
            AuthorisationCertificate(PEOPLE[place].principal, PEOPLE[place + 1].principal, True, *granted),
            PEOPLE[place],
        )
        for place, granted in enumerate(grants)
    ]
    read = [certificate_from_bytes(certificate_to_bytes(one)).certificate for one in made]
    return tuple(one for one in read if isinstance(one, AuthorisationCertificate))


def one_check() -> Side:
    """Return one Ed25519 check on a prepared key and message."""
    signed = issue(
        AuthorisationCertificate(OWNER, PEOPLE[1].principal, True, *SAME[0]),
        PEOPLE[0],
    )
    key = Ed25519PublicKey.from_public_bytes(OWNER.key)
    message, signature = b"maia/1/certificate\x00" + signed.body, signed.signature
    return Side(partial(key.verify, signature, message))


def rsa_signature() -> tuple[bytes, bytes, rsa.RSAPublicKey]:
    """Return what the paper checks: its key has 1024 bits, and protects nothing today."""
    key, body = rsa.generate_private_key(65_537, 1_024), b"a certificate" * 20  # noqa: S505 - the paper's
    return body, key.sign(body, padding.PKCS1v15(), SHA256()), key.public_key()


def cases(_quick: bool) -> Iterator[Case]:
    """Yield both chains, reduced anew and remembered."""
    check, cache = one_check(), VerificationCache()
    same, narrowing = links(SAME), links(NARROWING)
    for chain in (same, narrowing):
        whole: Authority | None = chain[0].authority
        for link in chain[1:]:
            whole = intersect(whole, link.authority) if whole else None
        assert reduce_chain(chain).authority == cache.reduce(ChainLinks(chain)).authority == whole

    def race(case: str, run: Callable[[], object], target: float) -> Race:
        return Race(case, ours=Side(run), peer=check, ratio=Ratio.PEER_OVER_OURS, target=at_least(target))

    yield race("five that pass one right on, cold", partial(reduce_chain, same), 100)
    yield race("five of which each narrows something, cold", partial(reduce_chain, narrowing), 100)
    body, signature, public = rsa_signature()
    check_rsa = Side(partial(public.verify, signature, body, padding.PKCS1v15(), SHA256()))
    paper = "five that pass one right on, cold, against RSA of 1024 bits"
    yield Race(paper, Side(partial(reduce_chain, same)), check_rsa, Ratio.PEER_OVER_OURS, at_least(50))
    yield race("memoised", partial(cache.reduce, ChainLinks(narrowing)), 1000)


BENCH = Benchmark(
    number=3,
    name="reduction",
    about="5-tuple reduction of five certificates, against one signature check (table 4.7)",
    cases=cases,
    stood="52.8 (dissertation, table 4.7)",
    peer_lacks="a signature check says who, not what",
)
