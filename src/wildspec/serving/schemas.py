"""What the service answers, as schemas: the OpenAPI page is made of them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NeighbourOut(_Strict):
    """A labelled training image near the one asked about."""

    name: str
    label: str
    distance: float = Field(ge=0)
    picture: str | None = Field(None, description="Thumbnail as a data address, when asked for with pictures=true.")


class ResultOut(_Strict):
    """The decision about one image."""

    name: str = Field(description="What the client called it.")
    decision: str = Field(description='A class, or "rejected".')
    rejected: bool = Field(description="True: looks like none of the classes.")
    likely: str = Field(description="The most likely class, rejected or not.")
    probability: float = Field(ge=0, le=1, description="Of that class among the known ones.")
    probabilities: dict[str, float]
    ood_score: float = Field(description="High = out-of-distribution; above the threshold: rejected.")
    threshold: float = Field(description="Of this image.")
    p_value: float = Field(ge=0, le=1, description="Conformal: of known images at most a share a has p <= a.")
    neighbours: list[NeighbourOut]


class PredictionOut(_Strict):
    """Decisions in the order of the images."""

    model: str
    threshold: float
    results: list[ResultOut]


class HistogramOut(_Strict):
    """Shares by score on common edges."""

    edges: list[float]
    known: list[float]
    wild: list[float] | None = None


class ModelOut(_Strict):
    """What the model is."""

    name: str
    classes: list[str]
    input_size: int
    threshold: float
    alpha: float
    wildspec: str
    method: str
    network: str
    detector: str
    fitted: str
    validation_accuracy: float | None
    validation_count: int | None = Field(None, description="Labelled images held out, which that accuracy is measured on.")
    scores: HistogramOut


class BadImageOut(_Strict):
    """An image in the way of an answer."""

    index: int = Field(description="Its place in the request, from 0.")
    name: str = Field(description="What the client called it.")
    reason: str


class ErrorOut(_Strict):
    """Why a request was refused."""

    code: str
    message: str
    images: list[BadImageOut] | None = None


class StateOut(_Strict):
    status: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut, "description": meaning}
    for status, meaning in {
        400: "The body is malformed.",
        401: "The bearer token is missing or wrong.",
        403: "A page of another site sent it.",
        408: "The body did not arrive in time.",
        413: "The body, or the number of images, is too large.",
        415: "The content type is none of the three.",
        421: "The service does not go by this name.",
        422: "An image, a parameter or the form of the body is wrong.",
        429: "The queue is full; Retry-After says when to come again.",
        503: "Not ready, stopping, or too busy.",
    }.items()
}

BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["images"],
                    "properties": {
                        "images": {
                            "type": "array", "minItems": 1,
                            "items": {"type": "string", "contentMediaType": "application/octet-stream", "format": "binary"},
                        }
                    },
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["images"],
                    "additionalProperties": False,
                    "properties": {
                        "images": {
                            "type": "array", "minItems": 1, "items": {"type": "string", "contentEncoding": "base64"},
                            "description": "Encoded image files in base64; a data: address is taken too.",
                        }
                    },
                }
            },
            "image/*": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}  # fmt: skip
