package main

import (
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// A corruption spoils one key's operations so that no register can have answered so; false if it finds no place.
type corruption struct {
	name  string
	spoil func(all []porcupine.Operation, random *rand.Rand) bool
}

// pick returns the number of a random operation among those that fit; -1 if none does.
func pick(all []porcupine.Operation, random *rand.Rand, fits func(porcupine.Operation) bool) int {
	found := -1
	seen := 0
	for i, o := range all {
		if fits(o) {
			seen++
			if random.Intn(seen) == 0 {
				found = i
			}
		}
	}
	return found
}

func of(o porcupine.Operation) input { return o.Input.(input) }

func inserted(o porcupine.Operation) bool {
	return of(o).what == write && of(o).value != 0 && !of(o).interrupted
}

func takesAway(o porcupine.Operation) bool {
	return of(o).what == remove || (of(o).what == write && of(o).value == 0)
}

// A read that begins after one insert had overwritten another gets to see that other one.
func readStale(all []porcupine.Operation, random *rand.Rand) bool {
	old := pick(all, random, inserted)
	if old < 0 {
		return false
	}
	fresh := pick(all, random, func(o porcupine.Operation) bool { return inserted(o) && o.Call > all[old].Return })
	if fresh < 0 {
		return false
	}
	late := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == read && o.Call > all[fresh].Return })
	if late < 0 {
		return false
	}
	all[late].Input = input{what: read, value: of(all[old]).value}
	return true
}

func readTheFuture(all []porcupine.Operation, random *rand.Rand) bool {
	insert := pick(all, random, inserted)
	if insert < 0 {
		return false
	}
	early := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == read && o.Return < all[insert].Call })
	if early < 0 {
		return false
	}
	all[early].Input = input{what: read, value: of(all[insert]).value}
	return true
}

func readFromNowhere(all []porcupine.Operation, random *rand.Rand) bool {
	i := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == read })
	if i < 0 {
		return false
	}
	all[i].Input = input{what: read, value: 1<<62 + 1}
	return true
}

// Of a key that nobody removes something acknowledged is lost: a find or an inspection sees nothing.
func loseAcknowledged(all []porcupine.Operation, random *rand.Rand) bool {
	if pick(all, random, takesAway) >= 0 {
		return false
	}
	insert := pick(all, random, inserted)
	if insert < 0 {
		return false
	}
	late := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == read && o.Call > all[insert].Return })
	if late < 0 {
		return false
	}
	all[late].Input = input{what: read, value: 0}
	return true
}

// The insert whose value was read is denied.
func forgetTheInsert(all []porcupine.Operation, random *rand.Rand) bool {
	seen := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == read && of(o).value != 0 })
	if seen < 0 {
		return false
	}
	for i, o := range all {
		if of(o).what == write && of(o).value == of(all[seen]).value {
			all[i].Input = input{what: write, value: 1<<62 + 2}
			return true
		}
	}
	return false
}

// A remove of a key that nobody else removes is told that there was nothing, after an insert had returned.
func denyARemove(all []porcupine.Operation, random *rand.Rand) bool {
	insert := pick(all, random, inserted)
	if insert < 0 {
		return false
	}
	late := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == remove && o.Call > all[insert].Return })
	if late < 0 {
		return false
	}
	for i, o := range all {
		if i != late && takesAway(o) {
			return false
		}
	}
	all[late].Input = input{what: removeNone, value: 0}
	return true
}

func swapReads(all []porcupine.Operation, random *rand.Rand) bool {
	first := pick(all, random, func(o porcupine.Operation) bool { return of(o).what == read && of(o).value != 0 })
	if first < 0 {
		return false
	}
	insertOf := func(value uint64) int {
		return pick(all, random, func(o porcupine.Operation) bool { return of(o).what == write && of(o).value == value })
	}
	second := pick(all, random, func(o porcupine.Operation) bool {
		if of(o).what != read || of(o).value == 0 || of(o).value == of(all[first]).value {
			return false
		}
		i := insertOf(of(o).value)
		return i >= 0 && all[i].Call > all[first].Return
	})
	if second < 0 {
		return false
	}
	all[first].Input, all[second].Input = all[second].Input, all[first].Input
	return true
}

var corruptions = []corruption{
	{"readStale", readStale},
	{"readTheFuture", readTheFuture},
	{"readFromNowhere", readFromNowhere},
	{"loseAcknowledged", loseAcknowledged},
	{"forgetTheInsert", forgetTheInsert},
	{"denyARemove", denyARemove},
	{"swapReads", swapReads},
}

// The folder of histories that kill_loop has saved.
func recorded(t *testing.T) []string {
	folder := os.Getenv("ICECORE_HISTORIES")
	if folder == "" {
		t.Skip("ICECORE_HISTORIES names no folder of saved histories")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.history"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no saved histories there (%v)", folder, err)
	}
	return files
}

func TestEveryCorruptionIsRejected(t *testing.T) {
	usual := cuts
	defer func() { cuts = usual }()
	cuts = []cutting{{1, 0}, {4, 1}, {8, overlapsMax}} // small pieces, cut wherever it is possible
	const wanted = 5                                   // of each kind, in each history
	random := rand.New(rand.NewSource(1))
	rejected := map[string]int{}
	for _, path := range recorded(t) {
		keys, err := readHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		sorted := keys.sortedKeys()
		for _, c := range corruptions {
			for attempt, found := 0, 0; attempt < 200 && found < wanted; attempt++ {
				key := sorted[random.Intn(len(sorted))]
				spoiled := append([]porcupine.Operation(nil), keys[key]...)
				if len(spoiled) > 2000 || !c.spoil(spoiled, random) {
					continue
				}
				found++
				whole := porcupine.CheckOperationsTimeout(register, spoiled, timeoutOfPiece)
				if whole == porcupine.Ok {
					t.Errorf("%s: %s on key %d was not rejected", path, c.name, key)
				}
				pieces := judgeKey(spoiled)
				if pieces == porcupine.Ok {
					t.Errorf("%s: %s on key %d was not rejected piece by piece", path, c.name, key)
				}
				if judgeKey(keys[key]) == porcupine.Illegal {
					t.Errorf("%s: key %d was rejected piece by piece", path, key)
				}
				if whole == porcupine.Illegal && pieces == porcupine.Illegal {
					rejected[c.name]++ // else one of them came to no judgement in time
				}
			}
		}
	}
	for _, c := range corruptions {
		if rejected[c.name] == 0 {
			t.Errorf("no history offers a place for %s", c.name)
		}
	}
	t.Logf("rejected: %v", rejected)
}

// Of a few lines each: what is a register's history, and what is not.
func TestJudgesByCallsAndReturnsAlone(t *testing.T) {
	const first = "icecore-history 1\norigin test\nlife 1000\n"
	cases := []struct {
		what         string
		lines        string
		linearizable bool
	}{
		{"a read after its write", "o 0 insert 1 7 1 0 10 20\no 1 find 1 7 0 0 30 40\n", true},
		{"a read before its write", "o 0 insert 1 7 1 0 30 40\no 1 find 1 7 0 0 10 20\n", false},
		{"a read beside its write", "o 0 insert 1 7 1 0 10 40\no 1 find 1 0 0 0 20 30\n", true},
		{"an acknowledged write is not found", "o 0 insert 1 7 1 0 10 20\ninspection 2000 3000 1 0\nk 1 0\n", false},
		{"an interrupted write is not found", "o 0 insert 1 7 0 0 10 0\ninspection 2000 3000 1 0\nk 1 0\n", true},
		{"an interrupted write is found", "o 0 insert 1 7 0 0 10 0\ninspection 2000 3000 1 0\nk 1 0 1 7\n", true},
		{"an interrupted write is found long after the kill", "o 0 insert 1 7 0 0 10 0\ninspection 2000 3000 1 0\nk 1 0\nlife 5000\no 1 find 1 7 0 0 3100 3200\n", false},
		{"an interrupted write is found from then on", "o 0 insert 1 7 0 0 10 0\ninspection 2000 3000 1 0\nk 1 0 1 7\nlife 5000\no 1 find 1 7 0 0 3100 3200\n", true},
		{"a batch writes after its call", "o 0 batch 0 0 1 1 10 20\no 0 batch_insert 1 7 0 0 0 0\no 1 find 1 7 0 0 30 40\n", true},
		{"a batch removes", "o 0 insert 1 7 1 0 1 2\no 0 batch 0 0 1 1 10 20\no 0 batch_remove 1 0 0 0 0 0\no 1 find 1 7 0 0 30 40\n", false},
		{"two removes of one write", "o 0 insert 1 7 1 0 1 2\no 0 remove 1 0 1 0 3 4\no 1 remove 1 0 1 0 5 6\n", false},
		{"a remove of nothing", "o 0 insert 1 7 1 0 1 2\no 1 remove 1 0 0 0 5 6\n", false},
	}
	for _, c := range cases {
		keys, err := parseHistory(strings.NewReader(first + c.lines))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		operations, wrong := judge(keys)
		if operations.unjudged != 0 || (wrong == "") != c.linearizable {
			t.Errorf("%s: judged %q, %d of %d not at all", c.what, wrong, operations.unjudged, operations.all)
		}
	}
}

func TestRejectsWhatIsNoHistory(t *testing.T) {
	for _, text := range []string{"", "something else\n", "icecore-history 1\no 0 insert 1\n",
		"icecore-history 1\no 0 insert 1 x 1 0 10 20\n", "icecore-history 1\nk 1 5\n"} {
		keys, err := parseHistory(strings.NewReader(text))
		if err == nil {
			t.Errorf("%q was read as %v", text, keys)
		}
	}
}
