"""A real browser for tests of pages: Chromium without a window, driven by its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


def browser() -> str | None:
    """The program of a browser that is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """A page that is open."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.said: list[str] = []
        """What the page has the browser complain of: errors, and what its policy forbids."""

    async def ask(self, method: str, **parameters: Any) -> Any:
        """A command of the protocol, and its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            told = json.loads((await self._socket.receive(timeout=60)).data)
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            entry = told.get("params", {}).get("entry", {"level": "error"})
            if told.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded") and entry["level"] != "verbose":
                self.said.append(json.dumps(told["params"]))

    async def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        found = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not await self.value(expression):
            assert time.monotonic() < end, (
                f"not so: {expression}; {self.said}; {await self.value('document.body.innerText')}"
            )
            await asyncio.sleep(0.05)

    async def go(self, url: str, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        """Open a page in a window of that size."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        await self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self.ask("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def picture(self, path: Path) -> None:
        """Write what the whole page looks like to a PNG file."""
        found = await self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@asynccontextmanager
async def opened(program: str, profile: Path) -> AsyncIterator[Tab]:
    """A tab in a browser of its own."""
    words = [program, *OPTIONS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=1 << 28) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await tab.ask(f"{domain}.enable")
                yield tab
    finally:
        process.kill()
        process.wait()


async def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    for _ in range(1200):
        if file.exists() and (text := file.read_text()):
            return int(text.splitlines()[0])
        assert process.poll() is None, "the browser ended"
        await asyncio.sleep(0.05)
    raise AssertionError("the browser does not say where it listens")
