"""The page in a real browser: no console errors, no request, works from the keyboard, on a phone, in the dark."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import command
import tiny_model
from browser import Browser
from wildspec.report.facts import Group
from wildspec.report.html import render
from wildspec.report.image_facts import gather

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    from wildspec.report import write_report

    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(tiny_model.fitted(), path, "shapes")
    return path.as_uri()


@pytest.fixture
def browser(page: str) -> Iterator[Browser]:
    with Browser() as one:
        one.look()
        one.open(page)
        one.wait("document.documentElement.dataset.ready === 'yes'")
        yield one
        assert one.problems == []
        assert [r for r in one.requests if not r.startswith("data:")] == [page], "no request leaves the page"


def test_plots_thumbnails_and_text_are_there(browser: Browser) -> None:
    assert browser.js("document.querySelectorAll('svg.plot').length") == 4
    assert browser.js("[...document.querySelectorAll('svg')].every((s) => s.getBoundingClientRect().height > 100)")
    browser.js("[...document.images].forEach((i) => { i.loading = 'eager'; })")
    browser.wait("[...document.querySelectorAll('.thumb img')].every((i) => i.complete && i.naturalWidth > 0)")
    assert browser.js("document.querySelectorAll('.thumb img').length") > 24
    assert "look like none of your 3 classes" in browser.js("document.querySelector('h1').textContent")


def test_the_keyboard_reaches_everything(browser: Browser) -> None:
    browser.js("document.getElementById('map').focus()")
    visited = set()
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp"):
        browser.press(key)
        visited.add(browser.js("document.querySelector('.pt.on').dataset.i"))
    assert len(visited) > 2
    assert browser.js("document.getElementById('tip').classList.contains('show')")
    assert browser.js("document.getElementById('spoken').textContent.length") > 5
    browser.press("Enter")
    assert browser.js("document.getElementById('sample').open")
    assert browser.js("document.getElementById('s-name').textContent.length") > 0
    browser.press("Escape")
    browser.wait("!document.getElementById('sample').open")
    browser.js("document.querySelector('svg.plot').focus()")
    browser.press("ArrowRight")
    assert "score" in browser.js("document.getElementById('tip').textContent")
    browser.js("document.querySelector('.skip').focus()")
    reached = set()
    for _ in range(12):
        reached.add(browser.js("document.activeElement.getAttribute('class') || document.activeElement.tagName"))
        browser.press("Tab")
    assert {"skip", "A", "plain", "group"} <= reached


def test_hover_shows_the_thumbnail_and_the_map_changes(browser: Browser) -> None:
    browser.hover(".pt.rejected")
    browser.wait("document.querySelector('#tip.show img')")
    before = browser.js("document.querySelector('.pt').getAttribute('cx')")
    browser.js("document.querySelector('[data-map=spectral]').click()")
    assert browser.js("document.querySelector('.pt').getAttribute('cx')") != before
    browser.js("document.querySelector('[data-map=tsne]').click()")
    assert browser.js("document.querySelector('.pt').getAttribute('cx')") == before
    browser.js("document.querySelector('.thumb').click()")
    assert browser.js("document.getElementById('sample').open")
    assert browser.js("document.querySelectorAll('#s-near img').length") == 4


def test_the_list_filters_tries_a_threshold_and_exports(browser: Browser) -> None:
    def rows() -> list[list[str]]:
        return list(csv.reader(io.StringIO(browser.js("window.wildspecList.csv()"))))[1:]

    def choose(field: str, value: str) -> None:
        browser.js(
            f"((e) => {{ e.value = {value!r}; e.dispatchEvent(new Event('input')); }})"
            f"(document.getElementById('f-{field}'))"
        )

    everyone = rows()
    rejected = [row for row in everyone if row[1] == "rejected"]
    assert 0 < len(rejected) < len(everyone)
    assert browser.js("document.querySelectorAll('#f-list .thumb').length") == min(48, len(everyone))
    browser.js("document.querySelector('.group').click()")
    assert rows() == [row for row in everyone if row[5] == "1"]
    assert f"{len(rows())} like this" in browser.js("document.querySelector('.group').textContent")
    assert browser.js("document.querySelector('.group').getAttribute('aria-pressed')") == "true"
    browser.js("document.querySelector('[data-class]').click()")
    assert rows()
    assert {row[1] for row in rows()} == {row[2] for row in rows()} != {"rejected"}
    browser.js("document.getElementById('f-clear').click()")
    choose("decision", "rejected")
    assert rows() == rejected
    choose("low", rejected[0][3])
    assert rows()[0] == rejected[0]
    assert all(float(row[3]) >= float(rejected[0][3]) for row in rows())
    browser.js("document.getElementById('f-clear').click()")
    choose("slider", "100")
    assert sum(row[1] == "rejected" for row in rows()) > len(rejected)
    said = browser.js("document.getElementById('f-said').textContent")
    assert "more than now" in said
    assert "--alpha" not in said, "this model's threshold does not rest on alpha"
    choose("decision", "changed")
    assert len(rows()) == sum(row[1] == "rejected" for row in rows()) > 0
    assert browser.js("document.querySelectorAll('#f-list .moved').length") > 0
    browser.js("document.getElementById('f-reset').click()")
    assert rows() == []
    browser.js("document.getElementById('f-clear').click()")
    assert rows() == everyone
    choose("name", everyone[3][0])
    assert everyone[3] in rows()


@pytest.mark.parametrize(("width", "classes"), [(1280, 20), (1280, 40), (390, 20)])
def test_of_many_classes_the_names_and_what_was_rejected_stay_in_sight(width: int, classes: int, tmp_path: Path) -> None:
    names = tuple(f"a class with a name {i}" for i in range(classes))
    facts = gather(tiny_model.fitted(), "m")
    labels = np.repeat(np.arange(classes), 3)
    known = Group("validation", "known, held out", np.zeros(len(labels)), np.arange(len(labels)) % 3 == 0, labels, labels)
    many = replace(facts, about=replace(facts.about, classes=names), groups={**facts.groups, "validation": known})
    (tmp_path / "r.html").write_text(render(replace(many, samples=[], near={}, listed=None, rates=()), None))
    with Browser() as browser:
        browser.look(width, 900)
        browser.open((tmp_path / "r.html").as_uri())
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        shown = (
            "((c) => [...c.querySelectorAll('tbody tr')].map((r) => [r.firstElementChild, r.lastElementChild].map((e) => "
            "{ const b = e.getBoundingClientRect(), o = c.getBoundingClientRect(); "
            "return b.left >= o.left - 1 && b.right <= o.right + 1 && b.width > 20; }))"
            ".flat().every((v) => v))(document.querySelector('.confusion').parentElement)"
        )
        assert browser.js(shown)
        browser.js("document.querySelector('.confusion').parentElement.scrollLeft = 150")
        assert browser.js(shown), "and where one has scrolled to"
        wide = browser.js("document.querySelector('.confusion').scrollWidth")
        assert wide <= {20: 1100, 40: 1800}[classes], "a name above a column does not make it as wide as itself"
        assert browser.js("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_readable_on_a_phone_light_and_dark(browser: Browser, dark: bool, page: str) -> None:
    browser.look(360, 740, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= 360, "nothing sticks out sideways"
    for selector in ("body", ".why", ".tile small", "nav a"):
        assert _contrast(browser, selector) >= 4.5, selector
    assert browser.js("parseFloat(getComputedStyle(document.body).fontSize)") >= 15
    scale = browser.js("document.querySelector('svg.plot').getBoundingClientRect().width / 400")
    assert scale * 12.5 >= 8.5, "tick labels, in pixels"
    browser.js("document.getElementById('theme').click()")
    assert browser.js("document.documentElement.dataset.theme") == ("light" if dark else "dark")


def _contrast(browser: Browser, selector: str) -> float:
    """WCAG contrast of an element's text against the first opaque ground behind it."""
    ink, ground = browser.js(
        "((e) => { const ink = getComputedStyle(e).color; while (e) { const g = getComputedStyle(e).backgroundColor; "
        "const m = g.match(/[\\d.]+/g).map(Number); if (m.length === 3 || m[3] > 0.8) return [ink, g]; "
        "e = e.parentElement; } "
        f"return [ink, 'rgb(255, 255, 255)']; }})(document.querySelector('{selector}'))"
    )

    def luminance(colour: str) -> float:
        parts = [float(v) for v in re.findall(r"[\d.]+", colour)[:3]]
        parts = [p / 255 for p in parts] if not colour.startswith("color(") else parts
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_command_writes_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    labelled, wild = tiny_model.write_folders(tmp_path)
    run = command.runner(monkeypatch, capsys)
    status, out, err = run("report", tiny_model.bundle(), "--data", wild, "--test", labelled, "--semantic", wild,
                           "--no-map", "--out", tmp_path / "r.html")  # fmt: skip
    assert status == 0, err
    assert "open it in any browser" in out
    assert "ROC: unknown against known" in (tmp_path / "r.html").read_text()
    status, out, _ = run("report", tiny_model.bundle(), "--no-map", "--json", "--out", tmp_path / "j.html")
    assert json.loads(out) == {"out": str(tmp_path / "j.html"), "bytes": (tmp_path / "j.html").stat().st_size}
    status, _, err = run("report", tiny_model.bundle(), "--test", wild, "--out", tmp_path / "s.html")
    assert (status, err.count("\n")) == (2, 1)
    assert not (tmp_path / "s.html").exists()
