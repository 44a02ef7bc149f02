"""The templates by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from upstream.templates import chatml, harmony

if TYPE_CHECKING:
    from upstream.templates.parts import Template

DEFAULT: Final = "harmony"
NAMED: Final[dict[str, Template]] = {"harmony": harmony, "chatml": chatml}
