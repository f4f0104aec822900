"""Explicit-state model of heads that last (H7, H8): one key's writes and reads in several lives of a store, crashes in between.

Threads take one atomic step at a time, in every order. At every state every crash image is recovered (as opening at once does)
and judged, and what is then left is what the next life begins with. Each thread fills a segment of its own, and what a crash
cut off there is zeroed and its place used again: a head may lead to such a place. src/history/heads/durable_heads.cpp is the code of
this model, docs/design/0008-persistent-index.md its story: keep them in step.

    durable_heads.py                     all programs, then all mutants (each must be caught)
    durable_heads.py PROGRAM [MUTANT]    one of them

Head and settled word lie in one line, a record in another: a crash leaves of a line what it held at one instant since it was
last made durable, and a kill of the process what it held last. A place is a thread's number and how many came before it.
"""

import sys
from itertools import product
from typing import NamedTuple

FIRST = (-1, 0)  # where the head leads as long as the entry's own record is the newest

# Lives, each a list of threads by what they do: W (write), R (read the newest).
PROGRAMS = {
    "two writers, then two": [["W", "W"], ["W", "W"]],
    "a place used again, beside a reader": [["W"], ["W", "R R"]],
    "a place used again, beside a writer": [["W"], ["W W", "W"]],
    "read only before it is used again": [["W"], ["R"], ["W", "R"]],
    "used again and cut off again": [["W"], ["W", "R"], ["W", "W"]],
}
MUTANTS = {
    "a reader sets the head back": "a place used again, beside a reader",
    "a writer sets the head back without the lock": "a place used again, beside a writer",
    "judged before the lock was taken": "a place used again, beside a writer",
    "a head that leads to nothing is exchanged": "a place used again, beside a writer",
    "what was cut off is not zeroed": "a place used again, beside a writer",
    "the head is not looked at again": "a place used again, beside a reader",
    "linked on what is not durable": "two writers, then two",
    "no flush": "two writers, then two",
    "no persist on read": "a place used again, beside a reader",
}


class Record(NamedTuple):
    op: tuple  # life, thread, number
    older: tuple | None = None  # None: filled, not sealed
    stamped: bool = False


class Thread(NamedTuple):
    op: int = 0
    pc: str = "start"
    at: tuple = FIRST  # what it writes, or shows
    head: tuple = FIRST
    settled: tuple = FIRST
    floor: int = 0  # of a read: the place in the history of the newest write acknowledged or read when it began


class State(NamedTuple):
    entry: tuple  # (head, settled) since it was last durable
    places: tuple  # by thread: a tuple of places; each what its line held since it was last durable
    next: tuple  # by thread: the place that it fills next
    locked: int  # the thread that has the lock, or -1
    threads: tuple
    must: tuple  # writes that were acknowledged or read, in the order they were linked in


def put(items, i, value):
    return items[:i] + (value,) + items[i + 1 :]


class Model:
    def __init__(self, lives, mutant=""):
        self.lives = [[t.split() for t in life] for life in lives]
        self.mutant = mutant
        self.segments = max(len(life) for life in lives)
        self.room = sum(max(len(t) for t in life) for life in self.lives)
        self.life = 0

    # ---- memory ----

    def record(self, s, place):
        return s.places[place[0]][place[1]][-1]

    def with_record(self, s, place, record):
        lines = s.places[place[0]]
        return s._replace(places=put(s.places, place[0], put(lines, place[1], lines[place[1]] + (record,))))

    def with_entry(self, s, head, settled):
        return s._replace(entry=s.entry + ((head, settled),))

    def durable(self, s, place, entry=False):
        """Flush and fence of a record's line, and of the entry's."""
        if place != FIRST:
            lines = s.places[place[0]]
            s = s._replace(places=put(s.places, place[0], put(lines, place[1], lines[place[1]][-1:])))
        return s._replace(entry=s.entry[-1:]) if entry else s

    def is_on_top(self, s, place, settled):
        r = self.record(s, place)
        return r is not None and r.older == settled

    def newest(self, s):
        head, settled = s.entry[-1]
        return head if head == settled or head == FIRST or self.is_on_top(s, head, settled) else settled

    def depth(self, s, place):
        """None where a record's older one is missing."""
        depth = 0
        while place != FIRST:
            r = self.record(s, place)
            if r is None or r.older is None:
                return None
            place, depth = r.older, depth + 1
        return depth

    def history(self, s):
        place, out = self.newest(s), []
        while place != FIRST:
            r = self.record(s, place)
            if r is None or r.older is None:
                return None
            out.append(r.op)
            place = r.older
        return out[::-1]

    # ---- steps ----

    def steps(self, s):
        for t, th in enumerate(s.threads):
            ops = self.lives[self.life][t]
            if th.op < len(ops):
                step = self.write if ops[th.op] == "W" else self.read
                for to, changes in step(s, t, th):
                    yield to._replace(threads=put(to.threads, t, to.threads[t]._replace(**changes)))

    def look(self, s, th, dangling):
        """The steps of durable_heads::resolve_head(); `dangling`: what follows on a head that leads to no record."""
        head, settled = s.entry[-1]
        if th.pc == "look":
            yield s, {"pc": "settled", "head": head}
        elif th.pc == "settled":
            sure = th.head in (FIRST, settled)
            yield s, {"pc": "found" if sure else "judge", "settled": settled, "at": th.head if sure else th.at}
        elif th.pc == "judge":
            yield s, {"pc": "again on top" if self.is_on_top(s, th.head, th.settled) else "again none"}
        else:
            changed = (head, settled) != (th.head, th.settled) and self.mutant != "the head is not looked at again"
            if changed:
                yield s, {"pc": "look"}
            elif th.pc == "again on top":
                yield s, {"pc": "found", "at": th.head}
            else:
                yield s, dangling

    def read(self, s, t, th):
        if th.pc == "start":
            yield s, {"pc": "look", "floor": self.history(s).index(s.must[-1]) + 1 if s.must else 0}
        elif th.pc == "set back":  # the mutant
            head, settled = s.entry[-1]
            yield (self.with_entry(s, th.settled, settled) if head == th.head else s), {"pc": "look"}
        elif th.pc == "found":
            s = self.stamp(s, th.at)
            yield (s if self.mutant == "no persist on read" else self.durable(s, th.at)), {"pc": "return"}
        elif th.pc == "return":
            yield self.reported(s, t, th.at), {"pc": "reported"}
        elif th.pc == "reported":
            yield s, Thread(op=th.op + 1)._asdict()
        else:
            sets_back = self.mutant == "a reader sets the head back"
            yield from self.look(s, th, {"pc": "set back"} if sets_back else {"pc": "found", "at": th.settled})

    def write(self, s, t, th):
        mine = (t, s.next[t] - 1)
        head, settled = s.entry[-1]
        if th.pc == "start":
            op = (self.life, t, th.op)
            s = s._replace(next=put(s.next, t, s.next[t] + 1))
            yield self.with_record(s, (t, s.next[t] - 1), Record(op)), {"pc": "look"}
        elif th.pc == "found":  # the newest is stamped, durable and settled before anything is linked on it
            s = self.stamp(s, th.at)
            if self.mutant != "linked on what is not durable":
                s = self.durable(s, th.at)
            older = FIRST if th.at == FIRST else self.record(s, th.at).older
            if th.at != FIRST and settled == older:
                s = self.with_entry(s, head, th.at)
            yield s, {"pc": "seal"}
        elif th.pc == "seal":
            r = self.record(s, mine)
            yield self.with_record(s, mine, r._replace(older=th.at)), {"pc": "link"}
        elif th.pc == "link":
            expected = th.head if self.mutant == "a head that leads to nothing is exchanged" else th.at
            linked = head == expected
            yield (self.with_entry(s, mine, settled) if linked else s), {"pc": "stamp" if linked else "look"}
        elif th.pc == "stamp":
            yield self.stamp(s, mine), {"pc": "flush"}
        elif th.pc == "flush":
            yield (s if self.mutant == "no flush" else self.durable(s, mine, entry=True)), {"pc": "return"}
        elif th.pc == "return":
            yield self.reported(s, t, mine), Thread(op=th.op + 1)._asdict()
        elif th.pc == "lock":
            if s.locked < 0:
                yield s._replace(locked=t), {"pc": "look under it"}
        elif th.pc == "look under it":  # in steps: writers of the entry go on meanwhile
            yield s, {"pc": "judge under it", "head": head, "settled": settled}
        elif th.pc == "judge under it":
            none = th.head not in (FIRST, th.settled) and not self.is_on_top(s, th.head, th.settled)
            unchanged = (head, settled) == (th.head, th.settled)
            yield s, {"pc": "store" if none and unchanged else "unlock"}
        elif th.pc == "store":
            yield self.with_entry(s, th.settled, settled), {"pc": "unlock"}
        elif th.pc == "set back":  # a mutant
            yield (self.with_entry(s, th.settled, settled) if head == th.head else s), {"pc": "look"}
        elif th.pc == "lock, judged":  # a mutant
            if s.locked < 0:
                yield s._replace(locked=t), {"pc": "set back under it"}
        elif th.pc == "set back under it":
            yield (self.with_entry(s, th.settled, settled) if head == th.head else s), {"pc": "unlock"}
        elif th.pc == "unlock":
            yield s._replace(locked=-1), {"pc": "look"}
        else:
            then = {"pc": "lock"}
            if self.mutant == "a writer sets the head back without the lock":
                then = {"pc": "set back"}
            elif self.mutant == "judged before the lock was taken":
                then = {"pc": "lock, judged"}
            elif self.mutant == "a head that leads to nothing is exchanged":
                then = {"pc": "found", "at": th.settled}
            yield from self.look(s, th, then)

    def stamp(self, s, place):
        if place == FIRST or self.record(s, place) is None or self.record(s, place).stamped:
            return s
        return self.with_record(s, place, self.record(s, place)._replace(stamped=True))

    def reported(self, s, t, place):
        """A write is acknowledged, or read: it must be there from now on, and no read that begins now may be behind it."""
        history = self.history(s) or []
        op = None if place == FIRST else self.record(s, place).op
        seen = [x for x in history if x in s.must or x == op]
        if op is not None and op not in seen:
            seen.append(op)  # lost: judge() sees that
        return s._replace(must=tuple(seen))

    # ---- judging ----

    def judge(self, s):
        history = self.history(s)
        if history is None:
            return "a history leads to no record"
        if not set(s.must) <= set(history):
            return "a write that was acknowledged or read is lost"
        for t, th in enumerate(s.threads):
            if th.pc == "reported":
                shown = 0 if th.at == FIRST else history.index(self.record(s, th.at).op) + 1
                if shown < th.floor:
                    return "a read behind what was seen before"
        return None

    def images(self, s):
        lines = [s.entry] + [line for places in s.places for line in places]
        for image in product(*(range(len(line)) for line in lines)):
            kept = iter(image)
            entry = (s.entry[next(kept)],)
            places = tuple(tuple((line[next(kept)],) for line in segment) for segment in s.places)
            yield s._replace(entry=entry, places=places)

    def opened(self, s, image):
        """As instant_recovery: what a crash cut off is zeroed, each writer's last record is linked again."""
        life = self.lives[self.life + 1] if self.life + 1 < len(self.lives) else []
        s = image._replace(locked=-1, threads=tuple(Thread() for _ in life))
        last = []
        for t, segment in enumerate(s.places):
            end = 0
            while end < len(segment) and segment[end][-1] is not None and segment[end][-1].stamped:
                end += 1
            rest = segment[end:] if self.mutant == "what was cut off is not zeroed" else ((None,),) * (len(segment) - end)
            s = s._replace(places=put(s.places, t, segment[:end] + rest), next=put(s.next, t, end))
            if end > 0:
                last.append((t, end - 1))
        if any(self.depth(s, place) is None for place in last):
            return None
        for place in sorted(last, key=lambda place: self.depth(s, place)):
            newest, older = self.newest(s), self.record(s, place).older
            if (self.depth(s, newest) or 0) < self.depth(s, place):
                if newest != older:
                    return None
                s = self.with_entry(s, place, older)
            if self.newest(s) == place:
                s = self.with_entry(s, s.entry[-1][0], place)
        return s._replace(entry=s.entry[-1:])

    def explore(self):
        """Number of states, and the first violation or None."""
        nothing = ((None,),) * self.room
        first = State(((FIRST, FIRST),), (nothing,) * self.segments, (0,) * self.segments, -1, (), ())
        begins = {first._replace(threads=tuple(Thread() for _ in self.lives[0]))}
        count = 0
        for self.life in range(len(self.lives)):
            seen, todo, left = set(begins), list(begins), set()
            while todo:
                s = todo.pop()
                bad = self.judge(s)
                if bad:
                    return count + len(seen), bad
                for image in self.images(s):
                    after = self.opened(s, image)
                    if after is None:
                        return count + len(seen), "a record survives its older one"
                    left.add(after)
                for n in self.steps(s):
                    if n not in seen:
                        seen.add(n)
                        todo.append(n)
            count += len(seen)
            for s in left:
                bad = self.judge(s)
                if bad:
                    return count, bad + ", after a crash"
            begins = left
        return count, None


def main():
    if len(sys.argv) > 1:
        states, bad = Model(PROGRAMS[sys.argv[1]], sys.argv[2] if len(sys.argv) > 2 else "").explore()
        print(f"{states} states: {bad or 'no violation'}")
        return bad is not None
    failures = 0
    for name, lives in PROGRAMS.items():
        states, bad = Model(lives).explore()
        print(f"{name}: {states} states, {bad or 'no violation'}", flush=True)
        failures += bad is not None
    for mutant, program in MUTANTS.items():
        states, bad = Model(PROGRAMS[program], mutant).explore()
        print(f"mutant '{mutant}': {'caught: ' + bad if bad else 'NOT CAUGHT'} ({states} states)", flush=True)
        failures += bad is None
    return failures


if __name__ == "__main__":
    sys.exit(main())
