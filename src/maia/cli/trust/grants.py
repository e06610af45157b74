"""How is an authority written on a command line, and read off a screen?

`--network` or `--type` names the resource, `--action` what may be done with
it, `--attribute` what may be seen or written, `--where` the restriction. A
definition lets people use attribute names; the certificate holds uids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.cli.inputs import read_definition, read_owner
from maia.config.grant_terms import BadGrant, condition_of, hours_in, on_topics_of, transformed

if TYPE_CHECKING:
    from maia.credentials import (
        Action,
        AttributeSet,
        Authority,
        Certificate,
        OnlineTest,
        Principal,
        ResourcePattern,
        SignedCertificate,
        Subject,
        Validity,
    )
    from maia.events import AttributeUid, Vocabulary

_TERMS: Final = (
    "made of",
    "where",
    "condition",
    "during",
    "from",
    "every",
    "per",
    "set",
    "shown as",
    "written as",
)
"""What narrows or changes what is granted, in the order in which it is shown."""


def authority_from_options(
    *,
    owner: str | None,
    network: str | None,
    type_name: str | None,
    topics: Sequence[str] = (),
    version: str,
    definition: Path | None,
    actions: Iterable[str],
    attributes: Iterable[str],
    where: str | None,
    condition: str | None = None,
    during: str | None = None,
) -> Authority:
    """Build an authority from the options; refuse what is missing or contradictory."""
    from maia.credentials import ALL_ATTRIBUTES, Authority, actions_from_words
    from maia.predicates import ALWAYS, AllOf, parse_predicate
    from maia.types.definition import TOPIC

    found = None if definition is None else read_definition(definition).definition
    vocabulary = None if found is None else found.vocabulary
    if found is not None:
        owner, type_name = owner or str(found.name.owner), type_name or found.name.name
    allowed = actions_from_words(actions)
    chosen = [_uid(word, vocabulary) for word in attributes]
    restriction = ALWAYS if where is None else parse_predicate(where, vocabulary)
    if topics and not topics[0].startswith(("/admin/", "*")):
        tree, granted = on_topics_of(topics, allowed)
        if network is not None or type_name not in (None, tree):
            raise BadGrant(
                "a certificate speaks of a network, of types or of topics, and of one of them only"
            )
        type_name = tree
        restriction = granted if restriction == ALWAYS else AllOf((granted, restriction))
        chosen += [TOPIC.uid] if chosen else []
        topics = ()
    resources = _resources(owner=owner, network=network, type_name=type_name, topics=topics, version=version)
    return Authority(
        resources,
        allowed,
        frozenset(chosen) if chosen else ALL_ATTRIBUTES,
        restriction,
        condition_of(condition, during),
    )


def with_transformation(
    authority: Authority,
    issuer: Principal,
    *,
    definition: Path | None,
    assignments: Sequence[str],
    result: Path | None,
    every: str | None = None,
    per: Sequence[str] = (),
) -> Authority:
    """Return a right that shows, or publishes, what assignments make of an event; definitions are files."""
    if definition is None or not assignments:
        raise BadGrant("a transformation needs `--definition`, whose attributes it names, and `--set`")
    return transformed(
        authority, issuer, reads=read_definition(definition).definition, assignments=assignments,
        result=None if result is None else read_definition(result).definition, every=every, per=per,
    )  # fmt: skip


def one_action(word: str) -> Action:
    """Read one action; a name for several actions is refused."""
    from maia.credentials import actions_from_words

    actions = sorted(actions_from_words([word]), key=lambda action: action.value)
    if len(actions) != 1:
        choices = ", ".join(action.value for action in actions)
        raise BadGrant(f"`{word[:32]}` means several actions; give one of {choices}")
    return actions[0]


def certificate_lines(certificate: Certificate, names: Mapping[AttributeUid, str] | None = None) -> list[str]:
    """Return a certificate as people read it, one field a line."""
    from maia.credentials import NameCertificate, is_for_good

    head = [f"issuer       {certificate.issuer}"]
    if isinstance(certificate, NameCertificate):
        body = [f"name         {certificate.name}", f"means        {shown_subject(certificate.subject)}"]
    else:
        passes = "yes" if certificate.may_delegate else "no"
        body = [f"subject      {shown_subject(certificate.subject)}", f"may pass on  {passes}"]
        body += authority_lines(certificate.authority, names)
    comment = [f"comment      {certificate.comment}"] if certificate.comment else []
    for_good = ["hands over   root authority, for good: it cannot be revoked"]
    tail = for_good if is_for_good(certificate) else []
    return [*head, *body, *validity_lines(certificate.validity), *comment, *tail]


def attribute_names(authority: Authority) -> dict[AttributeUid, str]:
    """Return what the attributes in a right are called, by definitions that the user has of its types.

    Only definitions of the owner whose types the right is about count, and only names that agree.
    """
    from maia.cli.output import book
    from maia.credentials import TypePattern

    about: set[tuple[str, str]] = set()
    for step in authority.transformations:
        about |= set() if step.result is None else {(str(step.result.owner), step.result.name)}
    match authority.resources:
        case TypePattern(owner, name, _) if owner is not None:
            about |= {one for one in book().attributes if one[0] == str(owner) and name.matches(one[1])}
    called: dict[AttributeUid, str] = {}
    unclear: set[AttributeUid] = set()
    for one in about:
        for uid, word in book().attributes.get(one, {}).items():
            if called.setdefault(uid, word) != word:
                unclear.add(uid)
    return {uid: word for uid, word in called.items() if uid not in unclear}


def shown_attributes(authority: Authority) -> AttributeSet:
    """Return what is left to see, or to write, behind every transformation of a right."""
    from maia.credentials import Action, AllAttributes

    shown = authority.attributes
    for step in () if Action.PUBLISH in authority.actions else authority.transformations:
        if step.result is not None or isinstance(shown, AllAttributes):
            shown = step.attributes
        else:
            shown = shown | {rule.uid for rule in step.rules}
            shown = shown if isinstance(step.attributes, AllAttributes) else shown & step.attributes
    return shown


def attribute_words(attributes: AttributeSet, names: Mapping[AttributeUid, str] | None) -> list[str]:
    """Return attributes by their names, and `*` for all of them."""
    from maia.credentials import AllAttributes

    if isinstance(attributes, AllAttributes):
        return ["*"]
    return sorted((names or {}).get(uid, uid) for uid in attributes)


def authority_lines(authority: Authority, names: Mapping[AttributeUid, str] | None = None) -> list[str]:
    """Return what is granted, one field a line."""
    record = authority_record(authority, attribute_names(authority) if names is None else names)
    lines = [f"resource     {record['resource']}", f"actions      {' '.join(_words(record['actions']))}"]
    lines.append(f"attributes   {' '.join(_words(record['attributes']))}")
    return lines + [f"{word:<12} {record[word]}" for word in _TERMS if word in record]


def authority_record(
    authority: Authority, names: Mapping[AttributeUid, str] | None = None
) -> dict[str, object]:
    """Return what is granted as named fields, for programs."""
    from maia.credentials import ALL_ACTIONS, Action, AllAttributes
    from maia.expressions import format_rule
    from maia.expressions.summary_text import format_summary
    from maia.predicates import ALWAYS, format_predicate

    actions = (
        ["*"] if authority.actions == ALL_ACTIONS else sorted(action.value for action in authority.actions)
    )
    record: dict[str, object] = {
        "resource": _shown_resource(authority.resources),
        "actions": actions,
        "attributes": attribute_words(shown_attributes(authority), names),
    }
    if authority.transformations and not isinstance(authority.attributes, AllAttributes):
        record["made of"] = " ".join(attribute_words(authority.attributes, names))
    if authority.restriction != ALWAYS:
        record["where"] = format_predicate(authority.restriction, names)
    if authority.condition != ALWAYS:
        hours = hours_in(authority.condition)
        word = "condition" if hours is None else "during"
        record[word] = hours or format_predicate(authority.condition, names)
    steps = list[str]()
    for step in authority.transformations:
        if step.summary is None:
            steps.append("; ".join(format_rule(rule, names) for rule in step.rules))
        else:
            record["every"], per, assigned = format_summary(step.summary, names)
            record["per"] = "; ".join(per)
            steps.append("; ".join(assigned))
        if step.restriction != ALWAYS:
            record["from"] = format_predicate(step.restriction, names)
        if step.result is not None:
            record["shown as" if Action.PUBLISH not in authority.actions else "written as"] = str(step.result)
    if steps:
        record["set"] = ", then ".join(steps)
    return record


def right_record(signed: SignedCertificate) -> dict[str, object]:
    """Return what a certificate grants in the words of `maia grant`, for people and programs."""
    from maia.credentials import AuthorisationCertificate, NetworkPattern, TypePattern

    certificate = signed.certificate
    if not isinstance(certificate, AuthorisationCertificate):
        return {"may": f"be called {certificate.name}", "until": _end(certificate.validity)}
    record = authority_record(certificate.authority, attribute_names(certificate.authority))
    resource, owner = certificate.authority.resources, certificate.authority.resources.owner
    match resource:
        case TypePattern(_, name, _):
            about = f":{name}" + ("" if owner in (None, certificate.issuer) else f" of {owner}")
        case NetworkPattern(_, name):
            about = f" network {name}"
        case _:
            about = f" {_shown_resource(resource)}"
    return {
        "may": ", ".join(f"{action}{about}" for action in _words(record["actions"])),
        **({} if record["attributes"] == ["*"] else {"only": record["attributes"]}),
        **{word: record[word] for word in _TERMS if word in record},
        "delegable": certificate.may_delegate,
        "until": _end(certificate.validity),
        "by": str(certificate.issuer),
    }


def right_lines(signed: SignedCertificate, *, by: bool = False) -> list[str]:
    """Return the same in lines; with `by`, also who granted it."""
    record = right_record(signed)
    lines = [f"may          {record['may']}"]
    if "only" in record:
        lines.append(f"  only       {' '.join(_words(record['only']))}")
    lines += [f"  {word:<10} {record[word]}" for word in _TERMS if word in record]
    passes_on = ", and may pass it on" if record.get("delegable") else ""
    lines.append(f"  until      {record['until']}{passes_on}")
    return [*lines, f"  granted by {record['by']}"] if by else lines


def narrowing(signed: SignedCertificate) -> list[str]:
    """Return what narrows or changes what a certificate grants, in few words."""
    record = right_record(signed)
    only = [f"only {', '.join(_words(record['only']))}"] if "only" in record else []
    return [*only, *(f"{word} {record[word]}" for word in _TERMS if word in record)]


def _end(validity: Validity) -> str:
    return validity_record(validity)["not_after"]


def certificate_record(certificate: Certificate) -> dict[str, object]:
    """Return a certificate as named fields, for programs."""
    from maia.credentials import NameCertificate

    record: dict[str, object] = {
        "issuer": str(certificate.issuer),
        "subject": shown_subject(certificate.subject),
        "valid": validity_record(certificate.validity),
        "comment": certificate.comment,
        **online_record(certificate.validity),
    }
    if isinstance(certificate, NameCertificate):
        return record | {"name": certificate.name}
    return record | {"may_delegate": certificate.may_delegate, **grants_record(certificate.authority)}


def grants_record(authority: Authority) -> dict[str, object]:
    """Return what is granted for programs: attributes by their uids, and beside them what they are called."""
    names = attribute_names(authority)
    return {"grants": authority_record(authority), **({"attribute_names": names} if names else {})}


def shown_subject(subject: Subject) -> str:
    """Return a subject as one line."""
    from maia.credentials import LocalName, Threshold

    match subject:
        case LocalName(space, words):
            return f"{space} {' '.join(repr(word) for word in words)}"
        case Threshold(needed, members):
            return f"{needed} of ({', '.join(shown_subject(member) for member in members)})"
        case principal:
            return str(principal)


def validity_lines(validity: Validity) -> list[str]:
    """Return a period, and the testers of the certificate, one a line."""
    tests = [f"tested       {_shown_test(test)}" for test in validity.tests]
    return [f"valid        {shown_validity(validity)}", *tests]


def shown_validity(validity: Validity) -> str:
    """Return a period as one line."""
    start, end = validity_record(validity).values()
    return f"{start} to {end}"


def validity_record(validity: Validity) -> dict[str, str]:
    """Return a period as named fields; a missing bound is stated."""
    start, end = validity.not_before, validity.not_after
    return {
        "not_before": "unbounded" if start is None else str(start),
        "not_after": "unbounded" if end is None else str(end),
    }


def online_record(validity: Validity) -> dict[str, object]:
    """Return the tests that are demanded, as a named field; nothing if there are none."""
    tests = [
        {"kind": test.kind.value, "by": str(test.by), "at": list(test.locations)} for test in validity.tests
    ]
    return {"online": tests} if tests else {}


def online_tests(kinds: Iterable[str], by: Principal, locations: Iterable[str]) -> list[OnlineTest]:
    """Read `--online`, `--by` and `--statements-at`."""
    from maia.credentials import OnlineTest, TestKind

    known = {kind.value: kind for kind in TestKind}
    wanted = list(kinds)
    for word in wanted:
        if word not in known:
            raise BadGrant(f"`{word[:32]}` is no online test; there are {', '.join(known)}")
    return [OnlineTest(known[word], by, tuple(locations)) for word in wanted]


def revocation_lines(certificate: Certificate) -> list[str]:
    """Return whether and how a certificate can be revoked, and where that would not be noticed."""
    tests, end = certificate.validity.tests, certificate.validity.not_after
    closing = [test for test in tests if test.kind.value != "crl"]
    if closing:
        who = ", ".join(dict.fromkeys(str(test.by) for test in closing))
        return [f"revocable    by {who}: a verifier without its statement refuses the certificate"]
    until = "for ever" if end is None else f"until {end}"
    return [
        "revocable    by a list of its issuer, at verifiers that receive it; it demands no test, so a",
        f"             verifier that receives none accepts it {until} (--online timed-crl)",
    ]


def revocation_record(certificate: Certificate) -> dict[str, object]:
    """Return the same as a named field."""
    return {"revocable_everywhere": any(test.kind.value != "crl" for test in certificate.validity.tests)}


def _shown_test(test: OnlineTest) -> str:
    places = f", at {' '.join(test.locations)}" if test.locations else ""
    return f"{test.kind.value} by {test.by}{places}"


def _resources(
    *, owner: str | None, network: str | None, type_name: str | None, topics: Sequence[str], version: str
) -> ResourcePattern:
    from maia.credentials import AnyResource, NetworkPattern, TopicPattern, TypePattern, parse_name_pattern

    whose = None if owner is None or owner == "*" else read_owner(owner)
    if sum(map(bool, (network, type_name, topics))) > 1 or len(topics) > 1:
        raise BadGrant("a certificate is about a network, types or topics, and one of them only")
    if topics:
        return TopicPattern(whose, parse_name_pattern(topics[0]))
    if network is not None:
        return NetworkPattern(whose, parse_name_pattern(network))
    if type_name is not None:
        return TypePattern(whose, parse_name_pattern(type_name), None if version == "*" else version)
    if owner == "*":
        return AnyResource()
    raise BadGrant(
        "name the resource: --network NAME, --type NAME, --topic PATH or --definition FILE, with --owner; "
        "`--owner '*'` alone means everything"
    )


def _shown_resource(resources: ResourcePattern) -> str:
    from maia.credentials import NetworkPattern, TopicPattern, TypePattern

    match resources:
        case NetworkPattern(owner, name):
            return f"network [{owner or '*'}, {name}]"
        case TypePattern(owner, name, version):
            return f"type [{owner or '*'}, {name}, {version or '*'}]"
        case TopicPattern(owner, path):
            return f"topic [{owner or '*'}, {path}]"
        case anything:
            owner = getattr(anything, "owner", None)
            return f"everything of {owner}" if owner else "everything"


def _uid(word: str, vocabulary: Vocabulary | None) -> AttributeUid:
    from maia.events import attribute_uid

    if vocabulary is not None and word in vocabulary:
        return vocabulary[word].uid
    if vocabulary is not None:
        raise BadGrant(f"the type has no attribute `{word[:64]}`; it has {', '.join(vocabulary)}")
    return attribute_uid(word)


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else [str(value)]
