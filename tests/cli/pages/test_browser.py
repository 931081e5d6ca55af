"""Pages in a real browser: they lay out at every width, in both colour schemes, and draw what they should."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from cluster.record.story import Story
from distprove.cli.pages.html import POLICY
from distprove.cli.pages.run import run_page
from distprove.cli.pages.sweep import sweep_page
from tests.support.made_runs import MadeRun, governor
from tests.support.made_sweeps import made_sweep

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

RUNS = {
    "one partition": MadeRun(1, gpus=1),
    "five hundred": MadeRun(500, gpus=4, nodes=2, governors=[governor("node0", 30.0)], faults=(7, 70)),
    "failed": MadeRun(9, failing=(2, 5), title='<script>document.title="broken"</script>'),
}

MEASURE = """<script>addEventListener("load", () => {
  const root = document.documentElement, svg = [...document.querySelectorAll("svg")];
  const outside = svg.filter(s => [...s.querySelectorAll("text, rect, path")].some(e => {
    const a = e.getBoundingClientRect(), b = s.getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1; }));
  const near = boxes => boxes.some((a, i) => boxes.slice(i + 1).some(b =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
  const touching = svg.filter(s => [".lane", "text:not(.axis)"].some(what =>
    near([...s.querySelectorAll(what)].map(e => e.getBoundingClientRect()))));
  const empty = [...document.querySelectorAll(".half, .table, .chart, .cards")].filter(e => !e.children.length);
  document.title = [root.scrollWidth - root.clientWidth, svg.length, outside.length, touching.length, empty.length]
    .join(" "); });</script>"""
"""Says how far the page is wider than its window, how many charts it has, how many of them draw outside of themselves,
and in how many lanes or their names touch, and how many blocks hold nothing."""


@pytest.fixture(scope="session")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    return found


def visit(browser: str, path: Path, *options: str) -> str:
    """What the browser prints, once the page is laid out."""
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
    profile = f"--user-data-dir={path.parent / 'profile'}"
    environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    done = subprocess.run(
        [browser, *common, profile, *options, path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pixels(path: Path) -> tuple[int, int, set[bytes]]:
    """Width, height and colours of a PNG of 8-bit RGB or RGBA."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    step = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    raw, colours, before = zlib.decompress(packed), set(), bytearray(width * step)
    for row in range(height):
        start = row * (width * step + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * step])
        undo(raw[start], line, before, step)
        colours.update(bytes(line[i : i + 3]) for i in range(0, len(line), 4 * step))
        before = line
    return width, height, colours


def undo(kind: int, line: bytearray, above: bytearray, step: int) -> None:
    """Take a PNG row filter back (ISO/IEC 15948, 9.2), in place."""
    for i in range(len(line)):
        a = line[i - step] if i >= step else 0
        b, c = above[i], above[i - step] if i >= step else 0
        if kind == 1:
            line[i] = line[i] + a & 255
        elif kind == 2:
            line[i] = line[i] + b & 255
        elif kind == 3:
            line[i] = line[i] + (a + b) // 2 & 255
        elif kind == 4:
            p = a + b - c
            line[i] = line[i] + min((abs(p - v), n, v) for n, v in enumerate((a, b, c)))[2] & 255


QUICK = {("five hundred", 1400), ("sweep", 420)}
"""The others take seconds each, most of them for a browser to start."""
VISITS = [
    pytest.param(name, width, marks=[] if (name, width) in QUICK else [pytest.mark.slow])
    for name in (*RUNS, "sweep")
    for width in (420, 1400)
]


@pytest.mark.parametrize(("name", "width"), VISITS)
def test_a_page_fits_its_window_and_its_charts_fit_in_themselves(
    browser: str, name: str, width: int, tmp_path: Path
) -> None:
    if name == "sweep":
        text = sweep_page("a job", made_sweep())
    else:
        text = run_page(Story.read(RUNS[name].make(tmp_path / "run")))
    measured = text.replace(POLICY, "").replace("</body>", f"{MEASURE}</body>")  # the page itself may run no script
    (tmp_path / "page.html").write_text(measured)
    dom = visit(browser, tmp_path / "page.html", f"--window-size={width},900", "--dump-dom")
    title = re.search(r"<title>([^<]*)</title>", dom)
    assert title is not None
    wider, charts, outside, touching, empty = map(int, title[1].split())
    assert charts >= 4
    assert (wider, outside, touching, empty) == (0, 0, 0, 0)


def test_a_policy_keeps_scripts_out_whatever_a_name_holds(browser: str, tmp_path: Path) -> None:
    text = run_page(Story.read(RUNS["failed"].make(tmp_path / "run")))
    (tmp_path / "page.html").write_text(text.replace("</body>", '<script>document.title="ran"</script></body>'))
    dom = visit(browser, tmp_path / "page.html", "--dump-dom")
    assert "<title>ran</title>" not in dom
    assert "<title>broken</title>" not in dom


@pytest.mark.parametrize(("scheme", "background"), [(1, (255, 255, 255)), (0, (0x12, 0x16, 0x1B))])
def test_a_screenshot_shows_the_page_in_both_schemes(
    browser: str, scheme: int, background: tuple[int, int, int], tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(run_page(Story.read(RUNS["five hundred"].make(tmp_path / "run"))))
    shot = tmp_path / "page.png"
    options = (f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={shot}", "--window-size=800,480")
    visit(browser, tmp_path / "page.html", *options)
    width, height, colours = pixels(shot)
    assert (width, height) == (800, 480)
    assert bytes(background) in colours
    proven, made = ((0x1F, 0x6F, 0xB4), (0xD9, 0x87, 0)) if scheme else ((0x5F, 0xA8, 0xE6), (0xF0, 0xAB, 0x3A))
    assert {bytes(proven), bytes(made)} <= colours
