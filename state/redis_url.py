"""Where the shared state is: the URL of one Redis, of a Sentinel group or of a Cluster, taken apart.

The forms: `redis://[user:password@]host[:port][/db]`, `redis+sentinel://[...@]host:port,host:port/service[/db]` and
`redis+cluster://[...@]host:port,host:port`; each with `rediss` instead of `redis` speaks TLS. User and password are
percent-encoded and meant for Redis itself; Sentinels are asked without.
"""

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

Kind = Literal["single", "sentinel", "cluster"]

_KINDS: Final[dict[str, Kind]] = {"": "single", "sentinel": "sentinel", "cluster": "cluster"}
_PORTS: Final[dict[Kind, int]] = {"single": 6379, "sentinel": 26379, "cluster": 6379}
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where to find the shared state and how to log in. Neither repr nor text shows user or password."""

    kind: Kind
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    service: str = ""
    database: int = 0
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        scheme = ("rediss" if self.tls else "redis") + ("" if self.kind == "single" else f"+{self.kind}")
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{scheme}://{hosts}" + (f"/{self.service}" if self.service else "") + f"/{self.database}"


def parse_redis_url(url: str) -> RedisAddress:
    """The address in a URL. Raises ValueError with a message that repeats nothing of the URL, which holds a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may quote the password
        raise ValueError("the state URL cannot be read") from None
    base, _, variant = parts.scheme.partition("+")
    if base not in {"redis", "rediss"} or variant not in _KINDS or not url.lower().startswith(f"{parts.scheme}://"):
        raise ValueError("a state URL starts with redis://, rediss://, redis+sentinel:// or redis+cluster://")
    if parts.query or parts.fragment:
        raise ValueError("a state URL has no ? and no #; in a user name or password they are written %3F and %23")
    kind = _KINDS[variant]
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    service, database = _path(kind, parts.path)
    address = RedisAddress(
        kind=kind,
        tls=base == "rediss",
        hosts=tuple(_host(text, _PORTS[kind]) for text in hosts.split(",")),
        service=service,
        database=database,
        username=unquote(username) or None,
        password=unquote(password) or None,
    )
    if kind == "single" and len(address.hosts) > 1:
        raise ValueError("several hosts need redis+sentinel:// or redis+cluster://")
    if kind == "cluster" and database:
        raise ValueError("a Redis Cluster has database 0 only")
    return address


def _host(text: str, default: int) -> tuple[str, int]:
    name, _, port = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", "")
    name = name.removeprefix("[").removesuffix("]")
    if not name:
        raise ValueError("a state URL needs a host")
    if not port:
        return name, default
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _MAX_PORT):
        raise ValueError("a port of a state URL is a number from 1 to 65535")
    return name, int(port)


def _path(kind: Kind, path: str) -> tuple[str, int]:
    names = [unquote(name) for name in path.strip("/").split("/") if name]
    service = ""
    if kind == "sentinel":
        if not names:
            raise ValueError("redis+sentinel:// needs the name of the service after the hosts")
        service = names.pop(0)
    if len(names) > 1 or (names and not (names[0].isascii() and names[0].isdigit())):
        raise ValueError("the database of a state URL is a number")
    return service, int(names[0][:6]) if names else 0
