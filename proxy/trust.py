"""Whether an upstream continues a tenant's responses, judged by what it did with the last continuations.

Theory. Some servers take `previous_response_id` and then refuse it: always, beside certain fields, or from certain
accounts. Only one case tells: a continuation of the very response that a link gave last, which the upstream has to
know, and what came of it before anything began.

    what came                                                  sign
    ---------------------------------------------------------  ----------------------------------------
    a completed answer                                         it continues: all misses are taken back
    a refusal that is about the previous response, or says     a miss
    that it has another context than was sent
    any other refusal: the link's age, a limit, a login,       none: the same turn sent whole would
    overload, a field or an item of the client's own           have met it as well

After `MISSES` misses in a row no continuation is tried for `DISTRUST` seconds; then one miss more is enough again.
Each tenant is judged by its own turns: accounts differ, and nobody's requests are to cost the others their deltas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.tenants import PerTenant
from wire.errors import is_about_previous
from wire.extensions import CONTEXT_MISMATCH

if TYPE_CHECKING:
    from wire.errors import ApiError

MISSES = 3
DISTRUST = 600.0


class _Record(NamedTuple):
    misses: int = 0
    none_until: float = 0.0


class Trust:
    """What an upstream earned so far with each tenant."""

    def __init__(self) -> None:
        self._records: PerTenant[_Record] = PerTenant()

    def kept(self, tenant: bytes) -> None:
        """A continuation was answered to its end."""
        self._records.forget(tenant)

    def refused(self, tenant: bytes, error: ApiError, now: float) -> None:
        """A continuation of a link's latest response was refused before anything began."""
        if error.code != CONTEXT_MISMATCH and not is_about_previous(error):
            return
        misses = (self._records.get(tenant) or _Record()).misses + 1
        self._records.put(tenant, _Record(misses, now + DISTRUST if misses >= MISSES else 0.0))

    def allows(self, tenant: bytes, now: float) -> bool:
        """Whether a continuation is worth trying."""
        return now >= (self._records.get(tenant) or _Record()).none_until
