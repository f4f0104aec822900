"""States of models: each array a key, unchanged ones not stored again, back as they were."""

import collections
import pickle
import threading
import warnings

import numpy as np
import pytest
from conftest import open_store

import icecore


def model(seed=0):
    random = np.random.default_rng(seed)
    return {
        "layer1": {"weight": random.normal(size=(64, 32)).astype("<f4"), "bias": np.zeros(64, "<f4")},
        "layer2": {"weight": np.asfortranarray(random.normal(size=(8, 64)))},
        "steps": np.int64(5),
        "epoch": 3,
        "name": "tiny ä",
        "rate": 0.1,
        "frozen": False,
        "nothing": None,
        "groups": [{"params": [0, 1], "betas": (0.9, 0.999)}, []],
        "state": {0: {"momentum": np.ones(3)}, 1: {}},
        "empty": np.zeros((0, 4), np.int8),
        "point": np.array(2.5),
    }


def same(a, b):
    """Equal to the last bit, and of the same kinds."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def records(store):
    return store.stats().records


def test_a_state_comes_back_as_it_was(store, path):
    state = model()
    version = store.save_state("run/model", state)
    assert same(store.load_state("run/model"), state)
    assert same(store.load_state("run/model", at=store.latest()), state)
    assert store.latest().version == version
    store.close()
    with open_store(path, "r") as again:
        assert same(again.load_state("run/model"), state)
        sent = pickle.loads(pickle.dumps(again.latest()))
    assert same(sent.load_state("run/model"), state)


def test_arrays_are_keys_and_lie_in_the_store_without_a_copy(store):
    store.save_state("model", model())
    expected = ["layer1/bias", "layer1/weight", "layer2/weight", "steps", "state/0/momentum", "empty", "point"]
    assert sorted(store.keys(prefix="model/")) == sorted(f"model/{path}".encode() for path in expected)
    loaded = store.load_state("model")["layer1"]["weight"]
    assert not loaded.flags.writeable
    held = np.frombuffer(store.view("model/layer1/weight"), np.uint8)
    assert held.ctypes.data <= loaded.ctypes.data < held.ctypes.data + held.nbytes


def test_arrays_that_have_not_changed_are_not_stored_again(store):
    state = model()
    store.save_state("model", state)
    before, clock = records(store), store.clock
    store.save_state("model", model())
    assert records(store) == before and store.save_state("model", state) == store.latest().version
    state["layer1"]["bias"][63] = 1
    store.save_state("model", state)
    assert records(store) == before + 1 and len(store.history("model/layer1/weight")) == 1
    state["layer2"]["weight"][7, 63] += 1e-9
    state["epoch"] = 4
    store.save_state("model", state)
    assert records(store) == before + 3
    for changed in (state["layer1"]["weight"].astype("<f8"), state["layer1"]["weight"].reshape(32, 64)):
        count = records(store)
        store.save_state("model", {**state, "layer1": {**state["layer1"], "weight": changed}})
        assert records(store) == count + 1, "another dtype or shape with the same numbers is another array"
    assert store.clock >= clock


def test_large_arrays_are_compared_to_the_end(store):
    large = np.zeros((9 << 20) // 8 + 1)
    store.save_state("model", {"large": large})
    count = records(store)
    large[-1] = 5e-324
    store.save_state("model", {"large": large})
    assert records(store) == count + 1 and store.load_state("model")["large"][-1] == 5e-324
    large[-1] = -0.0
    store.save_state("model", {"large": large})
    assert np.signbit(store.load_state("model")["large"][-1]), "0.0 and -0.0 are equal, but not the same"


def test_every_version_has_its_state(store):
    for epoch in range(5):
        store.save_state("model", {"w": np.full(4, epoch), **({"only": np.ones(1)} if epoch == 2 else {})})
        store.tag(f"e{epoch}")
    for epoch in range(5):
        state = store.load_state("model", at=f"e{epoch}")
        assert state["w"].tolist() == [epoch] * 4 and ("only" in state) == (epoch == 2)
    assert b"model/only" not in store, "what a state has no more is removed"
    assert store.at("e2")["model/only"]
    assert same(store.at("e1").load_state("model"), {"w": np.full(4, 1)})


def test_a_state_takes_effect_at_one_instant(store):
    done = threading.Event()
    wrong = []

    def read():
        while not done.is_set():
            state = store.load_state("model")
            if len({int(array[0]) for array in state.values()}) != 1:
                wrong.append(state)

    store.save_state("model", {name: np.zeros(3, int) for name in "abc"})
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for i in range(200):
            store.save_state("model", {name: np.full(3, i) for name in "abc"})
    finally:
        done.set()
        reader.join()
    assert wrong == []


def test_states_that_two_threads_save_do_not_mix(store):
    first = {"x": np.ones(1 << 14), "y": np.zeros(1 << 14)}
    second = {"x": np.zeros(1 << 14), "y": np.ones(1 << 14)}
    barrier = threading.Barrier(2)

    def save(state):
        barrier.wait()
        store.save_state("model", state)

    for _ in range(30):
        store.save_state("model", {"x": np.zeros(1 << 14), "y": np.zeros(1 << 14)})
        threads = [threading.Thread(target=save, args=(state,)) for state in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = store.load_state("model")
        assert same(found, first) or same(found, second)


def test_a_state_is_loaded_into_arrays(store):
    state = model()
    store.save_state("model", state)
    target = model(seed=1)
    weights, momentum = target["layer1"]["weight"], target["state"][0]["momentum"]
    momentum[:] = 7
    target["epoch"] = 99
    assert store.load_state("model", into=target) is target
    assert same(target, state)
    assert target["layer1"]["weight"] is weights and target["state"][0]["momentum"] is momentum and weights.flags.writeable
    weights[0, 0] = 5
    assert store.load_state("model")["layer1"]["weight"][0, 0] != 5


def test_what_does_not_fit_is_refused_and_unchanged(store):
    store.save_state("model", {"a": np.zeros(3), "b": {"c": np.zeros(2)}})
    read_only = np.ones(2)
    read_only.flags.writeable = False
    for wrong, match in (
        ({"a": np.ones(3)}, "into does not fit the state 'model': it lacks 'b'$"),
        ({"a": np.ones(3), "b": {"d": np.ones(2)}}, "into does not fit 'b' of the state 'model': it lacks 'c'; the state lacks 'd'$"),
        ({"a": np.ones(3), "b": {"c": np.ones(3)}}, r"'b/c' has shape \(3,\)"),
        ({"a": np.ones(3), "b": {"c": np.ones(2, "<f4")}}, "dtype float32"),
        ({"a": np.ones(3), "b": {"c": read_only}}, "'b/c' is read-only"),
    ):
        with pytest.raises(icecore.InvalidArgumentError, match=match):
            store.load_state("model", into=wrong)
        assert wrong["a"].tolist() == [1, 1, 1]
    for wrong in (5, "model", [np.ones(3)], np.ones(3)):
        with pytest.raises(TypeError, match="into must be a model, an optimizer or a mapping"):
            store.load_state("model", into=wrong)


class Model:
    """As those of other libraries are."""

    def load_state_dict(self, state):
        self.state = state


def test_whatever_has_load_state_dict_gets_the_state(store):
    state = collections.OrderedDict(a=np.arange(3), b=[1, 2])
    store.save_state("model", state)
    made = Model()
    assert store.load_state("model", into=made) is made and same(made.state, dict(state))


def test_what_no_state_can_hold_is_refused_with_its_place(store):
    for wrong, match in (
        ({"a": object()}, "'a' is a builtins.object"),
        ({"a": {"b": [1, {1, 2}]}}, "'a/b/1' is a builtins.set"),
        ({"a": b"x"}, "'a' is a builtins.bytes"),
        ({"a": np.array([None])}, "'a': .*Python objects"),
        ({"a": np.ma.masked_array([1], [True])}, "'a': .*mask"),
        ({1.5: 1}, "must be a str or an int, not float"),
        ({True: 1}, "must be a str or an int, not bool"),
        ([np.ones(1)], "a state must be a mapping"),
        (None, "a state must be a mapping"),
    ):
        with pytest.raises(TypeError, match=match):
            store.save_state("model", wrong)
    with pytest.raises(icecore.InvalidArgumentError, match="two parts of the state would have the key 'a/b'"):
        store.save_state("model", {"a": {"b": np.ones(1)}, "a/b": np.ones(1)})
    with pytest.raises(icecore.InvalidArgumentError, match="surrogate"):
        store.save_state("model", {"\ud800": np.ones(1)})
    with pytest.raises(icecore.InvalidArgumentError, match="must not be empty"):
        store.save_state("", {})
    with pytest.raises(icecore.KeyTooLongError):
        store.save_state("model", {"x" * 70_000: np.ones(1)})
    assert dict(store) == {}


def test_a_key_with_another_value_is_no_state(store):
    with pytest.raises(KeyError, match="model"):
        store.load_state("model")
    for value in (b"text", b'{"a": 1}', b'{"icecore_state": 9, "tree": {}}', b"[]", b"\xff"):
        store["model"] = value
        with pytest.raises(ValueError, match="'model' is no state that save_state stored"):
            store.load_state("model")
        with pytest.raises(ValueError, match="no state"):
            store.save_state("model", {"a": np.ones(1)})
    assert dict(store) == {b"model": b"\xff"}


def test_states_of_several_names_do_not_meet(store):
    store.save_state("a", {"x": np.zeros(1)})
    store.save_state("a/b", {"x": np.ones(1)})
    store.save_state("a", {"y": np.full(1, 2.0)})
    assert store.load_state("a")["y"][0] == 2 and store.load_state("a/b")["x"][0] == 1


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_tensors_of_pytorch_come_back(store):
    torch = pytest.importorskip("torch")

    def network():
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).to(torch.float32)

    one = network()
    store.save_state("model", one.state_dict())
    two = network()
    assert store.load_state("model", into=two) is two
    for a, b in zip(one.state_dict().values(), two.state_dict().values()):
        assert torch.equal(a, b)
    count = records(store)
    store.save_state("model", two.state_dict())
    assert records(store) == count, "nothing has changed"

    optimizer = torch.optim.Adam(two.parameters(), lr=0.125)
    two(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    store.save_state("optimizer", optimizer.state_dict())
    other = torch.optim.Adam(one.parameters())
    store.load_state("optimizer", into=other)
    assert other.state_dict()["param_groups"][0]["lr"] == 0.125
    one(torch.ones(3, 4)).sum().backward()
    other.step()  # writes to its state, which is not the store's memory

    state = {
        "half": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T,
        "bits": torch.tensor([True, False]),
        "complex": torch.tensor([1 + 2j]).conj(),
        "half complex": torch.tensor([1 + 2j, 3]).to(torch.complex32),
        "eight bits": torch.ones(3).to(torch.float8_e4m3fn),
        "nothing": torch.empty(0, 3),
        "point": torch.tensor(2.5, requires_grad=True),
    }
    store.save_state("mixed", state)
    loaded = store.load_state("mixed")
    for name, tensor in state.items():
        same = torch.equal(loaded[name].cfloat(), tensor.detach().cfloat())  # torch compares not all dtypes
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape and same, name
    loaded["half"] += 1
    target = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    store.load_state("mixed", into=target)
    assert torch.equal(target["half"], state["half"])
    with pytest.raises(TypeError, match="sparse"):
        store.save_state("sparse", {"s": torch.eye(3).to_sparse()})


def test_tensors_that_are_no_array_are_refused_by_name(store, tmp_path):
    torch = pytest.importorskip("torch")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about what is new in it
        refused = {
            "sparse": torch.eye(3).to_sparse(),
            "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
            "holds no values": torch.empty(3, device="meta"),
        }
        torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
        try:
            refused["full_tensor"] = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])
            for words, tensor in refused.items():
                with pytest.raises(TypeError, match=f"^the state's 'model/w' .*{words}"):
                    store.save_state("refused", {"model": {"w": tensor}})
        finally:
            torch.distributed.destroy_process_group()
    assert len(store) == 0


def test_arrays_of_jax_that_have_no_values_yet_are_refused_by_name(store):
    jax = pytest.importorskip("jax")
    for dtype in ("float32", "bfloat16"):
        with pytest.raises(TypeError, match=r"^the state's 'x':.*traced array"):
            jax.jit(lambda x: store.save_state("traced", {"x": x}))(jax.numpy.ones(2, dtype))
    assert len(store) == 0


def test_trees_of_jax_come_back(store):
    jax = pytest.importorskip("jax")
    numbers = jax.numpy
    state = {
        "params": [{"w": numbers.arange(6.0).reshape(2, 3), "b": numbers.zeros(3, numbers.bfloat16) + 1.5}],
        "step": numbers.int32(7),
        "key": jax.random.key_data(jax.random.key(0)),
    }
    store.save_state("jax", state)
    loaded = store.load_state("jax")
    assert jax.tree.structure(loaded) == jax.tree.structure(state)
    for kept, found in zip(jax.tree.leaves(state), jax.tree.leaves(loaded), strict=True):
        assert found.dtype == kept.dtype and numbers.array_equal(numbers.asarray(found), kept)
    before = store.clock
    store.save_state("jax", state)
    assert store.clock == before  # nothing has changed


def test_arrays_of_ml_dtypes_keep_their_dtype(store):
    """Those of JAX that NumPy's files cannot name."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    state = {
        "half": np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3),
        "bytes": np.asfortranarray(np.ones((2, 2), ml_dtypes.float8_e4m3fn)),
        "point": np.array(1.5, ml_dtypes.bfloat16),
    }
    store.save_state("state", state)
    loaded = store.load_state("state")
    for name, array in state.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert np.array_equal(loaded[name].astype("f4"), array.astype("f4"))
    into = {name: np.zeros_like(array) for name, array in state.items()}
    store.load_state("state", into=into)
    assert all(np.array_equal(into[name].astype("f4"), state[name].astype("f4")) for name in state)
    other = {**into, "half": np.zeros((2, 3), np.uint16)}
    with pytest.raises(icecore.InvalidArgumentError, match="uint16"):
        store.load_state("state", into=other)
