"""Who is at the other end? Attacks on the handshake, against a broker on a real socket."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

import maia
from maia.credentials import BadKey, SigningKey
from maia.net.tls import (
    ALPN,
    accepting_context,
    dialling_context,
    leaf_of,
    principal_of_leaf,
    proved_principal,
)
from maia.testing import in_a_loop
from maia.testing.refusals import raises
from maia.wire import Bye, Greeting, encode, framed
from support.live import BROKER, STORY, broker, client, hello, stranger
from support.odd_leaves import context_showing, expired, keys, leaf

MALLORY = SigningKey.from_seed(b"mallory".ljust(32, b"!"))
CAMERA = "camera at Victoria"


async def heard_by(context: ssl.SSLContext) -> list[object]:
    """Return what a broker says to a peer that comes with this context; nothing if it is not let in."""
    async with broker() as running:
        try:
            async with stranger(MALLORY, running.address, context) as odd:
                odd.say(hello())
                return list(await odd.hear_until_closed())
        except (ssl.SSLError, ConnectionError):
            return []
        finally:
            assert running.status()["links"] == []


@in_a_loop
async def test_the_one_leaf_of_a_key_is_spoken_to():
    """A9: what the attacks below are denied, a stranger with a proper leaf has: a greeting, and a no."""
    assert [type(message) for message in await heard_by(context_for(MALLORY, ALPN))] == [Greeting, Bye]


@pytest.mark.parametrize("algorithm", ["rsa", "p256", "ed448", "ed25519"])
@in_a_loop
async def test_a_leaf_of_another_algorithm_or_form_is_not_spoken_to(algorithm: str):
    """A9: the null authority signs anything for any peer, and that helps no peer."""
    key = keys()[algorithm]
    assert await heard_by(context_showing(key, leaf(key))) == []


@pytest.mark.parametrize(
    "oddity",
    [{"until": expired()}, {"extra": True}, {"is_authority": True}, {"signed_by_itself": True}],
    ids=["expired", "extra extension", "authority", "signed by itself"],
)
@in_a_loop
async def test_a_leaf_that_says_more_or_less_is_not_spoken_to(oddity: dict[str, object]):
    """A9: a certificate that we do not fully understand is refused."""
    key = Ed25519PrivateKey.generate()
    assert await heard_by(context_showing(key, leaf(key, **oddity))) == []


@in_a_loop
async def test_a_peer_that_shows_no_certificate_receives_nothing():
    """A10: no key is not a key."""
    assert await heard_by(context_showing(None, None)) == []


@in_a_loop
async def test_an_older_tls_is_not_spoken():
    """A9: no version but TLS 1.3 is negotiated."""
    context = context_for(MALLORY, ALPN)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert await heard_by(context) == []


@pytest.mark.parametrize("alpn", [None, "h2"])
@in_a_loop
async def test_another_protocol_inside_tls_is_not_spoken(alpn: str | None):
    """A16: a handshake that was meant for another protocol is of no use here."""
    assert await heard_by(context_for(MALLORY, alpn)) == []


def context_for(key: SigningKey, alpn: str | None) -> ssl.SSLContext:
    """Return a context that shows the one good leaf of a key and asks for another protocol."""
    secret = Ed25519PrivateKey.from_private_bytes(key.reveal_seed())
    return context_showing(secret, x509.load_der_x509_certificate(leaf_of(key.principal)), alpn=alpn)


def test_keys_that_belong_to_every_peer_have_no_leaf():
    """A10, A17: a point of small order, for which any peer can sign, is refused in a leaf too."""

    class Key:
        def public_key(self) -> Ed25519PublicKey:
            return Ed25519PublicKey.from_public_bytes(b"\x01" + bytes(31))

    with pytest.raises(BadKey):
        principal_of_leaf(leaf(Key()).public_bytes(Encoding.DER))


@pytest.mark.parametrize("data", [None, b"", b"\x30\x00", b"\x30\x82" + bytes(100), bytes(100_000)])
def test_bytes_that_are_no_certificate_are_refused(data: bytes | None):
    """A10: nothing, and less than nothing, is refused as what it is."""
    with raises("CREDENTIAL-TLS-LEAF"):
        principal_of_leaf(data)


def test_a_leaf_with_one_bit_flipped_is_another_leaf():
    """A9: exactly one certificate represents a key, to the last bit."""
    good = leaf_of(MALLORY.principal)
    for at in range(len(good)):
        flipped = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        with raises("CREDENTIAL-TLS-LEAF", "CREDENTIAL-KEY"):
            principal_of_leaf(flipped)
    assert principal_of_leaf(good) == MALLORY.principal


def test_sessions_are_not_resumed_and_both_sides_must_show_a_key():
    """A16: every handshake proves the key again."""
    accepting, dialling = accepting_context(MALLORY), dialling_context(MALLORY)
    assert accepting.num_tickets == 0
    for context in (accepting, dialling):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3


def test_an_unfinished_handshake_proves_no_peer():
    """A10: who has not spoken has not proved anything."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = accepting_context(MALLORY).wrap_bio(incoming, outgoing, server_side=True)
    with raises("PROTOCOL-TRANSPORT"):
        proved_principal(waiting)


@in_a_loop
async def test_the_credentials_of_another_do_not_help_a_peer_that_shows_them():
    """A16: credentials are about the key of this very connection, not about a peer that first showed them."""
    async with broker() as running, stranger(MALLORY, running.address) as mallory:
        assert isinstance(await mallory.hear(), Greeting)
        mallory.say(hello())
        (bye,) = await mallory.hear_until_closed()
        assert isinstance(bye, Bye)
        assert bye.code == "POLICY-NO-CHAIN"


@in_a_loop
async def test_a_relay_that_ends_tls_itself_is_known_by_its_own_key():
    """A16: what a real broker says, repeated by a peer in the middle, convinces no client."""
    async with broker() as running:
        async with stranger(STORY.keys[CAMERA], running.address) as listening:
            greeting = await listening.hear()
        assert isinstance(greeting, Greeting)
        said: list[bytes] = []

        async def in_the_middle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(framed(encode(greeting)))
            said.append(await reader.read(-1))
            writer.close()

        server = await asyncio.start_server(in_the_middle, "127.0.0.1", 0, ssl=accepting_context(MALLORY))
        async with server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(maia.Refusal) as refused:
                async with client(CAMERA, address):
                    pass
            assert refused.value.code == "REFUSED-BROKER-NOT-TRUSTED"
        assert said == [b""]


@in_a_loop
async def test_a_broker_is_no_neighbour_of_its_own_key():
    """A16: a broker that comes with this broker's own key reflects it, or has stolen it.

    A client may come with it: the process of the broker receives its certificates so.
    """
    async with broker() as running, stranger(STORY.keys[BROKER], running.address) as reflected:
        reflected.say(hello(address=running.address))
        heard = await reflected.hear_until_closed()
        assert [type(message) for message in heard] == [Greeting, Bye]  # never a welcome
