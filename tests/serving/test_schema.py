"""The service keeps its own OpenAPI document: schemathesis makes requests from it, right and wrong ones."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from service import Client, running

import tiny_model
from wildspec.serving.engine import BundleEngine

# Not positive_data_acceptance: no schema can say which bytes are an image, so most bodies that fit it are refused with 422.
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance, negative_data_rejection, unsupported_method,
]  # fmt: skip
PATHS = ("/v1/predict", "/v1/model", "/healthz", "/readyz", "/metrics")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running(BundleEngine(tiny_model.fitted(), "shapes")) as one:
        yield one


# Only predict takes a body or parameters: no request to the others can be wrong.
@pytest.mark.parametrize(
    ("path", "mode"), [(path, GenerationMode.POSITIVE) for path in PATHS] + [("/v1/predict", GenerationMode.NEGATIVE)]
)
def test_every_answer_is_one_the_document_promises(client: Client, path: str, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")
    operation = document[path]["POST" if path == "/v1/predict" else "GET"]
    statuses: list[int] = []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=25 if path == "/v1/predict" else 5, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def ask(case: Any) -> None:
        response = case.call()
        statuses.append(response.status_code)
        case.validate_response(response, checks=CHECKS)

    ask()
    assert statuses
    assert max(statuses) < 500
    if path != "/v1/predict":
        assert set(statuses) == {200}
    elif mode is GenerationMode.NEGATIVE:  # unknown parameters beside a right body are no fault
        assert sum(status >= 400 for status in statuses) > len(statuses) / 2


def test_the_document_names_every_path(client: Client) -> None:
    _, document, _ = client.ask("GET", "/openapi.json")
    assert set(document["paths"]) == set(PATHS)
    assert set(document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]) == {
        "multipart/form-data", "application/json", "image/*",
    }  # fmt: skip
