"""An administrator has replaced the policy of the file; the server is started again beside the same file."""

from __future__ import annotations

from pathlib import Path

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.domain.server.access_config import AccessConfig, PreparedAccess
from support.domain_server import DomainAtWork, domain_at_work

WIDE = """
policy "Police"
fact a(who: principal)
role guest()
rule guest()
    while a(holder)
    for 1 day
end
"""
NARROW = WIDE.replace("1 day", "1 hour")


def shown(met: DomainAtWork) -> str:
    with met.admin() as admin:
        return admin.call("GET", "/v1/policy", answer=answers.PolicyAnswer).text


def test_a_policy_that_was_replaced_stays_replaced_until_a_principal_says_otherwise(tmp_path: Path) -> None:
    """A41, A82: what was taken away over the interface does not come back by a crash."""
    file = tmp_path / "met.policy"
    file.write_text(WIDE)
    prepared = PreparedAccess(AccessConfig(api_listen="127.0.0.1:0", policy_file=file))
    with domain_at_work(tmp_path, prepared=prepared) as met:
        assert shown(met) == WIDE
        with met.admin() as admin:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(NARROW), answer=answers.PolicyAnswer)
    with domain_at_work(tmp_path, prepared=prepared) as met:
        assert shown(met) == NARROW
        assert [fields["why"] for event, fields in met.records.notes if event == "policy"]
        with met.admin() as admin:
            admin.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
        assert shown(met) == WIDE
    file.write_text(WIDE.replace("1 day", "2 days"))
    with domain_at_work(tmp_path, prepared=prepared) as met:
        assert "2 days" in shown(met), "a file that says something new is read as ever"
