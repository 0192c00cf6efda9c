"""What a user hands over: embeddings (numpy, torch, pandas, scipy sparse, memory-mapped) as float32 rows; labels; a seed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from wildspec.decision.probe import MANY_CLASSES
from wildspec.errors import InputError, WildspecError
from wildspec.graph.search import Rows

MOST_DENSE = 4 << 30  # bytes; a sparse matrix that would be larger than this when dense is refused
MINUS_ONE = (
    "y holds -1 and 1 alone: -1 marks wild samples without a label, so there is one known class, 1; if -1 is a class of "
    "yours, give it another number"
)


def as_plain(rows: Any) -> Any:
    """Torch tensors (any device, bfloat16 too) as numpy; sparse matrices as dense ones; the rest as it is."""
    if hasattr(rows, "detach"):
        tensor = rows.detach().cpu()
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    if sparse.issparse(rows):
        if len(rows.shape) == 2 and 4 * rows.shape[0] * rows.shape[1] > MOST_DENSE:
            raise InputError(
                f"a sparse matrix of shape {rows.shape} would need {4 * rows.shape[0] * rows.shape[1] / 2**30:.0f} GiB when "
                "dense; reduce it first, e.g. with sklearn.decomposition.TruncatedSVD"
            )
        return rows.toarray()
    return rows


NEXT = {  # words of scikit-learn's refusals -> what to do
    "y should be a 1d array": "give one class per row, of one-hot rows y.argmax(axis=1)",
    "1D array": "Reshape your data to rows of embeddings (n, d); one sample is x[None]",
    "scalar array": "Reshape your data to rows of embeddings (n, d); one sample is x[None]",
    "with dim": "give rows of embeddings (n, d); images have to go through a network first",
    "array element with a sequence": "vectors must be of one length; of a column of vectors give np.stack(column)",
    "convert string": "embeddings are numbers; text has to go through an embedding model first",
    "NaN": "remove these rows or fill their gaps",
    "infinity": "remove these rows, or scale them to what single precision holds",
    "is expecting": "use the embedding model it was fitted with",
    "sample(s)": "give more rows",
}


@contextmanager
def one_line(name: str) -> Iterator[None]:
    """scikit-learn's refusals as one line with what to do; those of its own format (names of columns) stay as they are."""
    try:
        yield
    except WildspecError:
        raise
    except ValueError as error:
        line = str(error).partition("\n")[0].rstrip(".: ")
        hint = next((hint for words, hint in NEXT.items() if words in line), None)
        if hint is None:
            raise
        raise InputError(f"{line if name in line or name == 'X' else f'{name}: {line}'}; {hint}") from error


def check_rows(estimator: Any, rows: Any, *, reset: bool) -> Rows:
    """(n, d) finite float32. ``reset``: remember width and column names, else compare with what was fitted."""
    least = 2 if reset else 1
    with one_line("X"):
        return np.asarray(
            validate_data(
                estimator, as_plain(rows), reset=reset, dtype=np.float32, ensure_min_samples=least, accept_sparse=False
            )
        )


def check_wild(rows: Any, estimator: Any, name: str = "X_wild") -> Rows:
    """(n, d) finite float32 with the columns that ``estimator`` was given; n may be 0."""
    from sklearn.utils import check_array

    width = int(estimator.n_features_in_)
    if (isinstance(rows, list | tuple) and not rows) or getattr(rows, "shape", None) == (0, 0):  # an empty table
        return np.empty((0, width), np.float32)
    names, known = getattr(rows, "columns", None), getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and len(names) == width and list(names) != list(known):
        own, other = next((str(a), str(b)) for a, b in zip(known, names, strict=True) if a != b)
        raise InputError(f"{name} has a column {other!r} where X has {own!r}; give both the same columns in one order")
    with one_line(name):
        checked = check_array(as_plain(rows), dtype=np.float32, ensure_min_samples=0, input_name=name)
    if checked.shape[1] != width:
        raise InputError(f"{name} has {checked.shape[1]} features, X has {width}; use one embedding model for both")
    return np.asarray(checked)


def warn_of_zeros(rows: Rows, labelled: NDArray[np.int64]) -> None:
    """A row of zeros has no direction: often it is what a missing embedding was stored as."""
    empty = labelled[~rows[labelled].any(axis=1)]
    if len(empty):
        many, them = ("s are rows", "them") if len(empty) > 1 else (" is a row", "it")
        warnings.warn(
            f"{len(empty)} of {len(labelled)} labelled sample{many} of zeros, first row {empty[0]}, which have no "
            f"direction for metric='cosine'; remove {them}",
            UserWarning, stacklevel=4,
        )  # fmt: skip


def warn_of_wild_copies(pool: Rows) -> None:
    """(m, d) wild samples: where most are copies, each lies next to its own, and new samples look far from everything."""
    copied = len(pool) - len({hash(row.tobytes()) for row in pool})
    if 2 * copied >= len(pool) > 0:
        warnings.warn(
            f"{copied:,} of {len(pool):,} wild samples are copies of others: shifted samples are rejected more often after "
            "such a pool; give each row once",
            UserWarning, stacklevel=3,
        )  # fmt: skip


def split_labels(y: Any, count: int) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[np.int64]]:
    """y with -1 for wild samples -> mask of those, classes, class numbers (-1 = wild).

    Among names "-1" is wild too (numpy makes it of -1), and so is a missing entry: None, or NaN in an object array.
    """
    from sklearn.utils.multiclass import type_of_target
    from sklearn.utils.validation import column_or_1d

    if y is None:
        raise InputError("fit requires y to be passed, but the target y is None; give a class per row, -1 for wild ones")
    with one_line("y"):
        values = column_or_1d(as_plain(y), warn=True)
    if len(values) != count:
        raise InputError(f"X has {count} rows and y {len(values)} entries; give one for each, -1 for wild samples")
    wild, labelled = known_labels(values)
    if not len(labelled):
        raise InputError("y marks every sample as wild (-1); the known classes need labelled samples")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=MANY_CLASSES)
        kind = type_of_target(labelled, input_name="y") if labelled.dtype.kind in "biufU" else str(labelled.dtype)
    if kind not in ("binary", "multiclass"):
        raise InputError(f"Unknown label type: {kind}; y must hold one class per sample (whole numbers or names), -1 = wild")
    classes, numbers = np.unique(labelled, return_inverse=True)
    if wild.any() and classes.dtype.kind in "iuf" and classes.tolist() == [1]:
        warnings.warn(MINUS_ONE, UserWarning, stacklevel=3)
    everyone = np.full(count, -1, dtype=np.int64)
    everyone[~wild] = numbers
    return wild, classes, everyone


def known_labels(y: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """(n,) where y marks a sample as wild, and the labels of the others."""
    values = _entries(y)
    wild = _is_wild(values)
    labelled = values[~wild]
    if labelled.dtype.kind == "O":
        labelled = _of_one_type(labelled.tolist())
    if labelled.dtype.kind == "f" and np.isnan(labelled).any():
        raise InputError(f"Input y contains NaN ({int(np.isnan(labelled).sum())} times); mark wild samples with -1")
    return wild, labelled


def _entries(y: Any) -> NDArray[Any]:
    """(n,) entries of a list, a column or a tensor; bytes as text."""
    values = np.ravel(np.asarray(as_plain(y)))
    return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values


def _of_one_type(labels: list[Any]) -> NDArray[Any]:
    """Objects as the type they have, so that classes can be sorted and compared."""
    if len({isinstance(label, str | bytes) for label in labels}) > 1:
        raise InputError("y mixes names and numbers; all classes must be names, or all whole numbers, -1 = wild")
    return _entries(labels)


def _is_wild(values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "U":
        return np.asarray(values == "-1")
    if values.dtype.kind == "O":
        return np.array([_missing(value) for value in values], dtype=bool)
    return np.asarray(values == -1)


def _missing(value: Any) -> bool:
    if isinstance(value, str):
        return value == "-1"
    return value is None or type(value).__name__ == "NAType" or bool(value != value) or bool(value == -1)


def wild_rows(y: Any) -> NDArray[np.bool_]:
    """(n,) where y marks a sample as wild."""
    return _is_wild(_entries(y))


def as_seed(random_state: Any) -> int:
    """scikit-learn's ``random_state`` as one seed."""
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        got = random_state if isinstance(random_state, int) else type(random_state).__name__
        raise InputError(
            f"random_state must be None, a whole number or a numpy RandomState, got {got}; a seed is 0 or more, below 2**32"
        ) from error


def copies(rows: Rows, groups: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """(n,) number of the group each row belongs to: rows that are equal to single precision's last digits, and, where
    given, rows of one of ``groups`` (n,), are in one."""
    rounded = np.round(rows.astype(np.float64), 6) + 0.0  # no negative zeros
    same = _by_appearance(np.unique(rounded, axis=0, return_inverse=True)[1])
    return same if groups is None else joined(same, groups)


def check_groups(groups: Any, count: int, what: str) -> NDArray[np.int64]:
    """(n,) number of each sample's group, from what a user gives: one entry of any kind for each of ``count`` samples."""
    if len(shape := getattr(groups, "shape", (count,))) != 1:
        raise InputError(f"groups must be one entry for each of the {count} {what}, got an array of shape {tuple(shape)}")
    entries = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    if len(entries) != count:
        raise InputError(f"groups must name a group for each of the {count} {what}, got {len(entries)}")
    if missing := sum(entry is None or entry != entry for entry in entries):
        raise InputError(f"groups names no group for {missing} of {count} {what}; give each one, of its own if it is alone")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(entry, len(numbers)) for entry in entries], dtype=np.int64)


def joined(same: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) groups that hold together what either of the two holds together, numbered as they appear."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other = (_by_appearance(np.unique(each, return_inverse=True)[1]) for each in (same, groups))
    sizes = int(one.max()) + 1, int(other.max()) + 1
    edges = coo_array((np.ones(len(one)), (one, other + sizes[0])), shape=(sum(sizes), sum(sizes)))
    return _by_appearance(connected_components(edges, directed=False)[1][one])


def _by_appearance(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """(n,) the same groups, numbered in the order in which they appear: sorting by value would depend on the axes."""
    values, first, inverse = np.unique(numbers.reshape(-1), return_index=True, return_inverse=True)
    place = np.empty(len(values), np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(values))
    return place[inverse.reshape(-1)]


def held_out_rows(
    labels: NDArray[np.int64], share: float, rng: np.random.Generator, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Rows kept aside for calibration: groups drawn without regard to class, one row of each, so that they are
    exchangeable with new samples; of the rest of a drawn group nothing is learned. A class keeps at least one group.
    """
    groups = np.arange(len(labels)) if groups is None else groups
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)  # a row of each group
    count = int(np.floor(share * len(first)))
    n_classes = int(labels.max()) + 1
    group_of, class_of = np.divmod(np.unique(number.reshape(-1) * n_classes + labels), n_classes)  # each pair once
    classes_of = np.split(class_of, np.flatnonzero(np.diff(group_of)) + 1)  # of a group: mostly one
    left = np.bincount(class_of)  # groups of each class
    taken: list[int] = []
    for group in rng.permutation(len(first)).tolist():
        if len(taken) == count:
            break
        if (left[classes_of[group]] > 1).all():
            left[classes_of[group]] -= 1
            taken.append(int(first[group]))
    return np.sort(np.array(taken, dtype=np.int64))


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of right predictions among the samples that y gives a class."""
    from sklearn.metrics import accuracy_score
    from sklearn.utils import indexable

    found = model.predict(X)
    indexable(found, y, sample_weight)
    wild, truth = known_labels(y)
    if not len(truth):
        raise InputError("y marks every sample as wild (-1); an accuracy needs samples with a class")
    found = found[~wild]
    if model.classes_.dtype.kind in "OU":  # names, beside -1 in y: compared as text
        truth = truth.astype(str)
    elif truth.dtype.kind == "U":
        one, other = model.classes_[0], truth.tolist()[0]
        raise InputError(f"y holds names, {other!r} for one, and the model's classes are numbers, {one} for one")
    right = found == truth  # before scikit-learn sees them: beside -1 some classes are objects, which it refuses
    weights = None if sample_weight is None else np.asarray(sample_weight)[~wild]
    return float(accuracy_score(np.ones_like(right), right, sample_weight=weights))
