"""Which pages does a domain's HTTP interface have? `docs/domain-api.md` is written from their table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maia.api.endpoints import ENDPOINTS, Endpoint

PAGE = Path(__file__).resolve().parent.parent / "docs" / "domain-api.md"

HEAD = """\
# The HTTP interface of a domain

The calls that `maia domain …` and `maia login` make, for other programs: how a call is signed, and every
call with the right it needs. A running server serves the whole description, with the form of every body and
answer, as an OpenAPI 3.1 document at `/openapi.json`. This page is generated from the same table.

- **The server** speaks TLS 1.3 with the one leaf of the domain's key. A client pins that key; there are no
  other authorities.
- **Every call is signed.** `Authorization: Maia BASE64` carries a canonical s-expression, signed by the
  caller's key. It names the domain, its present run (`instance` of `/v1/domain`), method, path and query, the
  digests of the body and of the certificates, the idempotency key, the time and a nonce
  (`src/maia/wire/api_requests.py`). A call counts once; clocks may differ by `api.skew_s`.
- **Certificates** that allow an administrative call are in `Maia-Credentials`, base64 with commas
  between them.
- **Public pages** need no signature: which domain this is, and its statements. Certificates name
  `/v1/statements` as their location ([who fetches them](domain.md#where-statements-are-fetched)).
- **Errors** are problem details (RFC 9457, `application/problem+json`). `code` never changes;
  [Errors](errors.md) explains each.
- **Long answers** come in pages: pass `next` as `after`. `limit` is at most 500.
- **Idempotency.** A call with an `Idempotency-Key` is done once, and answered again with the first answer,
  also after a restart; a caller who may no longer make it is refused instead.
- **Revocations** are answered when the broker has acted on the statement: status 200 and
  `Maia-Published: yes`. If no broker could be reached in time, it is done all the same: status 202 and
  `Maia-Published: no`.
- **Conformance:** the test suite validates the document with openapi-spec-validator, and drives every
  operation with what its schema admits and does not; an answer has a documented status and form.
- **Arguments** of facts, appointments and roles are JSON values. An object with `principal` or `timestamp`
  is a key or a time, and one with `word` is text that a person typed, read by the kind that the
  policy declares. Names, numbers of arguments and kinds are those of the policy in force, or the call is
  refused.
- Bodies are at most 2 MiB (32 MiB for the rows of a fact), and requests of one principal are bounded.

In Python, `DomainClient` pins the key, signs, and raises what the domain refuses. `ask` makes one of the
calls below by its entry in `maia.api.endpoints`, `every` fetches all pages of a long answer, and `call` takes
any method and path. The test suite runs this example against a server:

```py
from pathlib import Path

from maia.api import endpoints
from maia.api.client import DomainClient
from maia.api.requests import FactBody, FactsQuestion, TypedArgument
from maia.config.input_files import read_certificates, read_principal
from maia.keystore.key_files import load_signing_key

with DomainClient(
    "127.0.0.1:7600",
    domain=read_principal("met.pub"),
    key=load_signing_key(Path("desk.key")),
    credentials=read_certificates([Path("desk-certs")]),
) as met:
    smith = TypedArgument(principal=str(read_principal("smith.pub")))
    met.ask(endpoints.ASSERT_FACT, FactBody("detective", [smith]))
    detectives = met.every(endpoints.FACTS, FactsQuestion(name="detective"))
    print([who.principal for (who,) in detectives])
```

"""


def page() -> str:
    """Return the page."""
    rows = ["| call | what it does | needs |", "| --- | --- | --- |"]
    rows += [_row(one) for one in ENDPOINTS]
    return HEAD + "\n".join(rows) + "\n"


def _row(one: Endpoint[Any, Any]) -> str:
    needs = "nothing: public" if one.is_public else "a signature"
    if one.right:
        action, topic = one.right.split()
        needs = f"{action} `{topic}`"
    return f"| `{one.method} {one.path}` | {one.summary} | {needs} |"
