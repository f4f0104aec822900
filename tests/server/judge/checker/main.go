// Judges histories of databases of the server, as server_history records them.
//
//	checker FILE...
//
// Is each history that of one ordered map with versions, whose operations took effect one after the other, each between
// its call and its return (by porcupine)? And do watches have the six properties: ordered, unique, atomic by version,
// reliable, resumable, bookmarkable? Exit code: 0 yes; 1 no: the first violation is printed; 2 a file is no history, or
// the search took too long.
package main

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	never          = math.MaxInt64
	timeoutOfRound = 60 * time.Second
)

// judge returns a violation, or nothing; an error if there is no judgement.
func judge(h *history) (string, error) {
	m := newModel(h)
	for _, r := range h.rounds {
		for _, e := range r.events { // values have numbers before several goroutines ask for them
			for _, list := range [][]operation{e.Then, e.Otherwise} {
				for _, o := range list {
					m.value(o.Value)
				}
			}
		}
	}
	for number, r := range h.rounds {
		result, err := m.check(r)
		if err != nil {
			return "", err
		}
		switch result {
		case porcupine.Illegal:
			first := r.end.line
			if len(r.events) > 0 {
				first = r.events[0].line
			}
			return fmt.Sprintf("not linearizable: round %d, lines %d to %d", number+1, first, r.end.line), nil
		case porcupine.Unknown:
			return "", fmt.Errorf("round %d, up to line %d, took too long", number+1, r.end.line)
		}
	}
	return judgeWatches(h), nil
}

func main() {
	if len(os.Args) < 2 || os.Args[1] == "--help" {
		fmt.Println("usage: checker FILE...\nJudges histories that server_history recorded.")
		os.Exit(2)
	}
	exit := 0
	for _, path := range os.Args[1:] {
		h, err := readHistory(path)
		wrong := ""
		if err == nil {
			wrong, err = judge(h)
		}
		switch {
		case err != nil:
			fmt.Printf("%s: no judgement: %v\n", path, err)
			exit = 2
		case wrong != "":
			fmt.Printf("%s: %s\n", path, wrong)
			if exit == 0 {
				exit = 1
			}
		default:
			calls := 0
			for _, r := range h.rounds {
				calls += len(r.events)
			}
			fmt.Printf("%s: %d calls in %d rounds, %d events of watches: all right\n", path, calls, len(h.rounds), len(h.watches))
		}
	}
	os.Exit(exit)
}
