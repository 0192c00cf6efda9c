"""A bundle, its answers so far and what can be shown of its wild samples, as a `ReviewRoom`."""

from pathlib import Path
from typing import Any

from wildspec.decision.review import Review
from wildspec.errors import DataError, InputError
from wildspec.images.reading import open_images
from wildspec.serving.answer_log import AnswerLog
from wildspec.serving.review_room import ReviewRoom
from wildspec.serving.review_samples import (
    BareSamples,
    GallerySamples,
    ImageSamples,
    Samples,
    TableSamples,
    places_of,
)

NO_PICTURES = "rows are shown by their number; give the wild table with --wild to see its columns and pictures"
MOVED = "the wild images are not found ({where}): small pictures of some are shown; give the images with --wild"


def open_room(
    estimator: Any, model: Path, out: Path, *, log: Path | None = None, wild: str | None = None,
    images: Path | None = None, rule: str = "groups", promise: float | None = None,
) -> tuple[ReviewRoom, str]:  # fmt: skip
    """The room, and a line about what cannot be shown, or nothing. ``log``: where answers are written, by default beside the
    bundle. ``wild``, ``images``: see the command."""
    review: Review = estimator.review()
    of_images = hasattr(estimator, "fitted_")
    samples, told = _images(estimator, review, wild, images) if of_images else _rows(review, wild, images)
    path = Path(f"{model}.answers.csv") if log is None else log
    written = AnswerLog(path, review.pool_id, "image" if of_images else "row")
    return ReviewRoom(estimator, written, samples, out, name=model.resolve().name, rule=rule, promise=promise), told


def _rows(review: Review, wild: str | None, images: Path | None) -> tuple[Samples, str]:
    rows = review.names[review.learned.rule.reference].tolist()
    if wild is not None:
        return TableSamples(Path(wild), rows, images), ""
    if images is not None:
        raise InputError("--images needs --wild: the table whose column names the image files")
    return BareSamples([f"row {row}" for row in rows]), NO_PICTURES


def _images(estimator: Any, review: Review, wild: str | None, images: Path | None) -> tuple[Samples, str]:
    if images is not None:
        raise InputError("--images is for tables of embeddings; give the wild images with --wild")
    reference, every = review.learned.rule.reference, review.names.tolist()
    names = [every[place] for place in reference.tolist()]
    galleries = estimator.fitted_.pictures
    kept = GallerySamples(names, galleries, reference.tolist())
    where = (estimator.record_["data"].get("source") or {}).get("wild") if wild is None else wild
    try:
        if where is None or (wild is None and where.startswith("hf:")):  # a bundle's word is no reason to ask the network
            raise DataError("they are not on this machine by name")
        source = open_images(where, labelled=False)
    except DataError:
        if wild is not None:
            raise
        return kept, MOVED.format(where=where or "not given by name")
    places = places_of(every, source)
    found = [places[place] for place in reference.tolist()]
    if not any(place >= 0 for place in found):
        if wild is not None:
            raise InputError(f"{wild} holds none of the images that the model was fitted on, {names[0]} for one; give those")
        return kept, MOVED.format(where=where)
    return ImageSamples(names, galleries, source, found), ""
