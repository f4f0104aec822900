"""Compaction as it is built, in the model of generations and strata (generations.py): in rounds beside the writers of
the one young generation, and by ranges of keys, with a change of the manifest for each.

docs/design/0033-compaction-beside-writers.md and docs/design/0037-compaction-by-ranges.md tell what is modelled. A
stratum that is made here has an extent for each key, so a range is one key.
"""

from generation_state import KEYS, Generation, Manifest, Stack, Stratum, Thread, Work
from generation_steps import Steps


class Packing(Steps):
    def __init__(self, lives, mutant="", tagged=False):
        super().__init__(lives, mutant, tagged)
        self.kinds["P"] = self.pack
        # what it does with the gate shut, up to the last two
        self.finish = ["write manifest", "manifest durable", "write it again", "it is durable again"]
        self.finish += ["switch", "open the gate", "barrier", "free"]
        if mutant == "the gate opens before the next generation is there":
            self.finish[4:6] = ["open the gate", "switch"]
        elif mutant == "the next generation is there before a root names its strata":
            self.finish = ["switch", "open the gate", *self.finish[:4], "barrier", "free"]
        elif mutant == "replaced extents are free before the switch":
            self.finish[4:8] = ["free", "switch", "open the gate", "barrier"]

    def pack(self, s, t, th, op):
        if th.pc in ("start", "wait"):
            if th.pc == "start" and not self.has_something_to_pack(s, op):
                return self.end(s, t)
            return self.closing(s, t, th, "start", "wait", "decide")
        if th.pc == "decide":
            return self.decided(s, t, th, op)
        if th.pc == "merge":
            return self.first_merge(s, t, th, op)
        if th.pc == "merged":
            return self.goto(self.places_durable(s, th.work.places), t, pc="round")
        if th.pc in ("round", "wait in a round"):
            if th.pc == "round" and not self.has_new(s, th.work.low):
                return self.goto(s, t, pc="last")
            return self.closing(s, t, th, "round", "wait in a round", "made in a round")
        if th.pc == "made in a round":
            s = s._replace(gate=-1) if s.gate == t else s
            to = self.with_new(s, th.work, th.version)
            return to and self.goto(self.places_durable(to[0], to[1].places), t, work=to[1], version=0, pc="last")
        if th.pc == "last":
            if self.mutant == "the last round is made before the gate is shut" and th.version == 0:
                to = self.with_new(s, th.work, s.clock)
                return to and self.goto(self.places_durable(to[0], to[1].places), t, work=to[1], version=s.clock)
            return self.closing(s, t, th._replace(pc="start"), "start", "wait at the end", "end")
        if th.pc == "wait at the end":
            return self.closing(s, t, th, "", "wait at the end", "end")
        if th.pc == "end":
            return self.last_merge(s, t, th, op)
        stops = self.mutant == "a merge by ranges stops behind its first change"
        if th.pc == self.finish[-1] and th.work.has_rest and not stops:  # the next range
            s = self.finish_step(s, t, th)
            return s and self.goto(s, t, work=None, version=0, pc="start")
        return self.finished(s, t, th)

    # ---- the steps ----

    def closing(self, s, t, th, start, wait, then):
        """Shuts the gate, waits for writers, closes the open version. The gate stays shut."""
        if th.pc == start:
            return self.goto(s._replace(gate=t), t, pc=wait) if s.gate < 0 else None
        in_round = wait == "wait in a round"
        if any(o.lease >= 0 for o in s.threads):
            waits = self.mutant != "a round does not wait for writers" if in_round else True
            waits = waits and not (wait == "wait" and self.mutant == "the first merge does not wait for writers")
            waits = waits and not (wait == "wait at the end" and self.mutant == "the end does not wait for writers")
            if waits:
                return None
        return self.goto(s._replace(clock=s.clock + 1), t, version=s.clock, pc=then)

    def has_new(self, s, low):
        at = self.place_of(s, s.stack.layers[0].number)
        return at >= 0 and any(r.kind in "WD" and not 0 < self.stamp(s, r) <= low for _, r in self.records(s, at))

    def has_something_to_pack(self, s, op):
        strata, end, _ = self.plan(s, op)
        return self.has_new(s, 0) or end >= 2 or any(e.mark == "awaits" for p in strata for e in p.extents)

    def plan(self, s, op):
        """Strata, how many of them are merged, and of which keys: those of one range, or all."""
        strata = [p for p in s.stack.layers if isinstance(p, Stratum)]
        waiting = [(i, e) for i, p in enumerate(strata) for e in p.extents if e.mark == "awaits"]
        if waiting:  # goes on with what was begun
            end = 1 + max(i for i, p in enumerate(strata) if any(e.mark for e in p.extents))
            return strata, end, (min(e.keys[0] for _, e in waiting),)
        end = len(strata) if op[1] == "A" else min(int(op[1]), len(strata))
        divided = op[3:] == "r" and end > 0 and all(len(e.keys) == 1 for p in strata[:end] for e in p.extents)
        keys = {e.keys[0] for p in strata[:end] for e in p.extents} if divided else set()
        return strata, end, (min(keys),) if len(keys) > 1 else tuple(range(KEYS))

    def decided(self, s, t, th, op):
        """Under the lock of holds; the gate opens."""
        low = th.version
        tags = self.listed(s)
        kept = set(range(1, low + 1)) if op[2] == "a" else {low} | tags | s.holds
        doomed = tuple(v for v in range(1, low + 1) if v not in kept and v not in s.stack.expired)
        expired = tuple(sorted({*s.stack.expired, *doomed}))
        if self.mutant == "expired versions are forgotten by the next merge":
            expired = tuple(v for v in range(1, low + 1) if v not in kept)
        work = Work((), (), s.stack, low=low, expired=expired, is_in_rounds=True)
        return self.goto(s._replace(gate=-1, doomed=doomed), t, work=work, version=0, pc="merge")

    def merged_history(self, s, layers, key, high, op, work, bottom):
        history = [
            r._replace(batch=(), reuse=0) for p in layers for _, r in self.history(s, p, key) if 0 < r.stamp <= high
        ]
        if op[2] == "a" and not work.expired:
            return history
        kept = [v for v in range(1, work.low + 1) if v not in work.expired]
        return self.kept_of(history, kept, bottom)

    def stratum_of(self, s, parts, low, high, mark=""):
        """`parts`: records by key. An extent for each that has some. None: no room."""
        parts = [(key, records) for key, records in parts if records]
        if len(parts) > len(s.free):
            return None
        extents = []
        for key, records in parts:
            s, extent = self.packed_into(s, records, (key,))
            extents.append(extent._replace(mark=mark))
        return s, Stratum(tuple(extents), low, high)

    def first_merge(self, s, t, th, op):
        work = th.work
        young = s.stack.layers[0]
        strata, end, keys = self.plan(s, op)
        goes_on = any(e.mark == "awaits" for p in strata for e in p.extents)
        rest = [key for key in range(KEYS) if key not in keys] if end else []
        is_left = any(e.keys[0] > keys[-1] for p in strata[:end] for e in p.extents)
        above = next((i for i, p in enumerate(strata) if any(e.mark == "awaits" for e in p.extents)), 0)
        taken = [young, *strata[:end]]
        is_bottom = end == len(strata) or self.mutant == "a range drops removals over an older stratum"
        range_parts = [(k, self.merged_history(s, taken, k, work.low, op, work, is_bottom)) for k in keys]
        # those of other keys lie above the strata that were chosen
        is_bottom = self.mutant == "young records of other ranges drop removals"
        of_young = [young, *strata[:above]] if goes_on else [young]
        young_parts = [(k, self.merged_history(s, of_young, k, work.low, op, work, is_bottom)) for k in rest]
        if self.mutant == "young records of other ranges wait in the young generation":
            young_parts = []
        newest_low = of_young[-1].low if goes_on and above else young.begin
        made = self.stratum_of(s, young_parts, newest_low, work.low, "" if goes_on or not is_left else "awaits")
        if made is None:
            return None
        s, top = made
        bottom_low = strata[end - 1].low if end else young.begin
        if self.mutant == "a range lies above the strata that it was made of":
            bottom_low = young.begin
        made = self.stratum_of(s, range_parts, bottom_low, work.low, "replaces" if is_left else "")
        if made is None:
            return None
        s, ranged = made
        stay = self.left_of(strata, above if goes_on else 0, end, keys, ranged, is_left)
        places = tuple(e.place for p in (top, ranged) for e in p.extents)
        strata_made = (top,) if top.extents else ()
        work = work._replace(places=places, strata=strata_made, kept_strata=stay, has_rest=is_left)
        return self.goto(s, t, work=work, pc="merged")

    def left_of(self, strata, first, end, keys, ranged, is_left):
        """The strata of before, the merged range in the place of the oldest of those that were merged."""
        out = []
        for i, p in enumerate(strata):
            if i < first:
                continue  # merged with young records, for all keys
            extents = []
            if i < end:
                for e in p.extents:
                    if e.keys[0] in keys:
                        if self.mutant == "merged extents stay in the strata above" and i + 1 < end:
                            extents.append(e)
                        continue
                    if e.keys[0] < keys[0]:
                        extents.append(e._replace(mark="replaces" if is_left else ""))
                    elif self.mutant != "extents that wait are left out of the manifest":
                        extents.append(e._replace(mark="awaits"))
            else:
                extents = [e._replace(mark="") for e in p.extents]
            newest = self.mutant == "a range lies above the strata that it was made of"
            if i + 1 == end and not newest:
                extents += ranged.extents
            if i == first and newest:
                out.append(ranged)
            high = max(p.high, ranged.high) if i + 1 == end else p.high
            if extents:
                extents.sort(key=lambda e: e.keys)
                out.append(p._replace(extents=tuple(extents), high=high))
        if end == 0 and ranged.extents:
            out.insert(0, ranged)
        return tuple(out)

    def with_new(self, s, work, high):
        """What was written since is one more stratum: (state, work), or None if there is no room."""
        young = s.stack.layers[0]
        parts = []
        for key in range(KEYS):
            history = [r for _, r in self.history(s, young, key) if work.low < r.stamp <= high]
            if self.mutant == "a round drops removals":
                while history and history[-1].kind == "D":
                    history.pop()
            parts.append((key, [r._replace(batch=(), reuse=0) for r in history]))
        made = self.stratum_of(s, parts, work.low, high)
        if made is None:
            return None
        s, stratum = made
        strata = ((stratum,) if stratum.extents else ()) + work.strata
        places = work.places + tuple(e.place for e in stratum.extents)
        if self.mutant == "the end packs only what its own round has":
            strata = strata[:1]
        return s, work._replace(strata=strata, places=places, low=high)

    def last_merge(self, s, t, th, op):
        """With the gate shut: asks for holds again, makes the last stratum, and the manifest."""
        work = th.work
        asks = self.mutant != "holds are not asked for again at the end"
        if asks and any(v in work.expired and v not in s.stack.expired for v in s.holds):
            free = s.free + work.places
            return self.goto(s._replace(gate=-1, free=free, doomed=()), t, work=None, version=0, pc="start")
        if self.mutant == "the last round is made before the gate is shut":
            work = work._replace(low=th.version)
        to = self.with_new(s, work, th.version)
        if to is None:
            return None
        s, work = to
        if self.mutant != "the last stratum is durable after the manifest":
            s = self.places_durable(s, work.places)
        tags = tuple(sorted(self.listed(s)))
        if self.mutant == "the end forgets tags made since the decision":
            tags = tuple(v for v in tags if v <= work.before.layers[0].begin or v in work.before.tags)
        strata = work.strata + work.kept_strata
        number = s.stack.layers[0].number + 1
        named = {e.place for p in strata for e in p.extents}
        gone = [e.place for p in s.stack.layers[1:] for e in p.extents if e.place not in named]
        if self.mutant == "extents that wait are given back with those that were merged":
            gone += [e.place for p in work.kept_strata for e in p.extents if e.mark == "awaits"]
        expired = work.expired
        if self.mutant == "versions expire with the last range" and work.has_rest:
            expired = s.stack.expired
        manifest = Manifest(number, strata, tags, expired, th.version)
        work = work._replace(strata=strata, manifest=manifest, merged=s.stack.layers, gone=tuple(gone), low=th.version)
        return self.goto(s, t, work=work, version=0, pc=self.finish[0])

    def finished(self, s, t, th):
        s = self.finish_step(s, t, th)
        if s is None:
            return None
        done = self.finish.index(th.pc) + 1
        return self.goto(s, t, pc=self.finish[done]) if done < len(self.finish) else self.end(s, t)

    def finish_step(self, s, t, th):
        if th.pc == "open the gate":
            return s._replace(gate=-1)
        if th.pc != "switch":
            return self.compaction_step(s, t, th)
        work = th.work
        number = s.stack.number + 1
        generation = work.manifest.oldest
        layers = (Generation(generation, work.low), *work.strata)
        s = s._replace(homes=((generation, -1), *s.homes), doomed=())
        s = s._replace(stack=Stack(number, layers, work.manifest.tags, work.manifest.expired))
        return self.goto(s, t, work=work._replace(switched=number))

    def hold(self, s, t, th, op):
        """While a compaction of this kind is under way, a hold may be taken of what it is about to drop: it looks."""
        if not any(o.work is not None and o.work.is_in_rounds for o in s.threads):
            return super().hold(s, t, th, op)
        version = int(op[1:])
        if s.clock <= version or s.gate >= 0:  # the end takes the lock of holds before it shuts the gate
            return None
        if not self.expired(s.stack, version):
            s = s._replace(holds=s.holds | {version})
        return self.end(s, t)

    def killed(self, s, t, th, op):
        if th.pc == "start":
            n = int(op[1:])
            dead = s.threads[n]
            under_way = self.lives[self.life][n][dead.op] if dead.op < len(self.lives[self.life][n]) else "F"
            if under_way[0] not in "FCP":
                return None  # it is to be killed while it packs
            if under_way[0] == "P" and dead.pc != "start":
                return self.killed_packing(s, t, n, dead)
        if th.work is not None and th.work.is_in_rounds:
            return self.finished(s, t, th)
        return super().killed(s, t, th, op)

    def killed_packing(self, s, t, n, dead):
        """What no root names is given back; a change that a root may name is completed."""
        s = self.goto(s, n, **Thread(op=len(self.lives[self.life][n]))._asdict())
        s = s._replace(gate=t) if s.gate == n else s
        rolls_back = self.mutant == "a killed end is rolled back though a root names it"
        if dead.pc in self.finish[6 if rolls_back else 1 :]:
            return self.goto(s, t, work=dead.work, pc=dead.pc)
        s = s._replace(free=s.free + (dead.work.places if dead.work else ()), doomed=())
        stays_shut = s.gate == t and self.mutant == "the gate of a killed compaction stays shut"
        return self.end(s if stays_shut or s.gate != t else s._replace(gate=-1), t)
