"""What `wildspec train` writes down of a network and of environments is what is done."""

from pathlib import Path

import pytest
import torch

from wildspec.errors import InputError
from wildspec.images.train_run import TrainRequest, make_plan, start
from wildspec.training import Settings

CPU = torch.device("cpu")


@pytest.mark.parametrize("backbone", ["small", "auto"])
def test_dropout_of_a_network_without_any_is_refused(backbone: str, tmp_path: Path) -> None:
    request = TrainRequest("erm", backbone=backbone, changes={"dropout": 0.3})
    with pytest.raises(InputError, match=r"dropout.*wrn16_2"):
        start(request, tmp_path / "out", Settings(device="cpu", progress=False))
    assert not (tmp_path / "out").exists()


def test_dropout_is_recorded_where_there_is_some() -> None:
    plan = make_plan(TrainRequest("erm", backbone="wrn16_2", changes={"dropout": 0.3}), CPU)
    assert plan.network["dropout"] == 0.3
    assert {module.dropout for module in plan.model.modules() if hasattr(module, "dropout")} == {0.3}
    none = make_plan(TrainRequest("erm", backbone="small", changes={"dropout": 0}), CPU)
    assert none.network["dropout"] == 0


@pytest.mark.filterwarnings("ignore:.*anneal_steps")
@pytest.mark.parametrize(("method", "words"), [
    ("irm", ("into 4", "random")), ("vrex", ("into 4", "class-balanced")), ("sharpdro", ("into 4", "class-balanced")),
    ("mixup", ("neighbours",)), ("erm", ()),
])  # fmt: skip
def test_environments_are_recorded_as_the_method_makes_them(method: str, words: tuple[str, ...], tmp_path: Path) -> None:
    """IRM deals by place in the batch, the others class by class (`wildspec.methods.environments`)."""
    settings = Settings(device="cpu", progress=False, time_limit=1e-9)
    told = start(TrainRequest(method, backbone="small", epochs=1), tmp_path / "out", settings).record["environments"]
    assert (told is None) == (not words)
    assert all(word in (told or "") for word in words)
    assert "random" in words or "random" not in (told or "")
