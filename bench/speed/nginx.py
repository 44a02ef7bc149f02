"""nginx as a plain proxy, where it is installed: one worker, no buffering of answers, kept connections."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from bench.speed.serving import arguments

_CONFIG = """\
daemon off;
master_process off;
worker_processes 1;
error_log stderr crit;
pid {folder}/nginx.pid;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_max_body_size 0;
    client_body_buffer_size 32m;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream behind {{ server {upstream}; keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        tcp_nodelay on;
        location / {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def path() -> str | None:
    """Where it is installed; None where it is not."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def config(upstream: str, port: int, folder: Path) -> str:
    """Its configuration in front of an origin."""
    return _CONFIG.format(folder=folder, upstream=urlsplit(upstream).netloc, port=port)


def main() -> None:
    """Become nginx. Its folder is the caller's to remove."""
    parser = arguments("nginx as a plain proxy.")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    given = parser.parse_args()
    found = path()
    if found is None:
        sys.exit("nginx is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = given.folder / "nginx.conf"
    file.write_text(config(given.upstream, port, given.folder), encoding="utf-8")
    print(f"deltawire nginx listening on http://127.0.0.1:{port}", flush=True)
    os.execv(found, [found, "-c", str(file), "-p", str(given.folder)])  # noqa: S606 - the binary that was found


if __name__ == "__main__":
    main()
