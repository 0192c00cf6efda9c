"""The review's page in a real browser: keys that are pressed, two tabs, groups, names that look like markup."""

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from service import Client, running_app

import wildspec
from browser import Browser
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.serving.review_app import create_review
from wildspec.serving.review_open import open_room
from wildspec.serving.review_room import EVERY, ReviewRoom

pytestmark = pytest.mark.browser
WORLD = make_world(2)
NASTY = '<img src=x onerror="window.hit=1">'
NAMES = np.array(["cat", NASTY, "owl"])
TOKEN = "sesame-open-now"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("review")
    SpectralClassifier(random_state=0).fit(WORLD.labelled, NAMES[WORLD.labels], X_wild=WORLD.wild).save(root / "MODEL")
    names = [f"{i}.png" for i in range(len(WORLD.wild))]
    for name, kind in zip(names, WORLD.wild_kind, strict=True):
        Image.new("RGB", (48, 32), [(200, 60, 60), (60, 160, 60), (60, 60, 200)][kind]).save(root / name)
    columns = {"features": WORLD.wild.tolist(), "file": names, "note": [f"<i>{NASTY}</i>"] * len(names)}
    pq.write_table(pa.table(columns), root / "wild.parquet")
    return root


@pytest.fixture
def started(folder: Path, tmp_path: Path) -> Iterator[tuple[Client, ReviewRoom]]:
    room, _ = open_room(
        wildspec.load(folder / "MODEL"), folder / "MODEL", tmp_path / "OUT", log=tmp_path / "answers.csv",
        wild=str(folder / "wild.parquet"),
    )  # fmt: skip
    with running_app(create_review(room, TOKEN)) as client:
        yield client, room


def go(browser: Browser, client: Client) -> None:
    browser.open(f"http://127.0.0.1:{client.port}/#token={TOKEN}")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.wait("document.getElementById('photo').naturalWidth > 0")


def sample(browser: Browser) -> int:
    return int(browser.js("document.documentElement.dataset.sample"))


def act(browser: Browser, key: str) -> int:
    """Press a key that answers; the sample that shows then."""
    before = sample(browser)
    browser.wait("document.querySelector('main').getAttribute('aria-busy') === 'false'")
    browser.press(key)
    browser.wait(f"document.documentElement.dataset.sample !== '{before}'")
    return sample(browser)


def status(browser: Browser) -> str:
    return str(browser.js("document.getElementById('status').textContent"))


def test_keys_write_answers_and_the_page_tells_what_was_learned(started: tuple[Client, ReviewRoom]) -> None:
    client, room = started
    with Browser() as browser:
        browser.look(1280, 900)
        go(browser, client)
        assert browser.js("location.hash") == "", "the token is not left in the address"
        first = sample(browser)
        second = act(browser, "2")
        assert room.log.answers == {str(first): "cat"}
        act(browser, "1")  # in order of their names
        assert room.log.answers[str(second)] == NASTY
        third = sample(browser)
        act(browser, "u")
        assert room.log.answers[str(third)] == "unknown"
        fourth = sample(browser)
        act(browser, "s")
        assert str(fourth) in room.log.skipped
        assert act(browser, "z") == fourth, "undo shows it again"
        assert act(browser, "z") == third
        assert str(third) not in room.log.answers
        browser.press("n")
        browser.wait("document.activeElement.id === 'new-name'")
        for letter in "u1z":
            browser.press(letter)
        assert browser.js("document.getElementById('new-name').value") == "u1z", "keys in the field are letters"
        browser.press("Enter")
        browser.wait(f"document.documentElement.dataset.sample !== '{third}'")
        assert room.log.answers[str(third)] == "u1z"
        assert "u1z" in browser.js("document.getElementById('keys').textContent"), "the new name has a key"
        browser.press("g")
        members = browser.js("document.querySelectorAll('.whole #group button[aria-pressed=true]').length")
        browser.js("document.querySelector('#group button').click()")
        before = len(room.log.answers)
        act(browser, "u")
        assert len(room.log.answers) - before == members, "the sample and its neighbours but the one left out"
        while room.state()["answers"] < EVERY:
            act(browser, "u")
        browser.wait("document.documentElement.dataset.lesson === '2'")
        assert f"Learned from {EVERY} answers" in browser.js("document.getElementById('line').textContent")
        assert browser.js("document.querySelectorAll('#curve circle').length") >= 4
        assert browser.js("window.hit") is None, "names are text"
        assert browser.js("document.querySelector('#cells img, #keys img, #words img, #bars img')") is None
        assert NASTY in browser.js("document.getElementById('keys').textContent")
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="u", modifiers=2)  # with Ctrl it is the browser's
        time.sleep(0.3)
        assert room.state()["answers"] == EVERY
        here = f"http://127.0.0.1:{client.port}/"
        assert all(r.startswith((here, "data:", f"blob:{here[:-1]}")) for r in browser.requests)
        assert browser.problems == []
        browser.js("document.getElementById('done').click()")
        browser.wait("document.querySelector('main.over') !== null")
        assert "wildspec score" in browser.js("document.getElementById('next').textContent")
    assert room.told is not None
    assert len(wildspec.load(room.out).review().answers) == len(room.log.answers)


def test_two_tabs_show_different_samples_and_lose_no_answer(started: tuple[Client, ReviewRoom]) -> None:
    client, room = started
    with Browser() as browser:
        go(browser, client)
        one = browser.here
        two = browser.tab()
        go(browser, client)
        seen: dict[str, list[int]] = {one: [], two: []}
        for i in range(12):
            browser.use(one if i % 2 else two)
            seen[browser.here].append(sample(browser))
            act(browser, "u" if i % 3 else "1")
        both = seen[one] + seen[two]
        assert len(set(both)) == 12, "no sample was asked about twice"
        assert set(room.log.answers) == {str(i) for i in both}
        browser.use(two)
        assert act(browser, "z") == seen[two][-1], "each takes back its own"
        browser.use(one)
        assert act(browser, "z") == seen[one][-1]
        assert set(room.log.answers) == {str(i) for i in both} - {str(seen[one][-1]), str(seen[two][-1])}
        # a reload stays with its sample
        before = sample(browser)
        browser.reload()
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        assert sample(browser) == before
    with open(room.log.path, newline="", encoding="utf-8") as stream:
        assert [line["did"] for line in csv.DictReader(stream)] == ["answer"] * 12 + ["undo"] * 2


def test_groups_are_named_dismissed_and_taken_back_and_a_lost_service_is_told(
    started: tuple[Client, ReviewRoom], tmp_path: Path
) -> None:
    client, room = started
    with Browser() as browser:
        browser.look(390, 800, dark=True)
        go(browser, client)
        assert browser.js("document.documentElement.scrollWidth") <= 390
        browser.js("document.getElementById('tab-one').focus()")
        browser.press("ArrowRight")
        browser.wait("document.querySelectorAll('.sheet').length > 1")
        assert browser.js("document.activeElement.id") == "tab-groups"
        assert browser.js("document.documentElement.scrollWidth") <= 390
        sheets: list[dict[str, Any]] = room.sheets()
        shown = len(sheets[0]["samples"])
        browser.js("document.querySelector('.sheet .thumbs button').click()")
        assert browser.js("document.querySelector('.sheet .name-all').textContent") == f"Name these {shown - 1}"
        browser.js("document.querySelector('.sheet input').focus()")
        for letter in "newt":
            browser.press(letter)
        browser.press("Enter")
        browser.wait("document.getElementById('status').textContent.includes('newt')")
        assert list(room.log.answers.values()) == ["newt"] * (shown - 1)
        assert str(sheets[0]["samples"][0]["id"]) not in room.log.answers
        browser.wait("document.querySelectorAll('.sheet').length > 0")
        browser.js("document.querySelector('.sheet .dismiss').click()")
        browser.wait("document.getElementById('status').textContent.includes('dismissed')")
        assert room.log.skipped
        browser.js("document.activeElement.blur()")
        browser.press("z")
        browser.wait("document.getElementById('status').textContent.includes('Taken back')")
        assert not room.log.skipped
        assert browser.problems == []
        browser.js("document.getElementById('tab-one').click()")
        browser.wait("document.querySelectorAll('#keys button').length > 4")
        browser.wait("document.querySelector('main').getAttribute('aria-busy') === 'false'")
        # an answer whose acknowledgement is lost is sent again under the same number
        browser.js("window.real = window.fetch")
        browser.js("window.fetch = (...given) => window.real(...given).then(() => { throw new Error('gone'); })")
        before, count = sample(browser), room.state()["answers"]
        browser.press("u")
        browser.wait("document.getElementById('status').textContent.includes('Not saved')")
        assert sample(browser) == before, "the sample stays until its answer is saved"
        browser.js("window.fetch = window.real")
        act(browser, "u")
        assert room.state()["answers"] == count + 1
        browser.picture(tmp_path / "page.png")
