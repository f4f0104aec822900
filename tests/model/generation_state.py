"""The model of generations and strata (generations.py): a state, the file in it, and how a stack is looked through."""

from typing import NamedTuple

KEYS = 2
ANY = 1 << 48  # a version newer than all
NUMBERS_A_LIFE = 100  # of places that are given out


class Header(NamedTuple):
    generation: int  # 0: of a stratum, or never given out
    reuse: int  # number of this giving out: seeds the checksums of what lies in the place
    begin: int  # all versions of the generation are greater


class Record(NamedTuple):
    reuse: int
    op: tuple  # life, thread, number
    kind: str  # W: value, D: removal, B: the record of a batch, N: a named tag
    key: int
    stamp: int = 0
    batch: tuple = ()  # place and line of the batch's record, whose stamp counts


class Packed(NamedTuple):  # what a stratum's place holds
    reuse: int
    records: tuple  # of Record, by key, newest first


class Generation(NamedTuple):
    number: int
    begin: int


class Extent(NamedTuple):  # a part of a stratum
    keys: tuple
    place: int
    reuse: int
    mark: str = ""  # awaits: of a merge by ranges of keys, not merged yet; replaces: made by it


class Stratum(NamedTuple):
    extents: tuple  # with other keys each
    low: int  # holds no version up to this one
    high: int


class Manifest(NamedTuple):
    oldest: int  # generation that is in no stratum
    strata: tuple  # youngest first
    tags: tuple  # of older generations
    expired: tuple = ()  # versions
    high: int = 0  # the strata hold the versions up to this one
    durable: int = 0  # of a store with tag durability: a power cut leaves the versions up to this one


class Root(NamedTuple):
    sequence: int
    manifest: Manifest  # the block that it leads to, durable before it


class Stack(NamedTuple):
    number: int
    layers: tuple  # generations, then strata: youngest first
    tags: tuple  # the manifest's
    expired: tuple = ()  # likewise


class Work(NamedTuple):  # a compaction's
    places: tuple  # that it has written
    strata: tuple  # that it has made
    before: Stack
    manifest: Manifest | None = None
    merged: tuple = ()  # layers
    gone: tuple = ()  # places of strata, free at last
    switched: int = 0  # number of the stack that it published
    is_in_rounds: bool = False
    low: int = 0  # then all up to this version is in its strata,
    expired: tuple = ()  # this will have expired,
    kept_strata: tuple = ()  # these strata stay under those that it makes,
    has_rest: bool = False  # and wait for further changes


class Thread(NamedTuple):
    op: int = 0
    pc: str = "start"
    lease: int = -1  # place of the generation that it writes in
    segment: int = -1  # of the mutant that does not leave it
    mine: tuple = ()  # lines that it wrote: (place, line)
    clock: int = 0  # that it read to stamp with
    version: int = 0  # that it reads, or has closed
    floor: int = 0  # of a read of the newest: how much of the key's log was acknowledged or read when it began
    stack: Stack | None = None
    pinned: bool = False
    seen: bool = False  # whether the pin is in memory, or still in the processor's store buffer
    work: Work | None = None


class Place(NamedTuple):
    header: tuple  # what the line held since it was last durable
    lines: tuple  # each likewise: None, Record or Packed


class State(NamedTuple):
    clock: int
    gate: int  # the thread that holds it, or -1
    homes: tuple  # (generation, place or -1), youngest first
    free: tuple  # places; the last one is given out first
    places: tuple
    roots: tuple  # two pages; each what it held since it was last durable: more than one thing while a root is written
    stack: Stack
    doomed: tuple  # versions that a compaction under way drops
    threads: tuple
    log: tuple  # what a store that drops nothing would hold: records in the order of their stamps
    must: frozenset  # writes that were acknowledged or read
    tags: frozenset  # acknowledged
    holds: frozenset  # likewise
    synced: int  # likewise: the newest version that a sync made durable
    lost: frozenset  # versions that power cuts took
    told: frozenset  # versions of which somebody was told that they have expired


class Violation(Exception):
    pass


def put(items, i, value):
    return items[:i] + (value,) + items[i + 1 :]


def begin_of(layer):
    return layer.begin if isinstance(layer, Generation) else layer.low


class Layers:
    """`tagged`: a store with tag durability, in which no write waits to be durable."""

    def __init__(self, lives, mutant="", tagged=False):
        self.lives = [[t.split() for t in life] for life in lives]
        self.mutant = mutant
        self.tagged = tagged
        self.thinned = any(op[0] in "CP" and op[2] == "t" for life in self.lives for ops in life for op in ops)
        self.life = 0

    # ---- the file ----

    def newest_root(self, roots):
        intact = [page[-1] for page in roots if page[-1]]
        if not intact:
            raise Violation("no root is left")
        return max(intact, key=lambda root: root.sequence)

    def locked(self, s):
        return any(len(page) > 1 for page in s.roots) and self.mutant != "two roots are written at a time"

    def with_root(self, s, manifest):
        """Into the page that does not hold the newest."""
        newest = self.newest_root(s.roots)
        page = 0 if s.roots[1][-1] == newest else 1
        root = Root(newest.sequence + 1, manifest)
        return s._replace(roots=put(s.roots, page, s.roots[page] + (root,)))

    def root_durable(self, s):
        return s._replace(roots=tuple(page[-1:] for page in s.roots))

    def line(self, s, at):
        return s.places[at[0]].lines[at[1]][-1]

    def with_line(self, s, at, value):
        place = s.places[at[0]]
        lines = put(place.lines, at[1], place.lines[at[1]] + (value,))
        return s._replace(places=put(s.places, at[0], place._replace(lines=lines)))

    def durable(self, s, *lines):
        for at in lines:
            place = s.places[at[0]]
            kept = put(place.lines, at[1], place.lines[at[1]][-1:])
            s = s._replace(places=put(s.places, at[0], place._replace(lines=kept)))
        return s

    def header_durable(self, s, at):
        return s._replace(places=put(s.places, at, s.places[at]._replace(header=s.places[at].header[-1:])))

    def all_durable(self, s):
        return s._replace(places=tuple(Place(p.header[-1:], tuple(line[-1:] for line in p.lines)) for p in s.places))

    def given_out(self, s, generation, begin):
        """Takes a free place and writes its header."""
        at = s.free[-1]
        place = s.places[at]
        reuse = place.header[-1].reuse
        if reuse == 0 or self.mutant != "a reused place keeps its number":
            reuse += 1
        if self.tagged and self.mutant != "numbers of places repeat in another life":
            reuse = max(reuse, self.life * NUMBERS_A_LIFE)
        place = place._replace(header=place.header + (Header(generation, reuse, begin),))
        return s._replace(free=s.free[:-1], places=put(s.places, at, place)), at

    def records(self, s, at):
        """Of a segment, in the order in which they were written: (line, record)."""
        place = s.places[at]
        for i, line in enumerate(place.lines):
            if isinstance(line[-1], Record) and line[-1].reuse == place.header[-1].reuse:
                yield (at, i), line[-1]

    def append(self, s, at, record):
        used = [line[1] for line, _ in self.records(s, at)]
        line = (at, used[-1] + 1 if used else 0)
        return self.with_line(s, line, record._replace(reuse=s.places[at].header[-1].reuse)), line

    def stamp(self, s, record):
        """0: it has not happened (yet)."""
        if not record.batch:
            return record.stamp
        batch = self.line(s, record.batch)
        return batch.stamp if isinstance(batch, Record) and batch.op == record.op else 0

    def set_stamp(self, s, line, version):
        """The compare-and-swap of a single record's stamp, by its writer or by who meets it."""
        record = self.line(s, line)
        if record.stamp or record.batch:
            return s
        if record.op[0] != self.life:
            raise Violation("what a crash took comes back")
        record = record._replace(stamp=version)
        return self.with_line(s, line, record)._replace(log=s.log + (record._replace(reuse=0),))

    def read_by_someone(self, s, line):
        """Persist-on-read: of the record, and of its batch's."""
        if line is None or self.tagged:
            return s
        record = self.line(s, line)
        s = self.durable(s, line, *([record.batch] if record.batch else []))
        return s._replace(must=s.must | {record.op})

    # ---- looking through the stack ----

    def place_of(self, s, generation):
        for number, at in s.homes:
            if number == generation:
                return at
        raise Violation("space was read after it was given back")

    def lines_of(self, s, generation, key):
        """Of a key's records in a generation, oldest first."""
        at = self.place_of(s, generation)
        return [line for line, r in self.records(s, at) if r.kind in "WD" and r.key == key] if at >= 0 else []

    def history(self, s, layer, key):
        """Of one layer, newest first: (line or None, record with its stamp)."""
        if isinstance(layer, Stratum):
            extent = next((e for e in layer.extents if key in e.keys), None)
            if extent is None:
                return []
            packed = s.places[extent.place].lines[0][-1]
            if extent.place in s.free or not isinstance(packed, Packed) or packed.reuse != extent.reuse:
                raise Violation("space was read after it was given back")
            return [(None, r) for r in packed.records if r.key == key]
        found = [(line, self.line(s, line)) for line in self.lines_of(s, layer.number, key)]
        return [(line, r._replace(stamp=self.stamp(s, r))) for line, r in reversed(found)]

    def helped(self, s, layers, key):
        """Stamp-on-read: whoever is about to look stamps what has no stamp."""
        for layer in layers:
            for line in self.lines_of(s, layer.number, key)[-1:] if isinstance(layer, Generation) else ():
                s = self.set_stamp(s, line, s.clock)
        return s

    def look(self, s, layers, key, version):
        """What they show: (line or None, record or None)."""
        for layer in layers[::-1] if self.mutant == "a reader asks older ones first" else layers:
            if begin_of(layer) + (self.mutant == "a generation begins with its version") >= version:
                continue
            for line, record in self.history(s, layer, key):
                if 0 < record.stamp <= version:
                    if record.kind == "D" and self.mutant == "a reader looks below a removal":
                        break
                    return line, record
            if self.mutant == "a reader stops at the first that shows nothing":
                break
        return None, None

    def expired(self, stack, version):
        if self.mutant == "an expired version is answered":
            return False
        return version in stack.expired

    def listed(self, s):
        """Named tags: the manifest's, and those in the generations."""
        places = [self.place_of(s, p.number) for p in s.stack.layers if isinstance(p, Generation)]
        in_segments = {r.stamp for at in places if at >= 0 for _, r in self.records(s, at) if r.kind == "N"}
        return in_segments | set(s.stack.tags)

    def true_answer(self, s, key, version):
        for record in reversed(s.log):
            if record.key == key and record.stamp <= version:
                return record.op if record.kind == "W" else None
        return None

    def check_read(self, s, stack, key, version):
        """Returns the line that was shown."""
        if version in s.lost:
            return None
        if self.expired(stack, version):
            if not self.thinned or version in s.holds or version in s.tags:
                raise Violation("a version that retention keeps has expired")
            return None
        line, record = self.look(s, stack.layers, key, version)
        if (record.op if record and record.kind == "W" else None) != self.true_answer(s, key, version):
            raise Violation("a version shows something else")
        return line
