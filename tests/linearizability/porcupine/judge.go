// Judges histories of killed stores by an independent checker, porcupine: is each key, seen by itself and only by its
// newest value, a register whose operations took effect one after the other, each between call and return?
//
//	porcupine FILE...
//
// It knows nothing of versions, batches and records: what it says rests on calls, returns and times alone. The histories
// must be strictly linearizable: a write that a kill interrupted took effect before the kill, or never does. Exit code:
// 0 all are, 1 one is not, 2 no judgement.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const timeoutOfPiece = 2 * time.Minute

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

// judge returns the first key that is no register, and how many operations were judged.
func judge(keys registers) (operations int, wrong string, err error) {
	for _, key := range keys.sortedKeys() {
		operations += len(keys[key])
		switch judgeKey(keys[key]) {
		case porcupine.Illegal:
			return operations, fmt.Sprintf("key %d:%d", key>>24, key&0xffffff), nil
		case porcupine.Unknown:
			return operations, "", fmt.Errorf("no judgement on a piece of key %d:%d within %s", key>>24, key&0xffffff,
				timeoutOfPiece)
		}
	}
	return operations, "", nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: porcupine FILE...  (histories that kill_loop --save has written)")
		os.Exit(2)
	}
	total := 0
	for _, path := range os.Args[1:] {
		keys, err := readHistory(path)
		var operations int
		var wrong string
		if err == nil {
			operations, wrong, err = judge(keys)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "porcupine:", err)
			os.Exit(2)
		}
		if wrong != "" {
			fmt.Printf("%s: the operations on %s are not strictly linearizable\n", path, wrong)
			os.Exit(1)
		}
		total += operations
	}
	fmt.Printf("%d histories, %d operations: all strictly linearizable\n", len(os.Args)-1, total)
}
