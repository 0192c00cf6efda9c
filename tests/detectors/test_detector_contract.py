"""What holds for every detector of the registry: needs, order, batches, precision, saving, devices, hyper-parameters."""

import inspect
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from detector_samples import Samples  # type: ignore[import-not-found]
from safetensors.torch import load_file, save_file
from torch import Tensor

from wildspec.detectors import Detector, build_detector, detector_names, inputs
from wildspec.errors import InputError, InputTypeError

NAMES = detector_names()
KIND = {name: type(build_detector(name)) for name in NAMES}
SMALL: dict[str, dict[str, Any]] = {"knn": {"k": 5}}  # the default k = 50 would fit too; smaller is more telling

# for every hyper-parameter one other value; the completeness of this table is itself tested
OTHER: dict[str, dict[str, Any]] = {
    "ash": {"percent": 50.0, "variant": "b"},
    "dice": {"percent": 60.0},
    "energy": {"temperature": 2.0},
    "gen": {"gamma": 0.3, "top": 2},
    "knn": {"k": 6},
    "mahalanobis": {"shrinkage": 0.5, "epsilon": 0.01},
    "maxlogit": {},
    "msp": {"temperature": 2.0},
    "nnguide": {"k": 3, "share": 0.5},
    "one_against_rest": {},
    "odin": {"temperature": 10.0, "epsilon": 0.1, "std": (0.5, 0.3, 0.1)},
    "react": {"percent": 60.0},
    "rmds": {"shrinkage": 0.5},
    "scale": {"percent": 60.0},
    "she": {"metric": "cosine"},
    "unknown_head": {"against": "max"},
    "unknown_logit": {"against": "max"},
    "vim": {"dim": 3},
    "wild_knn": {"k": 9, "rule": "linear"},
    "wild_linear": {"k": 9, "rule": "distance"},
}
NEEDS_ANOTHER = {  # a parameter that acts only together with another
    ("nnguide", "seed"): ({"share": 0.5}, 1),
    ("mahalanobis", "std"): ({"epsilon": 0.05}, (0.5, 0.3, 0.1)),
}


@pytest.fixture(params=NAMES)
def fitted(request: pytest.FixtureRequest, train: Samples) -> Detector:
    return build_detector(request.param, **SMALL.get(request.param, {})).fit(**train.for_fit())


def test_all_that_were_promised_are_there() -> None:
    paper = ["msp", "odin", "energy", "mahalanobis", "vim", "knn", "ash"]
    wild = ["wild_knn", "wild_linear"]
    opened = ["unknown_logit", "unknown_head", "one_against_rest"]
    promised = [*paper, *wild, *opened, "maxlogit", "gen", "react", "dice", "she", "rmds", "nnguide", "scale"]
    assert sorted(promised) == NAMES
    assert sorted(OTHER) == NAMES


def test_scores_are_one_finite_number_per_sample(fitted: Detector, test: Samples) -> None:
    scores = fitted.score(**test.for_score())
    assert scores.shape == (17,)
    assert scores.dtype == torch.float32
    assert torch.isfinite(scores).all()
    assert scores.unique().numel() > 10


def test_order_and_batch_size_do_not_matter(fitted: Detector, test: Samples) -> None:
    whole = fitted.score(**test.for_score())
    order = torch.randperm(17, generator=torch.Generator().manual_seed(0))
    atol = 1e-4 if fitted.name == "rmds" else 1e-6  # rmds is a difference of two distances of about 100
    assert torch.allclose(fitted.score(**test.for_score(order)), whole[order], rtol=1e-5, atol=atol)
    single = torch.cat([fitted.score(**test.for_score(slice(i, i + 1))) for i in range(17)])
    assert torch.allclose(single, whole, rtol=1e-5, atol=atol)


def test_blocks_inside_do_not_matter(
    fitted: Detector, train: Samples, test: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted.score(**test.for_score())
    monkeypatch.setattr(inputs, "BLOCK_VALUES", 60)  # five rows of features at a time, in fit and score
    monkeypatch.setattr(inputs, "BLOCK_IMAGES", 2)
    again = build_detector(fitted.name, **fitted.config()).fit(**train.for_fit())
    assert torch.allclose(again.score(**test.for_score()), whole, rtol=1e-4, atol=1e-5)


def test_order_of_training_samples_does_not_matter(fitted: Detector, train: Samples, test: Samples) -> None:
    order = torch.randperm(len(train.labels), generator=torch.Generator().manual_seed(1))
    shuffled = {k: v[order] if isinstance(v, Tensor) else v for k, v in train.for_fit().items()}
    again = build_detector(fitted.name, **fitted.config()).fit(**shuffled)
    assert torch.allclose(again.score(**test.for_score()), fitted.score(**test.for_score()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(
    fitted: Detector, train: Samples, test: Samples, dtype: torch.dtype
) -> None:
    """The same rounded numbers handed over in single precision give the same scores."""

    def rounded(values: dict[str, Any], final: torch.dtype) -> dict[str, Any]:
        return {
            name: value.to(dtype).to(final) if isinstance(value, Tensor) and value.is_floating_point() else value
            for name, value in values.items()
        }

    half = build_detector(fitted.name, **fitted.config()).fit(**rounded(train.for_fit(), dtype))
    single = build_detector(fitted.name, **fitted.config()).fit(**rounded(train.for_fit(), torch.float32))
    found = half.score(**rounded(test.for_score(), dtype))
    assert found.dtype == torch.float32
    assert torch.allclose(found, single.score(**rounded(test.for_score(), torch.float32)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fitted", [n for n in NAMES if n != "odin"], indirect=True)  # its network is single precision
def test_double_precision_agrees(fitted: Detector, train: Samples, test: Samples) -> None:
    double = {k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in train.for_fit().items()}
    precise = build_detector(fitted.name, **fitted.config()).fit(**double)
    scores = precise.score(**{k: v.double() if isinstance(v, Tensor) else v for k, v in test.for_score().items()})
    assert torch.allclose(scores.float(), fitted.score(**test.for_score()), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("name", "parameter"), [
    (n, p) for n in NAMES for p in inspect.signature(KIND[n]).parameters
    if p != "rule"  # of wild_knn; needs wild samples in groups of their own: test_wild_linear.py
])  # fmt: skip
def test_each_hyper_parameter_changes_the_score(name: str, parameter: str, train: Samples, test: Samples) -> None:
    base, value = NEEDS_ANOTHER.get((name, parameter), (SMALL.get(name, {}), None))
    value = OTHER[name][parameter] if value is None else value
    before = build_detector(name, **base).fit(**train.for_fit()).score(**test.for_score())
    after = build_detector(name, **(base | {parameter: value})).fit(**train.for_fit()).score(**test.for_score())
    assert not torch.allclose(before, after, rtol=1e-6, atol=1e-7)


def test_config_and_state_survive_files(fitted: Detector, test: Samples, tmp_path: Path) -> None:
    config = json.loads(json.dumps(fitted.config()))
    twin = build_detector(fitted.name, **config)
    assert repr(twin) == repr(fitted)
    if fitted.state_names:
        assert not twin.fitted
        save_file(fitted.state(), tmp_path / "state.safetensors")
        twin.load_state(load_file(tmp_path / "state.safetensors"))
    assert torch.equal(twin.score(**test.for_score()), fitted.score(**test.for_score()))
    with pytest.raises(InputError, match="saved by another detector"):
        twin.load_state({"strange": torch.zeros(1)})


@pytest.mark.parametrize("name", [name for name in NAMES if KIND[name].streams])
def test_batch_by_batch_is_the_whole(name: str, train: Samples, test: Samples) -> None:
    whole = build_detector(name, **SMALL.get(name, {})).fit(**train.for_fit())
    stream = build_detector(name, **SMALL.get(name, {}))
    for start in range(0, 90, 7):
        batch = {k: v[start : start + 7] if isinstance(v, Tensor) else v for k, v in train.for_fit().items()}
        assert stream.partial_fit(**batch) is stream
        if start == 42:
            stream.finalize()  # a look in between does no harm
    assert torch.allclose(stream.score(**test.for_score()), whole.score(**test.for_score()), rtol=1e-4, atol=1e-5)
    refitted = stream.fit(**train.for_fit())  # fit starts anew
    assert torch.allclose(refitted.score(**test.for_score()), whole.score(**test.for_score()), rtol=1e-5, atol=1e-6)
    if name != "knn":
        loaded = build_detector(name).load_state(whole.state())
        with pytest.raises(InputError, match="loaded without its sums"):
            loaded.partial_fit(**train.for_fit())


@pytest.mark.parametrize("name", [name for name in NAMES if KIND[name].streams])
def test_inference_mode_may_come_and_go_between_batches(name: str, train: Samples, test: Samples) -> None:
    expected = build_detector(name).fit(**train.for_fit()).score(**test.for_score())
    stream = build_detector(name)
    for start in range(0, 90, 15):
        batch = {k: v[start : start + 15] if isinstance(v, Tensor) else v for k, v in train.for_fit().items()}
        with torch.inference_mode(start % 2 == 0):
            stream.partial_fit(**batch)
            if start == 60:
                stream.score(**test.for_score())
    assert torch.allclose(stream.score(**test.for_score()), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if not KIND[name].streams and KIND[name].fit_needs])
def test_the_others_say_they_cannot_stream(name: str, train: Samples) -> None:
    with pytest.raises(InputError, match=f"{KIND[name].name} cannot learn batch by batch"):
        build_detector(name).partial_fit(**train.for_fit())


@pytest.mark.parametrize(("name", "verb", "missing"), [
    (name, verb, need)
    for name in NAMES
    for verb, needs in (("fit", KIND[name].fit_needs), ("score", KIND[name].score_needs))
    for need in needs
])  # fmt: skip
def test_a_missing_need_says_how_to_get_it(name: str, verb: str, missing: str, train: Samples, test: Samples) -> None:
    detector = build_detector(name, **SMALL.get(name, {})).fit(**train.for_fit())
    given = train.for_fit() if verb == "fit" else test.for_score()
    with pytest.raises(InputError, match=rf"{KIND[name].name}\.{verb} needs .*missing: {missing} = "):
        getattr(detector, verb)(**(given | {missing: None}))


def test_needs_are_declared_and_sufficient(fitted: Detector, train: Samples, test: Samples) -> None:
    fit = {key: value for key, value in train.for_fit().items() if key in fitted.fit_needs}
    score = {key: value for key, value in test.for_score().items() if key in fitted.score_needs}
    twin = build_detector(fitted.name, **fitted.config()).fit(**fit)
    assert torch.equal(twin.score(**score), fitted.score(**test.for_score()))
    assert set(fitted.needs) == set(fitted.fit_needs) | set(fitted.score_needs)
    assert fitted.summary
    assert fitted.paper


def test_wrong_inputs_are_named(fitted: Detector, train: Samples, test: Samples) -> None:
    given = test.for_score()
    key = fitted.score_needs[0]
    with pytest.raises(InputError, match=f"{key} must have shape"):
        fitted.score(**(given | {key: given[key][0]}))
    with pytest.raises(InputTypeError, match=f"{key} must be floating point"):
        fitted.score(**(given | {key: given[key].long()}))
    broken = given[key].clone()
    broken.view(-1)[3] = float("nan")
    with pytest.raises(InputError, match=f"{key} hold NaN or infinite values"):
        fitted.score(**(given | {key: broken}))
    if len([need for need in fitted.score_needs if need != "model"]) > 1:
        with pytest.raises(InputError, match="one row per sample"):
            fitted.score(**(given | {key: given[key][:4]}))
    if fitted.fit_needs:
        with pytest.raises(InputError, match=f"{fitted.name} is not fitted"):
            build_detector(fitted.name).score(**given)
        rows = {k: v[:0] if isinstance(v, Tensor) else v for k, v in train.for_fit().items()}
        if fitted.fit_needs != ("model",):
            with pytest.raises(InputError, match="got no samples"):
                build_detector(fitted.name).fit(**rows)


@pytest.mark.parametrize("fitted", [n for n in NAMES if "features" in KIND[n].score_needs], indirect=True)
def test_another_width_is_an_error(fitted: Detector, test: Samples) -> None:
    with pytest.raises(InputError, match="width 12, got width 11"):
        fitted.score(**(test.for_score() | {"features": test.features[:, :11]}))


def test_no_samples_give_no_scores(fitted: Detector, test: Samples) -> None:
    assert fitted.score(**test.for_score(slice(0, 0))).shape == (0,)


def test_a_head_that_is_not_linear_is_refused(train: Samples) -> None:
    net = torch.nn.Module()
    net.head = torch.nn.Sequential(torch.nn.Linear(12, 4))
    for name in ("ash", "scale", "react", "dice", "vim"):
        with pytest.raises(InputError, match=r"\.head is an nn.Linear .*got Sequential"):
            build_detector(name).fit(**(train.for_fit() | {"model": net}))
    net.head = torch.nn.Linear(12, 4, bias=False)  # no bias is a bias of zero
    assert build_detector("ash").fit(model=net).bias_.tolist() == [0.0] * 4  # type: ignore[attr-defined]


def test_labels_must_be_whole_numbers(train: Samples) -> None:
    with pytest.raises(InputTypeError, match="labels must be whole numbers"):
        build_detector("mahalanobis").fit(features=train.features, labels=train.labels.float())


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("nope", {}, "unknown detector 'nope'; choose one of ash, dice"),
    ("knn", {"kk": 3}, "detector knn has no argument kk; it takes k"),
    ("maxlogit", {"k": 3}, "takes no arguments"),
    ("energy", {"temperature": 0}, "temperature must be greater than 0"),
    ("ash", {"percent": 100}, r"percent must lie in \[0, 100\)"),
    ("ash", {"variant": "q"}, "variant must be one of p, b, s"),
    ("gen", {"gamma": 1.0}, "gamma must lie strictly between 0 and 1"),
    ("mahalanobis", {"shrinkage": "much"}, "shrinkage must be auto, oas or a number"),
    ("mahalanobis", {"shrinkage": 1.5}, r"shrinkage must lie in \[0, 1\]"),
    ("odin", {"std": (0.5, 0.5)}, "one number for each of 3 channels, got 2"),
    ("odin", {"epsilon": -1}, "epsilon must be 0 or greater"),
    ("she", {"metric": "l1"}, "metric must be one of inner, cosine, euclidean"),
    ("vim", {"dim": 0}, "dim must be at least 1"),
])  # fmt: skip
def test_bad_arguments(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_detector(name, **arguments)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_large_gaussian_fit_stays_under_one_gib() -> None:
    """Peak memory of a fresh process that streams and finishes a fit of 1,000 classes of 1,024 features.

    What is held grows with d^2 and C d: four times the measured figure bounds 2,048 features (benchmarks/detectors.py
    measures that size itself). A copy of the samples, or one matrix per class, would be far beyond it.
    """
    program = """
        import torch
        from pathlib import Path
        from wildspec.detectors import Mahalanobis
        torch.set_num_threads(1)
        def peak():  # not getrusage: its peak is inherited from the process that started this one
            lines = Path("/proc/self/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**20
        torch.linalg.eigh(torch.eye(64, dtype=torch.float64))
        before = peak()
        g = torch.Generator().manual_seed(0)
        detector = Mahalanobis()
        for start in range(0, 1000, 50):
            x = torch.randn(250, 1024, generator=g)
            detector.partial_fit(features=x, labels=torch.arange(250) % 50 + start)
        detector.finalize()
        assert detector.white_means_.shape == (1000, 1024)
        print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    gib = float(done.stdout)
    assert gib > 0.01  # the measurement works: 1,000 x 1,024 sums alone are 8 MB
    assert 4 * gib < 1.0


def test_autocast_around_does_not_coarsen_the_scores(fitted: Detector, train: Samples, test: Samples) -> None:
    expected = fitted.score(**test.for_score())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = build_detector(fitted.name, **fitted.config()).fit(**train.for_fit())
        assert torch.allclose(again.score(**test.for_score()), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.cuda
def test_tf32_is_left_as_it_was_found(train: Samples, test: Samples) -> None:
    before = torch.get_float32_matmul_precision()
    detector = build_detector("mahalanobis").fit(**train.for_fit()).to("cuda")
    expected = detector.score(features=test.features.cuda())
    torch.set_float32_matmul_precision("high")
    try:
        assert torch.equal(detector.score(features=test.features.cuda()), expected)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.cuda
@pytest.mark.parametrize("name", NAMES)
def test_cuda_agrees_with_cpu(name: str, train: Samples, test: Samples) -> None:
    fitted = build_detector(name, **SMALL.get(name, {})).fit(**train.for_fit())
    expected = fitted.score(**test.for_score())
    model = train.model.cuda()
    there = {k: v.cuda() if isinstance(v, Tensor) else model for k, v in test.for_score().items()}
    if fitted.state_names:
        moved = build_detector(name, **fitted.config()).load_state(fitted.state()).to("cuda")
        scores = moved.score(**there)
        assert scores.is_cuda
        assert torch.allclose(scores.cpu(), expected, rtol=1e-3, atol=1e-4)
        if "inputs" not in fitted.score_needs:  # a state on the CPU serves samples on the GPU
            assert torch.allclose(fitted.score(**there).cpu(), expected, rtol=1e-3, atol=1e-4)
    onto = build_detector(name, **fitted.config()).fit(
        **{k: v.cuda() if isinstance(v, Tensor) else model for k, v in train.for_fit().items()}
    )
    assert torch.allclose(onto.score(**there).cpu(), expected, rtol=1e-3, atol=1e-4)
