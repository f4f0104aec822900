"""What threads do in the model of generations and strata (generations.py), one atomic step at a time."""

from generation_state import (
    ANY,
    KEYS,
    Extent,
    Generation,
    Layers,
    Manifest,
    Packed,
    Record,
    Stack,
    Stratum,
    Thread,
    Violation,
    Work,
    begin_of,
    put,
)


class Steps(Layers):
    def __init__(self, lives, mutant="", tagged=False):
        super().__init__(lives, mutant, tagged)
        kinds = {"W": self.write, "D": self.write, "B": self.batch, "T": self.tag, "N": self.named_tag}
        kinds |= {"F": self.freeze, "Y": self.sync, "R": self.read, "L": self.read, "G": self.newest}
        self.kinds = kinds | {"H": self.hold, "C": self.compact, "K": self.killed}
        # a compaction's steps, once its stratum is built
        stratum, manifest = ["stratum durable"], ["write manifest", "manifest durable"]
        again, switch, barrier, free = ["write it again", "it is durable again"], ["switch"], ["barrier"], ["free"]
        self.order = stratum + manifest + again + switch + barrier + free
        if mutant == "the manifest is durable before the stratum":
            self.order = manifest + again + stratum + switch + barrier + free
        elif mutant == "space is free before the manifest is durable":
            self.order = stratum + manifest[:1] + switch + barrier + free + manifest[1:] + again
        elif mutant == "space is free while one root page names the old manifest":
            self.order = stratum + manifest + switch + barrier + free
        elif mutant == "readers see the switch before the manifest is durable":
            self.order = stratum + switch + barrier + manifest + again + free
        elif mutant == "space is free before the switch":
            self.order = stratum + manifest + again + barrier + free + switch
        elif mutant == "the barrier comes before the switch":
            self.order = stratum + manifest + again + barrier + switch + free
        elif mutant == "no barrier before pins are counted":
            self.order = stratum + manifest + again + switch + free

    def steps(self, s):
        """A step gives the state after it, or None where its thread must wait."""
        for t, th in enumerate(s.threads):
            ops = self.lives[self.life][t]
            if th.op < len(ops):
                to = self.kinds[ops[th.op][0]](s, t, th, ops[th.op])
                if to is not None:
                    yield to

    def goto(self, s, t, **changes):
        return s._replace(threads=put(s.threads, t, s.threads[t]._replace(**changes)))

    def end(self, s, t):
        return s._replace(threads=put(s.threads, t, Thread(op=s.threads[t].op + 1, segment=s.threads[t].segment)))

    def acknowledged(self, s, t, op):
        return self.end(s if self.tagged else s._replace(must=s.must | {op}), t)

    # ---- writers ----

    def lease(self, s, t):
        """A lease on the young generation: its place. A generation's first writer gets it one."""
        if s.gate >= 0:
            return None
        stays = self.mutant == "a writer goes on in the segment that it has"
        if stays and s.threads[t].segment >= 0:
            return s, s.threads[t].segment
        (number, at), *older = s.homes
        if at < 0:
            if not s.free:
                return None
            s, at = self.given_out(s, number, s.stack.layers[0].begin)
            if not self.tagged and not self.mutant.startswith("a segment's header is"):
                s = self.header_durable(s, at)
            s = s._replace(homes=((number, at), *older))
        return self.goto(s, t, segment=at) if stays else s, at

    def ready_top(self, s, at, key):
        """A record is linked only on one that is stamped and durable. None: that one's batch is being linked."""
        found = [(line, r) for line, r in self.records(s, at) if r.kind in "WD" and r.key == key]
        if not found:
            return s
        line, record = found[-1]
        s = self.set_stamp(s, line, s.clock)
        return self.read_by_someone(s, line) if not record.batch or self.stamp(s, record) else None

    def write(self, s, t, th, op):
        kind, key, me = op[0], int(op[1]), (self.life, t, th.op)
        if th.pc == "start":
            leased = self.lease(s, t)
            if leased is None:
                return None
            s, at = leased
            pinned = kind == "D" and self.mutant != "a removal looks without a pin"
            return self.goto(s, t, lease=at, stack=s.stack if kind == "D" else None, pinned=pinned, pc="link")
        if th.pc == "link":
            s = self.ready_top(s, th.lease, key)
            if s is None:
                return None
            if kind == "D":
                alone = self.mutant == "a removal looks at the young generation alone"
                layers = th.stack.layers[:1] if alone else th.stack.layers
                line, record = self.look(s, layers, key, ANY)
                there = record is not None and record.kind == "W"
                if there != (self.true_answer(s, key, ANY) is not None):
                    raise Violation("a removal did not see what is there")
                s = self.read_by_someone(s, line)
                if not there:
                    return self.end(s, t)
            s, line = self.append(s, th.lease, Record(0, me, kind, key))
            return self.goto(s, t, mine=(line,), stack=None, pinned=False, seen=False, pc="read clock")
        if th.pc == "read clock":
            return self.goto(s, t, clock=s.clock, pc="stamp")
        if th.pc == "stamp":
            return self.goto(self.set_stamp(s, th.mine[0], th.clock), t, clock=0, pc="flush")
        if not self.tagged:
            s = self.durable(s, *th.mine)
            if self.mutant == "a segment's header is durable with its first record":
                s = self.header_durable(s, th.lease)
        return self.acknowledged(s, t, me)

    def batch(self, s, t, th, _op):
        me = (self.life, t, th.op)
        if th.pc == "start":
            leased = self.lease(s, t)
            return None if leased is None else self.goto(leased[0], t, lease=leased[1], pc="first")
        if th.pc == "first":
            s = self.ready_top(s, th.lease, 0)
            if s is None:
                return None
            s, batch = self.append(s, th.lease, Record(0, me, "B", -1))
            s, line = self.append(s, th.lease, Record(0, me, "W", 0, batch=batch))
            parted = self.mutant == "a batch takes its generation for each key"
            return self.goto(s, t, mine=(batch, line), lease=-1 if parted else th.lease, pc="second")
        if th.pc == "second":  # all are linked, then durable, then stamped
            leased = self.lease(s, t) if th.lease < 0 else (s, th.lease)
            if leased is None:
                return None
            s, at = leased
            s = self.ready_top(s, at, 1)
            if s is None:
                return None
            batch, first = th.mine
            s, second = self.append(s, at, Record(0, me, "W", 1, batch=batch))
            s = s if self.tagged else self.durable(s, first, second)
            return self.goto(s, t, lease=at, pc="read clock")
        if th.pc == "read clock":
            return self.goto(s, t, clock=s.clock, pc="stamp")
        batch = th.mine[0]
        if th.pc == "stamp":
            s = self.with_line(s, batch, self.line(s, batch)._replace(stamp=th.clock))
            log = s.log + tuple(Record(0, me, "W", key, th.clock) for key in (0, 1))
            return self.goto(s._replace(log=log), t, clock=0, pc="flush")
        return self.acknowledged(s if self.tagged else self.durable(s, batch), t, me)

    # ---- the clock ----

    def tag(self, s, t, _th, _op):
        return self.end(s._replace(clock=s.clock + 1), t)

    def named_tag(self, s, t, th, _op):
        unleased = self.mutant == "a tag is recorded without a lease"
        if th.pc == "start":
            leased = (s, -1) if unleased else self.lease(s, t)
            if leased is None:
                return None
            s, at = leased
            return self.goto(s._replace(clock=s.clock + 1), t, version=s.clock, lease=at, pc="record")
        leased = self.lease(s, t) if unleased else (s, th.lease)
        if leased is None:
            return None
        s, line = self.append(*leased, Record(0, (self.life, t, th.op), "N", -1, th.version))
        return self.end(s if self.tagged else self.durable(s, line)._replace(tags=s.tags | {th.version}), t)

    def closed_under_gate(self, s, t, th):
        """Shuts the gate, waits for the writers, closes the open version: None, or the state."""
        early = self.mutant == "a freeze closes the version before writers have stopped"
        if th.pc == "start":
            if s.gate >= 0:
                return None
            s = s._replace(gate=t)
            version = s.clock if early else 0
            return self.goto(s._replace(clock=s.clock + early), t, version=version, pc="wait")
        if any(o.lease >= 0 for o in s.threads) and self.mutant != "a freeze does not wait for writers":
            return None
        return self.goto(s if early else s._replace(clock=s.clock + 1), t, version=th.version or s.clock, pc="closed")

    def freeze(self, s, t, th, _op):
        if th.pc != "closed":
            return self.closed_under_gate(s, t, th)
        number = s.homes[0][0] + 1
        stack = Stack(s.stack.number + 1, (Generation(number, th.version),) + s.stack.layers, *s.stack[2:])
        return self.end(s._replace(gate=-1, homes=((number, -1),) + s.homes, stack=stack), t)

    def sync(self, s, t, th, _op):
        """Of a store with tag durability: all that is there, then the manifest that says so."""
        if th.pc in ("start", "wait"):
            return self.closed_under_gate(s, t, th)
        if th.pc == "closed":
            if self.locked(s):
                return None
            s = self.all_durable(s)
            manifest = self.newest_root(s.roots).manifest._replace(durable=th.version)
            return self.goto(self.with_root(s, manifest), t, pc="sync")
        tags = s.tags | {v for v in self.listed(s) if v < th.version}
        return self.end(self.root_durable(s)._replace(gate=-1, synced=th.version, tags=tags), t)

    # ---- readers ----

    def pin(self, s, t, th, then):
        if th.pc == "load":
            return self.goto(s, t, stack=s.stack, pc="pin")
        if th.pc == "pin":
            looks = self.mutant != "no second look at the stack after the pin"
            return self.goto(s, t, pinned=True, seen=False, pc="look again" if looks else then)
        if th.stack != s.stack:
            return self.goto(s, t, stack=None, pinned=False, seen=False, pc="load")
        return self.goto(s, t, pc=then)

    def read(self, s, t, th, op):
        """Closed versions."""
        keys, _, at = op[1:].partition("@")
        closes = op[0] == "L"
        early = closes and self.mutant == "the stack is read before the version is closed"
        if th.pc == "start":
            if early:
                return self.pin(s, t, th._replace(pc="load"), "close")
            if closes:
                return self.goto(s._replace(clock=s.clock + 1), t, version=s.clock, pc="load")
            return self.goto(s, t, version=int(at), stack=s.stack, pc="pin") if s.clock > int(at) else None
        if th.pc in ("load", "pin", "look again"):
            return self.pin(s, t, th, "close" if early else keys[0])
        if th.pc == "close":
            return self.goto(s._replace(clock=s.clock + 1), t, version=s.clock, pc=keys[0])
        key = int(th.pc)
        s = self.helped(s, th.stack.layers, key)
        s = self.read_by_someone(s, self.check_read(s, th.stack, key, th.version))
        if self.expired(th.stack, th.version):
            s = s._replace(told=s.told | {th.version})
        rest = keys[keys.index(th.pc) + 1 :]
        return self.goto(s, t, pc=rest[0]) if rest else self.end(s, t)

    def newest(self, s, t, th, op):
        """The newest value, which a read that began later may not be behind: one layer at a step."""
        key = int(op[1])
        log = [r for r in s.log if r.key == key]
        if th.pc == "start":
            floor = max((i + 1 for i, r in enumerate(log) if r.op in s.must), default=0)
            return self.goto(s, t, floor=floor, stack=s.stack, pc="pin")
        if th.pc in ("load", "pin", "look again"):
            return self.pin(s, t, th, "0")
        asked = int(th.pc)
        layer = th.stack.layers[asked]
        s = self.helped(s, (layer,), key)
        line, record = self.look(s, (layer,), key, ANY)
        if record is None and asked + 1 < len(th.stack.layers):
            return self.goto(s, t, pc=str(asked + 1))
        shown = record.op if record and record.kind == "W" else None
        log = [r for r in s.log if r.key == key]
        states = [None] + [r.op if r.kind == "W" else None for r in log]
        if shown not in states[th.floor :]:
            raise Violation("a read is behind what was seen before")
        return self.end(self.read_by_someone(s, line), t)

    def hold(self, s, t, _th, op):
        """One step: under the lock under which a compaction decides."""
        version = int(op[1:])
        if s.clock <= version:
            return None
        doomed = version in s.doomed and self.mutant != "a hold does not ask what is about to go"
        if not doomed and not self.expired(s.stack, version):
            s = s._replace(holds=s.holds | {version})
        return self.end(s, t)

    # ---- compaction ----

    def compact(self, s, t, th, op):
        if th.pc == "start":
            merged = self.to_merge(s, op)
            if not merged:
                return self.end(s, t)
            if not s.free:
                return None
            s, work = self.built(s, op, merged)
            return self.goto(s, t, work=work, pc=self.order[0])
        s = self.compaction_step(s, t, th)
        if s is None:
            return None
        done = self.order.index(th.pc) + 1
        return self.goto(s, t, pc=self.order[done]) if done < len(self.order) else self.end(s, t)

    def killed(self, s, t, th, op):
        """Thread n's process is killed; this one finishes what the manifest names, and takes back what it does not."""
        if th.pc != "start":
            return self.compact(s, t, th, op)
        n = int(op[1:])
        dead = s.threads[n]
        s = self.goto(s, n, **Thread(op=len(self.lives[self.life][n]))._asdict())
        if dead.pc == "start":
            return self.end(s, t)
        if dead.work is None:  # amid a freeze: at most the clock has moved
            return self.end(s if self.mutant == "the gate of a killed freeze stays shut" else s._replace(gate=-1), t)
        unnamed = dead.pc in ("stratum durable", "write manifest")
        if unnamed or (self.mutant == "a killed compaction is rolled back at any step" and dead.pc != "free"):
            leaks = self.mutant == "a killed compaction keeps its place"
            return self.end(s._replace(free=s.free + (() if leaks else dead.work.places), doomed=()), t)
        return self.goto(s, t, work=dead.work, pc=dead.pc)

    def kept_of(self, records, kept, bottom):
        """What a stratum takes of one key's records, newest first, unless retention keeps all."""
        out, newer = [], ANY
        for r in records:
            shown = any(r.stamp <= v < newer for v in kept)
            if self.mutant == "only records of kept versions stay":
                shown = r.stamp in kept
            newest = newer == ANY and self.mutant != "the newest record goes if no kept version shows it"
            if newest or shown:
                out.append(r)
            newer = r.stamp
        while out and out[-1].kind == "D" and bottom:  # nothing below shows the key
            out.pop()
        return out

    def to_merge(self, s, op):
        frozen = [p for p in s.stack.layers[1:] if isinstance(p, Generation)]
        strata = [p for p in s.stack.layers if isinstance(p, Stratum)]
        return frozen + (strata if op[1] == "A" else strata[: int(op[1])])

    def built(self, s, op, merged):
        """Decides and builds: nothing that is read changes, and nobody sees what is written."""
        young, *rest = s.stack.layers
        frozen = [p for p in merged if isinstance(p, Generation)]
        high = begin_of(s.stack.layers[s.stack.layers.index(merged[0]) - 1])
        low = begin_of(merged[-1])
        bottom = merged[-1] == rest[-1] or self.mutant == "a removal dropped over an older stratum"
        segments = [at for number, at in s.homes for p in frozen if p.number == number and at >= 0]
        tags = set(s.stack.tags) | {r.stamp for at in segments for _, r in self.records(s, at) if r.kind == "N"}
        holds = set() if self.mutant == "retention is decided without holds" else s.holds
        wanted = range(low + 1, high + 1) if op[2] == "a" else sorted(tags | holds)
        again = self.mutant == "expired versions are kept again"
        kept = tuple(v for v in wanted if low < v <= high and (again or not self.expired(s.stack, v)))

        records = []
        for key in range(KEYS):
            history = [r._replace(batch=(), reuse=0) for p in merged for _, r in self.history(s, p, key) if r.stamp]
            records += history if op[2] == "a" else self.kept_of(history, kept, bottom)
        s, extent = self.packed_into(s, records, tuple(range(KEYS)))
        stratum = Stratum((extent,), low, high)
        carried = s.stack.tags if self.mutant == "tags stay where the segment was" else tuple(sorted(tags))
        below = tuple(p for p in rest if p not in merged)
        doomed = tuple(v for v in range(low + 1, high + 1) if v not in kept)
        expired = tuple(sorted({v for v in s.stack.expired if not low < v <= high} | set(doomed)))
        manifest = Manifest(young.number, (stratum, *below), carried, expired, max(high, self.high_of(s)))
        gone = tuple(e.place for p in merged if isinstance(p, Stratum) for e in p.extents)
        work = Work((extent.place,), (stratum,), s.stack, manifest, tuple(merged), gone)
        return s._replace(doomed=doomed), work

    def high_of(self, s):
        return max((p.high for p in s.stack.layers if isinstance(p, Stratum)), default=0)

    def packed_into(self, s, records, keys):
        """An extent with these records, in a free place."""
        s, at = self.given_out(s, 0, 0)
        reuse = s.places[at].header[-1].reuse
        return self.with_line(s, (at, 0), Packed(reuse, tuple(records))), Extent(keys, at, reuse)

    def places_durable(self, s, places):
        for at in places:
            s = self.header_durable(self.durable(s, (at, 0)), at)
        return s

    def compaction_step(self, s, t, th):
        work = th.work
        if th.pc == "stratum durable":
            return self.places_durable(s, work.places)
        if th.pc == "write manifest":
            if self.locked(s):
                return None
            stale = self.mutant == "the manifest takes back what was synced meanwhile"
            durable = 0 if stale else self.newest_root(s.roots).manifest.durable
            if self.tagged and self.mutant != "the manifest does not say what its strata make durable":
                durable = max(durable, work.manifest.high)
            return self.with_root(s, work.manifest._replace(durable=durable))
        if th.pc == "write it again":
            return None if self.locked(s) else self.with_root(s, self.newest_root(s.roots).manifest)
        if th.pc in ("manifest durable", "it is durable again"):
            return self.root_durable(s)
        if th.pc == "switch":
            old = work.before if self.mutant == "a switch forgets what was frozen meanwhile" else s.stack
            first = old.layers.index(work.merged[0])
            layers = old.layers[:first] + work.strata + old.layers[first + len(work.merged) :]
            number = s.stack.number + 1
            s = s._replace(stack=Stack(number, layers, work.manifest.tags, work.manifest.expired), doomed=())
            return self.goto(s, t, work=work._replace(switched=number))
        if th.pc == "barrier":
            return s._replace(threads=tuple(o._replace(seen=o.pinned) for o in s.threads))
        number = work.switched or s.stack.number + 1  # the second: the mutant that frees before the switch
        older = [o.stack.number for o in s.threads if o.seen and o.stack.number < number]
        if self.mutant == "only pins on the stack before are counted":
            older = [n for n in older if n == number - 1]
        if older and self.mutant != "pins are not waited for":
            return None
        gone = {p.number for p in work.merged if isinstance(p, Generation)}
        places = list(work.gone)
        places += [at for n, at in reversed(s.homes) if n in gone and at >= 0]
        return s._replace(homes=tuple(h for h in s.homes if h[0] not in gone), free=s.free + tuple(places))
