"""The command line, and the composition root: it alone may import both sides.

The server is imported by the commands that need it: a sidecar alone does not carry it in memory.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proxy
import proxy.app
from proxy.commands import CHAOS, ENGINE_KEY, NOT_OF_UP, PROXY, UP, UPSTREAM, of_server
from proxy.explain import explain
from proxy.options import BadSettingError, parser
from proxy.serve import serve, told
from proxy.settings import ProxySettings
from proxy.streams import complete, say
from telemetry.traces import Tracing
from upstream.settings import UpstreamSettings
from wire.split import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy.serve import Closer

USAGE = """\
usage: deltawire COMMAND [OPTIONS]

  up              the sidecar and the shipped server with its embedded engine
  proxy           the sidecar alone
  upstream        the shipped server alone
  key             a new API key for the shipped server
  model           fetch the weights of the engine local
  explain         would one request body be a delta after another?
  replay          recorded traffic through a real sidecar
  bench           measure how fast it is, and write a report
  chaos-upstream  an upstream with faults, to try a client against

deltawire COMMAND --help tells the options, deltawire --version the version.
"""
_BAD_SETTING = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 2 for bad settings."""
    complete()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in {"-h", "--help", "help"}:
        say(USAGE.rstrip())
        return 0 if words else _BAD_SETTING
    if words[0] in {"-V", "--version"}:
        say(f"deltawire {version('deltawire')}")
        return 0
    command = _COMMANDS.get(words[0])
    if command is None:
        print(f"deltawire: there is no command {words[0]!r}; deltawire --help lists them", file=sys.stderr)
        return _BAD_SETTING
    try:
        _check_import()
        return command(words[1:], os.environ)
    except BadSettingError as error:
        print(error, file=sys.stderr)
        return _BAD_SETTING
    except KeyboardInterrupt:
        return 130


def _check_import() -> None:
    # Another distribution also installs a package named `proxy`; running its code by mistake would be baffling.
    if not hasattr(proxy.app, "Sidecar"):
        raise BadSettingError(
            "deltawire: the installed package 'proxy' is not deltawire's; use an environment of its own"
        )


def _proxy(words: Sequence[str], environment: Mapping[str, str]) -> int:
    prog = "deltawire proxy"
    found = told(prog, "The sidecar.", PROXY, words, environment)
    settings = _proxy_settings(prog, found)

    async def start() -> list[Closer]:
        running = await proxy.app.start(settings, Tracing.from_environment(environment))
        say(f"deltawire proxy listening on {running.url}", f"deltawire admin listening on {running.admin_url}")
        return [running.close]

    return serve(prog, start)


def _upstream(words: Sequence[str], environment: Mapping[str, str]) -> int:
    import upstream.app  # noqa: PLC0415 - see above

    prog = "deltawire upstream"
    settings = _upstream_settings(told(prog, "The shipped server.", UPSTREAM, words, environment), environment)

    async def start() -> list[Closer]:
        running = await upstream.app.start(settings)
        say(*running.told)
        return [running.close]

    return serve(prog, start)


def _up(words: Sequence[str], environment: Mapping[str, str]) -> int:
    import upstream.app  # noqa: PLC0415 - see above

    prog = "deltawire up"
    found = told(prog, "The sidecar and the shipped server.", UP, words, environment)
    server_settings = _upstream_settings(of_server(found), environment)
    sidecar = {option.field: found[option.field] for option in PROXY if option.name not in NOT_OF_UP}

    async def start() -> list[Closer]:
        served = await upstream.app.start(server_settings)
        try:
            settings = _proxy_settings(
                prog, sidecar | {"listen": found["proxy_listen"], "upstream": served.url + "/v1"}
            )
            running = await proxy.app.start(settings, Tracing.from_environment(environment))
        except BaseException:
            await served.close()
            raise
        say(
            *served.told,
            f"deltawire proxy listening on {running.url}",
            f"deltawire admin listening on {running.admin_url}",
            f"export OPENAI_BASE_URL={running.url}/v1",
        )
        return [running.close, served.close]

    return serve(prog, start)


def _chaos(words: Sequence[str], environment: Mapping[str, str]) -> int:
    from upstream.scripted import chaos, running  # noqa: PLC0415 - see above

    prog = "deltawire chaos-upstream"
    if "--list" in words:
        say(*chaos.listing())
        return 0
    about = "An upstream that answers by a script and shows faults (docs/faults.md); --list tells them."
    found = told(prog, about, CHAOS, words, environment)

    async def start() -> list[Closer]:
        served = await running.start(*found.pop("listen"), **found)
        say(*served.told)
        return [served.close]

    return serve(prog, start)


def _proxy_settings(prog: str, found: dict[str, Any]) -> ProxySettings:
    settings = ProxySettings(**_renamed(found, {"forward_header": "forward_headers"}))
    if settings.state != "memory" and settings.secret is None:
        raise BadSettingError(f"{prog}: --secret is needed with --state: sidecars that share heads share their digests")
    return settings


def _upstream_settings(found: dict[str, Any], environment: Mapping[str, str]) -> UpstreamSettings:
    where, beside = found.pop("listen"), found.pop("admin")
    secret: bytes | None = found.pop("secret")
    renamed = _renamed(found, {"drain": "drain_seconds"})
    key = environment.get(ENGINE_KEY, "")
    if not key.isascii() or not key.isprintable():
        raise BadSettingError(f"deltawire: {ENGINE_KEY}: a key of printable ASCII characters is needed")
    admin = {"admin_host": beside.host, "admin_port": beside.port} if beside is not None else {}
    return UpstreamSettings(
        host=where.host, port=where.port, secret=(secret or b"").decode(), engine_key=key, **admin, **renamed
    )


def _renamed(found: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in found.items()}


def _key(words: Sequence[str], _: Mapping[str, str]) -> int:
    import upstream.access.keys  # noqa: PLC0415 - see above

    made = parser("deltawire key", "Makes an API key: shown once, with the entry for the server's --keys file.", ())
    made.add_argument("name", metavar="NAME", help="whose key it is; unique in the file")
    made.add_argument("--json", action="store_true", help="print the entry as JSON instead of TOML")
    given = made.parse_args(words)
    say(*upstream.access.keys.shown(given.name, as_json=given.json))
    return 0


def _model(words: Sequence[str], environment: Mapping[str, str]) -> int:
    import upstream.engines.weights  # noqa: PLC0415 - see above

    made = parser(
        "deltawire model", "Downloads the weights of the engine local (98 MB) into the cache folder, once.", ()
    )
    made.add_argument("action", metavar="fetch", choices=["fetch"], help="download them, and print where they are")
    made.parse_args(words)
    try:
        say(str(upstream.engines.weights.fetch(environment)))
    except (OSError, ValueError) as error:
        raise BadSettingError(f"deltawire model: {error}") from None
    return 0


def _explain(words: Sequence[str], _: Mapping[str, str]) -> int:
    made = parser("deltawire explain", "Would body B be a delta after body A? Exit code 0 if so, 1 if not.", ())
    made.add_argument("first", metavar="A.json", type=Path, help="the request body of one turn")
    made.add_argument("second", metavar="B.json", type=Path, help="the request body of the next")
    made.add_argument("--answer", metavar="RESPONSE.json", type=Path, help="the response object that answered A")
    made.add_argument("--show", action="store_true", help="print the new items with their content")
    given = made.parse_args(words)
    try:
        answer = given.answer.read_bytes() if given.answer is not None else None
        verdict = explain(given.first.read_bytes(), given.second.read_bytes(), answer, show=given.show)
    except OSError as error:
        raise BadSettingError(f"deltawire explain: {error.filename}: {error.strerror}") from None
    except Malformed as error:
        raise BadSettingError(f"deltawire explain: {error.reason}") from None
    say(*verdict.lines)
    return 0 if verdict.delta else 1


def _replay(words: Sequence[str], _: Mapping[str, str]) -> int:
    import bench.replay  # noqa: PLC0415 - a sidecar in production does not load what only measurements need

    return bench.replay.run(words)


def _bench(words: Sequence[str], _: Mapping[str, str]) -> int:
    import bench.speed.command  # noqa: PLC0415 - as above

    return bench.speed.command.run(words)


_COMMANDS: dict[str, Callable[[Sequence[str], Mapping[str, str]], int]] = {
    "up": _up,
    "proxy": _proxy,
    "upstream": _upstream,
    "key": _key,
    "model": _model,
    "explain": _explain,
    "replay": _replay,
    "bench": _bench,
    "chaos-upstream": _chaos,
}

if __name__ == "__main__":
    raise SystemExit(main())
