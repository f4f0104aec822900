// Six properties of watches: ordered, unique, atomic by version, reliable, resumable, bookmarkable.
package main

import (
	"fmt"
	"sort"
)

type written struct {
	version uint64
	key     string
	value   string
	removed bool
}

func (w written) less(o written) bool {
	if w.version != o.version {
		return w.version < o.version
	}
	if w.key != o.key {
		return w.key < o.key
	}
	if w.removed != o.removed {
		return w.removed
	}
	return w.value < o.value
}

func (w written) String() string {
	if w.removed {
		return fmt.Sprintf("removal of %q in version %d", w.key, w.version)
	}
	return fmt.Sprintf("%q = %q in version %d", w.key, w.value, w.version)
}

// The changes that acknowledged transactions made, and those that transactions of unknown outcome may have made.
type truth struct {
	sure     map[written]int
	possible map[string]bool // key and value, or key alone for a removal
	cleared  map[uint64][]operation
}

func possibleName(key, value string, removed bool) string {
	if removed {
		return "r" + key
	}
	return "p" + key + "\x00" + value
}

func truthOf(h *history) truth {
	t := truth{map[written]int{}, map[string]bool{}, map[uint64][]operation{}}
	for _, e := range h.writes {
		if e.Return == never {
			for _, list := range [][]operation{e.Then, e.Otherwise} {
				for _, o := range list {
					switch o.What {
					case "put", "put_new":
						t.possible[possibleName(o.Key, o.Value, false)] = true
					case "remove":
						t.possible[possibleName(o.Key, "", true)] = true
					case "remove_range":
						for _, key := range h.keys {
							if key >= o.Key && (o.End == "" || key < o.End) {
								t.possible[possibleName(key, "", true)] = true
							}
						}
					}
				}
			}
			continue
		}
		last := map[string]written{} // of one transaction, the last write to a key counts
		for i, o := range e.list() {
			if i >= len(e.Results) {
				break // the model refuses it
			}
			r := e.Results[i]
			switch {
			case o.What == "put", o.What == "put_new" && r.Is == "done":
				last[o.Key] = written{e.Version, o.Key, o.Value, false}
			case o.What == "remove" && r.Is == "done":
				last[o.Key] = written{e.Version, o.Key, "", true}
			case o.What == "remove_range" && r.Count > 0:
				t.cleared[e.Version] = append(t.cleared[e.Version], o) // which keys, the watch tells
			}
		}
		for _, w := range last {
			t.sure[w]++
		}
	}
	return t
}

func (t *truth) mayHave(w written) bool {
	if t.possible[possibleName(w.key, w.value, w.removed)] {
		return true
	}
	if w.removed {
		for _, o := range t.cleared[w.version] {
			if w.key >= o.Key && (o.End == "" || w.key < o.End) {
				return true
			}
		}
	}
	return false
}

type watchState struct {
	begin *event
	told  uint64
	open  uint64 // the greatest version of which a change was told
	all   []written
}

func (w *watchState) inside(key string) bool {
	return key >= w.begin.From && (w.begin.End == "" || key < w.begin.End)
}

// judgeWatches returns the first property that does not hold, or nothing.
func judgeWatches(h *history) string {
	t := truthOf(h)
	watches := map[int]*watchState{}
	var order []*watchState
	for _, e := range h.watches {
		if e.Kind == "watch" {
			w := &watchState{begin: e, told: e.After, open: e.After}
			watches[e.Watch] = w
			order = append(order, w)
			continue
		}
		w := watches[e.Watch]
		if w == nil {
			return fmt.Sprintf("line %d: of a watch that did not begin", e.line)
		}
		for _, r := range e.Rows {
			change := written{r.Version, r.Key, r.Value, r.Removed}
			if r.Version <= w.told {
				return fmt.Sprintf("not bookmarkable: line %d tells %v, but the watch said that all up to version %d was told", e.line, change, w.told)
			}
			if r.Version < w.open {
				return fmt.Sprintf("not ordered: line %d tells %v behind version %d", e.line, change, w.open)
			}
			if !w.inside(r.Key) {
				return fmt.Sprintf("not reliable: line %d tells %v, which is outside of the watch's bounds", e.line, change)
			}
			w.open = r.Version
			w.all = append(w.all, change)
		}
		if e.Told < w.told {
			return fmt.Sprintf("not bookmarkable: line %d: the progress falls from version %d to %d", e.line, w.told, e.Told)
		}
		w.told = e.Told
	}
	for _, w := range order {
		if wrong := judgeOne(h, &t, w); wrong != "" {
			return wrong
		}
	}
	return judgeJoins(order)
}

func judgeOne(h *history, t *truth, w *watchState) string {
	name := fmt.Sprintf("watch %d, which begins in line %d behind version %d", w.begin.Watch, w.begin.line, w.begin.After)
	counts := map[written]int{}
	perKey := map[string]int{} // of one version
	version := uint64(0)
	for _, change := range w.all {
		counts[change]++
		if h.rule != "write" {
			continue
		}
		if change.version != version {
			version = change.version
			perKey = map[string]int{}
		}
		if perKey[change.key]++; perKey[change.key] > 1 {
			return fmt.Sprintf("not unique: %s tells %v, and the key twice", name, change)
		}
	}
	for change, n := range counts {
		if most := t.sure[change]; n > most && !t.mayHave(change) {
			if most > 0 {
				return fmt.Sprintf("not unique: %s tells %v %d times, but it was written %d times", name, change, n, most)
			}
			return fmt.Sprintf("not reliable: %s tells %v, which nobody wrote", name, change)
		}
	}
	var missed []written
	partly := map[uint64]bool{}
	for change := range t.sure {
		if change.version <= w.begin.After || change.version > w.told || !w.inside(change.key) {
			continue
		}
		if counts[change] < t.sure[change] {
			missed = append(missed, change)
		}
	}
	for change := range counts {
		partly[change.version] = true
	}
	if len(missed) > 0 {
		sort.Slice(missed, func(i, j int) bool { return missed[i].less(missed[j]) })
		if h.rule == "write" && partly[missed[0].version] {
			return fmt.Sprintf("not atomic: %s tells of version %d only a part: not %v", name, missed[0].version, missed[0])
		}
		return fmt.Sprintf("not reliable: %s never tells %v, but says that all up to version %d is told", name, missed[0], w.told)
	}
	return ""
}

// judgeJoins: two watches with the same bounds tell the same of the versions that both told.
func judgeJoins(order []*watchState) string {
	type bounds struct{ from, end string }
	first := map[bounds]*watchState{}
	for _, w := range order {
		b := bounds{w.begin.From, w.begin.End}
		longest := first[b]
		if longest == nil || w.begin.After < longest.begin.After || (w.begin.After == longest.begin.After && w.told > longest.told) {
			first[b] = w
		}
	}
	for _, w := range order {
		other := first[bounds{w.begin.From, w.begin.End}]
		if other == w {
			continue
		}
		low := w.begin.After
		high := w.told
		if other.told < high {
			high = other.told
		}
		cut := func(all []written) []written {
			var some []written
			for _, change := range all {
				if change.version > low && change.version <= high {
					some = append(some, change)
				}
			}
			return some
		}
		mine, theirs := cut(w.all), cut(other.all)
		for i := 0; i < len(mine) || i < len(theirs); i++ {
			if i >= len(mine) || i >= len(theirs) || mine[i] != theirs[i] {
				at := fmt.Sprintf("%d of %d and %d changes", i, len(mine), len(theirs))
				return fmt.Sprintf("not resumable: watches %d and %d tell different things of versions %d to %d: the same %s",
					w.begin.Watch, other.begin.Watch, low+1, high, at)
			}
		}
	}
	return ""
}
