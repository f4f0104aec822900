"""Explicit-state model of histories stamped by whoever comes first: single writes, atomic batches, tags, reads, crashes.

Threads take one atomic step at a time, in every order. Every state is judged (linearizability, snapshots, batches), and every
crash image of every state is recovered and judged (operation durability). docs/design/0001-histories.md tells the protocol;
src/history/ is its code: keep the two in step.

    stamped_history.py                     all programs, then all mutants (each must be caught)
    stamped_history.py PROGRAM [MUTANT]    one of them

A record is one cache line: its payload may become durable before its stamp, never after. What spans lines leans on its CRC.
Any second record of a key that its entry notes is shown from the entry alone, as the code does with removals.
"""

import sys
from collections import deque
from typing import NamedTuple

NONE, READY = -1, -2
CLOCK_AT_START = 1

# Threads by what they do: W key, B keys (an atomic batch), T (tag), R key (read newest), S key (read at the thread's last tag).
PROGRAMS = {
    "two writers and a tag": ["W0", "W0", "T"],
    "a tag among two keys": ["W0", "W1", "T S0 S1 S0"],
    "writers of one key, read twice": ["W0", "W0", "T S0 S0"],
    "reader beside a writer": ["W0", "R0", "T S0"],
    "writes in sequence": ["W0 W1", "W1", "T S1"],
    "a batch and a tag": ["B01", "T S0 S1"],
    "a batch, a writer, a tag": ["B01", "W1", "T S0 S1"],
    "a batch and readers": ["B01", "R0 R1", "T S1"],
    "two batches": ["B01", "B01", "T S1"],
    "a batch between writes": ["W0", "B01", "T S1"],
    "a second record, read": ["W0 W0", "R0", "T S0"],
    "a second and a third record": ["W0 W0 W0", "T S0"],
    "a batch comes second": ["W0 B01", "T S0 S0"],
}
# What leaving something out breaks: mutant -> a program that shows it.
MUTANTS = {
    "no help before linking": "writers of one key, read twice",
    "head not persisted before linking": "two writers and a tag",
    "no persist on read": "reader beside a writer",
    "no stamp on read": "writers of one key, read twice",
    "no flush": "two writers and a tag",
    "batch not waited for": "a batch, a writer, a tag",
    "batch stamped before ready": "a batch and a tag",
    "batch records not flushed before ready": "a batch and readers",
    "second noted before it is durable": "a second record, read",
    "third taken for the second": "a second and a third record",
}
KEYS = 2


class Record(NamedTuple):
    key: int
    older: int = NONE
    stamp: int = 0
    durable: int = 0  # at least: 0 nothing, 1 payload, 2 payload and stamp
    persisted: bool = False  # the volatile bit
    batch: int = NONE


class Batch(NamedTuple):
    records: tuple = ()
    stamp: int = 0  # 0, READY or a version
    durable: int = 0  # 2: its stamp is
    persisted: bool = False


class Thread(NamedTuple):
    op: int = 0
    pc: str = "start"
    mine: int = NONE  # record or batch being written
    at: int = NONE  # record being looked at
    clock: int = NONE  # clock value read
    version: int = NONE  # that is read at
    part: int = 0  # key of a batch being linked


class State(NamedTuple):
    clock: int
    heads: tuple
    seconds: tuple  # by key: the second record, noted in the entry
    records: tuple
    batches: tuple
    threads: tuple
    events: tuple


def put(items, i, value):
    return items[:i] + (value,) + items[i + 1 :]


class Model:
    def __init__(self, threads, mutant=""):
        self.program = [[(op[0], tuple(int(c) for c in op[1:])) for op in t.split()] for t in threads]
        self.mutant = mutant

    def start(self):
        return State(CLOCK_AT_START, (NONE,) * KEYS, (NONE,) * KEYS, (), (), tuple(Thread() for _ in self.program), ())

    # ---- pieces of steps ----

    def stamp_of(self, s, r):
        record = s.records[r]
        if record.batch == NONE:
            return record.stamp
        return max(s.batches[record.batch].stamp, 0)

    def unready(self, s, r):
        """Of a batch that nobody may stamp yet."""
        b = s.records[r].batch
        return b != NONE and s.batches[b].stamp == 0 and self.mutant != "batch stamped before ready"

    def with_stamp(self, s, r, version):
        """The compare-and-swap of a stamp."""
        if self.stamp_of(s, r) != 0:
            return s
        record = s.records[r]
        if record.batch == NONE:
            return s._replace(records=put(s.records, r, record._replace(stamp=version)))
        return s._replace(batches=put(s.batches, record.batch, s.batches[record.batch]._replace(stamp=version)))

    def persisted(self, s, r):
        record = s.records[r]
        return record.persisted if record.batch == NONE else s.batches[record.batch].persisted

    def with_persist(self, s, r):
        record = s.records[r]
        if record.batch == NONE:
            return s._replace(records=put(s.records, r, record._replace(durable=2, persisted=True)))
        batch = s.batches[record.batch]
        return s._replace(batches=put(s.batches, record.batch, batch._replace(durable=2, persisted=True)))

    def with_note(self, s, written):
        """The second versions of entries."""
        for r in written:
            record = s.records[r]
            if record.older != NONE and s.records[record.older].older == NONE:
                s = s._replace(seconds=put(s.seconds, record.key, r))
        return s

    def goto(self, s, t, **changes):
        return s._replace(threads=put(s.threads, t, s.threads[t]._replace(**changes)))

    def end(self, s, t, *facts):
        op = s.threads[t].op
        s = s._replace(events=s.events + (("ret", t, op) + facts,))
        return s._replace(threads=put(s.threads, t, Thread(op=op + 1)))

    # ---- steps ----

    def steps(self, s):
        for t, thread in enumerate(s.threads):
            if thread.op < len(self.program[t]):
                kind, keys = self.program[t][thread.op]
                step = {"W": self.write, "B": self.write, "T": self.tag, "R": self.read, "S": self.read}[kind]
                if thread.pc == "start":
                    yield self.begin(s, t, kind, keys)
                else:
                    yield from step(s, t, thread, keys)

    def begin(self, s, t, kind, keys):
        op = s.threads[t].op
        s = s._replace(events=s.events + (("inv", t, op),))
        if kind == "W":  # fill the record
            r = len(s.records)
            return self.goto(s._replace(records=s.records + (Record(keys[0]),)), t, pc="head", mine=r)
        if kind == "B":
            b, first = len(s.batches), len(s.records)
            records = tuple(range(first, first + len(keys)))
            s = s._replace(
                batches=s.batches + (Batch(records),), records=s.records + tuple(Record(k, batch=b) for k in keys)
            )
            return self.goto(s, t, pc="head", mine=first)
        if kind == "S":
            tags = [e[4] for e in s.events if e[0] == "ret" and e[1] == t and e[3] == "T"]
            return self.goto(s, t, pc="head", version=tags[-1])
        return self.goto(s, t, pc="head")

    def write(self, s, t, th, keys):
        record = s.records[th.mine]
        single = record.batch == NONE
        written = (th.mine,) if single else s.batches[record.batch].records
        if th.pc == "head":
            head = s.heads[record.key]
            helps = head != NONE and self.mutant != "no help before linking"
            yield self.goto(s, t, at=head, pc="settle" if helps else "link")
        elif th.pc == "settle":
            if self.unready(s, th.at):
                if self.mutant == "batch not waited for":
                    yield self.goto(s, t, pc="persist head")
                return  # waits
            if self.stamp_of(s, th.at) == 0:
                yield self.goto(s, t, clock=s.clock, pc="settle cas")
            else:
                yield self.goto(s, t, pc="persist head")
        elif th.pc == "settle cas":
            yield self.goto(self.with_stamp(s, th.at, th.clock), t, pc="persist head")
        elif th.pc == "persist head":
            skip = self.persisted(s, th.at) or self.mutant == "head not persisted before linking"
            yield self.goto(s if skip else self.with_persist(s, th.at), t, pc="link")
        elif th.pc == "link":
            if s.heads[record.key] != th.at:
                yield self.goto(s, t, pc="head")
                return
            s = s._replace(
                heads=put(s.heads, record.key, th.mine), records=put(s.records, th.mine, record._replace(older=th.at))
            )
            if single:
                yield self.goto(s, t, pc="stamp")
            elif th.part + 1 < len(keys):
                yield self.goto(s, t, mine=th.mine + 1, part=th.part + 1, pc="head")
            else:
                yield self.goto(s, t, pc="flush batch")
        elif th.pc == "flush batch":
            if self.mutant != "batch records not flushed before ready":
                for r in s.batches[record.batch].records:
                    s = s._replace(records=put(s.records, r, s.records[r]._replace(durable=1)))
            yield self.goto(s, t, pc="ready")
        elif th.pc == "ready":
            batch = s.batches[record.batch]
            if batch.stamp == 0:
                s = s._replace(batches=put(s.batches, record.batch, batch._replace(stamp=READY)))
            yield self.goto(s, t, pc="stamp")
        elif th.pc == "stamp":
            yield self.goto(s, t, clock=s.clock, pc="stamp cas")
        elif th.pc == "stamp cas":
            if self.mutant == "second noted before it is durable":
                s = self.with_note(s, written)
            yield self.goto(self.with_stamp(s, th.mine, th.clock), t, pc="persist")
        elif th.pc == "persist":
            yield self.goto(s if self.mutant == "no flush" else self.with_persist(s, th.mine), t, pc="note")
        elif th.pc == "note":
            yield self.goto(self.with_note(s, written), t, pc="return")
        else:
            yield self.end(s, t, "W", written)

    def tag(self, s, t, th, _keys):
        if th.pc == "head":
            yield self.goto(s._replace(clock=s.clock + 1), t, version=s.clock, pc="return")
        else:
            yield self.end(s, t, "T", th.version)

    def read(self, s, t, th, keys):
        key = keys[0]
        kind = self.program[t][th.op][0]
        if th.pc == "head":
            head = s.heads[key]
            alone = head == NONE or s.records[head].older == NONE
            yield self.goto(s, t, at=head, pc="stamp" if alone else "entry")
        elif th.pc == "entry":
            second = s.seconds[key]
            if second == NONE:
                yield self.goto(s, t, pc="stamp")
            elif kind == "S" and self.stamp_of(s, second) > th.version:
                first = s.records[second].older
                shown = 0 < self.stamp_of(s, first) <= th.version
                yield self.goto(s, t, at=first if shown else NONE, pc="persist" if shown else "return")
            elif th.at == second or self.mutant == "third taken for the second":
                yield self.goto(s, t, at=second, pc="return")
            else:
                yield self.goto(s, t, pc="stamp")
        elif th.pc == "stamp":
            if th.at != NONE and self.unready(s, th.at):  # has not happened: the one below it is stamped
                yield self.goto(s, t, at=s.records[th.at].older, pc="choose")
            elif th.at != NONE and self.stamp_of(s, th.at) == 0 and self.mutant != "no stamp on read":
                yield self.goto(s, t, clock=s.clock, pc="stamp cas")
            else:
                yield self.goto(s, t, pc="choose")
        elif th.pc == "stamp cas":
            yield self.goto(self.with_stamp(s, th.at, th.clock), t, pc="choose")
        elif th.pc == "choose":
            r = th.at
            while kind == "S" and r != NONE and not 0 < self.stamp_of(s, r) <= th.version:
                r = s.records[r].older
            yield self.goto(s, t, at=r, pc="return" if r == NONE else "persist")
        elif th.pc == "persist":
            skip = self.persisted(s, th.at) or self.mutant == "no persist on read"
            yield self.goto(s if skip else self.with_persist(s, th.at), t, pc="return")
        else:
            yield self.end(s, t, kind, key, th.at, th.version)

    # ---- judging ----

    def chain(self, s, key):
        r, out = s.heads[key], []
        while r != NONE:
            out.append(r)
            r = s.records[r].older
        return out

    def judge(self, s):
        when = {e[:3]: i for i, e in enumerate(s.events)}
        called = lambda e: when[("inv", e[1], e[2])]  # noqa: E731
        returned = lambda e: when[("ret", e[1], e[2])]  # noqa: E731
        depth = {}
        for key in range(KEYS):
            chain = self.chain(s, key)
            depth.update({r: len(chain) - i for i, r in enumerate(chain)})
            for newer, older in zip(chain, chain[1:]):
                a, b = self.stamp_of(s, newer), self.stamp_of(s, older)
                if a and (b == 0 or a < b):
                    return "stamps out of order"
        rets = [e for e in s.events if e[0] == "ret"]
        writes = [e for e in rets if e[3] == "W"]
        reads = [e for e in rets if e[3] in "RS"]
        for tag in (e for e in rets if e[3] == "T"):
            for w in writes:
                stamp = self.stamp_of(s, w[4][0])
                if returned(w) < called(tag) and stamp > tag[4]:
                    return "completed before the tag, not in it"
                if called(w) > returned(tag) and stamp <= tag[4]:
                    return "begun after the tag, in it"
            for r in reads:
                if r[3] == "R" and r[5] != NONE and returned(r) < called(tag):
                    if not 0 < self.stamp_of(s, r[5]) <= tag[4]:
                        return "read before the tag, not in it"
        answers = {}
        for r in reads:
            if r[3] == "S" and answers.setdefault((r[6], r[4]), r[5]) != r[5]:
                return "a snapshot changed"
        # newest reads: not behind anything shown or acknowledged before; batches whole
        seen = [(returned(w), x) for w in writes for x in w[4]] + [(returned(r), r[5]) for r in reads if r[5] != NONE]
        for r in reads:
            if r[3] != "R":
                continue
            shown = depth.get(r[5], 0)
            for time, x in seen:
                if time >= called(r):
                    continue
                batch = s.records[x].batch
                for y in (x,) if batch == NONE else s.batches[batch].records:
                    if s.records[y].key == r[4] and depth[y] > shown:
                        return "a read behind what was seen before"
        for batch in s.batches:
            for (version, key), r in answers.items():
                for (other_version, other), q in answers.items():
                    if version != other_version:
                        continue
                    mine = [x for x in batch.records if s.records[x].key == key]
                    theirs = [x for x in batch.records if s.records[x].key == other]
                    if mine and theirs and mine[0] in depth and theirs[0] in depth:
                        if (depth.get(r, 0) >= depth[mine[0]]) != (depth.get(q, 0) >= depth[theirs[0]]):
                            return "half a batch in a snapshot"
        return None

    def images(self, s):
        """All that a crash may leave: for each record and batch how much of it became durable."""
        choices = []
        for r in s.records:
            most = 1 if r.batch != NONE else (2 if r.stamp else 1)
            choices.append(range(min(r.durable, most), most + 1))
        for b in s.batches:
            choices.append((0, 2) if b.stamp > 0 and b.durable < 2 else (2,) if b.stamp > 0 else (0,))

        def combine(i, image):
            if i == len(choices):
                yield tuple(image)
                return
            for c in choices[i]:
                yield from combine(i + 1, image + [c])

        yield from combine(0, [])

    def judge_crash(self, s):
        n = len(s.records)
        rets = [e for e in s.events if e[0] == "ret"]
        must = {x for e in rets if e[3] == "W" for x in e[4]} | {e[5] for e in rets if e[3] in "RS" and e[5] != NONE}
        for image in self.images(s):
            alive = set()
            for r in range(n):
                b = s.records[r].batch
                if image[r] == 2 if b == NONE else (image[n + b] == 2 and image[r] >= 1):
                    alive.add(r)
            for b, batch in enumerate(s.batches):
                if image[n + b] == 2 and not alive.issuperset(batch.records):
                    return "half a batch after a crash"
            if not must <= alive:
                return "a write that was acknowledged or read is lost"
            for r in alive:
                if s.records[r].older != NONE and s.records[r].older not in alive:
                    return "a record survives its older one"
            for e in rets:
                if e[3] == "S":
                    there = [r for r in self.chain(s, e[4]) if r in alive and self.stamp_of(s, r) <= e[6]]
                    if (there[0] if there else NONE) != e[5]:
                        return "a snapshot differs after the crash"
        return None

    def explore(self):
        """Number of states, and the first violation or None."""
        first = self.start()
        seen, todo = {first}, deque([first])
        while todo:
            s = todo.popleft()
            bad = self.judge(s) or self.judge_crash(s)
            if bad:
                return len(seen), bad
            for n in self.steps(s):
                if n not in seen:
                    seen.add(n)
                    todo.append(n)
        return len(seen), None


def main():
    if len(sys.argv) > 1:
        states, bad = Model(PROGRAMS[sys.argv[1]], sys.argv[2] if len(sys.argv) > 2 else "").explore()
        print(f"{states} states: {bad or 'no violation'}")
        return bad is not None
    failures = 0
    for name, threads in PROGRAMS.items():
        states, bad = Model(threads).explore()
        print(f"{name}: {states} states, {bad or 'no violation'}", flush=True)
        failures += bad is not None
    for mutant, program in MUTANTS.items():
        states, bad = Model(PROGRAMS[program], mutant).explore()
        print(f"mutant '{mutant}': {'caught: ' + bad if bad else 'NOT CAUGHT'} ({states} states)", flush=True)
        failures += bad is None
    return failures


if __name__ == "__main__":
    sys.exit(main())
