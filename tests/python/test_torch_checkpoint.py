"""icecore.torch.checkpoint: checkpoints of torch.distributed.checkpoint, each step a tag. Runs where torch is installed."""

import multiprocessing
import warnings

import numpy as np
import pytest
from conftest import open_store

import icecore

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")

from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402

from icecore.torch.checkpoint import StoreReader, StoreWriter  # noqa: E402


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch tells that no process group is there
        yield


def made(step):
    torch.manual_seed(step)
    return {
        "model": {"weight": torch.randn(8, 4), "bias": torch.zeros(4), "half": torch.ones(6, dtype=torch.bfloat16) * step},
        "optimizer": {"steps": step, "rates": [0.1, 0.2], "moment": torch.full((3, 2), float(step)).T, "point": torch.tensor(2.5)},
        "name": f"step {step}",
        "empty": torch.empty(0, 3),
    }


def like(state):
    """A state of the same shapes, with other content."""
    if isinstance(state, torch.Tensor):
        return torch.full_like(state, 7)
    if isinstance(state, dict):
        return {name: like(part) for name, part in state.items()}
    return [like(part) for part in state] if isinstance(state, list) else type(state)()


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    return a == b


def save(store, step, **how):
    writer = StoreWriter(store, **how)
    dcp.save(made(step), checkpoint_id=f"step-{step}", storage_writer=writer, no_dist=True)
    return writer


def load(source, step=None, **how):
    state = like(made(0))
    dcp.load(state, checkpoint_id=step, storage_reader=StoreReader(source, **how), no_dist=True)
    return state


def test_every_step_is_read_as_it_was(store):
    writers = [save(store, step) for step in range(3)]
    assert [tag.name for tag in store.tags()] == ["step-0", "step-1", "step-2"]
    assert [writer.version for writer in writers] == [tag.version for tag in store.tags()]
    for step in range(3):
        assert same(load(store, f"step-{step}"), made(step))
        assert same(load(store.at(f"step-{step}")), made(step))
    assert same(load(store), made(2))
    assert store.get_array("checkpoint/model.weight", at="step-1").tolist() == made(1)["model"]["weight"].tolist()


def test_what_has_not_changed_is_not_stored_again(store):
    for step in range(3):
        save(store, step)
    assert len(store.history("checkpoint/model.bias")) == 1 and len(store.history("checkpoint/model.weight")) == 3
    assert len(store.history("checkpoint/optimizer.rates")) == 1


def test_steps_are_read_beside_the_writer_and_after_it(store, path):
    save(store, 1)
    store.sync()
    with open_store(path, "r") as beside:
        assert same(load(beside, "step-1"), made(1))


def test_a_step_that_did_not_end_is_not_seen(store):
    save(store, 0)
    writer = StoreWriter(store)
    writer.finish = None  # the process dies before its step ends
    with pytest.raises(CheckpointException, match="not callable"):
        dcp.save(made(1), checkpoint_id="step-1", storage_writer=writer, no_dist=True)
    assert store.find_tag("step-1") is None
    assert same(load(store), made(0)) and same(load(store, "step-0"), made(0))
    save(store, 1)
    assert same(load(store), made(1))


def test_tensors_that_a_step_has_no_more_are_removed(store):
    dcp.save({"a": torch.ones(2), "b": torch.ones(2)}, checkpoint_id="one", storage_writer=StoreWriter(store), no_dist=True)
    dcp.save({"a": torch.ones(2)}, checkpoint_id="two", storage_writer=StoreWriter(store), no_dist=True)
    assert list(store.keys(prefix="checkpoint/")) == [b"checkpoint/.metadata", b"checkpoint/a"]
    assert b"checkpoint/b" in store.at("one")


def test_checkpoints_of_several_names_do_not_meet(store):
    store["other"] = "1"
    save(store, 0, name="a")
    dcp.save({"w": torch.ones(3)}, checkpoint_id="b", storage_writer=StoreWriter(store, name="a/b"), no_dist=True)
    state = {"w": torch.zeros(3)}
    dcp.load(state, checkpoint_id="b", storage_reader=StoreReader(store, name="a/b"), no_dist=True)
    assert state["w"].tolist() == [1, 1, 1] and same(load(store, "step-0", name="a"), made(0)) and store["other"] == b"1"


def test_a_part_of_a_state_is_loaded(store):
    save(store, 1)
    state = {"model": {"weight": torch.zeros(8, 4)}}
    dcp.load(state, checkpoint_id="step-1", storage_reader=StoreReader(store), no_dist=True)
    assert torch.equal(state["model"]["weight"], made(1)["model"]["weight"])


def test_wrong_use_is_refused_before_anything_is_written(store, path):
    save(store, 0)
    before = store.clock
    with pytest.raises(CheckpointException, match="there is a tag 'step-0' already"):
        save(store, 0)
    assert store.clock == before
    with pytest.raises(CheckpointException, match="no tag is named"):
        load(store, "step-9")
    with pytest.raises(CheckpointException, match="has no checkpoint 'nothing'"):
        load(store, name="nothing")
    with pytest.raises(icecore.InvalidArgumentError, match="a Snapshot is a checkpoint already"):
        load(store.at("step-0"), "step-0")
    with pytest.raises(icecore.InvalidArgumentError, match="use_collectives"):
        StoreWriter(store).set_up_storage_writer(True, use_collectives=False)
    for wrong in ("", "a/"):
        with pytest.raises(icecore.InvalidArgumentError, match="name must be"):
            StoreWriter(store, name=wrong)
    with pytest.raises(TypeError, match="store must be"):
        StoreWriter("path")
    with pytest.raises(TypeError, match="store must be"):
        StoreReader("path")


def work(rank, ranks, path, shared, results):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{path}.group", rank=rank, world_size=ranks)
    whole = torch.arange(24.0).reshape(6, 4)
    if rank == 0:
        store = open_store(path, index="persistent", shared_as=shared, durability="none")
    dist.barrier()
    if rank > 0:
        store = open_store(path, "attached", shared_as=shared)
    mesh = init_device_mesh("cpu", (ranks,))
    for step in range(2):
        state = {"w": distribute_tensor(whole + step, mesh, [Shard(0)]), "step": step}
        dcp.save(state, checkpoint_id=f"step-{step}", storage_writer=StoreWriter(store))
    state = {"w": distribute_tensor(torch.zeros(6, 4), mesh, [Shard(1)]), "step": 9}  # sharded along the other axis
    dcp.load(state, checkpoint_id="step-0", storage_reader=StoreReader(store))
    results.put((rank, state["w"].full_tensor().tolist(), state["step"]))
    dist.barrier()
    if rank > 0:
        store.close()
    dist.barrier()
    if rank == 0:
        store.close()
    dist.destroy_process_group()


def test_processes_that_share_the_store_save_together(path, tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    shared = f"/dev/shm/{tmp_path.name}-{id(results)}.ice"
    ranks = [context.Process(target=work, args=(rank, 2, str(path), shared, results)) for rank in range(2)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(120)
    assert [one.exitcode for one in ranks] == [0, 0]
    expected = np.arange(24.0).reshape(6, 4).tolist()
    assert sorted(results.get() for _ in ranks) == [(0, expected, 0), (1, expected, 0)]
    with open_store(path, "r") as store:
        shards = list(store.at("step-1").keys(prefix="checkpoint/w@"))
        assert shards == [b"checkpoint/w@0,0", b"checkpoint/w@3,0"]
        state = {"w": torch.zeros(6, 4), "step": 9}  # in one process, whole
        dcp.load(state, checkpoint_id="step-1", storage_reader=StoreReader(store), no_dist=True)
        assert state["w"].tolist() == (np.arange(24.0).reshape(6, 4) + 1).tolist() and state["step"] == 1
