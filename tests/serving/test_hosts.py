"""Requests under a stranger's name, and from a stranger's page, are refused; those that are meant for us are not."""

import io
from collections.abc import Iterator

import pytest
from PIL import Image
from service import Client, running

import tiny_model
from wildspec.serving.engine import BundleEngine
from wildspec.serving.hosts import Hosts, is_local


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running(BundleEngine(tiny_model.fitted(), "shapes"), hosts=("127.0.0.1", "Shapes.example.org")) as one:
        yield one


def png() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(tiny_model.pictures({"disc": 1}, 3)[0][0]).save(stream, "PNG")
    return stream.getvalue()


OURS = ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST", "[::1]:80", "10.1.2.3", "shapes.example.org"]
STRANGERS = ["evil.com", "127.evil.com", "localhost.evil.com", "evil.com:{port}", "", "127.0.0.1@evil.com", "[::1"]


@pytest.mark.parametrize("host", OURS)
def test_our_own_names_are_answered(client: Client, host: str) -> None:
    status, answer, _ = client.ask("GET", "/v1/model", headers={"Host": host.format(port=client.port)})
    assert (status, answer["name"]) == (200, "shapes")


@pytest.mark.parametrize("host", STRANGERS)
@pytest.mark.parametrize("path", ["/v1/model", "/v1/predict", "/", "/docs", "/openapi.json", "/metrics", "/nothing"])
def test_a_strangers_name_is_not_answered(client: Client, host: str, path: str) -> None:
    """A page of evil.com whose name leads to this machine could read the answer."""
    method = "POST" if path == "/v1/predict" else "GET"
    headers = {"Host": host.format(port=client.port), "Content-Type": "image/png"}
    status, answer, _ = client.ask(method, path, png() if method == "POST" else None, headers)
    assert (status, answer["code"]) == (421, "misdirected")
    assert "--allow-host" in answer["message"]


def test_probes_may_come_under_any_name(client: Client) -> None:
    assert [client.ask("GET", path, headers={"Host": "pod-7.cluster"})[0] for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "https://shapes.example.org"}, 200),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://evil.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict?neighbours=1&pictures=false"])
def test_only_our_own_page_and_programs_may_post(client: Client, headers: dict[str, str], status: int, path: str) -> None:
    given = {key: value.format(port=client.port) for key, value in headers.items()}
    found, answer, _ = client.ask("POST", path, png(), {"Content-Type": "image/png", **given})
    assert found == status
    if status == 403:
        assert answer["code"] == "cross_site"


def test_a_star_stands_for_any_name() -> None:
    assert not Hosts(["*"]).misdirected([(b"host", b"evil.com")])
    assert Hosts().misdirected([(b"host", b"localhost"), (b"host", b"evil.com")]), "two names are one too many"
    assert Hosts().misdirected([])


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("127.evil.com", False),
     ("0.0.0.0", False), ("10.0.0.1", False), ("::", False), ("example.org", False), ("1270.0.1", False)],
)  # fmt: skip
def test_what_stays_on_the_machine(host: str, local: bool) -> None:
    assert is_local(host) is local
