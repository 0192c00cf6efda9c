"""Headless Chromium for tests, driven over its debugging pipe: nothing but the standard library and the browser itself."""

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds: a loaded machine is slow, not broken


def chromium() -> str:
    """Path of the browser; the test is skipped, with the reason, where there is none."""
    found = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian package chromium); `make test` installs it where it can")
    return found


class Browser:
    """One page. ``requests``: every address it asked for; ``problems``: console errors and uncaught exceptions."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="wildspec-chromium-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        def place() -> None:  # the browser reads commands from descriptor 3 and answers on 4
            free = [fcntl.fcntl(end, fcntl.F_DUPFD, 5) for end in (to_read, to_write)]  # either may be 3 or 4 itself
            os.dup2(free[0], 3), os.dup2(free[1], 4)

        self._process = subprocess.Popen(
            [chromium(), *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read), os.close(to_write)
        self._number, self._buffer = 0, b""
        self._session: str | None = None
        self._answers: dict[int, Any] = {}
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._attach(page["targetId"])

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            os.close(self._out)
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _attach(self, target: str) -> str:
        self._session = None
        self._session = str(self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self._session

    def tab(self) -> str:
        """Open another tab and go to it; its name, for `use`."""
        self._session = None
        return self._attach(self.call("Target.createTarget", url="about:blank")["targetId"])

    @property
    def here(self) -> str:
        """The tab that commands go to."""
        assert self._session is not None
        return self._session

    def use(self, tab: str) -> None:
        """Go to a tab."""
        self._session = tab

    def call(self, method: str, **params: Any) -> Any:
        """One command and its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        number, until = self._number, time.monotonic() + PATIENCE
        while number not in self._answers:
            self._read(until)
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def open(self, address: str) -> None:
        """Go to a page and wait until it is loaded."""
        self.call("Page.navigate", url=address)
        there = json.dumps(address.split("#")[0])
        self.wait(f"location.href.split('#')[0] === {there} && document.readyState === 'complete'")

    def reload(self) -> None:
        """Load the page once more and wait until it is there."""
        self.js("window.before_reload = true")
        self.call("Page.reload")
        self.wait("!window.before_reload && document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, f"{expression}: {found.get('exceptionDetails')}"
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.js(f"Boolean({expression})"):
            assert time.monotonic() < until, f"never came true: {expression}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """A key of the keyboard, e.g. Tab, ArrowRight, Enter, or a letter or digit."""
        named = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        code = named.get(key) or ord(key.upper())
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or key not in named else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **(text if kind == "keyDown" else {}))  # fmt: skip

    def hover(self, selector: str) -> None:
        """Move the pointer over an element, once the page has stopped scrolling to it."""
        x, y = self.js(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "for (let n = 0; n < 4; n++) await new Promise(requestAnimationFrame); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def look(self, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """Size of the window and colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path, whole: bool = True) -> None:
        """A screenshot, of the whole page or of the window."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def _read(self, until: float) -> None:
        import select

        ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
        assert ready, "the browser does not answer"
        block = os.read(self._in, 1 << 16)
        assert block, "the browser ended"
        self._buffer += block
        *messages, self._buffer = self._buffer.split(b"\0")
        for message in map(json.loads, messages):
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if "id" in message:
            self._answers[message["id"]] = message
        elif message["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif message["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(params["entry"]))
