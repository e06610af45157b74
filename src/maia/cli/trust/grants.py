"""How is an authority written on a command line, and read off a screen?

`--network` or `--type` names the resource, `--action` what may be done with
it, `--attribute` what may be seen or written, `--where` the restriction. A
definition lets people use attribute names; the certificate holds uids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from maia.cli.command import need, opt, options
from maia.cli.inputs import moment, read_definition, read_owner
from maia.cli.output import Answer, book, row, rows
from maia.config.grant_terms import bound_of, condition_of, hours_in, on_topics_of, transformed
from maia.errors import BadInput

if TYPE_CHECKING:
    from maia.credentials import (
        Action,
        AttributeSet,
        Authority,
        Certificate,
        Principal,
        ResourcePattern,
        SignedCertificate,
        Subject,
        Validity,
    )
    from maia.credentials.x509_names import VerifiedX509Subject
    from maia.events import AttributeUid, Vocabulary

_TERMS: Final = (
    "made of", "where", "bound", "condition", "during", "from", "every", "per", "set", "shown as",
    "written as",
)  # fmt: skip
"""What narrows or changes what is granted, in the order in which it is shown."""


PROOF_SUFFIX: Final = ".proof"


@options
class X509Options:
    """By whose word an X.509 name is believed."""

    authority: Path | None = opt("The authority (PEM) that certifies the subject of a proof.", metavar="FILE")
    revocation_list: list[Path] | None = opt(
        "Revocation lists of the authorities (PEM or DER). May be repeated.", metavar="FILE"
    )

    def proved(self, file: str, grantor: Principal) -> VerifiedX509Subject:
        """Verify a proof for a grantor."""
        from maia.config.x509_files import verified_proof_file

        if self.authority is None:
            raise typer.BadParameter("a proof goes with --authority FILE, who certifies its subject")
        return verified_proof_file(
            Path(file), self.authority, self.revocation_list or (), grantor=grantor, now=moment(None)
        )


@options
class AuthorityOptions:
    """What may be done, with which resource, and how much of it is seen or written."""

    action: list[str] = need("connect install serve extend publish subscribe manage *; may be repeated.")
    owner: str | None = opt("Whose resource: key, .pub file, quorum:… or '*'.")
    network: str | None = opt("A network's name or pattern.")
    type_name: str | None = opt("A type's name or pattern, such as uk.gov.*.", "--type")
    topic: list[str] | None = opt("A topic or pattern, such as '/news/uk/#' or '/admin/*'; may be repeated.")
    version: str = opt("One version of the type, or '*'.", default="*")
    definition: Path | None = opt("Take owner, type and attribute names from here.", "--definition", "-d")
    attribute: list[str] | None = opt("What may be seen or written; default: everything.")
    where: str | None = opt("A restriction, in the filter language.")
    assignment: list[str] | None = opt(
        "Change what is shown, or published: 'place := first(place, 3)'; repeatable.", "--set"
    )
    result: Path | None = opt("Show, or publish, events as this type; it has what is --set.", "--shown-as")
    every: str | None = opt(
        "Show what events come to in each period: '5 minutes at least 5 late 10 seconds'."
    )
    per: list[str] | None = opt("Group them by a value: 'area := first(place, 3)'; may be repeated.")
    condition: str | None = opt("What must be true, over facts: 'on-duty = true', 'rate-minute <= 600'.")
    during: str | None = opt(
        "When it counts: 'between 09:00 and 17:00 on monday to friday in Europe/London'."
    )

    bound: list[str] | None = opt(
        "What filters or advertisements stay inside: 'strict upper exists(plate)'; may be repeated."
    )

    def authority(self, issuer: Principal) -> Authority:
        """Build an authority from the options; refuse what is missing or contradictory."""
        from maia.credentials import ALL_ATTRIBUTES, Authority, actions_from_words
        from maia.predicates import ALWAYS, AllOf, parse_predicate
        from maia.types.definition import TOPIC

        owner, type_name, topics = self.owner, self.type_name, self.topic or []
        found = None if self.definition is None else read_definition(self.definition).definition
        vocabulary = None if found is None else found.vocabulary
        if found is not None:
            owner, type_name = owner or str(found.name.owner), type_name or found.name.name
        allowed = actions_from_words(self.action)
        chosen = [_uid(word, vocabulary) for word in self.attribute or ()]
        restriction = ALWAYS if self.where is None else parse_predicate(self.where, vocabulary)
        if topics and not topics[0].startswith(("/admin/", "*")):
            tree, granted = on_topics_of(topics, allowed)
            if self.network is not None or type_name not in (None, tree):
                raise BadInput(
                    "INPUT-GRANT",
                    "a certificate speaks of a network, of types or of topics, and of one of them only",
                )
            type_name, topics = tree, []
            restriction = granted if restriction == ALWAYS else AllOf((granted, restriction))
            chosen += [TOPIC.uid] if chosen else []
        resources = _resources(owner, self.network, type_name, topics, self.version)
        attributes = frozenset(chosen) if chosen else ALL_ATTRIBUTES
        condition = condition_of(self.condition, self.during)
        bounds = tuple(bound_of(text, vocabulary) for text in self.bound or ())
        made = Authority(resources, allowed, attributes, restriction, condition, bounds=bounds)
        if not (self.assignment or self.result or self.every is not None or self.per):
            return made
        if found is None or not self.assignment:
            raise BadInput(
                "INPUT-GRANT", "a transformation needs `--definition`, whose attributes it names, and `--set`"
            )
        result = None if self.result is None else read_definition(self.result).definition
        return transformed(
            made, issuer, reads=found, assignments=self.assignment, result=result,
            every=self.every, per=self.per or (),
        )  # fmt: skip


def one_action(word: str) -> Action:
    """Read one action; a name for several actions is refused."""
    from maia.credentials import actions_from_words

    actions = sorted(actions_from_words([word]), key=lambda action: action.value)
    if len(actions) != 1:
        choices = ", ".join(action.value for action in actions)
        raise BadInput("INPUT-GRANT", f"`{word[:32]}` means several actions; give one of {choices}")
    return actions[0]


def certificate_shown(certificate: Certificate, names: Mapping[AttributeUid, str] | None = None) -> Answer:
    """Return a certificate, one field a row."""
    from maia.credentials import NameCertificate, is_for_good

    whom, comment = shown_subject(certificate.subject), certificate.comment
    if isinstance(certificate, NameCertificate):
        body = [rows(name=certificate.name), row("means", whom, subject=whom)]
    else:
        body = [
            rows(subject=whom),
            row("may pass on", certificate.may_delegate, may_delegate=certificate.may_delegate),
        ]
        body.append(granted(certificate.authority, names))
    for_good = "root authority, for good: it cannot be revoked" if is_for_good(certificate) else None
    return Answer(
        rows(issuer=certificate.issuer),
        *body,
        period_shown(certificate.validity),
        row("comment", comment or None, comment=comment),
        row("hands over", for_good),
    )


def attribute_names(authority: Authority) -> dict[AttributeUid, str]:
    """Return what the attributes in a right are called, by definitions that the user has of its types.

    Only definitions of the owner whose types the right is about count, and only names that agree.
    """
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


def granted(authority: Authority, names: Mapping[AttributeUid, str] | None = None) -> Answer:
    """Return what is granted: for programs attributes by their uids, and beside them what they are called."""
    called = attribute_names(authority)
    found = authority_record(authority, called if names is None else names)
    return Answer(
        *(
            row(word, [found[word]])
            for word in ("resource", "actions", "attributes", *_TERMS)
            if word in found
        ),
        row(grants=authority_record(authority), **({"attribute_names": called} if called else {})),
    )


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
    if authority.bounds:
        said = (f"{one.bound.value} {format_predicate(one.filter, names)}" for one in authority.bounds)
        record["bound"] = "; ".join(said)
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
    from maia.policy.endings import on_network

    certificate = signed.certificate
    if not isinstance(certificate, AuthorisationCertificate):
        return {"may": f"be called {certificate.name}", "until": _end(certificate.validity)}
    record = authority_record(certificate.authority, attribute_names(certificate.authority))
    resource, owner = certificate.authority.resources, certificate.authority.resources.owner
    match resource:
        case TypePattern(_, name, _):
            about = f":{name}" + ("" if owner in (None, certificate.issuer) else f" of {owner}")
        case _:
            about = f" {_shown_resource(resource)}"
    may = ", ".join(f"{action}{about}" for action in _words(record["actions"]))
    if isinstance(resource, NetworkPattern):
        may = on_network(certificate.authority.actions, str(resource.name))
    return {
        "may": may,
        **({} if record["attributes"] == ["*"] else {"only": record["attributes"]}),
        **{word: record[word] for word in _TERMS if word in record},
        "delegable": certificate.may_delegate,
        "until": _end(certificate.validity),
        "by": str(certificate.issuer),
    }


def right(signed: SignedCertificate, *, by: bool = False) -> Answer:
    """Return the same in rows; with `by`, also who granted it."""
    record = right_record(signed)
    passes_on = ", and may pass it on" if record.get("delegable") else ""
    made = Answer(
        row("may", record["may"]),
        *(row(f"  {word}", [record[word]]) for word in ("only", *_TERMS) if word in record),
        row("  until", f"{record['until']}{passes_on}"),
        row("  granted by", record["by"] if by else None),
    )
    made.record = record
    return made


def narrowing(signed: SignedCertificate) -> list[str]:
    """Return what narrows or changes what a certificate grants, in few words."""
    record = right_record(signed)
    only = [f"only {', '.join(_words(record['only']))}"] if "only" in record else []
    return [*only, *(f"{word} {record[word]}" for word in _TERMS if word in record)]


def _end(validity: Validity) -> str:
    return "unbounded" if validity.not_after is None else str(validity.not_after)


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


def period_shown(validity: Validity) -> Answer:
    """Return a period and the testers of the certificate; a missing bound is stated."""
    first, last = ("unbounded" if one is None else one for one in (validity.not_before, validity.not_after))
    tests = [{"kind": one.kind.value, "by": one.by, "at": one.locations} for one in validity.tests]
    places = [f", at {' '.join(one.locations)}" if one.locations else "" for one in validity.tests]
    shown = [f"{one['kind']} by {one['by']}{at}" for one, at in zip(tests, places, strict=True)]
    return Answer(
        row("valid", f"{first} to {last}", valid={"not_before": first, "not_after": last}),
        row("tested", shown, **({"online": tests} if tests else {})),
    )


def revocable(certificate: Certificate) -> Answer:
    """Return whether and how a certificate can be revoked, and where that would not be noticed."""
    tests, end = certificate.validity.tests, certificate.validity.not_after
    closing = [test for test in tests if test.kind.value not in ("crl", "followed-crl")]
    who = ", ".join(dict.fromkeys(str(test.by) for test in closing))
    told = [f"by {who}: a verifier without its statement refuses the certificate"]
    if not closing:
        until = "for ever" if end is None else f"until {end}"
        told = ["by a list of its issuer, at verifiers that receive it; it waits for none, so a"]
        told += [f"verifier that receives none accepts it {until} (--online timed-crl)"]
    first, *more = told
    return Answer(row("revocable", first, revocable_everywhere=bool(closing)), row(" ", more))


def _resources(
    owner: str | None, network: str | None, type_name: str | None, topics: Sequence[str], version: str
) -> ResourcePattern:
    from maia.credentials import AnyResource, NetworkPattern, TopicPattern, TypePattern, parse_name_pattern

    whose = None if owner is None or owner == "*" else read_owner(owner)
    if sum(map(bool, (network, type_name, topics))) > 1 or len(topics) > 1:
        raise BadInput(
            "INPUT-GRANT", "a certificate is about a network, types or topics, and one of them only"
        )
    if topics:
        return TopicPattern(whose, parse_name_pattern(topics[0]))
    if network is not None:
        return NetworkPattern(whose, parse_name_pattern(network))
    if type_name is not None:
        return TypePattern(whose, parse_name_pattern(type_name), None if version == "*" else version)
    if owner == "*":
        return AnyResource()
    raise BadInput(
        "INPUT-GRANT",
        "name the resource: --network NAME, --type NAME, --topic PATH or --definition FILE, with --owner; "
        "`--owner '*'` alone means everything",
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
        raise BadInput(
            "INPUT-GRANT", f"the type has no attribute `{word[:64]}`; it has {', '.join(vocabulary)}"
        )
    return attribute_uid(word)


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else [str(value)]
