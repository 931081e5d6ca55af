"""A server of files over HTTP, with versions, for what is fetched by URL."""

from __future__ import annotations

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Site:
    """A server of files, by name, with a version each (None: it tells none)."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, str | None]] = {}
        self.dated: dict[str, str] = {}
        """Times of change of files, which are told."""
        self.cut: set[str] = set()
        """Files that end early."""
        self.asked: Counter[str] = Counter()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def answer(self, *, body: bool) -> None:
                name = self.path.partition("?")[0].lstrip("/")
                if name not in site.files:
                    self.send_error(404)
                    return
                site.asked[name] += body
                content, version = site.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                if version is not None:
                    self.send_header("ETag", version)
                if name in site.dated:
                    self.send_header("Last-Modified", site.dated[name])
                self.end_headers()
                if body:
                    self.wfile.write(content[: len(content) // 2] if name in site.cut else content)
                    self.close_connection = name in site.cut

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{name}"
