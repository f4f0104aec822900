"""States of models and optimizers: trees of arrays and tensors, each of which has a key of its own.

The key of a state has a description of it as JSON: the tree, with the values that are no arrays. The arrays are behind
it, as put_array stores them: the state "model" with the tensor "layer1.weight" is at "model" and "model/layer1.weight".
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, checks
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy.typing as npt

    from .snapshot import Snapshot
    from .store_kept import KeepingStore

_FORMAT = 1
_BLOCK_BYTES = 8 << 20
_SAME_SIZE = {1: np.uint8, 2: np.uint16}


def save(store: KeepingStore, name: str, state: Any) -> int:
    """See Store.save_state."""
    key = _name(name)
    if not isinstance(state, Mapping):
        raise TypeError(f"a state must be a mapping, such as model.state_dict(), not {type(state).__name__}")
    found: dict[str, npt.NDArray[Any]] = {}
    tree = _described(state, "", found)
    text = json.dumps({"icecore_state": _FORMAT, "tree": tree}, ensure_ascii=False)
    present = store.latest()
    before = present.find(key)
    with store.batch() as b:
        for path, array in found.items():
            kept = present._find_view(f"{key}/{path}")
            if kept is None or not holds_array(kept, array):
                b.put_array(f"{key}/{path}", array)
        if before is not None:
            for path in _paths(_tree_of(before, key)):
                if path not in found:
                    del b[f"{key}/{path}"]
        if before != text.encode():
            b[key] = text
    return b.version if b.applied else present.version


def load(snapshot: Snapshot, name: str, into: Any) -> Any:
    """See Snapshot.load_state."""
    key = _name(name)
    described = snapshot.find(key)
    if described is None:
        raise KeyError(name)
    tree = _tree_of(described, key)
    if into is None:
        return _Loading(snapshot, key, copies_tensors=True).value(tree)
    if isinstance(into, Mapping):
        _Loading(snapshot, key, copies_tensors=False).fill(tree, into, "")
        return into
    if not hasattr(into, "load_state_dict"):
        raise TypeError(f"into must be a model, an optimizer or a mapping of arrays, not {type(into).__name__}")
    torch = sys.modules.get("torch")
    copies_itself = torch is not None and isinstance(into, torch.nn.Module)  # others keep what they are given
    into.load_state_dict(_Loading(snapshot, key, copies_tensors=not copies_itself).value(tree))
    return into


def _name(name: object) -> str:
    if not checks.text(name, "the name of a state"):
        raise InvalidArgumentError("the name of a state must not be empty")
    return str(name)


def _tensor_class() -> type | None:
    """PyTorch's, if the program has imported it; else nothing is a tensor."""
    torch = sys.modules.get("torch")
    return None if torch is None else torch.Tensor


# ---- From a state to its description and arrays ------------------------------------------------------------------------


def _described(given: Any, path: str, found: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """The description of a part of a state; adds its arrays to ``found``."""
    tensor = _tensor_class()
    if given is None or type(given) in (bool, int, float, str):
        return {"value": given if not isinstance(given, str) else checks.text(given, f"the state's {path!r}")}
    if tensor is not None and isinstance(given, tensor):
        array, dtype = array_of_tensor(given, path)
        return {"tensor": _added(array, path, found), **dtype}
    if isinstance(given, np.generic):
        return {"scalar": _added(np.asarray(given), path, found)}
    if isinstance(given, np.ndarray) or hasattr(given, "__dlpack__"):
        with _named(path):
            array, dtype = _array_of(given)
        return {"array": _added(array, path, found), **dtype}
    if isinstance(given, Mapping):
        pairs = [[_item_name(item, path), _described(part, _below(path, item), found)] for item, part in given.items()]
        return {"mapping": pairs}
    if type(given) in (list, tuple):
        parts = [_described(part, _below(path, number), found) for number, part in enumerate(given)]
        return {"list" if type(given) is list else "tuple": parts}
    kind = f"{type(given).__module__}.{type(given).__qualname__}"
    raise TypeError(
        f"the state's {path!r} is a {kind}: a state has arrays, tensors, numbers, strings, bools and None, and mappings, "
        "lists and tuples of them"
    )


def _item_name(item: object, path: str) -> str | int:
    if type(item) is int or isinstance(item, str):
        return item if isinstance(item, int) else checks.text(item, f"a name in the state's {path!r}")
    raise TypeError(f"a name in the state's {path!r} must be a str or an int, not {type(item).__name__}")


def _below(path: str, item: object) -> str:
    return f"{path}/{item}" if path else f"{item}"


def _differing(saved: set[object], given: set[object]) -> str:
    """Which names one has and the other lacks, at most five of each."""
    told = [
        f"{who} {', '.join(sorted(map(repr, names))[:5])}{', …' if len(names) > 5 else ''}"
        for who, names in (("it lacks", saved - given), ("the state lacks", given - saved))
        if names
    ]
    return "; ".join(told)


def _added(given: Any, path: str, found: dict[str, npt.NDArray[Any]]) -> str:
    if path in found:
        raise InvalidArgumentError(f"two parts of the state would have the key {path!r}: rename one of them")
    with _named(path):
        arrays.require_storable(given)
    found[path] = np.asarray(given)
    return path


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors say which part of the state they are about."""
    try:
        yield
    except (TypeError, ValueError) as e:
        # other classes may not be made of a text: JAX's are made of the tracer
        kind = type(e) if type(e) in (TypeError, ValueError, InvalidArgumentError) else TypeError
        raise kind(f"the state's {path!r}: {e}") from None


def _array_of(given: Any) -> tuple[Any, dict[str, str]]:
    """An array; and its dtype, if it is one of ml_dtypes, such as JAX's bfloat16, which NumPy's files cannot name: then the
    array's items are numbers of its size."""
    kind = np.dtype(given.dtype) if hasattr(given, "dtype") else None
    if kind is None or kind.type.__module__.partition(".")[0] != "ml_dtypes" or kind.itemsize not in _SAME_SIZE:
        return given, {}
    return np.asarray(given).view(_SAME_SIZE[kind.itemsize]), {"dtype": kind.name}


def array_of_tensor(given: Any, path: str) -> tuple[npt.NDArray[Any], dict[str, str]]:
    """A tensor's array; and its dtype, where NumPy has none like it: then the array's items are of its size."""
    torch = sys.modules["torch"]
    if given.layout != torch.strided or given.is_quantized or given.is_nested:
        raise TypeError(f"the state's {path!r} is a sparse, quantized or nested tensor: store its parts as tensors")
    if given.is_meta:
        raise TypeError(f"the state's {path!r} is on the device 'meta', which holds no values: store it once it has some")
    if hasattr(given, "full_tensor"):
        raise TypeError(
            f"the state's {path!r} is spread over processes: store it by icecore.torch.checkpoint, or its full_tensor()"
        )
    plain = given.detach().cpu()
    plain = plain.resolve_conj().resolve_neg()
    try:
        return plain.numpy(), {}
    except TypeError:
        items = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(plain.element_size())
        if items is None:
            raise TypeError(f"the state's {path!r} has dtype {plain.dtype}, which bytes cannot hold") from None
        return plain.contiguous().view(items).numpy(), {"dtype": str(plain.dtype).removeprefix("torch.")}


def holds_array(value: memoryview, array: npt.NDArray[Any]) -> bool:
    """Whether the value is this array, to the last bit."""
    header, body = arrays.parts(array)
    if len(value) != len(header) + body.nbytes or value[: len(header)] != header:
        return False
    stored = np.frombuffer(value, np.uint8, offset=len(header)) if body.nbytes else body
    for begin in range(0, body.nbytes, _BLOCK_BYTES):
        if not np.array_equal(stored[begin : begin + _BLOCK_BYTES], body[begin : begin + _BLOCK_BYTES]):
            return False
    return True


# ---- Back ----------------------------------------------------------------------------------------------------------------


def _tree_of(described: bytes, key: str) -> dict[str, Any]:
    try:
        found = json.loads(described)
        if found["icecore_state"] == _FORMAT:
            return dict(found["tree"])
        reason = f"its format is {found['icecore_state']!r}, and this icecore knows {_FORMAT}"
    except (ValueError, TypeError, KeyError):
        reason = "its value is something else"
    raise ValueError(f"{key!r} is no state that save_state stored: {reason}")


def _paths(tree: dict[str, Any]) -> Iterator[str]:
    """The arrays of a description."""
    ((kind, what),) = [(kind, what) for kind, what in tree.items() if kind != "dtype"]
    if kind in ("array", "scalar", "tensor"):
        yield what
    elif kind == "mapping":
        for _, part in what:
            yield from _paths(part)
    elif kind in ("list", "tuple"):
        for part in what:
            yield from _paths(part)


class _Loading:
    """Makes a state from its description."""

    def __init__(self, snapshot: Snapshot, key: str, *, copies_tensors: bool) -> None:
        self._snapshot = snapshot
        self._key = key
        self._copies_tensors = copies_tensors

    def value(self, tree: dict[str, Any]) -> Any:
        if "value" in tree:
            return tree["value"]
        if "array" in tree:
            return self._array(tree["array"]) if "dtype" not in tree else self._array_of_ml_dtypes(tree)
        if "scalar" in tree:
            return self._array(tree["scalar"])[()]
        if "tensor" in tree:
            return self._tensor(tree)
        if "mapping" in tree:
            return {item: self.value(part) for item, part in tree["mapping"]}
        parts = [self.value(part) for part in tree["list" if "list" in tree else "tuple"]]
        return parts if "list" in tree else tuple(parts)

    def fill(self, tree: dict[str, Any], into: Any, path: str) -> None:
        """Copies into the arrays and tensors of a mapping; values that are none are replaced. Nothing is changed if the
        mapping has other names, dtypes or shapes."""
        copies: list[tuple[Any, Any]] = []
        values: list[tuple[Any, Any, Any]] = []
        self._match(tree, into, path, copies, values)
        for target, source in copies:
            if isinstance(target, np.ndarray):
                target[...] = source
            else:
                target.detach().copy_(source)
        for holder, item, value in values:
            holder[item] = value

    def _match(self, tree: dict[str, Any], into: Any, path: str, copies: list[Any], values: list[Any]) -> None:
        names = [item for item, _ in tree["mapping"]]
        if set(names) != set(into):
            where = f"{path!r} of the state {self._key!r}" if path else f"the state {self._key!r}"
            raise InvalidArgumentError(f"into does not fit {where}: {_differing(set(names), set(into))}")
        for item, part in tree["mapping"]:
            below = _below(path, item)
            held = into[item]
            if "mapping" in part and isinstance(held, Mapping):
                self._match(part, held, below, copies, values)
            elif "array" in part and isinstance(held, np.ndarray) or "tensor" in part and not isinstance(held, np.ndarray):
                source = self.value(part)
                if (getattr(held, "shape", None), getattr(held, "dtype", None)) != (source.shape, source.dtype):
                    raise InvalidArgumentError(
                        f"into's {below!r} has shape {getattr(held, 'shape', None)} and dtype {getattr(held, 'dtype', None)},"
                        f" the state's {source.shape} and {source.dtype}"
                    )
                if isinstance(held, np.ndarray) and not held.flags.writeable:
                    raise InvalidArgumentError(f"into's {below!r} is read-only: give arrays that can be written")
                copies.append((held, source))
            elif hasattr(into, "__setitem__"):
                values.append((into, item, self.value(part)))
            else:
                raise TypeError(f"into's {path!r} must be a mapping that can be changed, not {type(into).__name__}")

    def _array(self, path: str) -> npt.NDArray[Any]:
        return self._snapshot.get_array(f"{self._key}/{path}")

    def _array_of_ml_dtypes(self, tree: dict[str, Any]) -> npt.NDArray[Any]:
        try:
            import ml_dtypes  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise ImportError(
                f"the state {self._key!r} has arrays of {tree['dtype']}: install ml_dtypes, or read "
                f"{self._key}/{tree['array']} with get_array"
            ) from None
        made: npt.NDArray[Any] = self._array(tree["array"]).view(getattr(ml_dtypes, tree["dtype"]))
        return made

    def _tensor(self, tree: dict[str, Any]) -> Any:
        try:
            import torch  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise ImportError(
                f"the state {self._key!r} has PyTorch tensors: install torch, or read {self._key}/{tree['tensor']} with "
                "get_array"
            ) from None
        array = self._array(tree["tensor"])
        if self._copies_tensors:
            array = array.copy()  # a tensor may be written to, and the store's memory may not
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of memory that cannot be written: it is only read here
            made = torch.from_numpy(array)
        return made if "dtype" not in tree else made.view(getattr(torch, tree["dtype"]))
