"""The child process of `local`: llama.cpp's server on loopback, until standard input ends.

It prints its address when it listens. One thread without busy waiting leaves the machine to others.
"""

from __future__ import annotations

import sys

_SLOTS, _CONTEXT = 2, 16384


def main(weights: str) -> None:
    """Serve these weights."""
    import xllamacpp  # noqa: PLC0415 - an extra, which only this process needs

    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = _SLOTS
    params.n_ctx = _CONTEXT
    params.cpuparams.n_threads = 1
    params.cpuparams.poll = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main(sys.argv[1])
