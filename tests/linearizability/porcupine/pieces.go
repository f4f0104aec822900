// One search over all operations on a key takes time and memory that grow with the square of their number. So they are
// cut: at an operation that overlaps few others, which tells what the register holds. Each of those few took effect
// before it or behind it; all ways that are possible up to there are followed into the next piece.
package main

import (
	"math"
	"math/bits"
	"sort"

	"github.com/anishathalye/porcupine"
)

// Cuts are made at an operation that is behind so many others since the last cut, if it overlaps at most so many.
type cutting struct{ behind, overlaps int }

var cuts = []cutting{{64, 0}, {256, 1}, {512, 2}, {1024, overlapsMax}}

const overlapsMax = 4

type operations = []porcupine.Operation

func interrupted(o porcupine.Operation) bool { return o.Input.(input).interrupted }

// left returns what the register holds behind an operation that was not interrupted.
func left(asked input) uint64 {
	if asked.what == remove || asked.what == removeNone {
		return 0
	}
	return asked.value
}

// places returns where to cut operations that are sorted by their calls.
func places(all operations) []int {
	var chosen []int
	var open operations // called before, and not known to have returned
	behind := 0
	for i, o := range all {
		behind++
		still := open[:0]
		for _, before := range open {
			if before.Return >= o.Call {
				still = append(still, before)
			}
		}
		open = still
		overlaps := len(open)
		for j := i + 1; j < len(all) && all[j].Call <= o.Return && overlaps <= overlapsMax; j++ {
			overlaps++
		}
		for _, c := range cuts {
			if behind >= c.behind && overlaps <= c.overlaps && !interrupted(o) {
				chosen = append(chosen, i)
				behind = 0
				break
			}
		}
		open = append(open, o)
	}
	return chosen
}

// searched judges the operations of a piece that begins behind `before` and ends at `last`. Times are doubled, so that the
// operation at which a piece ends, and what it leaves to the next one, lie between those of all others.
func searched(before *porcupine.Operation, piece operations, last *porcupine.Operation) porcupine.CheckResult {
	const latest = math.MaxInt64 / 4
	begin, end := int64(math.MinInt64/4), int64(latest)
	timed := make(operations, 0, len(piece)+2)
	if before != nil {
		begin = before.Return + 1
		at := 2*before.Return + 1
		timed = append(timed, porcupine.Operation{Input: input{what: write, value: left(before.Input.(input))}, Call: at, Return: at})
	}
	if last != nil {
		end = last.Return
		timed = append(timed, porcupine.Operation{Input: last.Input, Call: 2*end + 1, Return: 2*end + 1})
	}
	for _, o := range piece {
		if o.Call < begin {
			o.Call = begin
		}
		if o.Return > end {
			o.Return = end
		}
		o.Call, o.Return = 2*o.Call, 2*o.Return
		timed = append(timed, o)
	}
	return porcupine.CheckOperationsTimeout(register, timed, timeoutOfPiece)
}

// judgeKey says whether the operations on a key are those of a register.
func judgeKey(all operations) porcupine.CheckResult {
	sort.SliceStable(all, func(i, j int) bool { return all[i].Call < all[j].Call })
	var before *porcupine.Operation
	ways := [][]int{nil} // of each way that is possible up to here, what has not taken effect yet
	next := 0            // the first operation that was called behind the last cut
	for _, cut := range places(all) {
		last := all[cut]
		var called []int
		for ; next < len(all) && all[next].Call <= last.Return; next++ {
			if next != cut {
				called = append(called, next)
			}
		}
		possible := map[string][]int{}
		for _, way := range ways {
			var sure operations // took effect before the last one, if at all
			var open []int
			for _, i := range append(append([]int(nil), way...), called...) {
				if all[i].Return < last.Call {
					sure = append(sure, all[i])
				} else {
					open = append(open, i)
				}
			}
			if result := follow(all, before, sure, open, &last, possible); result == porcupine.Unknown {
				return result
			}
		}
		if len(possible) == 0 {
			return porcupine.Illegal
		}
		ways = ways[:0]
		for _, way := range possible {
			ways = append(ways, way)
		}
		before = &last
	}
	for _, way := range ways {
		rest := append(operations(nil), all[next:]...)
		for _, i := range way {
			rest = append(rest, all[i])
		}
		if result := searched(before, rest, nil); result != porcupine.Illegal {
			return result
		}
	}
	return porcupine.Illegal
}

// follow adds the ways that are possible behind `last`: each choice of the open operations that took effect before it.
// An interrupted one that need not have done so is left, which loses nothing: it need not ever.
func follow(all operations, before *porcupine.Operation, sure operations, open []int, last *porcupine.Operation,
	possible map[string][]int) porcupine.CheckResult {
	choices := make([]uint, 1<<len(open))
	var optional uint
	for i := range choices {
		choices[i] = uint(i)
	}
	for i, o := range open {
		if interrupted(all[o]) {
			optional |= 1 << i
		}
	}
	sort.SliceStable(choices, func(i, j int) bool { return bits.OnesCount(choices[i]) < bits.OnesCount(choices[j]) })
	var found []uint
tried:
	for _, choice := range choices {
		for _, less := range found {
			if choice&less == less && (choice&^less)&^optional == 0 {
				continue tried
			}
		}
		piece := append(operations(nil), sure...)
		var remaining []int
		var name []byte
		for i, o := range open {
			if choice&(1<<i) != 0 {
				piece = append(piece, all[o])
				continue
			}
			remaining = append(remaining, o)
			name = append(name, byte(o), byte(o>>8), byte(o>>16), byte(o>>24))
		}
		if _, known := possible[string(name)]; known {
			continue
		}
		switch searched(before, piece, last) {
		case porcupine.Ok:
			found = append(found, choice)
			possible[string(name)] = remaining
		case porcupine.Unknown:
			return porcupine.Unknown
		}
	}
	return porcupine.Ok
}
