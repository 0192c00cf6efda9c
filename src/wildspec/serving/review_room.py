"""A review going on: which sample each window is shown, what was answered, and lessons in the background.

    room = ReviewRoom(model, log, samples, out)
    room.card(tab)                              the sample that this window asks about
    room.answer(tab, act, "cat", [12, 40])      on disk when it returns
    room.undo(tab, act)
    room.state()                                counts, the last lesson in a line, the curve
    room.finish()                               a model that has learned from all answers, written to ``out``

Answers live in the log alone (`AnswerLog`): what is here can be made again from it, so a review that was killed goes on.
Every `EVERY` answers a thread learns; nothing that a person waits for does.
"""

import copy
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from wildspec.decision.answers import UNKNOWN, check_answer
from wildspec.errors import InputError, WildspecError
from wildspec.files import plain
from wildspec.serving.answer_log import ANSWER, SKIP, UNDO, AnswerLog
from wildspec.serving.review import promise_in_words
from wildspec.serving.review_lesson import Lesson, copies_of, learn
from wildspec.serving.review_samples import Samples
from wildspec.serving.review_words import changed, tally, thought

EVERY = 10  # answers between two lessons
SHOWN = 12  # neighbours beside a sample
LIKE = 6  # labelled samples beside it
ON_SHEET = 24
KEYS = 9
LEASE = 600.0  # seconds for which a sample that one window shows is not shown by another
LONGEST = 200  # letters of a new name


class ReviewRoom:
    """``model``: a fitted estimator with ``review`` and ``take``. ``name``: what the page calls it. ``promise``: share of
    shifted samples of known classes that may be rejected; samples are drawn at random until that can be promised."""

    def __init__(
        self, model: Any, log: AnswerLog, samples: Samples, out: Path, *, name: str = "model", rule: str = "groups",
        promise: float | None = None,
    ) -> None:  # fmt: skip
        self.model, self.log, self.samples, self.out, self.name, self.rule = model, log, samples, out, name, rule
        self.base = model.review()
        if promise is not None:
            self.base.promise = promise
        self._names = self.base.names[self.base.learned.rule.reference].tolist()
        self._texts = [plain(str(name)) for name in self._names]
        self._index = {text: i for i, text in enumerate(self._texts)}
        self._copy = copies_of(self.base)
        self._numbers = not isinstance(self.base.learned.classes[0], str)
        self._lock = threading.RLock()
        self._leases: dict[str, tuple[int, float]] = {}
        self._learning: threading.Thread | None = None
        self.problem, self.line = "", ""
        self.told: dict[str, Any] | None = None  # by `finish`
        self._past: list[tuple[int, np.ndarray]] = []
        self.lesson = learn(self.base, {}, (), frozenset(), rule, set())
        self._past.append((0, self.lesson.rejected))  # the curve begins with the model as it was
        if self._acts():
            self._take(self._learn())

    def __len__(self) -> int:
        """Samples that can be asked about."""
        return len(self._names)

    # -- showing -------------------------------------------------------------------------------------------------------
    def card(self, tab: str) -> dict[str, Any] | None:
        """The sample that the window asks about: the same until it is answered or passed over; None: all are."""
        with self._lock:
            self.log.sync()
            i = self._pick(tab)
            return None if i is None else self._card(i)

    def sheets(self) -> list[dict[str, Any]]:
        """Groups of rejected samples, those without an answer, `ON_SHEET` of each."""
        with self._lock:
            self.log.sync()
            settled, lesson = self._settled(), self.lesson
            found = []
            for group in lesson.sheets:
                left = [int(i) for i in group.tolist() if i not in settled]
                if left:
                    likely = [lesson.thought(i).likely for i in left[:ON_SHEET]]
                    most = max(set(likely), key=likely.count)
                    found.append({
                        "size": len(left), "likely": most, "share": likely.count(most) / len(likely),
                        "samples": [self._small(i) for i in left[:ON_SHEET]],
                    })  # fmt: skip
            return found

    def state(self) -> dict[str, Any]:
        """Where the review stands."""
        with self._lock:
            self.log.sync()
            lesson, known = self.lesson, self._known()
            done = self._answered_acts()
            waiting = self._unlearned()
            return {
                "name": self.name, "pool": len(self._names), "wild": len(self.base.names), "answers": done,
                "samples": len(known), "learning": self._learning is not None, "until_lesson": max(0, EVERY - waiting),
                "line": self.line, "problem": self.problem, "classes": lesson.classes, "names": self._new_names(),
                "pictures": self.samples.pictures, "scores": lesson.scores, "lesson": len(self._past),
                "curve": [{"answers": n, **tally(rejected, known).to_json()} for n, rejected in self._past],
            }  # fmt: skip

    # -- answering -----------------------------------------------------------------------------------------------------
    def answer(self, tab: str, act: str, value: str, chosen: Sequence[int]) -> str:
        """Write an answer for samples; what was written. A class, unknown, or a new name."""
        with self._lock:
            self.log.sync()
            names = self._rows(chosen)
            if len(value) > LONGEST:
                raise InputError(f"a new name has at most {LONGEST} letters, got {len(value):,}")
            if plain(value) != value:
                raise InputError("a new name must be one line of plain text; write another")
            found = check_answer(value, self._every_class(), self._numbers)
            text = UNKNOWN if found is None else str(found)
            self.log.add(act, ANSWER, names, text)
            self._after(tab)
            return text

    def skip(self, tab: str, act: str, chosen: Sequence[int]) -> None:
        """Pass samples over: they are not asked about again."""
        with self._lock:
            self.log.add(act, SKIP, self._rows(chosen))
            self._after(tab)

    def undo(self, tab: str, act: str | None) -> list[int]:
        """Take back what was done last, or the act of that number; its samples. The window shows the first of them again."""
        with self._lock:
            self.log.sync()
            acts = {one.number: one for one in self.log.acts}
            number = act if act is not None else next(reversed(acts), None)
            if number is None or number not in acts:
                raise InputError("there is nothing to take back")
            self.log.add(number, UNDO)
            chosen = [self._index[name] for name in acts[number].names if name in self._index]
            if chosen:
                self._leases[tab] = (chosen[0], time.monotonic())
            self._maybe_learn()
            return chosen

    def finish(self) -> dict[str, Any]:
        """Learn from all answers and write the model; what to say. Without an answer nothing is written."""
        with self._lock:
            running = self._learning
        if running is not None:
            running.join()
        with self._lock:
            self.log.sync()
            if not self._answered_acts():
                self.told = {"written": False, "said": "No answer was given, and no model was written."}
                return self.told
            if self.lesson.acts != self._acts():
                self._take(self._learn())
            copy.copy(self.model).take(self.lesson.review).save(self.out)
            self.told = {
                "written": True, "said": f"{self.out} is written.", "samples": len(self._known()), "line": self.line,
                "facts": self.lesson.facts,
                "next": f"wildspec score {quote(str(self.out))} DATA --out scores.csv",
            }  # fmt: skip
            return self.told

    @property
    def behind(self) -> bool:
        """Are there answers that nothing was learned from yet?"""
        with self._lock:
            self.log.sync()
            return self.lesson.acts != self._acts()

    # -- inside --------------------------------------------------------------------------------------------------------
    def _pick(self, tab: str) -> int | None:
        settled, now = self._settled(), time.monotonic()
        mine = self._leases.get(tab)
        if mine is not None and mine[0] not in settled:
            self._leases[tab] = (mine[0], now)
            return mine[0]
        elsewhere = {i for other, (i, since) in self._leases.items() if other != tab and now - since < LEASE}
        free = [i for i in self.lesson.questions if i not in settled]
        found = next((i for i in free if i not in elsewhere), free[0] if free else None)
        if found is None:
            self._leases.pop(tab, None)
        else:
            self._leases[tab] = (found, now)
        return found

    def _card(self, i: int) -> dict[str, Any]:
        lesson = self.lesson
        about, ranked, near = lesson.thought(i), lesson.ranked(i), lesson.nearest(i)
        shown = [(name, row) for name, row in near if row >= 0 and self.samples.labelled(row) is not None]
        every = [str(name) for name in self._every_class()]
        fixed = len(every) <= KEYS
        keys = every if fixed else [name for name, _ in ranked[:KEYS]]
        return {
            **self._small(i), "cells": self.samples.cells(i), "score": about.score,
            "threshold": about.threshold if np.isfinite(about.threshold) else None, "probability": about.probability,
            "ranked": ranked[:5], "keys": keys, "fixed": fixed, "words": thought(about, [name for name, _ in near]),
            "near": [{"row": row, "label": name} for name, row in shown[:LIKE]],
            "group": [self._small(j) for j in self._neighbours(i)],
        }  # fmt: skip

    def _small(self, i: int) -> dict[str, Any]:
        about = self.lesson.thought(i)
        cells = self.samples.cells(i)
        return {
            "id": i, "title": self.samples.title(i), "note": " · ".join(value for _, value in cells)[:80],
            "likely": about.likely, "rejected": about.rejected,
        }  # fmt: skip

    def _neighbours(self, i: int) -> list[int]:
        """The nearest samples in the features of the rule that have no answer yet."""
        features = self.lesson.pool.features
        similar = features @ features[i]
        similar[[i, *self._settled()]] = -np.inf
        count = min(SHOWN, len(similar) - 1)
        if count < 1:
            return []
        near = np.argpartition(-similar, count - 1)[:count]
        near = near[np.isfinite(similar[near])]
        return [int(j) for j in near[np.argsort(-similar[near], kind="stable")]]

    def _rows(self, chosen: Sequence[int]) -> list[str]:
        if not chosen or not all(0 <= i < len(self._texts) for i in chosen):
            raise InputError(f"samples have the numbers 0 to {len(self._texts) - 1}; load the page again")
        return [self._texts[i] for i in dict.fromkeys(chosen)]

    def _given(self) -> tuple[dict[Any, Any], dict[int, Any]]:
        """Name -> answer for the model, and sample -> answer. Copies of one sample have one answer, the last that was given,
        and so have those that the model brought along."""
        found: dict[int, tuple[Any, Any]] = {}
        for text, value in self.log.answers.items():
            i = self._index.get(text)
            if i is not None:
                found[int(self._copy[i])] = (self._names[i], value)
        given = dict(found.values())
        known = {i: value for i, (_, value) in found.items()}
        for name, value in self.base.answers.items():
            i = self._index.get(plain(str(name)))
            if i is None:
                continue
            first = int(self._copy[i])
            if first in found:
                given[name] = found[first][1]
            else:
                known[first] = value
        return given, known

    def _known(self) -> dict[int, bool]:
        """Sample with an answer -> is it a class that the model has?"""
        classes = set(self.lesson.classes)
        return {i: value is not None and str(value) in classes for i, value in self._given()[1].items()}

    def _settled(self) -> set[int]:
        """Samples that are not asked about any more, and their copies."""
        firsts = set(self._given()[1])
        skipped = {self._index[text] for text in self.log.skipped if text in self._index}
        firsts |= {int(self._copy[i]) for i in skipped}
        return set(np.flatnonzero(np.isin(self._copy, list(firsts))).tolist())

    def _every_class(self) -> list[Any]:
        """Classes of the model, then names that were given and are no classes yet."""
        classes = list(self.lesson.review.learned.classes)
        return [*classes, *(name for name in self._new_names() if name not in {str(one) for one in classes})]

    def _new_names(self) -> list[str]:
        classes = set(self.lesson.classes)
        said = dict.fromkeys(str(value) for value in self._given()[1].values() if value not in (None, UNKNOWN))
        return [name for name in said if name not in classes]

    def _acts(self) -> frozenset[str]:
        return frozenset(act.number for act in self.log.acts if act.did == ANSWER)

    def _answered_acts(self) -> int:
        return len(self._acts())

    def _unlearned(self) -> int:
        return len(self._acts() ^ self.lesson.acts)

    def _after(self, tab: str) -> None:
        self._leases.pop(tab, None)
        self._maybe_learn()

    def _maybe_learn(self) -> None:
        if self._unlearned() < EVERY or self._learning is not None:
            return
        self._learning = threading.Thread(target=self._lesson, name="wildspec-lesson", daemon=True)
        self._learning.start()

    def _lesson(self) -> None:
        """The thread that learns. What goes wrong is told on the page; the answers are on disk all the same."""
        try:
            made = self._learn()
        except WildspecError as error:
            with self._lock:
                self.problem, self._learning = f"Could not learn: {error}", None
            return
        except BaseException:
            with self._lock:
                self.problem, self._learning = "Could not learn: an internal error; the answers are kept", None
            raise
        with self._lock:
            self._take(made)
            self._learning = None
            self._maybe_learn()  # a person may have been faster

    def _learn(self) -> Lesson:
        with self._lock:
            (given, said), acts, settled = self._given(), self._acts(), self._settled()
            if self.rule == "random" or self.base.promise is not None:  # copies are not asked about: no gap in what is drawn
                given = {self._names[i]: said[first] for i, first in enumerate(self._copy.tolist()) if first in said}
            skipped = [self._names[i] for i in settled if self._names[i] not in given]
        return learn(self.base, given, skipped, acts, self.rule, settled)

    def _take(self, made: Lesson) -> None:
        new = [name for name in made.classes if name not in self.lesson.classes]
        self.lesson, self.problem = made, ""
        known = self._known()
        first, now = tally(self._past[0][1], known), tally(made.rejected, known)
        learned = made.review.learned  # what a promise rests on teaches nothing
        self.line = changed(
            len(made.acts) if learned.thresholds.promise is None else len(learned.taught), first, now, made.facts, new
        )
        if promised := promise_in_words(made.review):
            self.line += f" {promised}"
        self._past.append((len(made.acts), made.rejected))
