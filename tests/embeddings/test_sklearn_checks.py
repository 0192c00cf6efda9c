"""scikit-learn's own checks. Every exception is named here with its reason; everything else must pass.

An exception that no longer fails is a failure here (xfail_strict): it must leave the list.
"""

import re
import warnings
from pathlib import Path

import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from wildspec import SpectralClassifier, WildClassifier

EXCEPTIONS = {
    "check_classifiers_classes": "uses the class -1, which marks wild samples here as in scikit-learn's semi_supervised",
    "check_classifiers_train": "wants the largest decision_function for every sample; rejected ones have the reject label",
}


@parametrize_with_checks([SpectralClassifier()], expected_failed_checks=lambda estimator: EXCEPTIONS)
def test_check_estimator(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the checks give no wild samples and few labelled ones; we say so
        check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable", "check_estimator_repr", "check_estimators_unfitted", "check_get_params_invariance",
        "check_mixin_order", "check_no_attributes_set_in_init", "check_parameters_default_constructible", "check_set_params",
        "check_valid_tag_types",
    ],
)  # fmt: skip
def test_the_image_classifier_passes_what_needs_no_table_of_numbers(check):
    getattr(checks, check)("WildClassifier", WildClassifier())


@pytest.mark.filterwarnings("ignore:no wild samples", "ignore:.*labelled samples for calibration cannot promise")
def test_coordinates_come_as_a_data_frame_where_asked(world):
    pytest.importorskip("pandas")
    model = SpectralClassifier(random_state=0).set_output(transform="pandas").fit(world.labelled, world.labels, world.wild)
    frame = model.transform(world.shifted[:3])
    assert list(frame.columns) == model.get_feature_names_out().tolist()
    assert frame.shape == (3, 32)
    assert frame.columns[0] == "spectralclassifier0"


def test_the_exceptions_are_told():
    page = (Path(__file__).resolve().parents[2] / "docs" / "howto-embeddings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^- `(check_\w+)`", page, re.M)) == set(EXCEPTIONS)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
