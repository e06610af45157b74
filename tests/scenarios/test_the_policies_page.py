"""The page on policies, docs/policies.md: its policies are read, its mistakes are those that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maia.credentials import TypeName
from maia.roles import BadPolicy, parse_policy
from maia.types import TypeDefinition, sign_definition, verify_definition
from support.pages import THE_END, follow
from support.roles import DOMAIN, TYPES
from support.types import NOON, PITO, attribute

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policies.md").read_text()
STORY, *PIECES = re.findall(r"^```policy\n(.*?)^```$", PAGE, re.M | re.S)
PLATES = {"uk.gov.pito.Numberplate": TYPES["Numberplate"]}


def event_type(name: str, **uids: str):
    attributes = tuple(attribute(label, uid) for label, uid in uids.items())
    definition = TypeDefinition(TypeName(PITO.principal, name, "0"), None, attributes)
    return verify_definition(sign_definition(definition, PITO), at=NOON)


def read(text: str, types):
    return parse_policy(text, origin="page", domain=DOMAIN.principal, types=types)


def test_the_story_on_the_page_is_the_one_in_the_examples():
    example = (ROOT / "examples" / "policies" / "metropolitan-police.policy").read_text()
    page, file = read(STORY, PLATES), read(example, PLATES)
    assert page.rules == file.rules
    assert page.grants == file.grants


def test_the_pieces_are_one_policy():
    types = {
        "nhs.Prescribe": event_type("nhs.Prescribe", doctor="1", patient="2"),
        "nhs.Alarm": event_type("nhs.Alarm", patient="2", ward="4"),
    }
    policy = read("".join(PIECES), types)
    assert len(policy.rules["doctor"]) == 2
    assert all(policy.rules[role] for role in policy.roles)


def test_the_mistakes_are_those_that_the_page_shows():
    (shown,) = re.findall(r"^```mistakes\n(.*?)^```$", PAGE, re.M | re.S)
    wrong = STORY.replace("while detective(", "while detectiv(").replace("(location,", "(locaton,")
    with pytest.raises(BadPolicy) as refusal:
        read(wrong, PLATES)
    assert [str(problem) for problem in refusal.value.problems] == shown.splitlines()


def test_every_command_of_the_page_works(tmp_path: Path):
    (tmp_path / "met.policy").write_text(STORY)
    printed = follow("policies.md", tmp_path, ports=[])
    assert THE_END in printed, printed[-4000:]
    assert "the policy can be put in force" in printed
