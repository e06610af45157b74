"""`maia domain policy check --pool`: does a policy grant more than its domain holds? Before it is loaded."""

from __future__ import annotations

from pathlib import Path

from maia.organisation import Organisation
from support.processes import Answer, maia

POLICY = """\
policy "Institute"
fact on_duty(who: principal)
role reader
rule reader
    while on_duty(holder)
    for 1 day
grant reader
    may subscribe to LabResult({shown})
end
"""


def test_it_is_said_which_attribute_is_too_much_and_what_the_domain_holds(tmp_path: Path) -> None:
    hospital, institute = (Organisation.create(tmp_path / name) for name in ("hospital", "institute"))
    hospital.define("LabResult", "patient:string", "ward:string")
    given = hospital.grant(institute.principal, may="subscribe:LabResult", only=("ward",), delegable=True)
    institute.join(given.save(tmp_path / "institute.grant"))

    def checked(shown: str) -> Answer:
        (tmp_path / "reader.policy").write_text(POLICY.format(shown=shown))
        known = ("--types", "institute/types", "--domain", "institute/institute.pub")
        words = ("domain", "policy", "check", "reader.policy", *known)
        assert maia(*words, cwd=tmp_path).returncode == 0, "without what it holds, nobody can tell"
        return maia(*words, "--pool", "institute/certs", cwd=tmp_path)

    assert checked("ward").returncode == 0
    wrong = checked("patient, ward")
    assert wrong.returncode == 2
    assert "line 7, column 1 in `grant reader`: members would see `patient` of `LabResult`" in wrong.stderr
    assert "this domain holds `(ward)`" in wrong.stderr
