"""The versions of a store: tags, snapshots, histories and differences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from . import _native, checks
from .history import Diff, History
from .compaction_arguments import hold_name, retention_wanted
from .information import Hold, Retention, Tag, Tags
from .metrics import note_with
from .snapshot import Snapshot
from .versions import VersionNames, nanoseconds

if TYPE_CHECKING:
    from ._types import BytesLike, VersionLike


class VersionedStore(_native.Store, VersionNames):
    """What of ``icecore.Store`` is about versions."""

    __slots__ = ()

    def _snapshot(self) -> Snapshot:
        return self.latest()

    def tag(
        self,
        name: str | None = None,
        note: str = "",
        time: datetime | int | None = None,
        *,
        metrics: Mapping[str, Any] | None = None,
    ) -> int:
        """Closes the open version and returns its number. From then on ``at()`` reads it, and it never changes.

        If a name (unique in the store), a note or a time is given, the tag is stored, and ``tags()`` and ``at()`` find
        it; by default its time is now. ``time`` may be a datetime with a time zone, or nanoseconds since 1970-01-01 UTC.
        Under tag durability this returns when the version is durable.

        ``metrics``: numbers (also NumPy's, and arrays and tensors of one item), strings, bools and None by name. They are
        stored in the note, as a JSON object in its last line, behind the ``note`` if one is given; ``Tag.metrics``,
        ``tags().to_pandas()`` and ``tags().plot()`` read them.

        >>> version = store.tag("epoch-2", note="a smaller rate", metrics={"loss": 0.25})
        >>> store.at("epoch-2").version == version
        True
        >>> store.find_tag("epoch-2").metrics
        {'loss': 0.25}

        Raises TagExistsError if the name is taken, InvalidArgumentError for a name or note of more than 65,535 bytes, a
        time without a zone or a metric called like a column of ``to_pandas()``, TypeError, NoSpaceError, ReadOnlyError
        and ClosedError.
        """
        name_bytes = None if name is None else _label(name, "name")
        note_bytes = _label(note_with(note, metrics), "note")
        time_ns = None if time is None else nanoseconds(time)
        return self._tag(name_bytes or None, note_bytes or None, time_ns)

    def tags(self) -> Tags:
        """Named and timed tags, oldest version first; a list, which notebooks show as a table.

        >>> [tag.name for tag in store.tags()]
        ['epoch-1']

        Raises ClosedError.
        """
        return Tags(Tag(*found) for found in self._tag_tuples())

    def find_tag(self, at: VersionLike) -> Tag | None:
        """The tag of a version, or None if it has none: the version is named as for ``at()``, but a name that no tag has
        is no error here, nor is a time before the first tag.

        >>> store.find_tag("epoch-1").note
        'loss 0.5'
        >>> store.find_tag("epoch-9") is None
        True

        Raises TypeError for what names no version, InvalidArgumentError and ClosedError.
        """
        found = self._found_tag(at)
        return None if found is None else Tag(*found)

    def latest(self) -> Snapshot:
        """The present, as a snapshot. O(1). It closes the open version, but only if anything was written in it: reading
        a store that nobody writes spends no versions.

        >>> store.latest() == store
        True

        Raises ClosedError.
        """
        return Snapshot(self, self._latest_version())

    def at(
        self, version: VersionLike | None = None, /, *, tag: str | None = None, time: datetime | int | None = None
    ) -> Snapshot:
        """The snapshot of a closed version, which is named by its number, a tag's name, a Tag, a Snapshot, or a datetime
        with a time zone: then it is that of the newest tag that was made at or before that time.

        All parameters called ``at``, and those of ``diff``, ``changes`` and ``feed``, take the same. Free. A datetime
        means the end of its microsecond, so ``at(tag.time)`` finds the tag. ``tag=`` takes only a name, ``time=`` only a
        time, also as an int of nanoseconds since 1970-01-01 UTC.

        >>> store["a"], store.at("epoch-1")["a"]
        (b'3', b'1')
        >>> store.at(datetime.now(timezone.utc)) == store.at("epoch-1")
        True

        Raises UnknownTagError (a KeyError), VersionNotClosedError (a ValueError), TypeError for what names no version,
        InvalidArgumentError for a number out of range or a time without a zone, VersionLostError and ClosedError.
        """
        return Snapshot(self, self._one_of(version, tag, time))

    def history(self, key: BytesLike) -> History:
        """All records of the key, newest first; empty if it was never inserted.

        >>> [change.value for change in store.history("a")]
        [b'3', b'1']

        Raises TypeError for a key of a wrong kind, and ClosedError.
        """
        return History(self, key)

    def diff(
        self,
        before: VersionLike,
        after: VersionLike,
        start: BytesLike | None = None,
        stop: BytesLike | None = None,
        prefix: BytesLike | None = None,
    ) -> Diff:
        """The differences between two closed versions, in key order, within the bounds. Versions as for ``at()``.

        >>> list(store.diff("epoch-1", store.latest()))
        [Difference(key=b'a', before=b'1', after=b'3')]

        Raises what ``at()`` raises for either version, and TypeError for bounds of a wrong kind.
        """
        return Diff(self, self._version_of(before), self._version_of(after), start, stop, prefix)

    def sync(self) -> None:
        """Returns when all completed writes survive a power cut, as far as the medium allows. In modes other than
        operation durability it closes the open version if anything was written in it.

        >>> store.sync()
        >>> store.durable_version == store.clock - 1
        True

        Raises IOFailedError, NoSpaceError, PoisonedError, ReadOnlyError and ClosedError.
        """
        self._sync()

    def refresh(self) -> int:
        """Of a store that is open beside the process that writes it: shows the versions that were settled since it was
        opened or last refreshed. Snapshots stay what they were. Returns the newest version that can be read; for any
        other store that is all it does.

        >>> store.refresh() == store.clock - 1
        True

        Where the store was packed meanwhile (``compact()``), versions that the compaction gave up raise
        VersionExpiredError from then on; what snapshots, views and iterators lead into is kept until they end, and all
        else may be used again.

        Raises DamagedError, IOFailedError, NoSpaceError, LockedError, UnsupportedFormatError and ClosedError; nothing
        has changed then.
        """
        return self._refresh()

    @property
    def retention(self) -> Retention:
        """Which closed versions ``icecore.compact`` keeps; all, unless ``set_retention`` was called.

        >>> store.retention.newest
        0

        Raises DamagedError if that cannot be read any more (set it again) and ClosedError.
        """
        kept = self._retention_dict()
        return Retention(younger_than=timedelta(seconds=kept.pop("seconds")), **kept)

    def set_retention(
        self,
        *,
        tagged: bool = False,
        newest: int = 0,
        younger_than: timedelta = timedelta(0),
        hourly: int = 0,
        daily: int = 0,
        weekly: int = 0,
    ) -> None:
        """Sets which closed versions ``icecore.compact`` keeps from now on: those with a tag; so many of the newest;
        those younger than an age; the newest tag of each of so many hours, days and weeks (UTC) that have one. A version
        stays if any of these wants it; without any, all stay. The newest one, and those that are held, or that kept
        queries and feeds need, always stay. The others expire at the next ``compact``, for ever: reading them raises VersionExpiredError.

        Ages are those of tags: a version without one is as old as the first tag behind it. It is durable on return.

        >>> store.set_retention(tagged=True, newest=100)
        >>> store.retention.tagged, store.retention.newest
        (True, 100)

        Raises InvalidArgumentError for a negative number or age, TypeError, ReadOnlyError and ClosedError.
        """
        self._set_retention(*retention_wanted(tagged, newest, younger_than, hourly, daily, weekly))

    def hold(self, name: str, at: VersionLike | None = None) -> int:
        """Holds a closed version (by default the present) by a name, and returns it: it does not expire until
        ``release(name)``, whatever the retention. What the version shows stays; versions before and behind it may
        expire, and a key that is forgotten goes from it, too. Version and hold are durable on return.

        >>> version = store.hold("paper", "epoch-1")
        >>> store.set_retention(newest=1)
        >>> report = store.compact()
        >>> store.at(version)["a"]
        b'1'

        Raises QueryExistsError if a hold has this name, what ``at()`` raises, InvalidArgumentError for a name that is
        empty or has more than 65,535 bytes, and in an attached process unless every write is durable by itself,
        TypeError, NoSpaceError, ReadOnlyError and ClosedError.
        """
        return self._hold_version(hold_name(name), None if at is None else self._version_of(at))

    def release(self, name: str) -> None:
        """Ends the hold of this name, durably: the next compaction may let its version expire.

        >>> version = store.hold("paper")
        >>> store.release("paper")
        >>> store.holds()
        []

        Raises NoSuchQueryError, DamagedError, TypeError, ReadOnlyError and ClosedError.
        """
        self._release_version(hold_name(name))

    def holds(self) -> list[Hold]:
        """The versions that are held, in their order.

        >>> version = store.hold("paper", "epoch-1")
        >>> [(hold.name, hold.version == version) for hold in store.holds()]
        [('paper', True)]

        Raises ReadOnlyError beside another process that writes the store, and ClosedError.
        """
        return [Hold(*one) for one in self._held_tuples()]

    def expired_versions(self) -> list[range]:
        """The closed versions that compactions gave up, in ascending ranges. Their tags are still listed.

        >>> store.expired_versions()
        []

        Raises ClosedError.
        """
        return [range(first, end) for first, end in self._expired_ranges()]

    @property
    def clock(self) -> int:
        """The version that a write now belongs to; all smaller ones are closed.

        >>> store.clock == store.insert("a", "4")
        True

        Raises ClosedError.
        """
        return self._clock

    @property
    def durable_version(self) -> int:
        """All versions up to this closed one survive a power cut. Where durability is deferred: those that ``sync()``
        covered.

        >>> store.durable_version < store.clock
        True

        Raises ClosedError.
        """
        return self._durable_version


def _label(given: object, what: str) -> bytes:
    """A tag's name or note."""
    if isinstance(given, bytes):
        return given
    if not isinstance(given, str):
        raise TypeError(f"a tag's {what} must be a str, not {type(given).__name__}")
    return checks.stored_text(given, f"a tag's {what}")
