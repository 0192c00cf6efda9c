"""A review going on, without a browser: what is asked, what is written, what is learned, what a second start finds."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wildspec
from shifted_world import make_world
from wildspec import SpectralClassifier
from wildspec.errors import InputError
from wildspec.serving.answer_log import AnswerLog
from wildspec.serving.review import read_answers
from wildspec.serving.review_open import open_room
from wildspec.serving.review_room import EVERY, ON_SHEET, ReviewRoom

NAMES = np.array(["cat", "dog", "owl"])
WORLD = make_world(2, noise=0.8)
A, B = "tab00001", "tab00002"
numbers = (f"act{i:06d}" for i in range(10**6))


def truth(row: int) -> str:
    """What a person would say; only whether it is unknown is used of it."""
    return "unknown" if WORLD.wild_kind[row] == 2 else "cat"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("review") / "MODEL"
    wild = np.concatenate([WORLD.wild, WORLD.wild[:3]])  # rows 420 to 422 are copies of 0 to 2
    SpectralClassifier(random_state=0).fit(WORLD.labelled, NAMES[WORLD.labels], X_wild=wild).save(path)
    return path


@pytest.fixture
def make(bundle: Path, tmp_path: Path) -> Callable[[], ReviewRoom]:
    def one() -> ReviewRoom:
        return open_room(wildspec.load(bundle), bundle, tmp_path / "OUT", log=tmp_path / "answers.csv")[0]

    return one


@pytest.fixture
def room(make: Callable[[], ReviewRoom]) -> ReviewRoom:
    return make()


def row_of(card: Any) -> int:
    return int(card["title"].removeprefix("row "))


def wait(room: ReviewRoom) -> dict[str, Any]:
    until = time.monotonic() + 60
    while room.state()["learning"]:
        assert time.monotonic() < until, "the lesson never ended"
        time.sleep(0.02)
    return room.state()


def test_asks_as_the_model_would_learns_every_ten_and_goes_on_where_it_stopped(
    room: ReviewRoom, make: Callable[[], ReviewRoom], bundle: Path, tmp_path: Path
) -> None:
    expected = wildspec.load(bundle).questions(20).tolist()
    asked = []
    for i in range(EVERY):
        card = room.card(A)
        assert card is not None
        asked.append(row_of(card))
        assert card == room.card(A), "the same sample until it has an answer"
        room.answer(A, next(numbers), truth(asked[-1]), [card["id"]])
        assert AnswerLog(tmp_path / "answers.csv", room.log.pool).answers[str(asked[-1])] == truth(asked[-1]), "on disk"
        assert room.state()["answers"] == i + 1
    assert asked == expected[:EVERY], "the rule's own questions, in their order"
    state = wait(room)
    assert [point["answers"] for point in state["curve"]] == [0, EVERY]
    oracle = wildspec.load(bundle).answer({row: truth(row) for row in asked})
    rejected = oracle.predict(np.concatenate([WORLD.wild, WORLD.wild[:3]])) == "rejected"
    answered = [rejected[row] for row in asked if truth(row) == "unknown"]
    assert state["curve"][-1]["found"] == pytest.approx(np.mean(answered))
    assert f"Learned from {EVERY} answers" in state["line"]
    again = make()
    assert again.state()["answers"] == EVERY
    assert again.lesson.acts == room.lesson.acts, "it has learned from them before it shows"
    np.testing.assert_array_equal(again.lesson.pool.scores, room.lesson.pool.scores)
    card = again.card(B)
    assert card is not None
    assert row_of(card) not in asked
    told = again.finish()
    assert told["written"]
    assert f"{told['said']} {told['line']}".lower().count("learned from") == 1
    learned = wildspec.load(tmp_path / "OUT")
    np.testing.assert_allclose(learned.ood_score(WORLD.unknown), oracle.ood_score(WORLD.unknown))
    # the table is one that --answers reads
    assert {int(row): said for row, said in read_answers(oracle.review(), tmp_path / "answers.csv")[0].items()} == {
        row: truth(row) for row in asked
    }


def test_two_windows_are_asked_about_different_samples_and_share_what_was_answered(
    room: ReviewRoom, make: Callable[[], ReviewRoom]
) -> None:
    first, second = room.card(A), room.card(B)
    assert first is not None
    assert second is not None
    assert first["id"] != second["id"]
    room.answer(A, next(numbers), "dog", [first["id"]])
    room.answer(B, next(numbers), "unknown", [first["id"]])
    other = make()  # a second program with the same table
    other.answer(A, next(numbers), "owl", [second["id"]])
    room.card(B)
    assert room.log.answers == {first["title"][4:]: "unknown", second["title"][4:]: "owl"}
    assert room.state()["answers"] == 3
    assert room.state()["samples"] == 2


def test_a_group_is_answered_and_taken_back_as_one(room: ReviewRoom) -> None:
    card = room.card(A)
    assert card is not None
    features = room.lesson.pool.features
    near = [one["id"] for one in card["group"]]
    away = np.linalg.norm(features - features[card["id"]], axis=1)
    away[card["id"]] = np.inf
    copies = {0, 1, 2, 420, 421, 422}
    assert {i for i in near if i not in copies} <= set(np.argsort(away)[:15].tolist())
    chosen = [card["id"], *near[:3]]
    act = next(numbers)
    room.answer(A, act, "unknown", chosen)
    assert len(room.log.answers) == 4
    assert room.state()["answers"] == 1, "one answer for four samples"
    following = room.card(A)
    assert following is not None
    assert following["id"] not in chosen
    assert room.undo(A, act) == chosen
    assert room.log.answers == {}
    back = room.card(A)
    assert back is not None
    assert back["id"] == card["id"], "what was taken back is shown again"
    with pytest.raises(InputError, match="nothing"):
        room.undo(A, act)
    with pytest.raises(InputError, match="nothing"):
        room.undo(A, None)


def test_skipped_samples_are_not_asked_about_again_not_even_next_time(
    room: ReviewRoom, make: Callable[[], ReviewRoom]
) -> None:
    seen = set()
    for _ in range(30):
        card = room.card(A)
        assert card is not None
        assert card["id"] not in seen
        seen.add(card["id"])
        room.skip(A, next(numbers), [card["id"]])
    other = make().card(A)
    assert other is not None
    assert other["id"] not in seen
    assert room.finish() == {"written": False, "said": "No answer was given, and no model was written."}


def test_samples_are_drawn_at_random_until_the_promise_is_made(bundle: Path, tmp_path: Path) -> None:
    """Passing one over and copies of a sample, which are not asked about twice, leave no gap; then questions teach."""
    room = open_room(wildspec.load(bundle), bundle, tmp_path / "OUT", log=tmp_path / "a.csv", promise=0.1)[0]
    order = room.base.ask(len(room.base.names), "random")
    asked: list[int] = []
    while room.lesson.review.learned.thresholds.promise is None:
        card = room.card(A)
        assert card is not None
        assert len(asked) < 200
        asked.append(row_of(card))
        if len(asked) == 2:
            room.skip(A, next(numbers), [card["id"]])
        else:
            room.answer(A, next(numbers), truth(asked[-1] % 420), [card["id"]])
        wait(room)
    assert asked == [row for i, row in enumerate(order) if row % 420 not in {r % 420 for r in order[:i]}][: len(asked)]
    promise = room.lesson.review.learned.thresholds.promise
    assert promise is not None
    assert len(promise.skipped) == 1
    assert len(promise.scores) >= 18  # nine, and nine more for the one that was passed over
    assert "at most 10" in room.line
    assert "from 0 answers" in room.line, "they were all drawn"
    card = room.card(A)
    assert card is not None
    assert row_of(card) == room.lesson.review.ask(20)[0]
    room.finish()
    assert wildspec.load(room.out).thresholds_.promise.alpha == 0.1


def test_an_answer_for_a_copy_replaces_the_first_ones(room: ReviewRoom) -> None:
    """Two answers for copies of one sample would contradict each other: the last counts, and neither is asked about."""
    places = {title: i for i, title in enumerate(room.samples.title(i) for i in range(len(room)))}
    room.answer(A, next(numbers), "cat", [places["row 0"]])
    room.answer(A, next(numbers), "unknown", [places["row 420"]])
    assert room.state()["samples"] == 1
    assert room.finish()["samples"] == 1
    given = wildspec.load(room.out).review().answers
    assert list(given.values()) == [None]


@pytest.mark.parametrize(
    ("value", "word"), [("Cat", "case"), ("rejected", "answer"), ("x" * 201, "200"), ("a\nb", "one line")]
)
def test_names_that_cannot_be_are_refused_and_nothing_is_written(room: ReviewRoom, value: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        room.answer(A, next(numbers), value, [0])
    with pytest.raises(InputError, match="numbers 0 to"):
        room.answer(A, next(numbers), "cat", [100_000])
    assert not room.log.path.exists()


def test_a_new_name_has_a_key_at_once_and_becomes_a_class_from_ten_samples_on(room: ReviewRoom) -> None:
    unknown = np.flatnonzero(WORLD.wild_kind == 2)[:12]
    places = {room.samples.title(i): i for i in range(len(room))}
    room.answer(A, next(numbers), "newt", [places[f"row {row}"] for row in unknown])
    card = room.card(A)
    assert card is not None
    assert card["keys"] == ["cat", "dog", "owl", "newt"]
    with pytest.raises(InputError, match="case"):
        room.answer(A, next(numbers), "Newt", [card["id"]])
    assert room.finish()["facts"]["classes"] == ["cat", "dog", "owl", "newt"]
    assert wildspec.load(room.out).classes_.tolist() == ["cat", "dog", "owl", "newt"]


def test_sheets_hold_rejected_samples_and_lose_those_that_were_named_or_dismissed(room: ReviewRoom) -> None:
    sheets = room.sheets()
    shown = [one["id"] for sheet in sheets for one in sheet["samples"]]
    assert len(set(shown)) == len(shown)
    assert all(room.lesson.rejected[i] for i in shown)
    assert sum(sheet["size"] for sheet in sheets) == int(room.lesson.rejected.sum())
    assert max(len(sheet["samples"]) for sheet in sheets) <= ON_SHEET, "a page never holds the pool"
    first, second = ([one["id"] for one in sheet["samples"]] for sheet in sheets[:2])
    room.answer(A, next(numbers), "unknown", first)
    room.skip(A, next(numbers), second)
    left = {one["id"] for sheet in room.sheets() for one in sheet["samples"]}
    assert not left & {*first, *second}


def test_a_lesson_that_fails_is_told_and_the_answers_are_kept(room: ReviewRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise InputError("the numbers have run away")

    monkeypatch.setattr("wildspec.serving.review_room.learn", fail)
    for i in range(EVERY):
        room.answer(A, next(numbers), "unknown", [i])
    assert "run away" in wait(room)["problem"]
    assert room.state()["answers"] == EVERY
    monkeypatch.undo()
    room.answer(A, next(numbers), "unknown", [EVERY])
    assert wait(room)["problem"] == ""
    assert room.lesson.facts["answers"] == EVERY + 1


def test_numbers_as_classes(tmp_path: Path) -> None:
    model = SpectralClassifier(random_state=0).fit(WORLD.labelled, WORLD.labels + 3, X_wild=WORLD.wild)
    model.save(tmp_path / "M")
    room, told = open_room(wildspec.load(tmp_path / "M"), tmp_path / "M", tmp_path / "OUT")
    assert "--wild" in told
    assert room.answer(A, next(numbers), "4", [0]) == "4"
    assert room.answer(A, next(numbers), "17", [1]) == "17"
    with pytest.raises(InputError, match="numbers"):
        room.answer(A, next(numbers), "newt", [2])
    card = room.card(A)
    assert card is not None
    assert card["keys"] == ["3", "4", "5", "17"]
    assert room.finish()["written"]
    assert wildspec.load(tmp_path / "OUT").review().answers == {0: 4, 1: 17}


def test_many_classes_have_the_likeliest_on_the_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(14, 16))
    labels = np.repeat(np.arange(14), 12)
    rows = (centres[labels] + rng.normal(size=(168, 16))).astype(np.float32)
    names = np.array([f"class {i:02d}" for i in range(14)])
    model = SpectralClassifier(random_state=0).fit(rows, names[labels], X_wild=rows + 0.2)
    model.save(tmp_path / "M")
    room, _ = open_room(wildspec.load(tmp_path / "M"), tmp_path / "M", tmp_path / "OUT")
    card = room.card(A)
    assert card is not None
    assert not card["fixed"]
    assert len(card["keys"]) == 9
    assert card["keys"][0] == card["likely"]
    chances = dict(card["ranked"])
    assert list(chances) == card["keys"][:5]
    assert sorted(chances.values(), reverse=True) == list(chances.values())
