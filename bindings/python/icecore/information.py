"""Information about a store: tags, statistics, durability, verification."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import _native, html
from .metrics import Metric, arrow_of, frame_of, metrics_in, plot_of, polars_of
from .versions import EPOCH, HasVersion

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]
    from matplotlib.axes import Axes  # type: ignore[import-not-found, unused-ignore]

    from .tables import ArrowStream

DURABILITY_MODES = ("best_available", "none", "tag", "operation")
"""The modes in the order of ``icecore::durability``."""

_MEDIA = ("", "persistent_memory", "block_device", "memory")
INDEXES = ("", "btree", "skip_list", "persistent", "list", "hash")
CRASH_KINDS = ("unknown", "process", "machine")


@dataclass(frozen=True)
class Tag(HasVersion):
    """A named or timed tag. Whatever takes a version takes a tag.

    >>> tag = store.tags()[0]
    >>> tag.name, tag.note, store.at(tag)["a"]
    ('epoch-1', 'loss 0.5', b'1')

    Raises nothing.
    """

    version: int
    time_ns: int  #: nanoseconds since 1970-01-01 UTC
    name: str  #: may be empty
    note: str  #: may be empty

    @property
    def time(self) -> datetime:
        """The time in UTC, rounded down to a microsecond; ``time_ns`` is exact.

        >>> tag = store.find_tag("epoch-1")
        >>> store.at(tag.time).tag == tag
        True

        Raises OverflowError for a time that a datetime cannot hold, before the year 1 or after the year 9999.
        """
        return EPOCH + timedelta(microseconds=self.time_ns // 1_000)

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics that ``store.tag(name, metrics=...)`` was given: what the JSON object in the last line of the note
        holds. Empty if there is none.

        >>> version = store.tag("epoch-2", note="a smaller rate", metrics={"loss": 0.25})
        >>> store.find_tag("epoch-2").metrics, store.find_tag("epoch-1").metrics
        ({'loss': 0.25}, {})

        Raises nothing.
        """
        return metrics_in(self.note)


class Tags(list[Tag]):
    """Tags, oldest version first: a list that notebooks show as a table. ``store.tags()`` makes one.

    >>> [tag.name for tag in store.tags()]
    ['epoch-1']

    Raises nothing.
    """

    def to_arrow(self, *, batch_rows: int = 65536) -> ArrowStream:
        """The columns of ``to_pandas`` for any library that reads Arrow; null where a tag lacks a metric.

        >>> version = store.tag("epoch-2", metrics={"loss": 0.25})
        >>> pyarrow.table(store.tags().to_arrow()).select(["name", "loss"]).to_pylist()
        [{'name': 'epoch-1', 'loss': None}, {'name': 'epoch-2', 'loss': 0.25}]

        Raises InvalidArgumentError for a metric whose values are of several types, or are whole numbers of more than 64
        bits.
        """
        return arrow_of(self, batch_rows)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each tag: ``version``, ``name``, ``time`` (in UTC), ``note``, and a column for each metric, empty where
        a tag lacks it.

        >>> for epoch in range(2, 5):
        ...     version = store.tag(f"epoch-{epoch}", metrics={"loss": 1 / epoch})
        >>> frame = store.tags().to_pandas()
        >>> frame[frame.loss < 0.3].name.tolist()
        ['epoch-4']

        Raises ImportError where pandas is not installed.
        """
        return frame_of(self)

    def to_polars(self) -> polars.DataFrame:
        """The same as a frame of polars.

        >>> for epoch in range(2, 5):
        ...     version = store.tag(f"epoch-{epoch}", metrics={"loss": 1 / epoch})
        >>> store.tags().to_polars()["loss"].min()
        0.25

        Raises ImportError where polars is not installed, and InvalidArgumentError for a metric whose values are of several
        types.
        """
        made: polars.DataFrame = polars_of(self)
        return made

    def plot(self, *metrics: str, over: str = "version", ax: Axes | None = None) -> Axes:
        """Draws metrics, by default all that are numbers, over the tags' versions, or ``over="time"``; returns the
        matplotlib axes, which are new unless ``ax`` is given. Tags that lack a metric are left out of its line.

        >>> for epoch in range(2, 5):
        ...     version = store.tag(f"epoch-{epoch}", metrics={"loss": 1 / epoch})
        >>> axes = store.tags().plot("loss")
        >>> axes.get_xlabel(), len(axes.get_lines()[0].get_ydata())
        ('version', 3)

        Raises InvalidArgumentError for a metric that no tag has or that is no number, and ImportError where matplotlib is
        not installed.
        """
        axes: Axes = plot_of(self, metrics, over, ax)
        return axes

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().__arrow_c_schema__()

    def _repr_html_(self) -> str:
        rows = [(t.version, t.name, t.time.isoformat(" ", "seconds"), t.note) for t in self[: html.ROWS_MAX]]
        return html.table(("version", "name", "time (UTC)", "note"), rows, f"{len(self)} tags", len(self) - len(rows))


@dataclass(frozen=True)
class DurabilityInfo:
    """The durability that a store really has: ``store.durability()`` makes it.

    >>> store.durability().deferred
    False

    Raises nothing.
    """

    mode: str  #: "none", "tag" or "operation"
    medium: str  #: "persistent_memory", "block_device" or "memory"
    emulated: bool  #: the flushes are executed, but the medium loses its contents at power off
    flush_method: str
    filesystem: str
    deferred: bool  #: no write waits until it is durable

    @classmethod
    def _of(cls, told: dict[str, Any]) -> DurabilityInfo:
        return cls(**told | {"mode": DURABILITY_MODES[told["mode"]], "medium": _MEDIA[told["medium"]]})


@dataclass(frozen=True)
class FileStatistics:
    """One of the files of a store: ``store.stats().files`` has them.

    >>> [os.path.basename(file.path) for file in store.stats().files]
    ['store.ice']

    Raises nothing.
    """

    path: str
    node: int  #: the NUMA node whose threads write to it; -1: any
    file_bytes: int
    used_bytes: int  #: up to the end of its last segment


def process_huge_page_bytes() -> int:
    """Memory of the whole process in huge pages now, bytes; 0 if the kernel hides it.

    The kernel counts the process's pages meanwhile, which takes milliseconds.

    >>> icecore.process_huge_page_bytes() >= 0
    True

    Raises nothing.
    """
    return _native.process_huge_page_bytes()


@dataclass(frozen=True)
class Statistics:
    """Sizes and counts: ``store.stats()`` makes it. Bytes are bytes of the store's file unless the comment says
    otherwise.

    >>> store.stats().tags
    1

    Raises nothing.
    """

    path: str
    pool_id: str
    keys: int  #: keys ever inserted, including removed ones; one that lies in several strata counts in each
    keys_at_least: int  #: no more keys than there are; equal to ``keys`` where that is exact
    records: int  #: inserts and removes of all versions
    removes: int
    tags: int  #: named or timed ones
    clock: int  #: the version that a write now belongs to
    key_bytes: int
    value_bytes: int
    used_bytes: int
    file_bytes: int
    free_bytes: int  #: of ``file_bytes``, what nothing has taken
    live_bytes: int  #: of ``used_bytes``, what is not garbage
    garbage_bytes: int  #: of ``used_bytes``, what no version shows, as far as it is known (docs/compaction.md)
    waiting_bytes: int  #: of ``garbage_bytes``, what pins, or readers beside this process, hold
    index_bytes: int  #: memory used by the index and the lookup cache
    packed_keys: int  #: of ``keys``, those that are packed; a key counts in each stratum that has it
    packed_records: int  #: of ``records``, those that are packed
    packed_bytes: int  #: which these take, with what leads to them
    packed_inflated_bytes: int  #: which they would take if nothing were compressed
    block_cache_bytes_max: int  #: the bound of what is inflated of them; 0: nothing is compressed
    block_cache_bytes: int  #: inflated now, in memory
    block_cache_hits: int  #: a block was read for the first time, and was inflated already
    block_cache_misses: int  #: it had to be inflated
    strata: int  #: in which they lie
    recovery_seconds: float
    recovered_from_crash: bool
    format: tuple[int, int]
    index: str
    recovered_instantly: bool  #: instant recovery: opening did not read the records
    compactions: int  #: by themselves, since the store was opened (``compaction`` of ``open``)
    compaction_failure: str  #: why the last of these failed; empty if it did not
    pins: int  #: values, views, snapshots and iterators of this process that keep memory mapped
    oldest_pin: int | None  #: the version that was open when the oldest of them was made, or an earlier one
    oldest_pin_seconds: float  #: at most so long ago
    oldest_held: int | None  #: the oldest version that a kept query, a kept feed or a hold needs
    given_bytes: int  #: keys and values of the writes since the store was opened
    written_bytes: int  #: to the file by these, and by compactions since then
    write_amplification: float  #: ``written_bytes`` for each of ``given_bytes``; 0 if nothing was given
    durability: DurabilityInfo
    files: list[FileStatistics]  #: the first one's path is ``path``

    @classmethod
    def _of(cls, told: dict[str, Any]) -> Statistics:
        durability = DurabilityInfo._of(told["durability"])
        files = [FileStatistics(*f) for f in told["files"]]
        return cls(**told | {"durability": durability, "index": INDEXES[told["index"]], "files": files})

    def _summary(self) -> str:
        """What of it a store shows of itself."""
        recovered = " (after a crash)" if self.recovered_from_crash else ""
        rows = (
            ("version now open", f"{self.clock:,}"),
            ("tags", f"{self.tags:,}"),
            ("keys ever written", f"{self.keys:,}" if self.keys == self.keys_at_least else f"{self.keys_at_least:,} or more"),
            ("writes kept", f"{self.records:,}"),
            ("bytes of keys and values", f"{self.key_bytes + self.value_bytes:,}"),
            ("bytes of files", f"{sum(one.file_bytes for one in self.files):,} in {len(self.files):,}"),
            ("durability", f"{self.durability.mode} on {self.durability.medium}"),
            ("index", self.index),
            ("opened in", f"{self.recovery_seconds:.3f} s{recovered}"),
        )
        return html.table(("", ""), rows, self.path)

    def _repr_html_(self) -> str:
        rows = [(f.name, getattr(self, f.name)) for f in fields(self) if f.name not in ("durability", "files")]
        if len(self.files) > 1:
            rows += [(f"file {f.path}", f"{f.file_bytes} bytes, {f.used_bytes} used") for f in self.files]
        rows += [(f"durability: {f.name}", getattr(self.durability, f.name)) for f in fields(self.durability)]
        return html.table(("", ""), rows)


@dataclass(frozen=True)
class CompactionReport:
    """What ``icecore.compact`` or ``Store.compact`` packed; true if there was something to pack.

    >>> store.close()
    >>> report = icecore.compact("store.ice")
    >>> bool(report), report.keys, report.records, report.strata
    (True, 2, 3, 1)

    Raises nothing.
    """

    packed: bool  #: False: there was nothing to pack, and nothing has changed
    keys: int  #: in what was packed now
    records: int  #: in what was packed now
    strata: int  #: that the store has now
    up_to: int  #: all versions up to this one are packed
    bytes_before: int  #: that the store's files took on the device, or in memory
    bytes_after: int  #: that they take now
    bytes_written: int  #: to pack
    versions_expired: int  #: by this call; reading them raises VersionExpiredError from now on
    records_dropped: int  #: that no kept version shows, of those that were packed now
    erased: bool  #: False: who reads the store, or views of it, keep bytes of what went in the files; compact again
    writers_stopped: float  #: seconds in which ``Store.compact`` stopped writers, at its end

    def __bool__(self) -> bool:
        return self.packed


@dataclass(frozen=True)
class Retention:
    """Which closed versions a store keeps when it is compacted: those that any field wants; all, if none wants any.

    >>> store.retention
    Retention(tagged=False, newest=0, younger_than=datetime.timedelta(0), hourly=0, daily=0, weekly=0)

    Raises nothing.
    """

    tagged: bool  #: versions that have a tag
    newest: int  #: so many of the newest versions
    younger_than: timedelta  #: versions younger than this, by the times of tags
    hourly: int  #: the newest tag of each of so many hours (UTC) that have one
    daily: int  #: the same for days
    weekly: int  #: the same for weeks


@dataclass(frozen=True)
class Hold(HasVersion):
    """A version that is held by a name. Whatever takes a version takes a hold.

    >>> version = store.hold("paper", "epoch-1")
    >>> hold = store.holds()[0]
    >>> hold.name, hold.version == version, store.at(hold)["a"]
    ('paper', True, b'1')

    Raises nothing.
    """

    name: str
    version: int
    created_ns: int  #: when it was made, nanoseconds since 1970-01-01 UTC

    @property
    def created(self) -> datetime:
        """When it was made, in UTC, rounded down to a microsecond.

        >>> version = store.hold("paper")
        >>> store.holds()[0].created.tzname()
        'UTC'

        Raises nothing.
        """
        return EPOCH + timedelta(microseconds=self.created_ns // 1_000)


@dataclass(frozen=True)
class ForgetReport:
    """What ``Store.forget`` noted.

    >>> store.forget("a").keys
    1

    Raises nothing.
    """

    up_to: int  #: what was written in later versions stays
    keys: int  #: that the store had, in whatever version
    tag: str  #: the name of the tag that says so


@dataclass(frozen=True)
class Damage:
    """One damaged place that verify found.

    >>> store.verify().damages
    []

    Raises nothing.
    """

    offset: int  #: byte in the store's file
    structure: str
    what: str
    key: bytes | None
    version: int | None
    file: str  #: the store's file, or the damaged one of its files


@dataclass(frozen=True)
class UnknownVersions:
    """Versions of a key for which repair does not know the key's value; in the new store the key is not there in
    them.

    >>> store.close()
    >>> icecore.repair("store.ice", "repaired.ice").unknown
    []

    Raises nothing.
    """

    key: bytes
    first: int
    last: int  #: the open version if no newer record of the key is left


@dataclass(frozen=True)
class RepairReport:
    """What repair copied and what is lost; true if nothing is lost. ``icecore.repair`` makes it.

    >>> store.close()
    >>> report = icecore.repair("store.ice", "repaired.ice")
    >>> bool(report), report.records
    (True, 3)

    Raises nothing.
    """

    losses: list[Damage]
    repaired: list[Damage]  #: damage that lost nothing
    unknown: list[UnknownVersions]
    keys: int  #: keys of the new store
    records: int
    tags: int
    queries: int  #: kept queries of the new store, which start anew
    feeds: int  #: kept feeds of the new store, which go on
    holds: int  #: versions that the new store holds by name
    clock: int  #: the open version of both stores

    @classmethod
    def _of(cls, told: dict[str, Any]) -> RepairReport:
        places = {name: [Damage(*found) for found in told[name]] for name in ("losses", "repaired")}
        return cls(**told | places | {"unknown": [UnknownVersions(*found) for found in told["unknown"]]})

    @property
    def complete(self) -> bool:
        """Whether the new store holds everything that the old one did.

        >>> store.close()
        >>> icecore.repair("store.ice", "repaired.ice").complete
        True

        Raises nothing.
        """
        return not self.losses

    def __bool__(self) -> bool:
        return self.complete


@dataclass(frozen=True)
class VerifyReport:
    """What verify checked and found; true if nothing is damaged. ``store.verify()`` and ``icecore.verify_file`` make it.

    >>> report = store.verify()
    >>> bool(report), report.entries
    (True, 2)

    Raises nothing.
    """

    damages: list[Damage]
    segments: int
    entries: int
    records: int
    tags: int
    queries: int
    bytes: int  #: bytes that were checked against a checksum

    @classmethod
    def _of(cls, told: dict[str, Any]) -> VerifyReport:
        return cls(**told | {"damages": [Damage(*found) for found in told["damages"]]})

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged.

        >>> store.verify().ok
        True

        Raises nothing.
        """
        return not self.damages

    def __bool__(self) -> bool:
        return self.ok
