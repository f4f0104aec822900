"""Checkpoints of ``torch.distributed.checkpoint`` in a store, each step a tag.

    import torch.distributed.checkpoint as dcp
    from icecore.torch.checkpoint import StoreReader, StoreWriter

    with icecore.open("training.ice") as store:
        for step in range(3):
            train(model)
            dcp.save({"model": model.state_dict()}, checkpoint_id=f"step-{step}", storage_writer=StoreWriter(store))

        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id="step-1", storage_reader=StoreReader(store))

A tensor, or a shard of one, is the value of a key as ``put_array`` stores it, so ``store.get_array`` reads it at any step,
and it has a history; what has not changed since the last step is not stored again. The step exists from the moment that
its tag does: a crash before it leaves the steps before as they were.

Several processes of one machine save together if the coordinator (rank 0) opens the store with ``shared_as`` and the
others attach it. To load, each opens it as it likes, also for reading beside the writer. One checkpoint of a name is
saved at a time. What is no tensor is pickled by PyTorch, as in its own files: load only what you trust.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch.distributed.checkpoint.metadata import (  # type: ignore[import-not-found, unused-ignore]
    Metadata,
    StorageMeta,
)
from torch.distributed.checkpoint.planner import (  # type: ignore[import-not-found, unused-ignore]
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import (  # type: ignore[import-not-found, unused-ignore]
    StorageReader,
    StorageWriter,
    WriteResult,
)
from torch.futures import Future  # type: ignore[import-not-found, unused-ignore]

from .. import arrays, checks
from ..errors import InvalidArgumentError, TagExistsError
from ..snapshot import Snapshot
from ..states import array_of_tensor, holds_array
from ..store import Store
from ..versions import HasVersion

_METADATA = ".metadata"


class StoreWriter(StorageWriter):  # type: ignore[misc, unused-ignore]
    """Saves checkpoints: ``dcp.save(state, checkpoint_id="step-3", storage_writer=StoreWriter(store))``.

    ``checkpoint_id`` is the name of the tag; without one the step's version has none. ``name``: what the keys begin with.
    After a save, ``version`` is the step's, at the coordinator.

    Raises TagExistsError if the store has a tag of this name, before anything is written.
    """

    def __init__(self, store: Store, *, name: str = "checkpoint") -> None:
        super().__init__()
        self._store = checks.instance(store, Store, "store")
        self._name = _name(name)
        self._step: str | None = None
        self.version: int | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._step = None if checkpoint_id is None else checks.text(os.fspath(checkpoint_id), "checkpoint_id")
        self.version = None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise InvalidArgumentError("a checkpoint is one tag, which the coordinator makes: leave out use_collectives=False")
        if is_coordinator and self._step and self._store.find_tag(self._step) is not None:
            raise TagExistsError(f"{self._store.path}: there is a tag {self._step!r} already: give another checkpoint_id")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        done: Future[list[WriteResult]] = Future()
        done.set_result([self._written(item, planner.resolve_data(item)) for item in plan.items])
        return done

    def _written(self, item: WriteItem, data: Any) -> WriteResult:
        key = f"{self._name}/{_key_of(item)}"
        kept = self._store._find_view(key)
        if item.type == WriteItemType.BYTE_IO:
            value = data.getbuffer()
            if kept is None or kept != value:
                self._store.insert(key, value)
            return WriteResult(item.index, len(value), key)
        array, _ = array_of_tensor(data, key)
        if kept is None or not holds_array(kept, array):
            self._store.put_array(key, array)
        return WriteResult(item.index, array.nbytes, key)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {one.index: one.storage_data for of_a_rank in results for one in of_a_rank}
        metadata.storage_meta = self.storage_meta()
        described = f"{self._name}/{_METADATA}"
        kept = {key.encode() for key in (*metadata.storage_data.values(), described)}
        with self._store.batch() as b:
            for key in self._store.keys(prefix=f"{self._name}/"):
                if key not in kept:
                    del b[key]
            b[described] = pickle.dumps(metadata)
        self.version = self._store.tag(self._step)

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(checkpoint_id=self._step)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return bool(os.fspath(checkpoint_id))


class StoreReader(StorageReader):  # type: ignore[misc, unused-ignore]
    """Loads checkpoints: ``dcp.load(state, checkpoint_id="step-3", storage_reader=StoreReader(store))``.

    ``checkpoint_id`` is the name of the tag; without one, the newest checkpoint is loaded. With a Snapshot in place of a
    Store, that version. Tensors are copied from the store's memory into those of ``state``, and only the parts that are
    asked for.

    Raises KeyError if there is no checkpoint of this name.
    """

    def __init__(self, store: Store | Snapshot, *, name: str = "checkpoint") -> None:
        super().__init__()
        if not isinstance(store, (Store, Snapshot)):
            raise TypeError(f"store must be an icecore.Store or a Snapshot of one, not {type(store).__name__}")
        self._source = store
        self._name = _name(name)
        self._step: str | None = None
        self._snapshot: Snapshot | None = None
        self._metadata: Metadata | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._step = None if checkpoint_id is None else checks.text(os.fspath(checkpoint_id), "checkpoint_id")
        if self._step is not None and isinstance(self._source, HasVersion):
            raise InvalidArgumentError("a Snapshot is a checkpoint already: leave out checkpoint_id, or give the Store")
        self._snapshot = None

    def _opened(self) -> Snapshot:
        if self._snapshot is None:
            source = self._source
            if isinstance(source, Snapshot):
                self._snapshot = source
            elif self._step is None:
                self._snapshot = self._newest(source)
            else:
                self._snapshot = source.at(tag=self._step)
        return self._snapshot

    def _newest(self, store: Store) -> Snapshot:
        """The version of the newest metadata: keys of a step that is being saved do not count."""
        for change in store.latest().history(f"{self._name}/{_METADATA}"):
            return store.at(change.version)
        return store.latest()

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        snapshot = self._opened()
        described = snapshot.find(f"{self._name}/{_METADATA}")
        if described is None:
            raise KeyError(f"{snapshot!r} has no checkpoint {self._name!r}")
        return pickle.loads(described)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        for item in plan.items:
            key = self._described().storage_data[item.storage_index]
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._opened()[key]))
            else:
                self._load_tensor(item, key, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _load_tensor(self, item: ReadItem, key: str, planner: LoadPlanner) -> None:
        target = planner.resolve_tensor(item).detach()
        dtype = self._described().state_dict_metadata[item.storage_index.fqn].properties.dtype
        stored = _tensor_of(arrays.decode(self._opened().view(key), key), dtype)
        for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            stored = stored.narrow(dimension, offset, length)
        if target.size() != stored.size():
            raise InvalidArgumentError(f"{key!r} has a part of size {tuple(stored.size())}, not {tuple(target.size())}")
        target.copy_(stored)
        planner.commit_tensor(item, target)

    def _described(self) -> Metadata:
        if self._metadata is None:
            raise InvalidArgumentError("set_up_storage_reader() comes before reading: use dcp.load(...)")
        return self._metadata

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return bool(os.fspath(checkpoint_id))


def _name(given: str) -> str:
    if not checks.text(given, "name") or given.endswith("/"):
        raise InvalidArgumentError(f"name must be some text that does not end with a slash, not {given!r}")
    return given


def _key_of(item: WriteItem) -> str:
    """A whole tensor has its name, a part of one its place, too."""
    data = item.tensor_data
    if data is None or data.chunk.sizes == data.size:
        return str(item.index.fqn)
    return f"{item.index.fqn}@{','.join(map(str, data.chunk.offsets))}"


def _tensor_of(array: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor over the store's memory, which is only read. Where NumPy has no such dtype, its items are of its size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of memory that cannot be written
        made = torch.from_numpy(array)
    return made if made.dtype == dtype else made.view(dtype)


__all__ = ["StoreReader", "StoreWriter"]
