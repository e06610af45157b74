"""A dynamic root of trust: a launched scanner's result and a boot's properties are in statements (Gismo 5).

Over the real HTTP interface of a provider, with a TPM in Python; the same registers of swtpm are quoted in
`test_a_router_with_a_tpm.py` where that is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from maia.api import endpoints as api
from maia.api.client import DomainClient
from maia.api.requests import ApprovedBody, BootConfiguration, IdentityBody, SubjectBody
from maia.clock import system_now
from maia.credentials.attestation import Approved, Configuration
from maia.credentials.identity import Identity, identity_from_bytes
from maia.credentials.requirements import attributes_of_identity, is_met, parse_requirement
from maia.domain.server.access_config import AccessConfig
from maia.keystore.tpm import prove_boot
from maia.testing.refusals import raises
from maia.testing.software_tpm import Maker, SoftwareTpm, launched, registers
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of

BOOT = ((0, b"firmware 5.2"), (7, b"secure boot on"))
SCANNER = b"scanner 3"
ROUTER = key_of("router")


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[DomainAtWork]:
    config = AccessConfig(api_listen="127.0.0.1:0", identity_community="coalition", api_skew_s=3600)
    with domain_at_work(tmp_path, config=config, clock=system_now) as found:
        yield found


def result(findings: int) -> bytes:
    return json.dumps({"at": "2026-11-18T09:00:00Z", "findings": findings}).encode()


def test_a_scan_and_properties_are_in_the_statement_as_the_quote_proves_them(domain: DomainAtWork) -> None:
    """I12, A97: nothing launched, another scanner, another result, a level without the scan: all refused."""
    maker = Maker()
    tpm, values = SoftwareTpm(maker), registers(*BOOT) | launched(SCANNER, b"")
    right = admin_certificate(domain.key, key_of("admin").principal)
    with DomainClient(
        domain.address, domain=domain.key.principal, key=key_of("admin"), credentials=[right]
    ) as admin:
        boot = BootConfiguration(
            "router 5.2",
            2,
            {str(pcr): values[pcr].hex() for pcr in (0, 17)},
            {"measured_boot": True, "os": "5.2"},
        )
        given = admin.ask(api.APPROVE_BOOTS, ApprovedBody([0, 17], [boot], [maker.root], scan=18))
        assert (given.scan, given.configurations[0].properties) == (18, {"measured-boot": True, "os": "5.2"})
        admin.ask(api.REGISTER_SUBJECT, SubjectBody("router@met"), principal=ROUTER.principal)
        for claimed in ("tpm-integrity", "scan-findings", "property_os"):
            with raises("INPUT-SUBJECT"):
                body = SubjectBody("router@met", {claimed: 9})
                admin.ask(api.REGISTER_SUBJECT, body, principal=ROUTER.principal)

    def said(requirement: str) -> bool:
        signed = identity_from_bytes(router.ask(api.IDENTITY, IdentityBody()).statement)
        statement: Identity = signed.statement
        return is_met(parse_requirement(requirement), attributes_of_identity(statement))

    with DomainClient(domain.address, domain=domain.key.principal, key=ROUTER) as router:
        tpm.boot(*BOOT)
        with raises("CREDENTIAL-TPM-SCAN"):  # nothing was launched since the boot
            prove_boot(router, tpm, scan=result(0))
        found = tpm.launch(SCANNER, result(0))
        assert prove_boot(router, tpm, scan=found).level == 2
        assert said("tpm_integrity >= 2 and scan_findings == 0 and scan_at > @2026-11-18T00:00:00Z")
        assert said('property_measured_boot == true and property_os == "5.2"')
        tpm.launch(SCANNER, result(3))
        with raises("CREDENTIAL-TPM-SCAN"):  # it found three, and the router shows the result before
            prove_boot(router, tpm, scan=result(0))
        assert prove_boot(router, tpm, scan=result(3)).level == 2
        assert said("scan_findings == 3")
        assert not said("scan_findings == 0")
        tpm.launch(b"a scanner that finds nothing", result(0))
        with raises("REFUSED-TPM-NOT-APPROVED"):
            prove_boot(router, tpm, scan=result(0))
        assert not said("tpm_integrity >= 1 or nameexists scan_findings or nameexists property_os")


def test_a_list_in_which_nothing_was_launched_or_no_scanner_is_measured_is_refused() -> None:
    def approved(pcrs: tuple[int, ...], scan: int | None = None) -> Approved:
        return Approved(pcrs, (Configuration("one", 1, {pcr: registers()[pcr] for pcr in pcrs}),), scan)

    for pcrs, scan in (((16,), None), ((23,), None), ((17,), None), ((0,), 18), ((0, 18), 18)):
        with raises("INPUT-TPM-APPROVED"):
            approved(pcrs, scan)
    assert approved((0, 7)).quoted == (0, 7)
