"""The service over a real socket: right answers in every form of body, a clear 4xx for every wrong one, nothing dies."""

import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from service import Client, bomb, multipart, running

import tiny_model
from wildspec.errors import InputError
from wildspec.serving.app import Limits
from wildspec.serving.engine import BundleEngine


def _png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return tiny_model.pictures({"bar": 2, "disc": 2, "stripes": 2}, 123)[0]


@pytest.fixture(scope="module")
def engine() -> BundleEngine:
    return BundleEngine(tiny_model.fitted(), "shapes")


@pytest.fixture(scope="module")
def client(engine: BundleEngine) -> Iterator[Client]:
    limits = Limits(max_images=8, max_body_mb=1.0, max_pixels=1_000_000, seconds=2.0)
    with running(engine, limits) as one:
        yield one


def _check(answer: Any, expected: list[Any]) -> None:
    status, body, _ = answer
    assert status == 200, body
    assert body["model"] == "shapes"
    for found, wanted in zip(body["results"], expected, strict=True):
        assert found["decision"] == wanted.decision
        assert found["rejected"] is wanted.rejected
        assert found["likely"] == wanted.likely
        assert found["probability"] == pytest.approx(wanted.probability, abs=1e-4)
        assert found["ood_score"] == pytest.approx(wanted.ood_score, abs=1e-4)
        assert found["p_value"] == pytest.approx(wanted.p_value)
        assert [n["name"] for n in found["neighbours"]] == [n.name for n in wanted.neighbours]
        assert [n["label"] for n in found["neighbours"]] == [n.label for n in wanted.neighbours]
        assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-4)


def test_all_forms_of_body_give_the_models_own_answers(client: Client, images: np.ndarray) -> None:
    expected = tiny_model.fitted().explain(images, neighbours=3)
    files = [_png(image) for image in images]
    body, kind = multipart([(f"a {i}.png", data) for i, data in enumerate(files)])
    answer = client.predict(body, kind)
    _check(answer, expected)
    assert [r["name"] for r in answer[1]["results"]] == [f"a {i}.png" for i in range(6)], "order and names are kept"
    encoded = [base64.b64encode(data).decode() for data in files]
    encoded[1] = "data:image/png;base64," + encoded[1]
    _check(client.predict(json.dumps({"images": encoded}).encode(), "application/json"), expected)
    _check(client.predict(files[4], "image/png"), expected[4:5])
    _check(client.predict(files[0], "application/octet-stream"), expected[:1])


def test_neighbours_and_pictures_on_request(client: Client, images: np.ndarray) -> None:
    near = client.predict(_png(images[0]), path="/v1/predict?neighbours=7&pictures=true")[1]["results"][0]["neighbours"]
    assert len(near) == 7
    assert all(n["picture"].startswith("data:image/") for n in near)
    assert [n["distance"] for n in near] == sorted(n["distance"] for n in near)
    assert client.predict(_png(images[0]), path="/v1/predict?neighbours=0")[1]["results"][0]["neighbours"] == []


def _truncated(images: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.tile(images[0], (20, 20, 1))).save(stream, "JPEG")
    return stream.getvalue()[:900]


BAD: dict[str, tuple[Any, str, int, str]] = {
    "no body": (b"", "image/png", 422, "bad_image"),
    "text as image": (b"hello", "image/png", 422, "bad_image"),
    "bomb": (bomb(), "image/png", 422, "bad_image"),
    "no type": (b"x", "", 415, "unsupported"),
    "strange type": (b"x", "text/plain", 415, "unsupported"),
    "not JSON": (b"{", "application/json", 400, "bad_json"),
    "deep JSON": (b"[" * 200_000, "application/json", 422, "bad_request"),
    "half a JSON": (b'{"images": ["eA=="', "application/json", 400, "bad_json"),
    "a long number": (b"1" * 900_000, "application/json", 400, "bad_json"),
    "a million lists": (b'{"images": [' + b"[]," * 300_000 + b"1]}", "application/json", 422, "bad_request"),
    "a million strings": (b'{"images": [' + b'"",' * 300_000 + b'""]}', "application/json", 413, "too_many"),
    "a million parts": (b"--b\r\n\r\n\r\n" * 100_000 + b"--b--\r\n", "multipart/form-data; boundary=b", 413, "too_many"),
    "JSON list": (b"[]", "application/json", 422, "bad_request"),
    "JSON null": (b"null", "application/json", 422, "bad_request"),
    "JSON of another kind": (b'{"image": "x"}', "application/json", 422, "bad_request"),
    "numbers for images": (b'{"images": [1]}', "application/json", 422, "bad_request"),
    "no images": (b'{"images": []}', "application/json", 422, "no_images"),
    "not base64": (b'{"images": ["%%%"]}', "application/json", 422, "bad_base64"),
    "not UTF-8": (b'{"images": ["\xff"]}', "application/json", 400, "bad_json"),
    "too many": (json.dumps({"images": ["eA=="] * 9}).encode(), "application/json", 413, "too_many"),
    "too many files": (*multipart([("x", b"x")] * 9), 413, "too_many"),
    "too large": (b"x" * 1_000_001, "image/png", 413, "too_large"),
    "no boundary": (b"x", "multipart/form-data", 400, "bad_multipart"),
    "wrong boundary": (multipart([("x", b"x")])[0], "multipart/form-data; boundary=other", 400, "bad_multipart"),
    "cut multipart": (multipart([("x", b"x" * 99)])[0][:-40], multipart([])[1], 400, "bad_multipart"),
    "no file in it": (b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--b--\r\n',
                      "multipart/form-data; boundary=b", 422, "no_images"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_body_is_a_4xx_that_says_why_and_tells_nothing(client: Client, what: str) -> None:
    body, kind, status, code = BAD[what]
    found, answer, _ = client.predict(body, kind)
    assert (found, answer["code"]) == (status, code)
    told = json.dumps(answer)
    for secret in ("/tmp", "/home", "site-packages", "Traceback", "Error", "PIL", "BytesIO", "object at", "wildspec/"):
        assert secret not in told


def test_of_several_images_the_bad_ones_are_named(client: Client, images: np.ndarray) -> None:
    body, kind = multipart([("a", _png(images[0])), ("b", _truncated(images)), ("c", b""), ("d", _png(images[1]))])
    status, answer, _ = client.predict(body, kind)
    assert status == 422
    assert answer["images"] == [
        {"index": 1, "name": "b", "reason": "the image is damaged"},
        {"index": 2, "name": "c", "reason": "the image is empty"},
    ]
    told = "2 of 4 images cannot be read, and none was judged; leave out those listed here and ask again"
    assert answer["message"] == told
    status, answer, _ = client.predict(_truncated(images), "image/png")
    assert (status, answer["message"]) == (422, "the image cannot be read: the image is damaged")


def test_of_several_images_those_that_are_no_base64_are_named(client: Client, images: np.ndarray) -> None:
    good = base64.b64encode(_png(images[0])).decode()
    body = json.dumps({"images": ["%", good, "data:image/png;base64,?"]}).encode()
    status, answer, _ = client.predict(body, "application/json")
    assert (status, answer["code"]) == (422, "bad_base64")
    assert answer["images"] == [{"index": i, "name": f"image {i}", "reason": "not base64"} for i in (0, 2)]
    assert answer["message"].startswith("2 of 3 images cannot be read, and none was judged; leave out")


@pytest.mark.parametrize("query", ["neighbours=-1", "neighbours=21", "neighbours=x", "pictures=maybe"])
def test_bad_parameters_are_422(client: Client, images: np.ndarray, query: str) -> None:
    status, answer, _ = client.predict(_png(images[0]), path=f"/v1/predict?{query}")
    assert (status, answer["code"]) == (422, "bad_request")
    assert query.split("=")[0] in answer["message"]


@pytest.mark.parametrize("query", ["neighbors=0", "neighbours=0&neighbours=3", "pictures=false&Neighbours=0"])
def test_a_parameter_misspelt_or_given_twice_is_not_passed_over(client: Client, images: np.ndarray, query: str) -> None:
    """Who asks for no names must not get them for a slip."""
    status, answer, _ = client.predict(_png(images[0]), path=f"/v1/predict?{query}")
    assert (status, answer["code"]) == (422, "bad_request")
    assert "neighbours" in answer["message"]


def test_other_paths_and_methods(client: Client) -> None:
    assert client.ask("GET", "/v1/predict")[0] == 405
    for method, path in (("GET", "/nothing"), ("POST", "/v1/predict/"), ("GET", "/../../etc/passwd")):  # no redirect either
        assert client.ask(method, path)[:2] == (404, {"code": "refused", "message": "there is no such page"})
    assert client.ask("GET", "/healthz")[1] == {"status": "ok"}
    assert client.ask("GET", "/readyz")[:2] == (200, {"status": "ready"})
    assert [client.ask("HEAD", path)[0] for path in ("/healthz", "/readyz", "/v1/model")] == [200, 200, 405]
    status, page, headers = client.ask("GET", "/")
    assert status == 200
    assert "Drop images here" in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "/v1/predict" in client.ask("GET", "/docs")[1]


def test_the_model_describes_itself_without_paths(client: Client) -> None:
    _, facts, _ = client.ask("GET", "/v1/model")
    model = tiny_model.fitted()
    assert facts["classes"] == list(tiny_model.CLASSES)
    assert facts["threshold"] == model.threshold_
    assert facts["validation_count"] == len(model.fitted_.evidence["validation.label"])
    scores = facts["scores"]
    assert sum(scores["known"]) == pytest.approx(1)
    assert sum(scores["wild"]) == pytest.approx(1)
    assert scores["edges"][0] < model.threshold_ < scores["edges"][-1]
    assert "/" not in json.dumps(facts)


def test_metrics_count_what_happened(engine: BundleEngine, images: np.ndarray) -> None:
    with running(engine) as client:
        for image in images:
            client.predict(_png(image))
        client.predict(b"x")
        _, text, headers = client.ask("GET", "/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    assert float(values['wildspec_requests_total{path="/v1/predict",status="200"}']) == 6
    assert float(values['wildspec_requests_total{path="/v1/predict",status="422"}']) == 1
    judged = sum(float(v) for k, v in values.items() if k.startswith("wildspec_images_total"))
    assert judged == 6
    assert float(values["wildspec_images_inside"]) == 0
    assert float(values["wildspec_predict_seconds_count"]) == 6


def test_a_token_is_asked_for(engine: BundleEngine, images: np.ndarray) -> None:
    with running(engine, token="sesame") as client:
        for given in (None, "Bearer wrong", "Basic sesame", "Bearer"):
            headers = {} if given is None else {"Authorization": given}
            for method, path in (("POST", "/v1/predict"), ("GET", "/v1/model"), ("GET", "/metrics")):
                status, answer, found = client.ask(method, path, _png(images[0]), {"Content-Type": "image/png", **headers})
                assert (status, answer["code"]) == (401, "unauthorized")
                assert found["www-authenticate"] == "Bearer"
        assert client.predict(_png(images[0]), Authorization="Bearer sesame")[0] == 200
        assert client.ask("GET", "/healthz")[0] == 200
        assert "hidden" not in client.ask("GET", "/")[1].split('id="token-form"')[1].split(">")[0]


class _Slow(BundleEngine):
    """Waits at the door until it is told to go on; may fail once."""

    def __init__(self) -> None:
        super().__init__(tiny_model.fitted(), "shapes")
        self.go, self.fail = threading.Event(), False
        self.go.set()

    def decide(self, pixels: np.ndarray, neighbours: int) -> Any:
        assert self.go.wait(60)
        if self.fail:
            self.fail = False
            raise RuntimeError("/secret/path of the host")
        return super().decide(pixels, neighbours)


def _in_background(client: Client, body: bytes, count: int) -> tuple[list[threading.Thread], list[Any]]:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(client.predict(body))) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, answers


def test_a_full_queue_answers_429_at_once_and_recovers(images: np.ndarray) -> None:
    engine = _Slow()
    body = _png(images[0])
    with running(engine, Limits(max_queue=4, max_images=4)) as client:
        engine.go.clear()
        threads, answers = _in_background(client, body, 4)
        until = time.monotonic() + 30
        while not client.app.state.service.batcher.full:
            assert time.monotonic() < until
            time.sleep(0.01)
        status, answer, headers = client.predict(body)
        assert (status, answer["code"]) == (429, "busy")
        assert int(headers["retry-after"]) >= 1
        assert client.ask("GET", "/readyz")[0] == 503
        assert client.ask("GET", "/healthz")[0] == 200
        engine.go.set()
        for thread in threads:
            thread.join(60)
        assert [status for status, *_ in answers] == [200] * 4, "what was accepted is answered"
        assert client.predict(body)[0] == 200
        assert client.ask("GET", "/readyz")[0] == 200


def test_a_defect_is_a_plain_500_and_the_next_request_works(images: np.ndarray) -> None:
    engine = _Slow()
    with running(engine) as client:
        engine.fail = True
        status, answer, _ = client.predict(_png(images[0]))
        assert (status, answer) == (500, {"code": "internal", "message": "an internal error; it was logged"})
        assert client.predict(_png(images[0]))[0] == 200


def test_an_answer_that_takes_too_long_is_a_503(images: np.ndarray) -> None:
    engine = _Slow()
    with running(engine, Limits(seconds=0.3)) as client:
        engine.go.clear()
        status, answer, headers = client.predict(_png(images[0]))
        assert (status, answer["code"]) == (503, "timeout")
        assert "retry-after" in headers
        engine.go.set()
        assert client.predict(_png(images[0]))[0] == 200


def test_limits_are_checked() -> None:
    with pytest.raises(InputError, match=r"max_queue .*at least 32"):
        Limits(max_queue=8)
    with pytest.raises(InputError, match="seconds must be greater than 0"):
        Limits(seconds=0)
    with pytest.raises(InputError, match=r"max_wait_ms .*0 or greater"):
        Limits(max_wait_ms=-1)
    with pytest.raises(InputError, match="max_pixels"):  # more than the processes that decode can be told
        Limits(max_pixels=1 << 32)
    with pytest.raises(InputError, match=r"max_held_mb.*max_body_mb"):
        Limits(max_body_mb=600, max_held_mb=512)
    assert Limits(max_body_mb=600).held_mb >= 600, "there is room for one request"
