"""How does a program talk to a domain's HTTP interface?

    with DomainClient("127.0.0.1:7600", domain=met, key=key, credentials=certificates) as client:
        wallet = client.ask(endpoints.LOGIN, LoginBody(shown))

The domain is known by its key: a server that answers with another one is not talked
to. Every call is signed for this domain and its present run. What the domain
refuses is raised with the domain's own code.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar
from urllib.parse import urlencode

import httpx
import msgspec

from maia.api import endpoints
from maia.api.endpoints import Asked, Endpoint
from maia.api.problems import (
    CREDENTIALS_HEADER,
    ONCE_HEADER,
    PUBLISHED_HEADER,
    SCHEME,
    ApiProblem,
    credentials_to_header,
)
from maia.api.responses import DomainAnswer
from maia.clock import system_now
from maia.credentials import Principal, SignedCertificate, SigningKey
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import Instant
from maia.net.addresses import host_and_port
from maia.net.tls import pinning_context
from maia.wire.api_requests import INSTANCE_BYTES, ApiCall, ApiRequest, api_request_to_bytes, sign_api_request
from maia.wire.replays import NONCE_BYTES

__all__ = [
    "REFUSALS",
    "Answered",
    "DomainClient",
    "DomainSaid",
    "authorization",
    "decoded_answer",
    "new_once",
    "problem_told",
    "run_of",
    "unreachable",
]

ANSWER_BYTES_MAX: Final = 64 << 20
ANOTHER_RUN: Final = "REQUEST-ANOTHER-RUN"
"""The code with which a server that was started anew refuses what was signed for its run before."""
PAGES_MAX: Final = 10_000
"""Pages of one long answer that are fetched."""
_DETAIL_MAX: Final = 8000
_WHOLE: Final = 4.0
"""How many times as long as one wait an answer may take as a whole."""
_CODE: Final = re.compile(r"[A-Z][A-Z0-9-]{1,63}")
_Answer = TypeVar("_Answer")
_Item_co = TypeVar("_Item_co", covariant=True)


class Paged(Protocol[_Item_co]):
    """One page of a long answer."""

    @property
    def items(self) -> Sequence[_Item_co]: ...
    @property
    def next(self) -> str | int | None: ...


class Answered(msgspec.Struct, frozen=True):
    """Whether a statement has reached the network; None where there was none to carry."""

    is_published: bool | None


class DomainClient:
    """A caller of one domain. Not for several threads."""

    def __init__(
        self,
        address: str,
        *,
        domain: Principal,
        key: SigningKey,
        credentials: Sequence[SignedCertificate] = (),
        clock: Callable[[], Instant] = system_now,
        timeout_s: float = 30.0,
    ) -> None:
        """Talk to the domain that holds the key of `domain`, as the holder of `key`."""
        host_and_port(address)
        self.address, self.domain = address, domain
        self._key, self._clock, self._timeout_s = key, clock, timeout_s
        self._shown = credentials_to_header(credentials)
        self._instance: bytes | None = None
        self._http = httpx.Client(
            base_url=f"https://{address}",
            verify=pinning_context(domain),
            timeout=timeout_s,
            trust_env=False,
            follow_redirects=False,
        )
        self.last = Answered(None)
        """What the last answer said beside its body."""

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    # ------------------------------------------------------------ calls

    def ask(
        self,
        endpoint: Endpoint[Asked, _Answer],
        asked: Asked | None = None,
        *,
        once: str | None = None,
        **path: object,
    ) -> _Answer:
        """Make a call of the table and return its answer; raise what the domain refuses.

        The domain does once what counts once, however often it arrives: `once` is the call's idempotency
        key, a new one if none is given.
        """
        return self.call(
            endpoint.method,
            endpoint.path.format(**path),
            asked if endpoint.has_body else None,
            answer=endpoint.answer,
            query=msgspec.to_builtins(asked) if endpoint.has_query else None,
            once=(new_once() if endpoint.is_once else "") if once is None else once,
            is_public=endpoint.is_public,
        )

    # Any: a question is of whatever class the table says.
    def every(
        self,
        endpoint: Endpoint[Any, Paged[_Item_co]],
        asked: Any = None,
        *,
        pages_max: int = PAGES_MAX,
        **path: object,
    ) -> Iterator[_Item_co]:
        """Yield the items of a long answer, page by page."""
        question = endpoint.takes() if asked is None else asked
        for _ in range(pages_max):
            page = self.ask(endpoint, question, once="", **path)
            yield from page.items
            if page.next is None:
                return
            question = msgspec.structs.replace(question, after=page.next)

    def call(
        self,
        method: str,
        path: str,
        body: object | None = None,
        *,
        answer: type[_Answer],
        query: Mapping[str, object] | None = None,
        once: str = "",
        is_public: bool = False,
    ) -> _Answer:
        """Make a call, signed unless it is public, and return its answer; raise what the domain refuses."""
        said = {name: value for name, value in (query or {}).items() if value is not None}
        target = path + ("?" + urlencode(said) if said else "")
        content = b"" if body is None else msgspec.json.encode(body)
        for is_last in (False, True):
            try:
                headers = {} if is_public else self._headers(method, target, content, once)
                return self._sent(method, target, content, headers, answer)
            except DomainSaid as problem:
                if is_last or problem.code != ANOTHER_RUN:
                    raise problem.as_ours() from None
                self._instance = None  # the server was started anew: sign for its present run, once
        raise AssertionError("the second try returns or raises")

    def about(self) -> DomainAnswer:
        """Return which domain this is, and its present run."""
        found = self.ask(endpoints.DOMAIN)
        if found.principal != str(self.domain):
            raise BrokenCredential(
                "CREDENTIAL-ANOTHER-DOMAIN", f"`{self.address}` says that it is `{found.principal[:80]}`"
            )
        return found

    # ------------------------------------------------------------ inside

    def _headers(self, method: str, target: str, content: bytes, once: str) -> dict[str, str]:
        call = ApiCall.of(method, target, body=content, credentials=self._shown.encode("latin-1"), once=once)
        headers = {"Authorization": authorization(call, self.domain, self._run(), self._clock(), self._key)}
        shown = {CREDENTIALS_HEADER: self._shown, ONCE_HEADER: once}
        return headers | {name: value for name, value in shown.items() if value}

    def _run(self) -> bytes:
        if self._instance is None:
            self._instance = run_of(self.about())
        return self._instance

    def _sent(
        self, method: str, target: str, content: bytes, headers: Mapping[str, str], answer: type[_Answer]
    ) -> _Answer:
        ends = monotonic() + _WHOLE * self._timeout_s
        try:
            with self._http.stream(method, target, content=content, headers=dict(headers)) as response:
                body = self._read(response, ends)
        except httpx.HTTPError as problem:
            raise unreachable(problem, self.address, self.domain) from problem
        published = response.headers.get(PUBLISHED_HEADER)
        self.last = Answered(None if published is None else published == "yes")
        if response.is_success:
            return decoded_answer(body, answer)
        raise problem_told(body)

    def _read(self, response: httpx.Response, ends: float) -> bytes:
        """Read an answer, in time and not beyond its limit: a byte now and then is no answer."""
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise ProtocolViolation(
                    "PROTOCOL-DOMAIN-ANSWER",
                    f"an answer is larger than the {ANSWER_BYTES_MAX} bytes that are read",
                )
            if monotonic() > ends:
                raise Unavailable(
                    "UNAVAILABLE-DOMAIN", f"the domain's server at `{self.address}` takes too long to answer"
                )
            parts.append(part)
        return b"".join(parts)


class DomainSaid(Exception):
    """What a domain's server refused, on its way to the caller."""

    def __init__(self, problem: ApiProblem) -> None:
        super().__init__(problem.detail)
        self.code, self._problem = problem.code, problem

    def as_ours(self) -> MaiaError:
        """Return it as an error of the family that its status belongs to, with the domain's code."""
        for begins, family in _FAMILIES:
            if self.code.startswith(begins):
                return family(self._problem)
        return RefusedByDomain(self._problem)


class _ToldByDomain(Exception):
    """What the errors below have in common: their code is the domain's own."""

    def __init__(self, problem: ApiProblem) -> None:
        incident = f" (incident {ascii(problem.incident[:64])[1:-1]})" if problem.incident else ""
        super().__init__(problem.detail + incident)
        # On the object, where it hides the code of the class.
        self.__dict__["code"] = problem.code
        self._problems = problem.problems

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, with each problem of a policy."""
        record: dict[str, object] = {"code": self.__dict__["code"], "message": str(self)}
        return record if self._problems is None else {**record, "problems": self._problems}


class RefusedByDomain(_ToldByDomain, Refusal):
    """A domain's server said no; `code` is the domain's own."""

    code = "REFUSED-BY-DOMAIN"


class DomainCannot(_ToldByDomain, Unavailable):
    """A domain's server cannot do it now; `code` is the domain's own."""

    code = "UNAVAILABLE-BY-DOMAIN"


class DomainDoesNotBelieve(_ToldByDomain, BrokenCredential):
    """A domain's server does not believe a credential; `code` is the domain's own."""

    code = "CREDENTIAL-BY-DOMAIN"


class DomainWantsOtherInput(_ToldByDomain, BadInput):
    """A domain's server wants other input; `code` is the domain's own."""

    code = "INPUT-BY-DOMAIN"


class DomainDoesNotUnderstand(_ToldByDomain, ProtocolViolation):
    """A domain's server does not understand; `code` is the domain's own."""

    code = "PROTOCOL-BY-DOMAIN"


REFUSALS: Final = (RefusedByDomain, DomainDoesNotBelieve, DomainWantsOtherInput, DomainDoesNotUnderstand)
"""What a domain's server has decided: asking again, or elsewhere, changes nothing."""

_FAMILIES: Final[tuple[tuple[str, Callable[[ApiProblem], MaiaError]], ...]] = (
    ("UNAVAILABLE", DomainCannot),
    ("INTERNAL", DomainCannot),
    ("CREDENTIAL", DomainDoesNotBelieve),
    ("INPUT", DomainWantsOtherInput),
    ("PROTOCOL", DomainDoesNotUnderstand),
)


def new_once() -> str:
    """Return a new idempotency key."""
    return os.urandom(16).hex()


def authorization(call: ApiCall, audience: Principal, run: bytes, now: Instant, key: SigningKey) -> str:
    """Return what the `Authorization` header of a call says, signed for a domain and its present run."""
    request = ApiRequest(audience, run, call, now, os.urandom(NONCE_BYTES))
    signed = api_request_to_bytes(sign_api_request(request, key))
    return f"{SCHEME} {base64.b64encode(signed).decode()}"


def run_of(about: DomainAnswer) -> bytes:
    """Return the run for which calls to a domain's server are signed."""
    try:
        instance = bytes.fromhex(about.instance)
    except ValueError:
        instance = b""
    if len(instance) != INSTANCE_BYTES:
        raise ProtocolViolation("PROTOCOL-DOMAIN-ANSWER", "the domain's server does not name its run")
    return instance


def problem_told(body: bytes) -> DomainSaid:
    """Return what a domain's server refused; what is no code of Maia's is not passed on as one."""
    problem = decoded_answer(body, ApiProblem)
    if not _CODE.fullmatch(problem.code):
        raise ProtocolViolation(
            "PROTOCOL-DOMAIN-ANSWER", "the domain's server refuses with a code that is none"
        )
    shown = "".join(one if one.isprintable() or one == "\n" else "?" for one in problem.detail[:_DETAIL_MAX])
    return DomainSaid(msgspec.structs.replace(problem, detail=shown))


def decoded_answer(body: bytes, kind: type[_Answer]) -> _Answer:
    """Read an answer; refuse one that the interface does not have."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ProtocolViolation(
            "PROTOCOL-DOMAIN-ANSWER", "the domain's server answers something else than its interface says"
        ) from problem


def unreachable(problem: Exception, address: str, domain: Principal) -> MaiaError:
    """Return why the server at an address did not answer; it may not hold the key that was meant."""
    found: BaseException | None = problem
    cause: BaseException = problem
    while found is not None:
        cause, found = found, found.__cause__ or found.__context__
    if isinstance(cause, ssl.SSLError):
        return BrokenCredential("CREDENTIAL-ANOTHER-DOMAIN", f"the server at `{address}` is not `{domain}`")
    said = f"the domain's server at `{address}` does not answer: {type(problem).__name__}"
    if isinstance(problem, httpx.ConnectError):
        said = f"no domain's server answers at `{address}`"
    return Unavailable("UNAVAILABLE-DOMAIN", said)
