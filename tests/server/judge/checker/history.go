package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
)

// A recorded history: JSON, one event a line. recorder.hpp tells what the fields mean.

type row struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Version uint64 `json:"version"`
	Removed bool   `json:"removed"` // of a watch: the key was removed
}

type condition struct {
	Key     string `json:"key"`
	Is      string `json:"is"`
	Version uint64 `json:"version"`
	Value   string `json:"value"`
}

type operation struct {
	What  string `json:"what"`
	Key   string `json:"key"`
	End   string `json:"end"`
	Value string `json:"value"`
	Limit int    `json:"limit"`
}

type result struct {
	Is    string `json:"is"`
	Rows  []row  `json:"rows"`
	Count int    `json:"count"`
	More  bool   `json:"more"`
}

type event struct {
	Kind   string `json:"kind"`
	Client int    `json:"client"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"` // 0: it never returned, or nobody knows what became of it

	// write
	Conditions []condition `json:"conditions"`
	Then       []operation `json:"then"`
	Otherwise  []operation `json:"otherwise"`
	Succeeded  bool        `json:"succeeded"`
	Results    []result    `json:"results"`
	// find, scan, quiet
	Key     string `json:"key"`
	Found   bool   `json:"found"`
	From    string `json:"from"`
	End     string `json:"end"`
	Rows    []row  `json:"rows"`
	Version uint64 `json:"version"` // of a write: that of its writes; of a find or a scan: of the state read; 0: not told
	// history
	Rule string `json:"rule"`
	// watch, told
	Watch int    `json:"watch"`
	After uint64 `json:"after"`
	Told  uint64 `json:"told"`

	line int
}

// list returns the operations that were executed.
func (e *event) list() []operation {
	if e.Succeeded {
		return e.Then
	}
	return e.Otherwise
}

// What lies between two instants at which nobody wrote: each begins with the state that the last one ended with.
type round struct {
	begin  []row
	events []*event
	end    *event // the rows at the end
}

type history struct {
	rule    string
	rounds  []round
	watches []*event // in the order of the file: watch and told
	keys    []string // sorted
	writes  []*event // of all rounds
}

func readHistory(path string) (*history, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h, err := parseHistory(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

func parseHistory(from io.Reader) (*history, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<30)
	h := &history{}
	keys := map[string]bool{}
	var current round
	for number := 1; lines.Scan(); number++ {
		e := &event{line: number}
		if err := json.Unmarshal(lines.Bytes(), e); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if (number == 1) != (e.Kind == "history") {
			return nil, fmt.Errorf("line %d: a history begins with its rule, and tells it once", number)
		}
		switch e.Kind {
		case "history":
			h.rule = e.Rule
			if e.Rule != "write" && e.Rule != "every" && e.Rule != "tag" {
				return nil, fmt.Errorf("line %d: %q is no version rule", number, e.Rule)
			}
		case "write":
			h.writes = append(h.writes, e)
			current.events = append(current.events, e)
		case "find", "scan":
			if e.Return != 0 { // else it tells nothing
				current.events = append(current.events, e)
			}
		case "quiet":
			current.end = e
			for _, done := range current.events {
				if done.Return == 0 {
					done.Return = math.MaxInt64
				}
				if done.Call > e.Call || (done.Return > e.Call && done.Return != math.MaxInt64) {
					return nil, fmt.Errorf("line %d: it is not quiet: the call of line %d goes on", number, done.line)
				}
			}
			h.rounds = append(h.rounds, current)
			current = round{begin: e.Rows}
		case "watch", "told":
			h.watches = append(h.watches, e)
		default:
			return nil, fmt.Errorf("line %d: %q is no kind of event", number, e.Kind)
		}
		e.addKeys(keys)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if h.rule == "" || len(current.events) != 0 || len(h.rounds) == 0 {
		return nil, fmt.Errorf("it is cut off: a history ends with a quiet moment")
	}
	for key := range keys {
		h.keys = append(h.keys, key)
	}
	sort.Strings(h.keys)
	if len(h.keys) > keysMax {
		return nil, fmt.Errorf("%d keys; at most %d can be judged", len(h.keys), keysMax)
	}
	return h, nil
}

func (e *event) addKeys(keys map[string]bool) {
	if e.Kind == "find" {
		keys[e.Key] = true
	}
	for _, c := range e.Conditions {
		keys[c.Key] = true
	}
	for _, list := range [][]operation{e.Then, e.Otherwise} {
		for _, o := range list {
			if o.What != "get_range" && o.What != "remove_range" {
				keys[o.Key] = true
			}
		}
	}
	for _, r := range e.Rows {
		keys[r.Key] = true
	}
	for _, each := range e.Results {
		for _, r := range each.Rows {
			keys[r.Key] = true
		}
	}
}
