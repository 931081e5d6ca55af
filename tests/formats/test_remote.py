"""Files by URL: fetched once for each version, bound as local ones are, and nothing but data."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from distprove.errors import InputError, UsageError
from distprove.formats import remote
from distprove.formats.files import temporary_name
from distprove.formats.remote import fetch, origin_of
from distprove.groth16.input_places import WHOLE_INPUT, content_at, places_of
from distprove.job import Job
from distprove.jobfile import job_text
from distprove.options import InputFile
from tests.support.site import Site


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "FRESH", 0.0)
    remote._known.clear()
    made = Site()
    yield made
    made.close()


def test_a_file_is_fetched_once_for_each_version(site: Site) -> None:
    site.files["a.json"] = b"one", '"1"'
    first = fetch(site.url("a.json"))
    assert fetch(site.url("a.json")) == first
    assert (first.path.read_bytes(), first.path.name, site.asked["a.json"]) == (b"one", "a.json", 1)
    assert origin_of(first.path) == site.url("a.json")
    assert first.path.stat().st_mode & 0o077 == first.path.parent.stat().st_mode & 0o077 == 0
    site.files["a.json"] = b"two", '"2"'
    second = fetch(site.url("a.json"))
    assert (second.path.read_bytes(), first.path.read_bytes(), site.asked["a.json"]) == (b"two", b"one", 2)


def test_without_a_version_it_is_fetched_each_time(site: Site) -> None:
    site.files["a.json"] = b"one", None
    first = fetch(site.url("a.json"))
    assert fetch(site.url("a.json")) == first
    site.files["a.json"] = b"two", None
    second = fetch(site.url("a.json"))
    assert (second.path.read_bytes(), first.path.read_bytes(), site.asked["a.json"]) == (b"two", b"one", 3)
    assert second.version != first.version, "a run sees that its input is another"


def test_a_time_of_change_is_a_version(site: Site) -> None:
    site.files["a.json"] = b"one", None
    for date in ("Mon, 01 Jan 2024 00:00:00 GMT", "Mon, 01 Jan 2024 00:00:01 GMT"):
        site.dated["a.json"] = date
        assert fetch(site.url("a.json")) == fetch(site.url("a.json"))
    assert site.asked["a.json"] == 2


def test_what_changes_while_it_is_fetched_is_fetched_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never is a version's content kept as another version's."""
    copy, swaps = remote._copy, iter([(b"new", '"2"')] * 2)

    def swapped(*asked: Any) -> int:
        site.files["a.json"] = next(swaps)
        return copy(*asked)

    with monkeypatch.context() as patched:
        patched.setattr(remote, "_copy", swapped)
        site.files["a.json"] = b"old", '"1"'
        assert fetch(site.url("a.json")).path.read_bytes() == b"new"
        site.files["a.json"] = b"old", '"3"'
        swaps = iter([(b"one", '"4"'), (b"one", '"5"'), (b"one", '"6"'), (b"one", '"6"')])
        with pytest.raises(InputError, match="changed while it was fetched"):
            fetch(site.url("a.json"))
    site.files["a.json"] = b"old", '"1"'
    assert fetch(site.url("a.json")).path.read_bytes() == b"old"


def test_only_regular_files_are_fetched_and_no_more_than_their_size(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    copy = remote._copy
    monkeypatch.setattr(remote, "_copy", lambda *_: pytest.fail("it is opened"))
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(InputError, match="not a regular file"):
            fetch(f"file://{path}", 1 << 24)
    monkeypatch.setattr(remote, "_copy", copy)
    (tmp_path / "a.json").write_bytes(b"some")
    assert fetch(f"file://{tmp_path / 'a.json'}").path.read_bytes() == b"some"

    def grown(*asked: Any) -> int:
        (tmp_path / "a.json").write_bytes(b"more than that")
        return copy(*asked)

    os.utime(tmp_path / "a.json", (1, 1))
    monkeypatch.setattr(remote, "_copy", grown)
    with pytest.raises(InputError, match="more than 4 bytes"):
        fetch(f"file://{tmp_path / 'a.json'}")


def test_threads_fetch_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that read a plan's inputs do, where more URLs were fetched than are remembered."""

    class Slow(dict[str, Any]):
        def __len__(self) -> int:
            count = super().__len__()
            time.sleep(0.01)  # the others run
            return count

    monkeypatch.setattr(remote, "_known", Slow())
    monkeypatch.setattr(remote, "MOST", 0)
    names = [f"{i}.json" for i in range(32)]
    site.files |= {name: (name.encode(), f'"{name}"') for name in names}
    with ThreadPoolExecutor(8) as threads:
        for name, fetched in zip(names, threads.map(fetch, map(site.url, names)), strict=True):
            assert fetched.path.read_bytes() == name.encode()


def test_what_killed_downloads_left_is_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next download removes them, and nothing that another is writing."""
    site.files |= {f"{name}.json": (b"one", '"1"') for name in "abc"}
    new = remote.user_cache_dir("remote") / remote.NEW
    look = remote._facts_of

    def others_meanwhile(*asked: Any) -> Any:
        if not (writing := [*new.iterdir()]):
            return look(*asked)
        assert len(writing) == 1
        with monkeypatch.context() as patched:
            patched.setattr(remote, "_facts_of", look)
            fetch(site.url("b.json"))
        assert [*new.iterdir()] == writing, "though it is all there by now, and looked at again"
        return look(*asked)

    new.mkdir(mode=0o700, parents=True)
    (new / temporary_name("c.json")).write_bytes(b"half of")
    fetch(site.url("c.json"))
    assert not [*new.iterdir()]
    monkeypatch.setattr(remote, "_facts_of", others_meanwhile)
    assert fetch(site.url("a.json")).path.read_bytes() == b"one"
    assert site.asked == {"a.json": 1, "b.json": 1, "c.json": 1}
    assert not [*new.iterdir()]


def test_a_version_confirms_no_guess_of_the_content(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is kept in the run. Only the cache's key, which stays in the cache, makes it from the content."""
    site.files["a.json"] = b"one", None
    version = fetch(site.url("a.json")).version
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "whoever guesses"))
    assert fetch(site.url("a.json")).version != version


def test_what_fails_is_told_with_its_node_and_without_what_may_be_secret(site: Site) -> None:
    site.files |= {"long": (b"x" * 1000, None), "cut": (b"x" * 1000, None)}
    site.cut.add("cut")
    url = site.url("none") + "?token=SECRET"
    for asked, limit, says in (
        (url, 10, "no such file there"),
        (site.url("long") + "?token=SECRET", 999, "1000 bytes, and at most 999"),
        (site.url("cut") + "?token=SECRET", 1000, "after 500 bytes|after 0 bytes|cut off"),
        ("http://127.0.0.1:1/gone?token=SECRET", 10, "on "),
    ):
        with pytest.raises(InputError, match=says) as caught:
            fetch(asked, limit)
        assert remote.shown(asked) in str(caught.value)
        assert "SECRET" not in str(caught.value)
        assert "SECRET" not in repr(caught.value.__cause__)
    assert not [path for path in remote.user_cache_dir("remote").rglob("*") if path.is_file() and path.name != ".key"]


def test_no_name_is_that_of_the_cache_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file `url` is what the server has, after a download that was killed as well, and is known to be from there."""
    site.files["url"] = b"content", '"1"'

    def killed(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(remote, "_copy", killed)
        with pytest.raises(KeyboardInterrupt):
            fetch(site.url("url"))
    fetched = fetch(site.url("url"))
    assert fetched.path.read_bytes() == b"content"
    assert origin_of(fetched.path) == site.url("url")
    for name in (".", "..", ".url", "a/.b"):
        with pytest.raises(UsageError, match="begins with a dot"):
            fetch(site.url(name))


@pytest.mark.parametrize(
    "url",
    [
        "simplecache::http://127.0.0.1/a",
        "zip://a.json::http://127.0.0.1/a.zip",
        "reference://a.json",
        "github://org:repo@main/a.json",
        "http://me:SECRET@127.0.0.1/a.json",
        "http://SECRET@127.0.0.1/a.json",
        "https://@127.0.0.1/a.json",
        "sftp://me:SECRET@127.0.0.1/a.json",
        "http://me:SECRET@exa\u2100mple.com/a.json",
        "http://me:SE/CRET@127.0.0.1/a.json",
        "http://[x/a.json",
        "http://127.0.0.1/",
        "http://127.0.0.1/*.json",
    ],
)
def test_other_protocols_passwords_and_patterns_are_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(url)
    assert "CRET" not in str(caught.value)
    assert "CRET" not in repr(caught.value.__cause__)


def test_what_else_has_two_colons_is_fetched(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only fsspec's chains of file systems are refused, and they are never made."""
    site.files["a.json"] = b"one", '"1"'
    assert fetch(site.url("a.json") + "?x=a::b").path.read_bytes() == b"one"
    assert fetch("HTTP" + site.url("a.json").removeprefix("http")).path.read_bytes() == b"one"
    with monkeypatch.context() as patched:
        patched.setattr(remote, "_facts_of", lambda files, name, *_: pytest.fail(f"{files.protocol[0]} {name}"))
        with pytest.raises(pytest.fail.Exception, match=r"http http://\[::1\]:1/a.json$"):
            fetch("http://[::1]:1/a.json")
    with pytest.raises(InputError, match="no such file there"):
        fetch(f"file:///a.json::{site.url('a.json')}")


def test_each_node_fetches_an_input_and_takes_only_what_the_driver_has(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site.files |= {"a.json": (b"one", '"1"'), "b.json": (b"one", None)}
    for name in ("a.json", "b.json"):
        (place,) = places_of([InputFile(name, Path(), url=site.url(name))], WHOLE_INPUT)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"other node {name}"))
        assert bytes(content_at(place)[0]) == b"one"
        asked = site.asked[name]
        assert bytes(content_at(place)[0]) == b"one"
        assert site.asked[name] == asked, "it is there"
        kept = remote.kept_at(place["url"], place["version"])
        kept.write_bytes(b"two")  # whatever laid it there
        assert bytes(content_at(place)[0]) == b"one"
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"third node {name}"))
        site.files[name] = b"two", None
        with pytest.raises(InputError, match="another content than where the driver is") as caught:
            content_at(place)
        assert remote.shown(place["url"]) in str(caught.value)


def test_a_job_keeps_its_urls(site: Site, tmp_path: Path) -> None:
    """In its record and its job file; nothing is fetched before it is planned, but keys and programs."""
    site.files["c.zkey"] = b"key", '"1"'
    (tmp_path / "own.wtns").touch()
    urls = [site.url("w/a.wtns"), site.url("v/a.wtns")]
    job = Job.from_options("groth16", base=tmp_path, zkey=site.url("c.zkey"), witnesses=[urls[0], "own.wtns", urls[1]])
    assert [(s.name, s.url) for s in job.sources] == [("a", urls[0]), ("own", None), ("a-2", urls[1])]
    assert site.asked == {"c.zkey": 1}
    again = Job.from_record(job.to_record())
    assert again.sources == job.sources
    assert f'witnesses = ["{urls[0]}", "{tmp_path / "own.wtns"}", "{urls[1]}"]' in job_text(job)


def test_what_a_record_says_is_checked_as_what_a_user_says(tmp_path: Path) -> None:
    (tmp_path / "c.zkey").touch()
    (tmp_path / "a.wtns").touch()
    record = Job.from_options("groth16", base=tmp_path, zkey="c.zkey", witnesses=["a.wtns"]).to_record()
    record["options"]["witnesses"][0] |= {"path": "", "url": "reference://a.wtns"}
    with pytest.raises(InputError, match="files are fetched by"):
        Job.from_record(record)
