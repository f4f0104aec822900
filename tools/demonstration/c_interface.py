"""The part of icecore's C interface that ./demo uses, by ctypes: so the demonstration needs no Python package.

    store = Store("model.ice")          # made if it is not there; the library: use_library() first
    store.apply({"layer/bias": b"..."})
    store.tag("epoch-1", "loss 0.5")
    store.find("layer/bias", version)   # bytes, or None

Programs in Python use the package (docs/python.md), which does all of this and more.
"""

import contextlib
import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p

library = None


class Bytes(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]

    def copied(self):
        """The bytes, or None if nothing is there."""
        return None if self.data is None else ctypes.string_at(self.data, self.size)


class Value(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t), ("pin", c_void_p)]


class TagOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", Bytes), ("note", Bytes), ("time_ns", c_int64)]


class Change(ctypes.Structure):
    _fields_ = [("version", c_uint64), ("value", Bytes)]


VISIT = ctypes.CFUNCTYPE(c_int, c_void_p, Bytes, Bytes)
NEWEST_FIRST, OLDEST_FIRST = 0, 1


class StoreError(Exception):
    pass


def use_library(path):
    """Loads libicecore.so and declares the functions that are used here."""
    global library
    library = ctypes.CDLL(path)
    library.icecore_last_error_message.restype = c_char_p
    pair = [c_char_p, c_size_t]
    for name, arguments in {
        "open": [c_char_p, c_void_p, POINTER(c_void_p)],
        "close": [c_void_p],
        "insert": [c_void_p, *pair, *pair, POINTER(c_uint64)],
        "batch_new": [POINTER(c_void_p)],
        "batch_insert": [c_void_p, *pair, *pair],
        "batch_free": [c_void_p],
        "apply": [c_void_p, c_void_p, POINTER(c_uint64)],
        "tag_options_init": [POINTER(TagOptions), c_size_t],
        "tag_with": [c_void_p, POINTER(TagOptions), POINTER(c_uint64)],
        "find_at": [c_void_p, *pair, c_uint64, POINTER(Value)],
        "value_release": [POINTER(Value)],
        "at_tag": [c_void_p, *pair, POINTER(c_void_p)],
        "snapshot_version": [c_void_p],
        "snapshot_for_each": [c_void_p, VISIT, c_void_p, ctypes.c_uint],
        "snapshot_close": [c_void_p],
        "history_open": [c_void_p, *pair, c_int, POINTER(c_void_p)],
        "history_next": [c_void_p, POINTER(Change)],
        "history_close": [c_void_p],
    }.items():
        function = getattr(library, "icecore_" + name)
        function.argtypes = arguments
        function.restype = None if name.endswith(("_free", "_init", "_release")) or name in ("snapshot_close", "history_close") else c_int
    library.icecore_snapshot_version.restype = c_uint64


def call(name, *arguments):
    if getattr(library, "icecore_" + name)(*arguments) != 0:
        raise StoreError(library.icecore_last_error_message().decode(errors="replace"))


def encoded(text):
    return text if isinstance(text, bytes) else text.encode()


class Store:
    def __init__(self, path):
        self.handle = c_void_p()
        call("open", str(path).encode(), None, byref(self.handle))

    def close(self):
        call("close", self.handle)

    def insert(self, key, value):
        key = encoded(key)
        call("insert", self.handle, key, len(key), value, len(value), None)

    def apply(self, values):
        """Inserts all pairs of a mapping at one instant."""
        batch = c_void_p()
        call("batch_new", byref(batch))
        try:
            for key, value in values.items():
                key = encoded(key)
                call("batch_insert", batch, key, len(key), value, len(value))
            call("apply", self.handle, batch, None)
        finally:
            library.icecore_batch_free(batch)

    def tag(self, name, note=""):
        """Closes the open version under this name; returns its number."""
        options, version = TagOptions(), c_uint64()
        library.icecore_tag_options_init(byref(options), ctypes.sizeof(options))
        kept = []
        for field, text in (("name", name), ("note", note)):
            text = text.encode()
            kept.append(ctypes.create_string_buffer(text, len(text) + 1))
            setattr(options, field, Bytes(ctypes.addressof(kept[-1]), len(text)))
        call("tag_with", self.handle, byref(options), byref(version))
        return version.value

    def find(self, key, version):
        key, value = encoded(key), Value()
        call("find_at", self.handle, key, len(key), version, byref(value))
        found = None if value.data is None else ctypes.string_at(value.data, value.size)
        library.icecore_value_release(byref(value))
        return found

    @contextlib.contextmanager
    def snapshot(self, tag):
        handle, name = c_void_p(), encoded(tag)
        call("at_tag", self.handle, name, len(name), byref(handle))
        try:
            yield handle
        finally:
            library.icecore_snapshot_close(handle)

    def version_of(self, tag):
        with self.snapshot(tag) as snapshot:
            return library.icecore_snapshot_version(snapshot)

    def keys(self, tag):
        """All keys of a tagged version, in their order."""
        found = []

        def visit(_, key, __):
            found.append(ctypes.string_at(key.data, key.size))
            return 0

        with self.snapshot(tag) as snapshot:
            call("snapshot_for_each", snapshot, VISIT(visit), None, 1)
        return found

    def history(self, key, order=OLDEST_FIRST):
        """(version, value or None if it was removed) of one key."""
        handle, change, key = c_void_p(), Change(), encoded(key)
        call("history_open", self.handle, key, len(key), order, byref(handle))
        try:
            call("history_next", handle, byref(change))
            while change.version:
                yield change.version, change.value.copied()
                call("history_next", handle, byref(change))
        finally:
            library.icecore_history_close(handle)
