"""By which proxy the upstream is reached, if by any: the same one for links and for plain HTTP.

`HTTPS_PROXY` or `HTTP_PROXY` counts by the scheme of the upstream's base URL, and `NO_PROXY` as everywhere. A link is
no exception, though its scheme is another one. Only the proxies of the environment are read, no file of credentials.
"""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from yarl import URL


def proxy_for(upstream: str) -> URL | None:
    """The proxy before a base URL, its login within; `None` for none. One that is not spoken to in HTTP does not count.

    Raises `ValueError` for one that cannot be read, without quoting it: it may hold a password.
    """
    parts = urlsplit(upstream)
    if proxy_bypass(parts.hostname or ""):
        return None
    text = getproxies().get(parts.scheme, "")
    if not text.lower().startswith("http://"):
        return None
    try:
        found = URL(text)
    except ValueError:
        found = URL()
    if not found.host:
        raise ValueError(f"the proxy for {parts.scheme} that the environment names cannot be read")
    return found
