// Judges histories of killed stores by an independent checker, porcupine: is each key, seen by itself and only by its
// newest value, a register whose operations took effect one after the other, each between call and return?
//
//	porcupine FILE...
//
// It knows nothing of versions, batches and records: what it says rests on calls, returns and times alone. The histories
// must be strictly linearizable: a write that a kill interrupted took effect before the kill, or never does. Exit code:
// 0 all are, 1 one is not, 2 no judgement on more than one in twenty operations. A key on which many operations overlap,
// as on a machine that is busy otherwise, may take more time and memory than anybody has: what was not judged is told.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	timeoutOfPiece = 5 * time.Second
	unjudgedOneIn  = 20 // operations, at most
)

var atomicRegister = porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{uint64(0)} },
	Step: func(state, in, _ interface{}) []interface{} {
		value, asked := state.(uint64), in.(input)
		possible := true
		after := value
		switch asked.what {
		case write:
			after = asked.value
		case remove:
			possible = value != 0
			after = 0
		case removeNone:
			possible = value == 0
		default:
			possible = value == asked.value
		}
		switch {
		case !possible:
			return nil
		case asked.interrupted && after != value:
			return []interface{}{value, after}
		default:
			return []interface{}{after}
		}
	},
	Hash: func(state interface{}) uint64 { return state.(uint64) },
}

var register = atomicRegister.ToModel()

// count is of operations.
type count struct{ all, unjudged int }

// judge returns the first key that is no register, and how many operations there are.
func judge(keys registers) (operations count, wrong string) {
	for _, key := range keys.sortedKeys() {
		operations.all += len(keys[key])
		switch judgeKey(keys[key]) {
		case porcupine.Illegal:
			return operations, fmt.Sprintf("key %d:%d", key>>24, key&0xffffff)
		case porcupine.Unknown:
			operations.unjudged += len(keys[key])
		}
	}
	return operations, ""
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine FILE...  (histories that kill_loop --save has written)")
		os.Exit(2)
	}
	var total count
	for _, path := range os.Args[1:] {
		keys, err := readHistory(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, "porcupine:", err)
			os.Exit(2)
		}
		operations, wrong := judge(keys)
		if wrong != "" {
			fmt.Printf("%s: the operations on %s are not strictly linearizable\n", path, wrong)
			os.Exit(1)
		}
		total.all += operations.all
		total.unjudged += operations.unjudged
	}
	fmt.Printf("%d histories, %d operations: all strictly linearizable; %d were not judged, for want of an answer within %s\n",
		len(os.Args)-1, total.all, total.unjudged, timeoutOfPiece)
	if total.unjudged*unjudgedOneIn > total.all {
		os.Exit(2)
	}
}
