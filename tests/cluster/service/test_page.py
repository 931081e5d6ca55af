"""The page of the service in a real browser: what it shows, live, and what hostile names do in it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cluster.record.partitions import PartitionState, PartitionView
from cluster.service.views import JobRequest, JobState, Priority
from tests.support.browser import Tab, browser, opened
from tests.support.fake_service import Served, served

HOSTILE = "<img src=x onerror=window.struck=1>\u202egnp.exe\u2066</td><script>window.struck=1</script>'\"&amp;"
PICTURES = os.environ.get("DISTPROVE_PAGE_PICTURES")
"""A folder to write pictures of the page to, for people to look at."""


def see(folder: Path, act: Callable[[Tab, Served], Awaitable[None]]) -> None:
    """Do something with the page of a service."""
    program = browser()
    if program is None:
        pytest.skip("no Chromium or Chrome is installed")

    async def run() -> None:
        with served(folder) as here:
            async with opened(program, folder / "profile") as tab:
                await act(tab, here)

    asyncio.run(run())


def populate(here: Served) -> None:
    now = time.time()
    for number in range(14):
        here.service.submit(JobRequest(f"job-{number:04}", {"system": "toy", "title": f"payroll, week {number}"}))
        begun = {"partitions": 128, "submitted": now - 900 + number, "started": now - 850 + 9 * number}
        facts: dict[str, Any] = {"submitted": now - 900 + number, "place": number - 10}
        if number < 10:
            facts = {**begun, "state": JobState.RUNNING, "done": 128 - 9 * number}
        if number < 6:
            facts = {**begun, "state": JobState.PROVED, "done": 128, "ended": now - 700 + 10 * number}
        here.service.change(f"job-{number:04}", **facts)
    request = JobRequest("struck", {"system": "toy", "title": HOSTILE}, priority=Priority.HIGH)
    here.service.submit(request)
    here.service.change(
        "struck", state=JobState.FAILED, error=f"input {HOSTILE} does not hold", error_kind="JobFailed", ended=9.0
    )


def tree(proven: int) -> list[PartitionView]:
    """The partitions of a job of 21 that ends in one proof, the first so many of them proven."""
    names = [f"part-{n:04}" for n in range(21)]
    needs: dict[str, list[str]] = {name: [] for name in names}
    level, number = names, 0
    while len(level) > 1:
        above = [f"node-{number}-{n}" for n in range(-(-len(level) // 4))]
        needs |= {name: level[4 * n : 4 * n + 4] for n, name in enumerate(above)}
        level, number = above, number + 1
    views = [PartitionView(name, PartitionState.WAITING, below) for name, below in needs.items()]
    proved = {"state": PartitionState.PROVED, "worker": "prover-0", "prove_seconds": 0.044, "verify_seconds": 0.012}
    views[:proven] = [replace(view, **proved) for view in views[:proven]]
    if proven < len(views):
        views[proven] = replace(views[proven], state=PartitionState.RUNNING, stage="prove", worker="prover-1")
        views[-1] = replace(views[-1], faults=1, error=f"a bad proof by {HOSTILE}")
    return views


async def log_in(tab: Tab, token: str) -> None:
    await tab.until("!document.getElementById('login').hidden")
    await tab.value(f"document.getElementById('token').value = {token!r}")
    await tab.value("document.querySelector('#login button').click()")


def test_the_page_shows_the_service_live_and_its_names_as_text(tmp_path: Path) -> None:
    async def act(tab: Tab, here: Served) -> None:
        populate(here)
        await tab.go(f"{here.server.url}/")
        await log_in(tab, "x" * 43)
        await tab.until("document.getElementById('refused').textContent.includes('does not know')")
        assert await tab.value("document.getElementById('jobs').children.length") == 0
        await log_in(tab, here.token)
        await tab.until("document.getElementById('jobs').children.length === 15")
        text = await tab.value("document.body.innerText")
        assert HOSTILE.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066") in text
        assert await tab.value("document.querySelectorAll('main img, main script').length") == 0
        assert "payroll, week 3" in text
        assert "its process ended" in text
        assert "on 1 worker, 1 job at work" in text
        numbers = "[7, 2.25, 999, 10000, 2500000].map(short).join(' ')"
        assert await tab.value(numbers) == "7 2.3 999 10,000 2.50 M"
        assert await tab.value("document.getElementById('failure-list').children.length") == 1

        here.service.submit(JobRequest("new-one", {"system": "toy", "title": "later"}))
        await tab.until("document.getElementById('jobs').innerText.includes('new-one')")
        await tab.go(f"{here.server.url}/", 390, 844, "dark")  # the tab still has the token
        await tab.until("document.getElementById('jobs').children.length === 16")
        assert await tab.value("document.documentElement.scrollWidth") == 390
        assert await tab.value("window.struck === undefined")
        assert await tab.value("document.cookie") == ""
        refused = [line for line in tab.said if "401" not in line]  # the wrong token, above
        assert refused == []

    see(tmp_path, act)


def test_jobs_are_found_by_state_and_text(tmp_path: Path) -> None:
    async def act(tab: Tab, here: Served) -> None:
        populate(here)
        await tab.go(f"{here.server.url}/")
        await log_in(tab, here.token)
        rows = "document.getElementById('jobs').children.length"
        await tab.until(f"{rows} === 15")
        choose = "const e = document.getElementById({!r}); e.value = {!r}; e.dispatchEvent(new Event({!r}))"
        await tab.value(choose.format("search", "PAYROLL, week 1", "input"))
        await tab.until(f"{rows} === 5")  # week 1, 10 to 13
        await tab.value(f"{{ {choose.format('filter', 'queued', 'change')} }}")
        await tab.until(f"{rows} === 4")
        await tab.value(f"{{ {choose.format('search', 'none such', 'input')} }}")
        await tab.until(f"{rows} === 0 && !document.getElementById('none-found').hidden")
        await tab.value(f"{{ {choose.format('search', '', 'input')} }}")
        await tab.until(f"{rows} === 4")
        here.service.capacity = 200
        for number in range(120):
            here.service.submit(JobRequest(f"more-{number:04}", {"system": "toy", "title": "more"}))
        await tab.value(f"{{ {choose.format('filter', '', 'change')} }}")
        await tab.until(f"{rows} === 100 && !document.getElementById('older').hidden")
        await tab.value("document.getElementById('older').click()")
        await tab.until(f"{rows} === 135 && document.getElementById('older').hidden")

    see(tmp_path, act)


def test_a_job_has_a_page_with_its_partitions_its_tree_and_its_log(tmp_path: Path) -> None:
    async def act(tab: Tab, here: Served) -> None:
        populate(here)
        here.service.pieces = tree(9)
        here.service.lines = [
            '{"time":1.5,"event":"proved","partition":"part-0000","prove_seconds":0.0625}',
            json.dumps({"time": 2.5, "event": "fault", "reason": HOSTILE}),
        ]
        await tab.go(f"{here.server.url}/")
        await log_in(tab, here.token)
        await tab.until("document.getElementById('jobs').children.length === 15")
        await tab.value("[...document.querySelectorAll('#jobs a')].find((e) => e.textContent === 'job-0008').click()")
        text = "document.getElementById('job').innerText"
        await tab.until(f"{text}.includes('payroll, week 8') && {text}.includes('9 of 30 proven')")
        assert await tab.value("document.getElementById('main').hidden")
        assert await tab.value("document.getElementById('parts').children.length") == 30
        assert await tab.value("document.querySelectorAll('#tree rect').length") == 30
        assert await tab.value("document.querySelectorAll('#tree line').length") == 29, "each but the root is needed"
        assert await tab.value("document.querySelectorAll('#tree rect.proved').length") == 9
        assert "44 ms" in await tab.value(text)
        assert "prove 63 ms" in await tab.value("document.getElementById('log').innerText")
        assert await tab.value("document.querySelectorAll('#job img, #job script').length") == 0
        assert await tab.value("window.struck === undefined")
        choose = "{{ const e = document.getElementById({!r}); e.value = {!r}; e.dispatchEvent(new Event({!r})) }}"
        await tab.value(choose.format("part-filter", "running", "change"))
        await tab.until("document.getElementById('parts').children.length === 1")
        assert "prover-1" in await tab.value("document.getElementById('parts').innerText")

        here.service.pieces = tree(30)
        here.service.lines.append('{"time":3.5,"event":"proved","wall_seconds":9.5}')
        (run := tmp_path / "job-0008").mkdir()
        (run / "proof.msgpack").write_bytes(b"a proof")
        here.service.change("job-0008", state=JobState.PROVED, done=128, ended=time.time())
        await tab.until(f"{text}.includes('30 of 30 proven')")
        await tab.until("document.getElementById('log').children.length === 3")
        await tab.until("document.querySelectorAll('#downloads button').length === 1")
        await tab.ask("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        await tab.value("document.querySelector('#downloads button').click()")
        file = tmp_path / "job-0008-proof.msgpack"
        late = time.monotonic() + 120
        while not file.exists() and time.monotonic() < late:
            await asyncio.sleep(0.05)
        assert file.read_bytes() == b"a proof"

        await tab.value("location.hash = '#job/none-such'")
        await tab.until("document.getElementById('job-error').textContent.includes('no job none-such')")
        await tab.value("location.hash = ''")
        await tab.until("!document.getElementById('main').hidden && document.getElementById('job').hidden")
        assert [line for line in tab.said if "404" not in line] == []

    see(tmp_path, act)


def test_the_page_can_load_and_run_nothing_else(tmp_path: Path) -> None:
    async def act(tab: Tab, here: Served) -> None:
        await tab.go(f"{here.server.url}/")
        await tab.until("!document.getElementById('login').hidden")
        await tab.value(
            "new Promise((done) => { const s = document.createElement('script'); s.textContent = 'window.struck = 1';"
            " document.body.append(s); const b = document.createElement('button');"
            " b.setAttribute('onclick', 'window.struck = 2'); document.body.append(b); b.click(); done(1); })"
        )
        assert await tab.value("window.struck === undefined")
        assert await tab.value("fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')") == "refused"
        assert any("connect-src" in line for line in tab.said)

    see(tmp_path, act)


def test_the_page_has_no_name_of_another_host() -> None:
    page = files("cluster.service.http") / "page"
    for name in ("index.html", "page.css", "page.js", "job.js"):
        text = (page / name).read_text(encoding="utf-8")
        assert "//" not in text.replace("// ", "").replace(
            'SVG = "http://www.w3.org/2000/svg"', ""
        )  # a name, not a link
        assert "innerHTML" not in text
    assert "style=" not in (page / "index.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not PICTURES, reason="pictures are for people to look at: DISTPROVE_PAGE_PICTURES=FOLDER")
def test_pictures(tmp_path: Path) -> None:
    async def act(tab: Tab, here: Served) -> None:
        populate(here)
        folder = Path(PICTURES or "")
        await tab.go(f"{here.server.url}/")
        await tab.picture(folder / "login.png")
        await log_in(tab, here.token)
        for width in (1400, 390):
            for scheme in ("light", "dark"):
                await tab.go(f"{here.server.url}/", width, 900, scheme)
                await tab.until("document.getElementById('jobs').children.length === 15")
                await asyncio.sleep(3.5)
                await tab.picture(folder / f"page-{width}-{scheme}.png")
                here.service.pieces = tree(9)
                await tab.value("location.hash = '#job/job-0008'")
                await tab.until("document.querySelectorAll('#tree rect').length === 30")
                await tab.picture(folder / f"job-{width}-{scheme}.png")
                await tab.value("location.hash = ''")

    see(tmp_path, act)
