"""Explicit-state model of generations and strata: freezing, compaction, retention, pins, space used again, crashes.

Threads take one atomic step at a time, in every order. At every state each version of each key is read and compared
with a store that drops nothing; every crash image of every state is recovered and judged in the same way, and what is
then left is what the next life begins with. docs/design/0028-freezing-and-compaction.md tells the protocol and its
invariants (A1 to A15), docs/design/0033-compaction-beside-writers.md and docs/design/0037-compaction-by-ranges.md what
is built of it: keep the code, these pages and this model (with generation_state.py, generation_steps.py and
generation_packing.py) in step.

    generations.py                     all programs, then all mutants (each must be caught)
    generations.py PROGRAM [MUTANT]    one of them

A power cut leaves of each line what it held at one instant since it was last made durable, a kill what it held last;
of the two root pages the newest may be damaged besides. A place of the file holds one segment, which is all that a
generation has, or one stratum. How records of one segment are linked and made durable is stamped_history.py's: what is
read or linked on becomes durable, and is stamped, in the step that reads or links.
"""

import sys
import time
from itertools import product

from generation_state import (
    KEYS,
    Generation,
    Header,
    Manifest,
    Packed,
    Place,
    Root,
    Stack,
    State,
    Stratum,
    Thread,
    Violation,
)
from generation_packing import Packing

PLACES, ROOM = 4, 5
LIMIT = 10  # after a power cut the clock goes on at the next multiple: the limit that was durable before

# Lives, each a list of threads by what they do: Wk writes key k, Dk removes it if it is there, B01 writes both in one
# batch, T closes the open version, N does so under a name, F freezes, R01@v reads keys at closed version v with one
# pin, Lk closes the open version and reads k at it, Gk reads the newest, Hv holds version v, Y syncs (a durable tag).
# Cxy compacts: all that is frozen with x strata, the youngest ones (A: all); y is a (retention keeps all versions) or t
# (those with a name or a hold). Kn: the process of thread n is killed while it freezes or compacts, and this thread,
# which shares the store, goes on for it.
PROGRAMS = {
    "a writer beside a freeze": [["W0 W0", "F CAa", "R0@1"]],
    "two writers, two freezes": [["W0", "W0 W0", "F F CAa"]],
    "two writers, a tag, a freeze": [["W0", "W0", "T", "F CAt"]],
    "frozen during a compaction": [["W0 F CAa", "W1 F W1"]],
    "a reader across freeze and compaction": [["W0 T F CAt W0", "R01@1"]],
    "a reader of an old stratum": [["W0 F CAa W0 F CAt W1", "R0@1"]],
    "two readers, space used again": [["W0 F CAt W1", "R0@1", "R1@1"]],
    "a snapshot beside a freeze": [["F W0", "L0"]],
    "the newest across a freeze": [["W0 F W0 CAa", "G0 G0"]],
    "a removal beside a compaction": [["W0 F CAa W1", "D0", "G0"]],
    "a removal over an older stratum": [["W0 F CAa D0 F C0a"], ["F CAt"]],
    "a removal at the bottom": [["W1 F D1 F CAt W0"], ["W1 F C0t"]],
    "a removal in a stratum between": [["W0 F CAa D0 F C0t W0 F C0t"]],
    "a merge in the middle": [["W0 F CAa D0 F C0a W1 F C1t W0 F C0t"], ["C1t CAt"]],
    "a kept version between two writes": [["W0 T W1 N W0 F CAt"], ["F CAt"]],
    "no version is kept": [["W0 T W0 F CAt W1"], ["W0 F CAt"]],
    "retention grows again": [["W0 T W0 T F CAt CAa"]],
    "a tag beside a freeze": [["W0 N W0", "F CAt", "R0@1"]],
    "a hold beside a compaction": [["W0 T W0", "F CAt", "H1 R0@1"]],
    "a batch beside a freeze": [["B01", "F CAa", "R01@1"]],
    "a batch, a writer, a freeze": [["B01", "W1", "F CAa"]],
    "two first writes, then one": [["W0", "W1"], ["W0"]],
    "space used again beside a compaction": [["W0 F CAa", "W1 F W1"], ["W0"]],
    "space used again and again": [["W0 W1 F D1 F CAt W0 F W0"], ["F CAt W1"]],
    "three lives": [["W0 F CAa W1"], ["D0 F C0a W0"], ["F CAt W1"]],
    "the compacting process is killed": [["F CAa", "W0 K0 W1 F CAt"]],
    "synced, compacted, cut": [["W0 N Y W1 N F CAa W0"], ["W1 Y"]],
    "a sync beside a compaction": [["W0 F CAt", "W1 Y W0"], ["W1"]],
    "unsynced space, used again": [["W0 F CAa W0 W1"], ["W0 Y"]],
}
# Those of a store with tag durability; the others have operation durability.
TAGGED = {"synced, compacted, cut", "a sync beside a compaction", "unsynced space, used again"}
# Compaction as it is built (0033, 0037): Pxy packs in rounds beside the writers; Pxyr by ranges of keys, if strata are
# merged.
PROGRAMS |= {
    "rounds beside writers": [["W0 PAa W1", "W0 W1"]],
    "rounds beside a removal": [["W0 PAa PAa", "D0", "G0"]],
    "rounds over old strata": [["W0 D0 PAt W0 P0t PAt", "R0@1"]],
    "rounds beside a tag": [["W0 PAt", "N W0"]],
    "rounds beside a hold": [["W0 T W0 PAt", "H1 R0@1"]],
    "rounds beside a reader": [["W0 PAa W0 PAt W1", "R0@1"]],
    "rounds beside a batch": [["W0 PAa", "B01", "L0"]],
    "the newest across rounds": [["W0 PAa W0", "G0 G0"]],
    "rounds, killed": [["W0 PAa", "W0 K0 W1 PAt"]],
    "rounds, synced and cut": [["W0 PAa W0", "W1 Y"], ["W1"]],
    "ranges of keys": [["W0 W1 PAa W0 W1 PAar", "W0"]],
    "ranges, and removals between": [["W0 W1 PAa D0 D1 P0t W1 PAtr"], ["PAt"]],
    "ranges over an older stratum": [["W0 W1 PAa D0 W1 P0t D1 W0 P1tr"], ["PAt"]],
    "ranges that expire": [["W0 W1 PAa T W0 W1 PAtr"], ["P0a"]],
    "ranges beside a reader": [["W0 W1 PAa D0 W1 PAtr", "R01@1"]],
    "ranges beside a removal": [["W0 W1 PAa W0 W1 PAar", "D1"]],
    "ranges, killed": [["W0 W1 PAa W0 W1 PAtr", "K0 W1 PAtr"]],
}
LARGER = {name: 8 for name in PROGRAMS if name.startswith("ranges")}
LARGER |= {name: 6 for name in PROGRAMS if "rounds" in name}
TAGGED |= {"rounds, synced and cut"}
# What leaving something out breaks: mutant -> a program that shows it.
MUTANTS = {
    "a freeze does not wait for writers": "a writer beside a freeze",
    "a freeze closes the version before writers have stopped": "two writers, a tag, a freeze",
    "a writer goes on in the segment that it has": "frozen during a compaction",
    "a batch takes its generation for each key": "a batch beside a freeze",
    "a tag is recorded without a lease": "a tag beside a freeze",
    "the stack is read before the version is closed": "a snapshot beside a freeze",
    "a switch forgets what was frozen meanwhile": "frozen during a compaction",
    "no second look at the stack after the pin": "a reader across freeze and compaction",
    "no barrier before pins are counted": "two readers, space used again",
    "the barrier comes before the switch": "two readers, space used again",
    "only pins on the stack before are counted": "a reader across freeze and compaction",
    "pins are not waited for": "a reader of an old stratum",
    "a removal looks without a pin": "a removal beside a compaction",
    "space is free before the manifest is durable": "space used again beside a compaction",
    "space is free before the switch": "two readers, space used again",
    "space is free while one root page names the old manifest": "space used again beside a compaction",
    "readers see the switch before the manifest is durable": "a hold beside a compaction",
    "the manifest is durable before the stratum": "no version is kept",
    "a reused place keeps its number": "space used again and again",
    "numbers of places repeat in another life": "unsynced space, used again",
    "a segment's header is not durable": "two first writes, then one",
    "a segment's header is durable with its first record": "two first writes, then one",
    "recovery takes segments of all generations": "a removal at the bottom",
    "what has not happened stays": "two first writes, then one",
    "recovery knows the clock from segments alone": "no version is kept",
    "the manifest does not say what its strata make durable": "synced, compacted, cut",
    "the manifest takes back what was synced meanwhile": "a sync beside a compaction",
    "two roots are written at a time": "a sync beside a compaction",
    "a removal dropped over an older stratum": "a removal in a stratum between",
    "only records of kept versions stay": "a kept version between two writes",
    "the newest record goes if no kept version shows it": "no version is kept",
    "an expired version is answered": "no version is kept",
    "expired versions are kept again": "retention grows again",
    "tags stay where the segment was": "a kept version between two writes",
    "retention is decided without holds": "a hold beside a compaction",
    "a hold does not ask what is about to go": "a hold beside a compaction",
    "a reader stops at the first that shows nothing": "a removal over an older stratum",
    "a reader asks older ones first": "a removal over an older stratum",
    "a reader looks below a removal": "a removal over an older stratum",
    "a removal looks at the young generation alone": "a removal beside a compaction",
    "a generation begins with its version": "a writer beside a freeze",
    "a killed compaction is rolled back at any step": "the compacting process is killed",
    "a killed compaction keeps its place": "the compacting process is killed",
    "the gate of a killed freeze stays shut": "the compacting process is killed",
    "the first merge does not wait for writers": "rounds beside writers",
    "a round does not wait for writers": "rounds beside a removal",
    "a round drops removals": "rounds beside a removal",
    "the last round is made before the gate is shut": "rounds beside writers",
    "the end does not wait for writers": "rounds beside writers",
    "the end packs only what its own round has": "rounds beside writers",
    "the end forgets tags made since the decision": "rounds beside a tag",
    "holds are not asked for again at the end": "rounds beside a hold",
    "the last stratum is durable after the manifest": "rounds beside writers",
    "the next generation is there before a root names its strata": "rounds beside a hold",
    "the gate opens before the next generation is there": "rounds beside writers",
    "replaced extents are free before the switch": "rounds beside a reader",
    "a killed end is rolled back though a root names it": "rounds, killed",
    "the gate of a killed compaction stays shut": "ranges, killed",
    "a range lies above the strata that it was made of": "ranges of keys",
    "merged extents stay in the strata above": "ranges, and removals between",
    "extents that wait are left out of the manifest": "ranges of keys",
    "extents that wait are given back with those that were merged": "ranges of keys",
    "young records of other ranges wait in the young generation": "ranges of keys",
    "young records of other ranges drop removals": "ranges over an older stratum",
    "a range drops removals over an older stratum": "ranges over an older stratum",
    "versions expire with the last range": "ranges that expire",
    "expired versions are forgotten by the next merge": "ranges that expire",
    "a merge by ranges stops behind its first change": "ranges of keys",
}


class Model(Packing):
    """Judging and crashes."""

    def __init__(self, lives, mutant="", tagged=False, places=PLACES):
        super().__init__(lives, mutant, tagged)
        self.number_of_places = places


    def judge(self, s):
        """Reads every version as somebody would who comes now."""
        if not all(self.expired(s.stack, version) for version in s.told):
            raise Violation("an expired version is there again")
        stamps = [r.stamp for r in s.log]
        marks = {s.clock, s.clock - 1, *s.tags, *s.holds, *stamps, *(stamp - 1 for stamp in stamps)}
        for version in marks:
            if 0 < version <= s.clock:
                for key in range(KEYS):
                    self.check_read(s, s.stack, key, version)
        if not s.tags <= self.listed(s):
            raise Violation("a tag is lost")

    def judge_end(self, s):
        if any(th.op < len(ops) for th, ops in zip(s.threads, self.lives[self.life])):
            raise Violation("nobody can go on")
        used = [e.place for p in s.stack.layers if isinstance(p, Stratum) for e in p.extents]
        used += [at for _, at in s.homes if at >= 0]
        if sorted(used + list(s.free)) != list(range(self.number_of_places)):
            raise Violation("space is used twice, or never again")
        packs = any(op[0] == "P" for ops in self.lives[self.life] for op in ops)
        if packs and any(e.mark == "awaits" for p in s.stack.layers if isinstance(p, Stratum) for e in p.extents):
            raise Violation("a merge by ranges is never finished")

    # ---- crashes ----

    def manifests(self, roots):
        """What an opening may go by: the newest root's or, if its page is damaged, the other's."""
        newest = self.newest_root(roots)
        yield newest.manifest
        if not self.tagged and all(page[-1] for page in roots):
            yield min((page[-1] for page in roots), key=lambda root: root.sequence).manifest

    def images(self, s):
        """(clock, places, manifest, whether a power cut left it)."""
        for manifest in self.manifests(s.roots):
            yield s.clock, self.all_durable(s).places, manifest, False
        pages = [page + (None,) if len(page) > 1 else page for page in s.roots]  # torn
        lines = pages + [line for p in s.places for line in (p.header, *p.lines)]
        for image in product(*lines):
            kept = iter(image)
            roots = ((next(kept),), (next(kept),))
            places = tuple(Place((next(kept),), tuple((next(kept),) for _ in p.lines)) for p in s.places)
            for manifest in self.manifests(roots):
                yield (s.clock // LIMIT + 1) * LIMIT, places, manifest, True

    def segments(self, s, newest):
        """Of a file that a crash left: where generations are that the manifest does not replace, and free places."""
        named = {e.place: e for p in newest.strata for e in p.extents}
        oldest = 1 if self.mutant == "recovery takes segments of all generations" else newest.oldest
        homes, free = [], []
        for at, place in enumerate(s.places):
            generation = place.header[0].generation
            if at in named:
                packed = place.lines[0][0]
                if not isinstance(packed, Packed) or packed.reuse != named[at].reuse:
                    raise Violation("the manifest names a stratum that is not there")
            elif generation >= oldest:
                homes.append((generation, at))
            else:
                free.append(at)
        return sorted(homes, reverse=True), free

    def zeroed(self, s, lines):
        for line in lines:
            s = self.durable(self.with_line(s, line, None), line)
        return s

    def counts(self, s, homes, durable):
        """Records of a file that a crash left: which have happened, and lines of those that never will."""
        happened, dropped = [], []
        for line, record in (pair for _, at in homes for pair in self.records(s, at)):
            stamp = self.stamp(s, record)
            if 0 < stamp <= durable:
                happened.append(record._replace(stamp=stamp))
            else:
                dropped.append(line)
        return happened, dropped

    def opened(self, s, clock, places, newest, cut):
        """As opening does: first both root pages, then segments of the generations that are in no stratum."""
        before = s
        s = s._replace(places=places, roots=((Root(1, newest),), (Root(0, newest),)))
        homes, free = self.segments(s, newest)
        durable = newest.durable if self.tagged and cut else max(clock, before.clock)
        happened, dropped = self.counts(s, homes, durable)
        found = {(r.op, r.key) for r in happened if r.kind in "WD"}
        listed = {r.stamp for r in happened if r.kind == "N"} | {v for v in newest.tags if v <= durable}
        if self.mutant != "what has not happened stays":
            s = self.zeroed(s, dropped)
        if self.mutant == "recovery knows the clock from segments alone":
            clock = 1 + max((r.stamp for r in happened), default=0)
        if clock < before.clock:
            raise Violation("the clock goes back")
        if not s.tags <= listed:
            raise Violation("a tag is lost")
        if s.synced > durable:
            raise Violation("what was synced is lost")
        if not cut:
            log = s.log
        elif self.tagged:
            log = tuple(r for r in s.log if r.stamp <= durable)
        else:
            log = tuple(r for r in s.log if r.op in s.must or (r.op, r.key) in found)
        if not found <= {(r.op, r.key) for r in log}:
            raise Violation("what a crash took comes back")

        if not any(number >= newest.oldest for number, _ in homes):
            homes.append((newest.oldest, -1))
        layers = tuple(Generation(n, places[at].header[0].begin if at >= 0 else newest.high) for n, at in homes)
        life = self.lives[self.life + 1] if self.life + 1 < len(self.lives) else []
        return s._replace(
            clock=clock,
            gate=-1,
            homes=tuple(homes),
            free=tuple(reversed(free)),
            stack=Stack(0, layers + newest.strata, newest.tags, newest.expired),
            doomed=(),
            threads=tuple(Thread() for _ in life),
            log=log,
            must=frozenset(r.op for r in log) if not self.tagged else frozenset(),
            tags=frozenset(v for v in listed if not self.tagged or v <= newest.durable),
            lost=s.lost | frozenset(range(durable + 1, clock)) if self.tagged and cut else s.lost,
        )

    def recovered(self, s, clock, places, newest, cut):
        """What opening leaves; and opening again, when a power cut comes amid what the first one zeroes.

        The clock, which goes on a bit further, is left as it is: no version was closed in between.
        """
        yield self.opened(s, clock, places, newest, cut)
        file = s._replace(places=places)
        durable = newest.durable if self.tagged else clock
        _, dropped = self.counts(file, self.segments(file, newest)[0], durable)
        for some in product((False, True), repeat=len(dropped) if cut else 0):
            again = self.zeroed(file, [line for line, zero in zip(dropped, some) if zero])
            yield self.opened(s, clock, again.places, newest, cut)

    # ---- all of them ----

    def first_state(self):
        nothing = Place((Header(0, 0, 0),), ((None,),) * ROOM)
        return State(
            clock=1,
            gate=-1,
            homes=((1, -1),),
            free=tuple(reversed(range(self.number_of_places))),
            places=(nothing,) * self.number_of_places,
            roots=((Root(1, Manifest(1, (), ())),), (Root(0, Manifest(1, (), ())),)),
            stack=Stack(0, (Generation(1, 0),), ()),
            doomed=(),
            threads=tuple(Thread() for _ in self.lives[0]),
            log=(),
            must=frozenset(),
            tags=frozenset(),
            holds=frozenset(),
            synced=0,
            lost=frozenset(),
            told=frozenset(),
        )

    def explore(self):
        """Number of states, and the first violation or None."""
        begins, count = {self.first_state()}, 0
        try:
            for self.life in range(len(self.lives)):
                seen, todo, left, met = set(begins), list(begins), set(), set()
                count += len(begins)
                while todo:
                    s = todo.pop()
                    shown = s._replace(threads=(), gate=-1, doomed=())
                    if shown not in met:
                        met.add(shown)
                        self.judge(s)
                        facts = (s.clock, s.log, s.must, s.tags, s.holds, s.synced, s.told)  # to judge recovery by
                        for image in self.images(s):
                            if (facts, image) not in met:
                                met.add((facts, image))
                                left.update(self.recovered(s, *image))
                    nexts = list(self.steps(s))
                    if not nexts:
                        self.judge_end(s)
                    for n in nexts:
                        if n not in seen:
                            seen.add(n)
                            todo.append(n)
                            count += 1
                for s in left:
                    self.judge(s)
                begins = left
        except Violation as bad:
            return count, str(bad)
        return count, None


def run(program, mutant=""):
    begun = time.perf_counter()
    states, bad = Model(PROGRAMS[program], mutant, program in TAGGED, LARGER.get(program, PLACES)).explore()
    return bad, f"{states} states, {time.perf_counter() - begun:.1f} s"


def main():
    if len(sys.argv) > 1:
        bad, size = run(*sys.argv[1:3])
        print(f"{size}: {bad or 'no violation'}")
        return bad is not None
    failures = 0
    for name in PROGRAMS:
        bad, size = run(name)
        print(f"{name}: {bad or 'no violation'} ({size})", flush=True)
        failures += bad is not None
    for mutant, program in MUTANTS.items():
        bad, size = run(program, mutant)
        print(f"mutant '{mutant}': {'caught: ' + bad if bad else 'NOT CAUGHT'} ({size})", flush=True)
        failures += bad is None
    return failures


if __name__ == "__main__":
    sys.exit(main())
