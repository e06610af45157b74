"""`maia gateway`: let clients of other protocols in, by MQTT and HTTP."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maia.cli.command import arg, need, opt, options
from maia.cli.inputs import BadFile, command_group, read_principal
from maia.cli.organisation import RightOptions
from maia.cli.output import Answer, row, rows
from maia.cli.servers.server_command import (
    CHECK_ONLY,
    LOG_FORMAT,
    LOG_LEVEL,
    checked,
    file_of,
    organisation_of,
    run_server,
)
from maia.cli.trust.grants import right
from maia.cli.trust.key import KEY_FILE, open_key
from maia.clock import system_now
from maia.config.settings import BadConfig, Defaults

if TYPE_CHECKING:
    from maia.credentials import Owner
    from maia.gateway.server.config import GatewayConfig
    from maia.organisation import Organisation


app = command_group(
    "Let MQTT and HTTP clients publish and subscribe, each with the rights of its own account."
)


@options
class GatewayFile:
    """The settings of a gateway: the operator's file, and what it need not say of an organisation."""

    config: Path | None = opt("The gateway's TOML file; see docs/mqtt.md and docs/http.md.", "--config", "-c")
    org: Path | None = opt(
        "An organisation's folder: its broker, network and types, unless the file says others."
    )

    def read(self, flags: Mapping[str, object]) -> GatewayConfig:
        """Read the file, the environment and flags; refuse a gateway of nothing."""
        from maia.gateway.server.config import read_config

        ours = self.organisation()
        config = file_of(self.config, ours, "gateway.toml")
        defaults = None if ours is None else Defaults(f"`{ours.folder}`", _defaults(ours))
        return read_config(config, flags=flags, environment=os.environ, defaults=defaults)

    def organisation(self) -> Organisation | None:
        """Return the organisation that is meant: with neither option, the one whose folder this is."""
        return organisation_of(self.config, self.org, what="the gateway")


def _defaults(ours: Organisation) -> dict[str, object]:
    """Return the settings that an organisation's folder answers: each type is a topic of its name."""
    from maia.profile.type_names import words_for
    from maia.types.definition import PAYLOAD, tree_root

    files: dict[tuple[Owner, str], list[str]] = {}
    plain: set[tuple[Owner, str]] = set()
    for file, signed in ours.type_files():
        name = (signed.definition.name.owner, signed.definition.name.name)
        files.setdefault(name, []).append(str(file.absolute()))
        plain |= {name} if PAYLOAD in signed.definition.attributes else set()
    # Of owners that share a name, the organisation's own type has it, and others are NAME@OWNER.
    called = {meant: word for word, meant in words_for(files, folders=[ours.folder]).items()}
    called |= {one: one[1] for one in files if one[0] == ours.principal}
    topics = [
        {
            "mqtt": word if (root := tree_root(one[1])) is None else f"{root[1:]}{word[len(one[1]):]}/#",
            "type": files[one], "payload": "plain" if one in plain else "json", "durable": True,
        }
        for one, word in called.items()
    ]  # fmt: skip
    return {
        "broker": [ours.addresses["broker"]],
        "brokers_of": [str(ours.principal)],
        "network": ours.network.name,
        "coordinator": str(ours.network.owner),
        "data": str((ours.folder / "gateway-data").absolute()),
        "topics": topics,
    }


@app.command()
def mqtt(
    file: GatewayFile,
    listen: str | None = opt("Where MQTT clients connect: HOST:PORT."),
    log_format: str | None = LOG_FORMAT,
    log_level: str | None = LOG_LEVEL,
    check: bool = CHECK_ONLY,
) -> Answer | None:
    """Run an MQTT gateway until Ctrl-C or SIGTERM, and an HTTP one beside it if `http.listen` is set.

    Examples:
        maia gateway mqtt --config gateway.toml
        maia gateway mqtt --org hospital
    """
    flags: dict[str, object] = {"listen": listen, "log_format": log_format, "log_level": log_level}
    return _run(file, flags, mqtt=True, check=check)


@app.command()
def http(
    file: GatewayFile,
    listen: str | None = opt("Where HTTP clients connect: HOST:PORT."),
    log_format: str | None = LOG_FORMAT,
    log_level: str | None = LOG_LEVEL,
    check: bool = CHECK_ONLY,
) -> Answer | None:
    """Run an HTTP gateway alone until Ctrl-C or SIGTERM; one line says when it is ready.

    Examples:
        maia gateway http --config gateway.toml --listen 127.0.0.1:8443
        maia gateway http --org hospital --listen 127.0.0.1:8443
    """
    flags: dict[str, object] = {"http.listen": listen, "log_format": log_format, "log_level": log_level}
    return _run(file, flags, mqtt=False, check=check)


def _run(file: GatewayFile, flags: dict[str, object], *, mqtt: bool, check: bool) -> Answer | None:
    from functools import partial

    from maia.gateway.server.config import prepare
    from maia.gateway.server.process import serve

    prepared = prepare(file.read(flags), now=system_now())
    if not mqtt and prepared.config.http_listen is None:
        raise BadConfig("`http.listen` is missing: say where HTTP clients connect, --listen 127.0.0.1:8443")
    if check:
        own, table = prepared.config, prepared.table.rows
        listens = (own.listen if mqtt else None, own.http_listen, own.status)
        topics = [f"{one.mqtt:<24} {one.event_type.name.name}" for one in table]
        return Answer(row("", topics, topics=len(table)), checked("gateway", own.data, *listens))
    run_server(prepared, prepared.config, partial(serve, mqtt=mqtt))
    return None


@app.command()
def account(
    *,
    name: str = arg("The account's name, and its clients' user name."),
    file: GatewayFile,
    client: str | None = opt("Clients prove this key by TLS in place of a token: a key or .pub file."),
    rights: RightOptions,
) -> Answer:
    """Make an account with a key of its own; with --org, it gets its rights as a member does.

    Examples:
        maia gateway account sensor-1 --config gateway.toml (prints a token, once)
        maia gateway account sensor-1 --org hospital --may publish:LabResult
        maia gateway account camera --client camera.pub --config gateway.toml (proved by TLS)
    """
    from maia.gateway.server.account_folder import AccountFolder

    ours = file.organisation()
    if rights.may and ours is None:
        raise typer.BadParameter("--may needs --org FOLDER, whose key grants the rights")
    settings = file.read({})
    bound = None if client is None else read_principal(client)
    wanted = [] if ours is None else ours.rights(rights.may or (), **rights.terms)
    folder, made, token = AccountFolder(settings.data).add(name, bound)
    given = [] if ours is None else ours.add_account(name, folder, wanted)
    token_text = f"{token} (shown once; it is the password)" if token else None
    return Answer(
        row("account", name, account=name, folder=folder, principal=made.principal),
        row("issue to", None if ours else folder / "key.pub"),
        row("put certs in", None if ours else folder),
        *(row("", right(one).lines) for one in given),
        row("token", token_text, token=token),
        row("proved by", None if token else made.client, client=made.client),
    )


@app.command()
def certificate(
    key: Path = KEY_FILE, out: Path = need("Write NAME.crt and NAME.pem.", "--out", "-o")
) -> Answer:
    """Write a key and its TLS certificate in PEM, for clients that prove it by TLS.

    Examples:
        maia gateway certificate -k camera.key -o camera (writes camera.crt and camera.pem)
    """
    from maia.net.tls import key_and_leaf
    from maia.private_files import create_private

    secret, leaf = key_and_leaf(open_key(key))
    files = (out.with_suffix(".crt"), leaf), (out.with_suffix(".pem"), secret)
    for path, data in files:
        if path.exists():
            raise BadFile(f"`{path}` is already there")
        with create_private(path) as file:
            file.write(data)
    (shown, _), (hidden, _) = files
    secret_row = row("secret key", f"{hidden} (only you can read it)", secret_file=hidden)
    return Answer(rows(certificate=shown), secret_row)


@app.command()
def sign(
    *,
    target: str = arg("Path and query of the call, as they will be sent."),
    key: Path = KEY_FILE,
    to: str = need("The account key that the call is for: a key or key.pub file."),
    at: str = need("The gateway's address: https://HOST:PORT."),
    method: str = opt("GET, POST or DELETE.", "--method", "-X", default="POST"),
    body: Path | None = opt("The file with the body."),
    trust: Path | None = opt("Whom to trust for the gateway's certificate, in PEM.", "--cacert"),
) -> Answer:
    """Sign one HTTP call, for now and once; print what its `Authorization` header says.

    Examples:
        maia gateway sign -k camera.key --to account/key.pub --at https://gateway.example:8443
          '/v1/events?topic=plates/Soho' --body plate.json
    """
    import base64
    import ssl

    import httpx
    import msgspec

    from maia.api.problems import SCHEME
    from maia.wire.api_requests import (
        INSTANCE_BYTES,
        ApiCall,
        ApiRequest,
        api_request_to_bytes,
        sign_api_request,
    )

    try:
        context = ssl.create_default_context(cafile=trust)
        answered = httpx.get(f"{at.rstrip('/')}/v1", verify=context, trust_env=False, timeout=10)
        instance = bytes.fromhex(msgspec.json.decode(answered.content)["instance"])
    except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError, msgspec.MsgspecError) as problem:
        raise BadFile(f"`{at}` does not answer as a gateway does: {problem}") from None
    call = ApiCall.of(method, target, body=b"" if body is None else body.read_bytes())
    nonce = os.urandom(INSTANCE_BYTES)
    request = ApiRequest(read_principal(to), instance, call, system_now(), nonce)
    signed = api_request_to_bytes(sign_api_request(request, open_key(key)))
    header = f"{SCHEME} {base64.b64encode(signed).decode()}"
    return row("", header, authorization=header)
