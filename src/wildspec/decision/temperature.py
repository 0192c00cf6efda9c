"""Probabilities that mean what they say: one temperature, fitted on samples that were not learned from (Guo et al., 2017).

    q_c = p_c^(1/T) / sum_k p_k^(1/T),    T = argmin -mean sum_c t_c log q_c

    t_c = (n + 1) / (n + 2) for the label's class; the others share 1 / (n + 2)

T > 1 makes a model less sure. The most likely class stays the same. The targets t are Platt's (1999): of n
samples that are all right one may not conclude that the next one is right for certain, whatever it shows. For the same
reason a dozen samples cannot say that a model is too timid: `wildspec.decision.thresholds.learn_temperature` takes them all.
"""

import numpy as np

from wildspec.decision.scores import Array

LEAST, MOST = 0.05, 20.0  # temperatures looked at
SMALLEST = 1e-12  # probability: its logarithm stays finite
BINS = 15


def at_temperature(probabilities: Array, temperature: float) -> Array:
    """(n, C) -> (n, C), float64."""
    logits = np.log(np.clip(np.asarray(probabilities, dtype=np.float64), SMALLEST, None)) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fit_temperature(probabilities: Array, labels: np.ndarray) -> float:
    """(n, C), (n,) classes -> T. Without samples: 1."""
    if not len(labels) or probabilities.shape[1] < 2:
        return 1.0
    from scipy.optimize import minimize_scalar

    count, classes = probabilities.shape
    target = np.full((count, classes), 1 / ((count + 2) * (classes - 1)))
    target[np.arange(count), labels] = (count + 1) / (count + 2)

    def loss(log_temperature: float) -> float:
        found = at_temperature(probabilities, float(np.exp(log_temperature)))
        return float(-(target * np.log(np.clip(found, SMALLEST, None))).sum(axis=1).mean())

    found = minimize_scalar(loss, bounds=(np.log(LEAST), np.log(MOST)), method="bounded")
    return float(np.exp(found.x))


def calibration_error(probabilities: Array, labels: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: over bins of the largest probability, sum of share |accuracy - mean probability|."""
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    places = np.minimum((sure * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(places, weights=right - sure, minlength=bins)  # in a bin: count x (accuracy - mean probability)
    return float(np.abs(gaps).sum() / max(1, len(labels)))
