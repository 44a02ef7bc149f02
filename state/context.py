"""The digest by which two ends compare a conversation: a chain over the canonical forms of its items.

Unlike all else in `state` it has no key, since the server has to compute it as well; so whoever reads it can try
guesses of the content against it. It therefore leaves a process in two ways only: bound to the nonce of one connection,
for that connection's other end, which has the content anyway; and veiled under the secret, as a head keeps it, in
memory or elsewhere.

`extend(extend(c, a), b) == extend(c, a + b)`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state.digest import Keyed
    from state.heads import Head
    from state.match import Match

START: Final = hashlib.sha256(b"deltawire context").digest()
"""The chain of no items."""


def form_of(canonical_form: bytes) -> bytes:
    """What stands for one item in a chain, given its canonical form (`state.canon`)."""
    return hashlib.sha256(canonical_form).digest()


def extend(chain: bytes | None, forms: Iterable[bytes | None]) -> bytes | None:
    """The chain with these items after it; None as soon as one of them, or what is before, is not known."""
    for form in forms:
        if chain is None or form is None:
            return None
        chain = hashlib.sha256(chain + form).digest()
    return chain


def bound(nonce: bytes, chain: bytes) -> str:
    """The chain as it travels on the connection of this nonce, in hex: on any other it says something else."""
    return hashlib.sha256(nonce + chain).hexdigest()


def veiled(keyed: Keyed, name: bytes, chain: bytes | None) -> bytes | None:
    """The chain as a head keeps it under this name, which no other chain has. Veiled twice it is bare again."""
    return None if chain is None else keyed.veiled(name, chain)


def of_base(keyed: Keyed, head: Head) -> bytes | None:
    """The chain over what the client had sent when the head was made; None when it is not known."""
    return veiled(keyed, base_name(head.base), head.base_context)


def of_record(keyed: Keyed, head: Head) -> bytes | None:
    """The chain over what the upstream holds under the head's response; None when it is not known."""
    return veiled(keyed, record_name(head.chain, head.response_id), head.context)


def after(keyed: Keyed, match: Match) -> bytes | None:
    """The chain over what the upstream holds once it has taken the new items of this match."""
    return None if match.forms is None else extend(of_record(keyed, match.head), match.forms)


def base_name(base: bytes) -> bytes:
    """The name under which the chain of a head's base is veiled."""
    return b"base" + base


def record_name(chain: bytes, response_id: str) -> bytes:
    """The name under which the chain of a head's record is veiled: lenient echoes give equal chains other records."""
    return b"record" + chain + response_id.encode("utf-8", "surrogatepass")
