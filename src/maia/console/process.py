"""How does a console run, and how is it asked for a link?"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx

from maia.clock import system_now
from maia.console.config import ConsoleConfig, Held
from maia.console.server import OPEN_PATH, Console
from maia.errors import Unavailable
from maia.net.http_listener import listening
from maia.net.signals import until_told_to_stop
from maia.net.telemetry import Telemetry
from maia.wire.api_requests import INSTANCE_BYTES, ApiCall, ApiRequest, api_request_to_bytes, sign_api_request
from maia.wire.replays import NONCE_BYTES

_TIMEOUT_S: Final = 10.0


class NoConsole(Unavailable):
    """No console answers for this profile."""

    code = "UNAVAILABLE-CONSOLE"


@dataclass(frozen=True, slots=True)
class ConsoleListening:
    """Where a console answers, and how many can sign in."""

    address: str
    principal: str
    status: str | None = None


async def serve(
    config: ConsoleConfig, telemetry: Telemetry, ready: Callable[[ConsoleListening], None]
) -> None:
    """Run a console until SIGTERM or Ctrl-C."""
    console = Console(config, telemetry)
    context = None
    if config.tls is not None:
        certificate, key = config.tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key)
    async with (
        listening(console.application(), context, config.listen) as address,
        console.answering_at(address) as url,
    ):
        names = ", ".join(sorted(one.profile.name for one in config.held.values()))
        ready(ConsoleListening(url, names))
        await until_told_to_stop()


def link_for(held: Held) -> str:
    """Ask the console that holds this profile for a link; the call is signed by the profile's key.

    The console is the one that has written its present run into the folder of the profile, which only the
    profile's owner can write to: a call is worth nothing to another server, nor after the console has ended.
    """
    try:
        door = json.loads(held.door.read_text(encoding="ascii")[:4096])
        address, instance = str(door["address"]), bytes.fromhex(door["instance"])
        trusted = door["tls_certificate"]
        context = ssl.create_default_context(cafile=trusted) if trusted else False
    except (OSError, ValueError, KeyError, TypeError):
        raise NoConsole(
            f"no console runs for `{held.profile.name}`; `maia console serve` starts one"
        ) from None
    if len(instance) != INSTANCE_BYTES:
        raise NoConsole(f"`{held.door}` was not written by a console")
    call = ApiCall.of("POST", OPEN_PATH, body=b"", credentials=b"", once="")
    request = ApiRequest(held.key.principal, instance, call, system_now(), os.urandom(NONCE_BYTES))
    signed = api_request_to_bytes(sign_api_request(request, held.key))
    try:
        response = httpx.post(
            address + OPEN_PATH,
            headers={"Authorization": f"Maia {base64.b64encode(signed).decode()}"},
            timeout=_TIMEOUT_S,
            trust_env=False,
            verify=context,  # on loopback there is no TLS to verify
        )
        answer = response.json()
    except (httpx.HTTPError, ValueError) as problem:
        raise NoConsole(f"no console answers at `{address}`: {type(problem).__name__}") from problem
    if "path" not in answer:
        raise NoConsole(f"the console at `{address}` refuses: {str(answer.get('message'))[:300]}")
    return f"{address}{answer['path']}"
