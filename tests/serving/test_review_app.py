"""The review's service: nothing without the token, nothing for strangers, bodies of one form, pictures as images only."""

import http.client
import io
import json
import re
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
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.errors import InputError
from wildspec.serving.review_app import create_review
from wildspec.serving.review_open import open_room

WORLD = make_world(3, per_class=20)
TOKEN = "sesame-open-now"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
TAB = "0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("review")
    model = SpectralClassifier(random_state=0)
    model.fit(WORLD.labelled, np.array(["cat", "dog", "owl"])[WORLD.labels], X_wild=WORLD.wild).save(root / "MODEL")
    (root / "pictures").mkdir()
    rng = np.random.default_rng(0)
    names = [f"{i}.png" for i in range(len(WORLD.wild))]
    for name in names[:-1]:
        Image.fromarray(rng.integers(0, 256, size=(40, 60, 3), dtype=np.uint8)).save(root / "pictures" / name)
    (root / "pictures" / names[-1]).write_text("root:x:0:0", encoding="utf-8")
    columns = {
        "features": WORLD.wild.tolist(), "file": names, "note": [f"<b>{i}</b>" for i in range(len(names))],
        "label": [-1] * len(names),
    }  # fmt: skip
    pq.write_table(pa.table(columns), root / "wild.parquet")
    return root


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    room, told = open_room(
        wildspec.load(folder / "MODEL"), folder / "MODEL", folder / "OUT", wild=str(folder / "wild.parquet"),
        images=folder / "pictures",
    )  # fmt: skip
    assert told == ""
    with running_app(create_review(room, TOKEN)) as one:
        yield one


def post(client: Client, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    return client.ask("POST", path, json.dumps(body), {**BEARER, **headers})[:2]


PATHS = [
    ("GET", "/v1/state"), ("GET", f"/v1/card?tab={TAB}"), ("GET", "/v1/sheets"), ("GET", "/v1/picture?sample=0"),
    ("POST", "/v1/answer"), ("POST", "/v1/skip"), ("POST", "/v1/undo"), ("POST", "/v1/done"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_nothing_is_told_or_taken_without_the_token_or_under_a_strangers_name(
    client: Client, method: str, path: str
) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        status, answer, _ = client.ask(method, path, "{}" if method == "POST" else None, headers)
        assert (status, answer["code"]) == (401, "unauthorized")
    status, answer, _ = client.ask(method, path, "{}" if method == "POST" else None, {**BEARER, "Host": "evil.com"})
    assert (status, answer["code"]) == (421, "misdirected")
    if method == "POST":
        for site in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.com"}):
            assert client.ask(method, path, "{}", {**BEARER, **site})[0] == 403


def test_the_page_holds_nothing_of_the_model_and_asks_nobody_else(client: Client) -> None:
    status, text, headers = client.ask("GET", "/")
    assert status == 200
    assert not any(word in text for word in (TOKEN, "MODEL", "owl"))
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}, "a name, not an address"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert client.ask("GET", "/openapi.json")[0] == 404


def test_an_answer_is_written_once_however_often_it_is_sent(client: Client, folder: Path) -> None:
    card = client.ask("GET", f"/v1/card?tab={TAB}", headers=BEARER)[1]["card"]
    body = {"tab": TAB, "act": "aaaa1111", "class": " owl ", "samples": [card["id"]]}
    assert [post(client, "/v1/answer", body) for _ in range(2)] == [(200, {"said": "owl"})] * 2
    lines = (folder / "MODEL.answers.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2
    assert client.ask("GET", "/v1/state", headers=BEARER)[1]["answers"] == 1
    assert post(client, "/v1/undo", {"tab": TAB, "act": "aaaa1111"}) == (200, {"samples": [card["id"]]})
    assert post(client, "/v1/undo", {"tab": TAB})[0] == 422


@pytest.mark.parametrize(
    "body",
    [
        {"tab": TAB, "act": "aaaa2222", "class": "Cat", "samples": [0]},
        {"tab": TAB, "act": "aaaa2222", "class": "cat", "samples": [10**9]},
        {"tab": TAB, "act": "aaaa2222", "class": "cat", "samples": [-1]},
        {"tab": TAB, "act": "aaaa2222", "class": "cat", "samples": []},
        {"tab": TAB, "act": "aaaa2222", "class": "cat", "samples": list(range(1000))},
        {"tab": TAB, "act": "aaaa2222", "class": "cat", "samples": ["0"]},
        {"tab": TAB, "act": "aaaa2222", "class": None, "samples": [0]},
        {"tab": TAB, "act": "no, such", "class": "cat", "samples": [0]},
        {"tab": TAB, "act": "aaaa2222", "class": "cat", "samples": [0], "more": 1},
        {"tab": "", "act": "aaaa2222", "class": "cat", "samples": [0]},
        [], "x", None,
    ],
)  # fmt: skip
def test_a_body_of_another_form_is_refused_in_a_line(client: Client, body: Any) -> None:
    before = client.ask("GET", "/v1/state", headers=BEARER)[1]["answers"]
    status, answer = post(client, "/v1/answer", body)
    assert status == 422
    assert "\n" not in answer["message"]
    assert client.ask("GET", "/v1/state", headers=BEARER)[1]["answers"] == before
    assert client.ask("POST", "/v1/answer", b"{" * 10, BEARER)[0] == 422
    assert client.ask("POST", "/v1/answer", b"x" * 70_000, BEARER)[0] == 413


def test_pictures_are_made_anew_and_what_is_no_picture_is_not_given_out(client: Client, folder: Path) -> None:
    connection = client.ask("GET", "/v1/state", headers=BEARER)[1]
    assert connection["pictures"]

    def picture(query: str) -> tuple[int, bytes]:
        one = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
        one.request("GET", f"/v1/picture?{query}", headers=BEARER)
        answer = one.getresponse()
        found = answer.status, answer.read()
        one.close()
        return found

    status, data = picture("sample=0&whole=true")
    assert status == 200
    shown = Image.open(io.BytesIO(data))
    assert shown.size == (60, 40)
    assert Image.open(io.BytesIO(picture("sample=0")[1])).size == (40, 40)
    status, data = picture(f"sample={len(WORLD.wild) - 1}")
    assert status == 422
    assert b"root" not in data
    assert picture("sample=100000")[0] == 404
    assert picture("sample=-1")[0] == 422
    card = client.ask("GET", f"/v1/card?tab={TAB}", headers=BEARER)[1]["card"]
    cells = dict(card["cells"])
    row = int(card["title"].removeprefix("row "))
    assert cells == {"file": f"{row}.png", "note": f"<b>{row}</b>"}, "labels are not shown"


def test_tables_and_folders_that_do_not_fit_are_told_of(folder: Path) -> None:
    model = wildspec.load(folder / "MODEL")
    few = pa.table({"features": WORLD.wild[:5].tolist()})
    pq.write_table(few, folder / "few.parquet")
    with pytest.raises(InputError, match="5 rows"):
        open_room(model, folder / "MODEL", folder / "OUT", wild=str(folder / "few.parquet"))
    with pytest.raises(InputError, match="--wild"):
        open_room(model, folder / "MODEL", folder / "OUT", images=folder)
    with pytest.raises(InputError, match=r"0\.png"):
        open_room(model, folder / "MODEL", folder / "OUT", wild=str(folder / "wild.parquet"), images=folder)
    np.save(folder / "wild.npy", WORLD.wild)
    room, _ = open_room(model, folder / "MODEL", folder / "OUT", wild=str(folder / "wild.npy"))
    assert not room.state()["pictures"]
    assert room.samples.cells(2) == [("name", "wild.npy#2")]
