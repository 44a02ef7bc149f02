"""Whether a caller's first turns are worth a link, judged by what became of the ones before.

Theory. The gain of a link begins with the second turn of a conversation. Where none follows, a link that has to be
opened first only costs a handshake. So, of turns without tools, which alone may be all that there is to a conversation:

    a first turn                                       one conversation more that nobody has gone on with
    a turn whose input holds an answer                 this caller goes on: the count begins anew

After `ALONE` in a row a caller's first turns take a link only if one is warm. A caller of whom nothing is known is
judged as newcomers are: by how many callers in a row began, and not one of those that are remembered went on.
A wrong guess costs one delta: a conversation that began by HTTP is whole once, and a delta from then on.
"""

from __future__ import annotations

from proxy.tenants import PerTenant

ALONE = 8
_NEWCOMERS = b""


class Habits:
    """First turns that were not gone on with, of each tenant and of newcomers."""

    def __init__(self) -> None:
        self._alone: PerTenant[int] = PerTenant()

    def one_shots(self, tenant: bytes) -> bool:
        """Whether a first turn of this tenant is likely to be its conversation's last."""
        known = self._alone.get(tenant)
        return (self._of(_NEWCOMERS) if known is None else known) >= ALONE

    def began(self, tenant: bytes) -> None:
        """A conversation without tools begins."""
        if self._alone.get(tenant) is None:
            self._alone.put(_NEWCOMERS, self._of(_NEWCOMERS) + 1)
        self._alone.put(tenant, self._of(tenant) + 1)

    def went_on(self, tenant: bytes) -> None:
        """A conversation goes on."""
        if self._of(tenant):
            self._alone.put(_NEWCOMERS, 0)
        self._alone.put(tenant, 0)

    def _of(self, tenant: bytes) -> int:
        return self._alone.get(tenant) or 0
