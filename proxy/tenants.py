"""Tenants: how one is shown, and how what is learned of each stays with it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TENANTS = 4096
"""Tenants of which one thing is remembered; anyone can be a new one with each request."""
_SHOWN = 8

T = TypeVar("T")


def shown(tenant: bytes) -> str:
    """The tenant as logs and the admin side name it: hexadecimal digits that tell tenants apart and nothing else."""
    return tenant.hex()[:_SHOWN]


class PerTenant(Generic[T]):
    """A value for each tenant that something was learned of; the one longest not learned of is forgotten first."""

    def __init__(self, most: int = MAX_TENANTS) -> None:
        self._most = most
        self._values: OrderedDict[bytes, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, tenant: bytes) -> T | None:
        """What was learned of the tenant, if anything."""
        return self._values.get(tenant)

    def values(self) -> Iterator[T]:
        """All that was learned, of whomever."""
        return iter(self._values.values())

    def put(self, tenant: bytes, value: T) -> None:
        """Remember this of the tenant, in place of what was known before."""
        self._values[tenant] = value
        self._values.move_to_end(tenant)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def forget(self, tenant: bytes) -> None:
        """Nothing is known of the tenant any more."""
        self._values.pop(tenant, None)
