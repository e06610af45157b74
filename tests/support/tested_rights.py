"""A domain that says where its statements are, and rights that must be asked about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maia.credentials import SignedCertificate, certificate_from_bytes
from maia.runtime.access_config import AccessConfig
from maia.runtime.domain_api import answers, bodies
from support.domain_server import DomainAtWork, domain_at_work, key_of
from support.ports import free_port

__all__ = ["POLICY", "domain_with_locations", "logged_in", "rights_of", "take_back"]

POLICY = """
policy "Police"
fact detective(who: principal)
role officer()
rule officer()
    while detective(holder)
    for 1 day
grant officer()
    may subscribe to topic "/calls" of here
grant officer()
    may publish topic "/rides" of here
    checked by revalidation
grant officer()
    may subscribe to topic "/warrants" of here
    checked by one-time
end
"""


@contextmanager
def domain_with_locations(data: Path, *, name: str = "met") -> Iterator[DomainAtWork]:
    """Run a domain whose certificates say where it can be asked; smith is a detective of it."""
    address = f"127.0.0.1:{free_port()}"
    config = AccessConfig(api_listen=address, api_public=address)
    with domain_at_work(data, name=name, config=config) as found:
        with found.admin() as admin:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)
            who = bodies.TypedArgument(principal=str(key_of("smith").principal))
            admin.call("POST", "/v1/facts", bodies.FactBody("detective", [who]), answer=answers.News)
        yield found


def logged_in(domain: DomainAtWork, who: str = "smith") -> answers.WalletAnswer:
    """Return what a login gives."""
    with domain.client(who) as client:
        return client.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)


def rights_of(wallet: answers.WalletAnswer) -> dict[str, SignedCertificate]:
    """Return the rights of a wallet, by the strictest test that each demands."""
    rights = [certificate_from_bytes(one.certificate) for one in wallet.rights]
    return {min(test.kind.value for test in one.certificate.validity.tests): one for one in rights}


def take_back(domain: DomainAtWork, *certificates: SignedCertificate) -> None:
    """Revoke certificates, as an administrator."""
    body = bodies.Revocation([one.id.hex() for one in certificates])
    with domain.admin() as admin:
        admin.call("POST", "/v1/revocations", body, answer=answers.RevokedAnswer)
