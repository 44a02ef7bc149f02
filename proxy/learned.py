"""What an upstream taught each tenant by refusing: its dialect, corrected for a while.

Theory. A dialect is what is known of a kind of service; the one at hand may take less. Some refusals say what it does
not take, and hold for all turns alike:

    what came                                                         the lesson, for `LASTS` seconds
    ----------------------------------------------------------------  ---------------------------------------------
    a continuation was refused, naming `previous_response_id` and a   no continuation beside that field
    field that may not stand beside it
    a frame was answered by the close code 1009 (RFC 6455, 7.4.1)     frames stay a tenth smaller than that one
    responses that were to be stored could not be continued on        responses are continued on their own link only
    another link, `MISSES` times in a row

The first and the last turns are sent once more, whole (`proxy.recovery`). Then the lesson is over, and the next turn
finds out whether it still holds. Each tenant has lessons of its own: an account's region or plan may decide, and what a
message quotes of one client's body is not to cost others their deltas.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from proxy.tenants import PerTenant
from state.envelope import POLICY, Policy

if TYPE_CHECKING:
    from proxy.dialect import Dialect
    from wire.errors import ApiError

LASTS = 3600.0
MISSES = 3
_TOGETHER = re.compile(
    r"\b(?:together|conjunction|combin\w+|mutually exclusive|both|alongside|(?:used|supported|allowed|sent) with)\b"
)
_FIELD = re.compile(
    rf"\b({'|'.join(sorted(name for name, policy in POLICY.items() if policy is not Policy.TRANSPORT))})\b"
)
_NEVER = 0.0


def unchained(error: ApiError) -> str:
    """The field that, by this error, may not stand beside `previous_response_id`; empty when it speaks of none."""
    text = error.message.lower()
    if "previous_response_id" not in text or not _TOGETHER.search(text):
        return ""
    found = _FIELD.search(text)
    return found[1] if found is not None else ""


class _Lessons(NamedTuple):
    unchained: tuple[tuple[str, float], ...] = ()
    max_frame: int = 0
    max_frame_until: float = _NEVER
    misses: int = 0
    own_link_until: float = _NEVER


class Learned:
    """The lessons of all tenants. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._lessons: PerTenant[_Lessons] = PerTenant()

    def dialect(self, known: Dialect, tenant: bytes, now: float) -> Dialect:
        """The dialect that the upstream speaks with this tenant."""
        lessons = self._lessons.get(tenant)
        if lessons is None:
            return known
        fields = {name for name, until in lessons.unchained if now < until}
        smaller = now < lessons.max_frame_until
        return replace(
            known,
            unchained=known.unchained | fields,
            max_frame=min(known.max_frame, lessons.max_frame) if smaller else known.max_frame,
            keeps=known.keeps and now >= lessons.own_link_until,
        )

    def not_beside(self, tenant: bytes, field: str, now: float) -> None:
        """A continuation was refused because of this field."""
        lessons = self._of(tenant)
        others = tuple(pair for pair in lessons.unchained if pair[0] != field and now < pair[1])
        self._lessons.put(tenant, lessons._replace(unchained=(*others, (field, now + LASTS))))

    def too_large(self, tenant: bytes, size: int, now: float) -> None:
        """A frame of `size` bytes was more than the upstream takes."""
        lessons = self._of(tenant)
        smaller = size * 9 // 10
        least = min(smaller, lessons.max_frame) if now < lessons.max_frame_until else smaller
        self._lessons.put(tenant, lessons._replace(max_frame=least, max_frame_until=now + LASTS))

    def elsewhere(self, tenant: bytes, now: float, *, found: bool) -> None:
        """A response that was to be stored was to be continued on another link: whether it was `found` there."""
        lessons = self._of(tenant)
        misses = 0 if found else lessons.misses + 1
        until = now + LASTS if misses >= MISSES else _NEVER
        if (misses, until) != (lessons.misses, lessons.own_link_until):
            self._lessons.put(tenant, lessons._replace(misses=misses, own_link_until=until))

    def _of(self, tenant: bytes) -> _Lessons:
        return self._lessons.get(tenant) or _Lessons()
