"""How upstreams differ, as data.

Theory. All of them speak one protocol, and each keeps less of it than the whole. A dialect says what one kind of
service is documented to do, or was seen to do by more than one client; what is known of nobody is taken to be the
least. The address tells the dialect, or the operator does; a server that offers our extensions is ours in any case.
What a service refuses all the same is learned from its refusals (`proxy.learned`), which give another dialect.

    service         a link's age        a frame     may change on a delta  besides
    --------------  ------------------  ----------  ---------------------  ------------------------------------
    OpenAI          60 min (its guide)  not told    `instructions` (1)
    Azure OpenAI    60 min (its guide)  not told    nothing told
    xAI             25 min (its guide)  not told    nothing told           no `instructions` beside an id (2)
    Codex backend   60 min              16 MiB (3)  nothing told           `store` is false, so nothing is kept
    Open Responses  60 min (its spec)   not told    nothing told
    ours            60 min              not told    all but two (4)

(1) Its API reference: instructions are not carried over from a previous response, so that they can be swapped.
(2) Seen in its errors (anomalyco/opencode#48227), not in its guide: so it is left to be learned, and forgotten again.
(3) Measured, 1009 follows (lidge-jun/opencodex#2426). Where nothing is told, frames are kept below the same.
(4) The shipped server renders each turn from the items and the envelope of that turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxy.settings import MIB, MINUTE
from state.envelope import POLICY, Policy

if TYPE_CHECKING:
    from proxy.settings import UpstreamDialect


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an upstream's WebSocket mode allows.

    `max_age`: seconds a link may live; `max_frame`: bytes of a frame it takes; `honoured`: context fields whose new
    value it applies on a continued turn, so that a change does not block a delta; `keeps`: whether a response that is
    to be stored can be continued on another link; `unchained`: fields that it takes on whole turns only.
    """

    name: str
    max_age: float = 55 * MINUTE
    max_frame: int = 15 * MIB
    honoured: frozenset[str] = frozenset()
    keeps: bool = True
    unchained: frozenset[str] = frozenset()


OPENAI = Dialect("openai", honoured=frozenset({"instructions"}))
AZURE = Dialect("azure")
XAI = Dialect("xai", max_age=20 * MINUTE)
CODEX = Dialect("codex", keeps=False)
OPEN_RESPONSES = Dialect("open-responses")
DELTAWIRE = Dialect(
    "deltawire",
    honoured=frozenset(name for name, policy in POLICY.items() if policy is Policy.CONTEXT) - {"store", "model"},
)

NAMED = {one.name: one for one in (OPENAI, AZURE, XAI, CODEX, OPEN_RESPONSES)}
"""Those that an operator may name; ours names itself."""
_BY_HOST = {"api.openai.com": OPENAI, "api.x.ai": XAI}
_AZURE = ".openai.azure.com"
_CODEX_HOST, _CODEX_PATH = "chatgpt.com", "/backend-api/codex"


def of(upstream: str, named: UpstreamDialect = "auto") -> Dialect:
    """The dialect of a base URL, unless it is named, before anything is learned from a handshake."""
    if named != "auto":
        return NAMED[named]
    parts = urlsplit(upstream)
    host = parts.hostname or ""
    if host.endswith(_AZURE):
        return AZURE
    if host == _CODEX_HOST and parts.path.rstrip("/") == _CODEX_PATH:
        return CODEX
    return _BY_HOST.get(host, OPEN_RESPONSES)
