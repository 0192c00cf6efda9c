"""The one decision: kept and rejected samples of a known world, its state, and the module that is exported."""

import json

import pytest
import torch
from tests.decision.test_attribution import world

from wildspec.decision.decision import Decision
from wildspec.decision.verdicts import REJECTED
from wildspec.detectors import KNN, Detector, Energy, Mahalanobis, WildKNN, build_detector, restore_detector
from wildspec.errors import InputError
from wildspec.evaluation import JointCalibration, Outputs, calibrate, decide


def decided() -> tuple[Decision[Detector], torch.Tensor, torch.Tensor]:
    """From one draw of the world, fresh wild samples of another, and the truth about them."""
    labelled, labels, wild, _ = world(0)
    held_out, held_labels, _, _ = world(1)
    made = decide(
        WildKNN(), Outputs(labelled, labelled, labels), Outputs(wild, wild), Outputs(held_out, held_out), alpha=0.05
    )
    _, _, fresh, truth = world(2)
    assert len(held_labels) == 120
    return made, fresh, truth


def test_shifted_known_samples_are_kept_and_unknown_ones_rejected() -> None:
    made, fresh, truth = decided()
    assert torch.equal(made.reject(fresh), truth < 0)
    logits = torch.zeros(len(fresh), 3)
    logits[torch.arange(len(fresh)), truth.clamp_min(0)] = 1.0
    assert torch.equal(made.predict(fresh, logits), truth)
    assert isinstance(made.calibration, JointCalibration)
    assert (made.p_value(fresh)[truth < 0] < 0.05).all()
    held_out = world(3)[0]
    assert made.reject(held_out).float().mean() <= 0.05
    assert made.calibration.mixture.pi_s == pytest.approx(15 / 75)


def test_a_detector_of_logits_decides_by_them() -> None:
    logits = torch.tensor([[3.0, 0.0], [0.0, 0.2]])
    made = Decision(Energy(), calibrate(-torch.logsumexp(torch.linspace(0.5, 3, 40)[:, None] * torch.eye(2)[0], 1), 0.1))
    assert made.score(logits=logits).tolist() == pytest.approx([-3.0486, -0.7981], abs=1e-4)
    assert made.predict(None, logits).tolist() == [0, REJECTED]
    assert (made.alpha, made.threshold) == (0.1, made.calibration.threshold)
    assert f"{made.threshold:.4g}" in made.describe()


def test_it_travels_as_a_record_and_tensors_and_judges_single_samples() -> None:
    made, fresh, _ = decided()
    record, tensors = made.to_state()
    record = json.loads(json.dumps(record))
    again = Decision.from_state(record, restore_detector(record["detector"], tensors))
    one_by_one = torch.cat([again.score(row[None]) for row in fresh])
    torch.testing.assert_close(one_by_one, made.score(fresh), atol=1e-6, rtol=0)
    assert again.threshold == made.threshold
    assert json.loads(json.dumps(again.to_state()[0])) == record
    assert isinstance(again.calibration, JointCalibration)


def test_a_detector_goes_to_the_device_it_is_asked_for() -> None:
    record, tensors = decided()[0].to_state()
    for device, expected in ((None, "cpu"), ("meta", "meta")):  # a device that every machine has
        assert restore_detector(record["detector"], tensors, device).bank_.device.type == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["knn", "wild_knn", "wild_linear", "energy", "msp", "maxlogit", "gen"])
def test_the_exported_module_says_what_the_decision_says(name: str) -> None:
    labelled, labels, wild, _ = world(0)
    features, given = torch.cat([labelled, wild]), torch.cat([labels, torch.full((len(wild),), -1)])
    detector = build_detector(name, **({"k": 4} if "knn" in name or "linear" in name else {}))
    detector.fit(features=features, logits=features[:, :3], labels=given)
    asked = torch.cat([world(5)[2], torch.zeros(1, 8)])  # a row of zeros among them
    made = Decision(detector, calibrate(detector.score(features=labelled, logits=labelled[:, :3])))
    found = {"features": asked, "logits": 3 * asked[:, :3]}
    graph = made.graph()
    score, p_value, reject = graph(*found.values())
    torch.testing.assert_close(score, made.score(**found), atol=2e-6, rtol=1e-5)
    far = (score - made.threshold).abs() > 1e-5
    assert torch.equal(reject[far], made.reject(**found)[far])
    near = (torch.from_numpy(made.calibration.scores)[None] - score[:, None].double()).abs().amin(1) < 1e-5  # or tied
    torch.testing.assert_close(p_value[~near].double(), made.p_value(**found)[~near])
    assert bool(far.sum() > 50)
    assert bool((~near).any())


def test_a_detector_that_is_no_fixed_graph_is_refused() -> None:
    labelled, labels, _, _ = world(0)
    detector = Mahalanobis().fit(features=labelled, labels=labels)
    made = Decision(detector, calibrate(detector.score(features=labelled)))
    with pytest.raises(InputError, match="mahalanobis cannot be exported"):
        made.graph()
    with pytest.raises(InputError, match="not fitted"):
        KNN(k=3).graph()
