"""Options: read from the command line, then from the environment. `proxy.commands` has them, one table a command.

`--max-body` is also `DELTAWIRE_MAX_BODY`; the command line wins.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from proxy import readers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class BadSettingError(Exception):
    """A setting that cannot be used; the message is one line that names the option and what it takes."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name without dashes, its default as a user would write it, how its text is read, what it is.

    The value of one that is not `shown` is never quoted. `also` is a second environment variable, behind its own.
    One with `many` may stand several times; its texts are then one list, with commas.
    """

    name: str
    default: str
    read: Callable[[str], Any]
    help: str
    shown: bool = True
    also: str = ""
    many: bool = False

    @property
    def environment(self) -> str:
        """Its environment variable."""
        return "DELTAWIRE_" + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        """Its name in settings."""
        return self.name.replace("-", "_")


_METAVARS: dict[Callable[[str], Any], str] = {
    readers.address: "HOST:PORT",
    readers.maybe_address: "HOST:PORT",
    readers.size: "SIZE",
    readers.duration: "TIME",
    readers.limit: "TIME",
    readers.count: "NUMBER",
    readers.number: "NUMBER",
    readers.pace: "RATE",
    readers.base_url: "URL",
    readers.state: "URL",
    readers.secret: "TEXT",
    readers.names: "NAMES",
    readers.rates: "NAME=RATE",
}
_UNITS = "SIZE is in bytes or carries KiB, MiB or GiB; TIME is in seconds or carries ms, s, m or h. "
_BOTH = "Each option is also an environment variable; the command line wins."


class _Parser(argparse.ArgumentParser):
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            # Only the option's name is told: what follows a misspelled one may be a secret.
            option = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            self.error(f"there is no option {option!r}" if option else "there is a word too many")
        return found

    def error(self, message: str) -> NoReturn:
        raise BadSettingError(f"{self.prog}: {message}")


def parser(prog: str, about: str, options: Sequence[Option]) -> argparse.ArgumentParser:
    """The parser of one command."""
    made = _Parser(prog=prog, description=about, epilog=_UNITS + _BOTH if options else None, allow_abbrev=False)
    for option in options:
        default = f"; default {option.default}" if option.default else ""
        names = f"{option.environment} or {option.also}" if option.also else option.environment
        made.add_argument(
            f"--{option.name}",
            dest=option.field,
            action="append" if option.many else "store",
            metavar=_METAVARS.get(option.read, "WORD"),
            help=f"{option.help} ({names}{default})".replace("%", "%%"),
        )
    return made


def values(
    prog: str,
    options: Sequence[Option],
    given: argparse.Namespace,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Each option's value by field name. Raises `BadSettingError`; a value that may be secret is not quoted."""
    found: dict[str, Any] = {}
    for option in options:
        told = getattr(given, option.field)
        text: str | None = ",".join(told) if isinstance(told, list) else told
        source = f"--{option.name}"
        for name in (option.environment, option.also):
            if text is None and environment.get(name):
                text, source = environment[name], name
        try:
            found[option.field] = option.read(option.default if text is None else text)
        except ValueError as error:
            quoted = f" not {text!r}" if option.shown else ""
            raise BadSettingError(f"{prog}: {source}: {error},{quoted}".rstrip(",")) from None
    return found
