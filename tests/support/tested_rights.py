"""A domain that says where its statements are, and rights that must be asked about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.credentials import SignedCertificate, TypeName, certificate_from_bytes
from maia.domain.server.access_config import AccessConfig
from maia.events import Attribute, Kind
from maia.testing import free_port
from maia.types import TypeDefinition, definition_to_bytes, sign_definition
from support.domain_server import DomainAtWork, domain_at_work, key_of
from support.governed import ATTRIBUTES, SEEN

__all__ = [
    "NUMBERPLATE",
    "POLICY",
    "domain_with_locations",
    "logged_in",
    "make_known",
    "rights_of",
    "take_back",
]

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
fact clerk(who: principal)
role reader()
rule reader()
    while clerk(holder)
    for 1 day
grant reader()
    may subscribe to Numberplate(*)
fact auditor(who: principal)
role inspector()
rule inspector()
    while auditor(holder)
    for 1 day
grant inspector()
    may subscribe to Numberplate(*)
    checked by one-time
end
"""
NAME = TypeName(key_of("met").principal, "Numberplate", "0")
SIGHTING = (*ATTRIBUTES[:3], Attribute("timestamp", SEEN, Kind.TIMESTAMP))
NUMBERPLATE = sign_definition(TypeDefinition(NAME, None, SIGHTING), key_of("met"))
"""A type that the domain owns: clerks read it, and of auditors the domain is asked each time."""


@contextmanager
def domain_with_locations(data: Path, *, name: str = "met") -> Iterator[DomainAtWork]:
    """Run a domain whose certificates say where it can be asked.

    Smith is a detective of it, clark a clerk, and ada an auditor.
    """
    address = f"127.0.0.1:{free_port()}"
    config = AccessConfig(api_listen=address, api_public=address)
    with domain_at_work(data, name=name, config=config) as found:
        with found.admin() as admin:
            make_known(admin)
        yield found


def make_known(admin: DomainClient) -> None:
    """Give a domain its type, its policy, and the facts about its people."""
    definition = bodies.TypeBody(definition_to_bytes(NUMBERPLATE))
    admin.call("POST", "/v1/types", definition, answer=answers.TypeAnswer)
    admin.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)
    for who, fact in (("smith", "detective"), ("clark", "clerk"), ("ada", "auditor")):
        person = bodies.TypedArgument(principal=str(key_of(who).principal))
        admin.call("POST", "/v1/facts", bodies.FactBody(fact, [person]), answer=answers.News)


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
