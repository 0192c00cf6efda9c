"""Two processes on halves of the batch = one process on the joint batch; what is sent does not grow with the batch."""

import json
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from tests.training.common import assert_same_bits, data, method, model, quiet, slow_loop, stages
from tests.training.methods_in_two import POOLED, TRAINED, gradients, joint_batch
from tests.training.torchrun import two_processes

from wildspec.errors import InputError
from wildspec.training import Budget, train
from wildspec.training.distributed import joined_world, meet
from wildspec.training.feed import DeviceData, Feed

WORKER = Path(__file__).with_name("worker.py")
EPOCHS = 4  # of 3 steps, two stages


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left behind of all their trainings."""
    folder = tmp_path_factory.mktemp("two") / "out"
    done = two_processes(str(WORKER), str(folder), out=folder)
    (folder / "said.txt").write_text(done.stdout)
    return folder


def told(out: Path, name: str) -> list[Any]:
    return [json.loads((out / f"{name}-{rank}.json").read_text()) for rank in (0, 1)]


def test_two_processes_equal_one_on_the_joint_batch(out: Path) -> None:
    """12 steps of each stage, with batch norm, momentum, augmentation and all five terms; both ranks end alike."""
    weights, facts = [load_file(out / f"joint-{rank}.safetensors") for rank in (0, 1)], told(out, "joint")
    alone = train(model(), method(), data(), quiet(precision="fp64"), stages=stages(EPOCHS))
    assert facts[0]["steps"] == alone.steps == 24
    pretraining = [row["loss"] for row in alone.history][:12]
    assert facts[0]["losses"][:12] == pytest.approx(pretraining, rel=1e-9)  # logged by each process: already the joint loss
    for name, value in alone.model.state_dict().items():
        for other in weights:
            torch.testing.assert_close(other[name], value, rtol=0, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    initial = model().double().head.weight
    assert (weights[0]["head.weight"] - initial).abs().max() > 1e-2  # the weights did move
    # Nobody holds the group any more, so its threads are gone: one that lives on may abort the process at its end.
    assert [one["groups_left"] for one in facts] == [[False], [False]]


def test_bytes_per_step_do_not_grow_with_the_batch(out: Path) -> None:
    small, large = told(out, "small"), told(out, "joint")  # of 16 and of 32
    assert small[0]["steps"] == large[0]["steps"] == 24
    assert small[0]["sent"] == large[0]["sent"] > 0


def test_every_method_is_the_same_on_two_processes(out: Path) -> None:
    first, second = (torch.load(out / f"found-{rank}.pt", weights_only=True) for rank in (0, 1))
    for name in POOLED:
        whole = gradients(name, joint_batch(), None)
        assert max(g.abs().max() for g in whole) > 1e-4
        for got, expected in zip(first[name], whole, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")
    mean, some, groups, counts = first["means"]
    assert mean.item() == 4.5  # of 0..9, not the mean 3.5 of the two shares' means
    assert first["chosen"].item() == 5.5  # of 2..9; the two shares have 1 and 7 of them, with means 2 and 6
    assert some.item() == (0 + 1 + 3 + 4) / 4
    assert groups.tolist() == [4.0, 5.0, 4.0, 5.0, 0.0]
    assert counts.tolist() == [3.0, 3.0, 2.0, 2.0, 0.0]
    for name in TRAINED:  # nothing drifts apart: weights, duals and group weights are the same on both
        pairs = zip(first[f"trained {name}"], second[f"trained {name}"], strict=True)
        for one, other in pairs if name != "mixup" else list(pairs)[:-2]:  # each process draws its own blends
            torch.testing.assert_close(one, other, rtol=0, atol=0)
    blends = [found["trained mixup"][-2:] for found in (first, second)]
    assert not any(torch.equal(one, other) for one, other in zip(*blends, strict=True))


def test_the_command_line_under_torchrun(out: Path) -> None:
    """`wildspec train` in both: one process talks and writes, the run can be evaluated."""
    assert (out / "said.txt").read_text().count("Next:") == 1
    assert json.loads((out / "run" / "model.json").read_text())["training"]["steps"] > 0
    assert not (out / "run" / "training").exists()


@pytest.mark.parametrize(("late", "ended"), [("first", [False, 1]), ("second", [True, 6])])
def test_processes_stop_together_when_the_time_of_the_first_is_over(late: str, ended: list[object], out: Path) -> None:
    """Their clocks never agree to the step; one that stops alone would leave the others waiting for its sums."""
    assert told(out, f"{late} is late") == [ended, ended]


def test_random_numbers_differ_between_processes_also_after_resuming(out: Path) -> None:
    first, second = told(out, "resumed")
    assert len(first) == len(second) == 6
    assert not any(mine == yours for mine, yours in zip(first, second, strict=True))


def test_processes_agree_on_the_clock_of_the_first(out: Path) -> None:
    first, second = told(out, "budget")
    assert first == second
    taken, rates = slow_loop(stages(epochs=3), Budget(20.0, (9.0, 9.0)), lambda n: 2.5)
    assert first["steps"] == taken
    assert first["rates"] == pytest.approx(rates, rel=1e-5)
    assert_same_bits(*(load_file(out / f"budget-{rank}.safetensors") for rank in (0, 1)))


def test_shards_do_not_overlap_and_join_to_the_whole() -> None:
    source = DeviceData(data(), torch.device("cpu"))
    stage = stages()[0]
    joint = Feed(source, stage, seed=3)
    halves = [Feed(source, stage, seed=3, rank=rank, world=2) for rank in (0, 1)]
    for step in (0, 1, 5):
        whole, parts = joint.batch(step), [half.batch(step) for half in halves]
        for rank, part in enumerate(parts):
            assert torch.equal(part.labelled, whole.labelled[rank::2])
            assert torch.equal(part.labels, whole.labels[rank::2])
            assert part.wild is not None
            assert whole.wild is not None
            assert torch.equal(part.wild, whole.wild[rank::2])


def test_a_batch_that_does_not_divide_is_an_error() -> None:
    source = DeviceData(data(), torch.device("cpu"))
    with pytest.raises(InputError, match="multiple of the 3 processes"):
        Feed(source, stages()[0], seed=0, rank=0, world=3)


def test_nobody_passes_the_meeting_before_all_are_there_and_process_0_goes_last() -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    passed = {rank: threading.Event() for rank in range(2)}

    def process(rank: int) -> None:
        meet(dist.TCPStore("127.0.0.1", server.port, is_master=False), "end", rank, 3, patience=timedelta(seconds=20))
        passed[rank].set()

    threads = [threading.Thread(target=process, args=(rank,)) for rank in passed]
    for thread in threads:
        thread.start()
    while server.add("end/here", 0) < 2:
        time.sleep(0.01)
    assert not passed[1].wait(0.3)  # the third is missing
    assert server.add("end/here", 1) == 3  # it comes, step by step by hand
    server.set("end/all", "1")
    assert passed[1].wait(20)
    assert not passed[0].wait(0.3)  # the third may still be on its way out
    server.set("end/seen/2", "1")
    assert passed[0].wait(20)
    for thread in threads:
        thread.join(20)


def test_a_second_training_does_not_read_the_addresses_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun serves one store to its processes for as long as they live."""
    served, groups = dist.HashStore(), []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(dist, "rendezvous", lambda url: iter([(served, 0, 2)]))
    monkeypatch.setattr(dist, "init_process_group", lambda backend, store, **rest: groups.append(store))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.setattr("wildspec.training.distributed.meet", lambda store, *rest: groups.append(store))
    for _ in range(2):
        with joined_world(torch.device("cpu")):
            pass
    first, second = groups[:3], groups[3:]  # the group's, ours, ours
    first[0].set("address", "gone")
    first[1].set("finished/all", "1")
    assert served.num_keys() == 2
    assert first[2].check(["finished/all"])
    assert not any(store.check([name]) for store in second for name in ("address", "finished/all"))


def test_one_that_waits_alone_does_not_wait_for_ever() -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with pytest.raises(RuntimeError):
        meet(server, "nobody comes", 0, 2, patience=timedelta(seconds=0.2))
