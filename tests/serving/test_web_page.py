"""The service's page in a real browser: drop an image, see the decision, the distribution and the neighbours."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from service import Client, running

import tiny_model
from browser import Browser
from wildspec.serving.engine import BundleEngine

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running(BundleEngine(tiny_model.fitted(), "shapes"), token="sesame") as one:
        yield one


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, shape, seed in (("known.png", "disc", 500), ("strange.png", "stripes", 501)):
        Image.fromarray(tiny_model.pictures({shape: 1}, seed)[0][0]).save(tmp_path / name)
    (tmp_path / "broken.png").write_bytes(b"no image")
    return [str(tmp_path / name) for name in ("known.png", "strange.png", "broken.png")]


def _choose(browser: Browser, files: list[str]) -> None:
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    node = browser.call("DOM.querySelector", nodeId=root, selector="#files")["nodeId"]
    browser.call("DOM.setFileInputFiles", nodeId=node, files=files)


def _drop(browser: Browser, selector: str, path: Path) -> bool:
    """Let a file fall on an element; True: the browser would have opened it."""
    encoded = base64.b64encode(path.read_bytes()).decode()
    return browser.js(
        f"(() => {{ const bytes = Uint8Array.from(atob('{encoded}'), (c) => c.charCodeAt(0)), load = new DataTransfer(); "
        f"load.items.add(new File([bytes], '{path.name}', {{type: 'image/png'}})); "
        f"return document.querySelector('{selector}')"
        ".dispatchEvent(new DragEvent('drop', {dataTransfer: load, bubbles: true, cancelable: true})); })()"
    )


def test_images_are_judged_on_the_page(client: Client, files: list[str]) -> None:
    expected = [tiny_model.fitted().explain(path, neighbours=5)[0] for path in files[:2]]
    with Browser() as browser:
        browser.look(390, 800, dark=True)
        browser.open(f"http://127.0.0.1:{client.port}/")
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        assert "token" in browser.js("document.getElementById('about').textContent")
        browser.js("document.getElementById('token').value = 'sesame'")
        browser.js("document.getElementById('token-form').requestSubmit()")
        browser.wait("document.getElementById('title').textContent === 'shapes'")
        held = len(tiny_model.fitted().fitted_.evidence["validation.label"])
        assert f"on {held} held-out images" in browser.js("document.getElementById('about').textContent")
        before = list(browser.problems)
        _choose(browser, files[:2])
        browser.wait("document.querySelectorAll('.result').length === 2")
        shown = browser.js("[...document.querySelectorAll('.decision')].map((e) => e.textContent)")
        assert shown == ["None of these" if e.rejected else e.likely for e in reversed(expected)], "newest first"
        assert browser.js("document.querySelectorAll('.result:first-child .dist rect').length") == 40
        assert browser.js("document.querySelectorAll('.result:first-child .near img').length") == 5
        near = browser.js("[...document.querySelectorAll('.result:first-child .near b')].map((e) => e.textContent)")
        assert near == [n.label for n in expected[1].neighbours]
        assert browser.js("document.documentElement.scrollWidth") <= 390
        assert browser.problems == before, "no console errors"
        _choose(browser, [files[2], files[0]])
        browser.wait("document.querySelectorAll('.result').length === 3")
        browser.wait("!document.getElementById('status').textContent.includes('Judging')")
        said = browser.js("document.getElementById('status').textContent")
        assert said == "broken.png: not an image of a known format", "still there when the next image was judged"
        _drop(browser, "#drop", Path(files[1]))
        browser.wait("document.querySelectorAll('.result').length === 4")
        assert browser.js("document.querySelector('.file').textContent") == "strange.png"
        assert not _drop(browser, "footer", Path(files[1])), "an image dropped beside the area does not replace the page"
        here = f"http://127.0.0.1:{client.port}/"
        assert all(r.startswith((here, "data:", f"blob:{here[:-1]}")) for r in browser.requests)


def test_thousands_of_images_leave_a_count_and_the_newest(client: Client, tmp_path: Path) -> None:
    """Cards beyond the hundredth go; failures beyond the fifth are counted; what comes meanwhile waits for its turn."""
    for i, image in enumerate(tiny_model.pictures({"disc": 52, "stripes": 52}, 7)[0]):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    for i in range(8):
        (tmp_path / f"broken{i}.png").write_bytes(b"no image")
    model = tiny_model.fitted()
    rejected = int((model.predict([tmp_path / f"{i}.png" for i in range(104)]) == "rejected").sum())
    with Browser() as browser:
        browser.look(360, 700)
        browser.open(f"http://127.0.0.1:{client.port}/")
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.js("document.getElementById('token').value = 'sesame'")
        browser.js("document.getElementById('token-form').requestSubmit()")
        browser.wait("document.getElementById('title').textContent === 'shapes'")
        assert browser.js("getComputedStyle(document.getElementById('tally')).display") == "none"
        _choose(browser, [str(tmp_path / f"{i}.png") for i in range(103)])
        _choose(browser, [str(tmp_path / f"broken{i}.png") for i in range(8)] + [str(tmp_path / "103.png")])
        browser.wait("document.getElementById('status').textContent.includes('broken0')")
        browser.wait("!document.getElementById('status').textContent.includes('Judging')")
        shown = browser.js("[...document.querySelectorAll('.file')].map((e) => e.textContent)")
        assert shown == [f"{i}.png" for i in range(103, 3, -1)]
        assert browser.js("document.getElementById('tally').textContent") == (
            f"104 images: {104 - rejected} of a known class, {rejected} of none. "
            "The newest 100 are shown; for a table of any number: wildspec score."
        )
        said = browser.js("document.getElementById('status').textContent").splitlines()
        assert said[:5] == [f"broken{i}.png: not an image of a known format" for i in range(5)]
        assert said[5:] == ["and 3 more that could not be judged"]
        assert browser.js("document.documentElement.scrollWidth") <= 360
        # a service that went away ends it at once, and a full one is asked again
        browser.js("window.fetch = () => Promise.reject(new Error('gone'))")
        _choose(browser, [str(tmp_path / f"{i}.png") for i in range(3)])
        browser.wait("document.getElementById('status').textContent.includes('does not answer')")
        browser.wait("!document.getElementById('status').textContent.includes('Judging')")
        said = browser.js("document.getElementById('status').textContent").splitlines()
        assert said == ["0.png: the service does not answer", "1.png: not judged", "2.png: not judged"]
        busy = "{status: 429, headers: {'Retry-After': '1'}}"
        browser.js(
            f"window.asked = 0; window.fetch = async () => {{ window.asked += 1; return new Response('{{}}', {busy}); }}; "
            "window.setTimeout = (done) => { done(); return 0; }"
        )
        _choose(browser, [str(tmp_path / "0.png")])
        browser.wait("window.asked === 5")


def test_what_the_browser_cannot_show_is_judged_all_the_same(client: Client, tmp_path: Path) -> None:
    """A TIFF is no picture to most browsers, and a quote in a name is sent as %22."""
    pixels = tiny_model.pictures({"disc": 1}, 500)[0][0]
    names = ["scan.tiff", 'the "best" one.png']
    for name in names:
        Image.fromarray(pixels).save(tmp_path / name)
    with Browser() as browser:
        browser.look()
        browser.open(f"http://127.0.0.1:{client.port}/")
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.js("document.getElementById('token').value = 'sesame'")
        browser.js("document.getElementById('token-form').requestSubmit()")
        browser.wait("document.getElementById('title').textContent === 'shapes'")
        _choose(browser, [str(tmp_path / name) for name in names])
        browser.wait("document.querySelectorAll('.result').length === 2")
        assert browser.js("[...document.querySelectorAll('.file')].map((e) => e.textContent)") == names[::-1]
        browser.wait("document.querySelector('.result:last-child .photo').tagName === 'P'")
        assert browser.js("document.querySelector('.result:last-child .photo').textContent") == "This browser shows no TIFF."
        browser.wait(f"document.querySelector('.result:first-child .photo').naturalWidth === {tiny_model.SIDE}")


def test_the_keyboard_reaches_everything(client: Client) -> None:
    with Browser() as browser:
        browser.look()
        browser.open(f"http://127.0.0.1:{client.port}/")
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        reached = []
        for _ in range(8):
            browser.press("Tab")
            reached.append(browser.js("document.activeElement.id || document.activeElement.getAttribute('href') || ''"))
            if reached[-1] == "files":  # the input itself is hidden: the area around it must show the focus
                assert browser.js("getComputedStyle(document.querySelector('.drop')).outlineStyle") == "solid"
        assert {"token", "files"} <= set(reached)


def test_the_interface_page_is_whole(client: Client) -> None:
    with Browser() as browser:
        browser.look()
        browser.open(f"http://127.0.0.1:{client.port}/docs")
        assert browser.js("document.querySelectorAll('section h2').length") == 6
        assert "Authorization: Bearer" in browser.js("document.querySelector('pre').textContent"), "what can be copied works"
        assert browser.js("document.documentElement.scrollWidth") <= 1280
        assert browser.problems == []
