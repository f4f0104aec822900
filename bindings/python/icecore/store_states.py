"""States of models in a store."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import states
from .store_kept import KeepingStore

if TYPE_CHECKING:
    from ._types import VersionLike


class StatefulStore(KeepingStore):
    """What of ``icecore.Store`` saves and loads the states of models."""

    __slots__ = ()
    if TYPE_CHECKING:
        _saving: threading.Lock

    def save_state(self, name: str, state: Mapping[Any, Any]) -> int:
        """Stores the state of a model or an optimizer: mappings, lists and tuples of NumPy and JAX arrays, PyTorch tensors,
        numbers, strings, bools and None, such as ``model.state_dict()``. Returns the version that has it.

        Each array has a key of its own, ``name/path``, so it has a history, and ``get_array`` reads it. Arrays that have
        not changed since the last state of this name are not stored again. All takes effect at one instant, also that
        arrays which the state has no more are removed. Tensors are stored with their dtype, but not their device. One
        thread of one process at a time saves a state: others wait, but not those of attached processes.

        >>> model = {"layer1": {"weight": np.zeros((2, 3)), "bias": np.zeros(2)}}
        >>> version = store.save_state("model", model)
        >>> store.get_array("model/layer1/bias")
        array([0., 0.])

        Raises TypeError for what a state cannot hold, InvalidArgumentError if two parts would have the same key, ValueError
        if the key has another value, and what ``insert`` raises.
        """
        with self._saving:
            return states.save(self, name, state)

    def load_state(self, name: str, *, at: VersionLike | None = None, into: Any = None) -> Any:
        """The state that ``save_state`` stored under this name, now or at a closed version.

        Without ``into`` a state is returned like the one that was saved. Its NumPy arrays are read-only and lie in the
        store, without a copy; tensors are on the CPU and may be written to. With ``into`` it is loaded there, and ``into``
        is returned: a PyTorch module or whatever else has ``load_state_dict``, or a mapping with arrays and tensors of
        the same names, shapes and dtypes, into which it is copied. A module copies from the store's memory, so nothing
        is copied twice.

        >>> version = store.save_state("model", {"weight": np.arange(3.0), "epoch": 1})
        >>> later = store.save_state("model", {"weight": np.zeros(3), "epoch": 2})
        >>> tag = store.tag("epoch-2")
        >>> store.load_state("model", at="epoch-2")
        {'weight': array([0., 0., 0.]), 'epoch': 2}

        Raises KeyError if there is no such state, ValueError if the key has another value, InvalidArgumentError if ``into``
        does not fit (then it is unchanged), ImportError where PyTorch is not installed and the state has tensors, and what
        ``at()`` raises.
        """
        snapshot = self.latest() if at is None else self.at(at)
        return snapshot.load_state(name, into=into)
