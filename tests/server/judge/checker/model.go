// One ordered map with versions: what the history of a database must look like.
package main

import (
	"fmt"
	"sort"

	"github.com/anishathalye/porcupine"
)

const keysMax = 64

// A key's newest record. Of a write that nobody knows the outcome of, the version is not known either, until it is read.
type cell struct {
	value   int32 // 0: the key is not there
	version uint64
}

const unknownVersion = ^uint64(0)

type state struct {
	cells [keysMax]cell
	// The least version that a later write may have. It follows from the writes and reads before: under the rule
	// "write" each write is a version of its own; whatever reads a whole version closes it.
	next uint64
}

type model struct {
	rule   string
	keys   []string
	index  map[string]int
	values map[string]int32
	names  []string
}

func newModel(h *history) *model {
	m := &model{rule: h.rule, keys: h.keys, index: map[string]int{}, values: map[string]int32{}, names: []string{""}}
	for i, key := range h.keys {
		m.index[key] = i
	}
	return m
}

func (m *model) value(text string) int32 {
	id, known := m.values[text]
	if !known {
		id = int32(len(m.names))
		m.values[text] = id
		m.names = append(m.names, text)
	}
	return id
}

func (m *model) initial(rows []row) state {
	var s state
	for _, r := range rows {
		s.cells[m.index[r.Key]] = cell{m.value(r.Value), r.Version}
	}
	return s
}

// span returns the indices of the keys from `from` up to, not including, `end`.
func (m *model) span(from, end string) (int, int) {
	first := sort.SearchStrings(m.keys, from)
	last := len(m.keys)
	if end != "" {
		last = sort.SearchStrings(m.keys, end)
	}
	if last < first {
		last = first
	}
	return first, last
}

// shows says whether the row is what the cell holds; a version that was not known is known then.
func (m *model) shows(s *state, r row) bool {
	c := &s.cells[m.index[r.Key]]
	if c.value == 0 || m.names[c.value] != r.Value {
		return false
	}
	if c.version == unknownVersion && r.Version != 0 {
		c.version = r.Version
	}
	return r.Version == 0 || c.version == r.Version
}

// showsAll says whether the rows are all that is there from key index `first` to `last`, or the first `limit` of it.
func (m *model) showsAll(s *state, rows []row, first, last, limit int) (bool, bool) {
	n := 0
	for i := first; i < last; i++ {
		if s.cells[i].value == 0 {
			continue
		}
		if limit > 0 && n == limit {
			return n == len(rows), true
		}
		if n >= len(rows) || m.index[rows[n].Key] != i || !m.shows(s, rows[n]) {
			return false, false
		}
		n++
	}
	return n == len(rows), false
}

// holds returns what of a condition is possible: true, false, or both.
func (m *model) holds(s *state, c condition) (bool, bool) {
	at := s.cells[m.index[c.Key]]
	version := at.version
	if at.value == 0 {
		version = 0
	}
	if version == unknownVersion {
		switch c.Is {
		case "version_is", "version_is_not", "version_below", "version_above":
			return true, true
		}
	}
	sure := func(b bool) (bool, bool) { return b, !b }
	switch c.Is {
	case "present":
		return sure(at.value != 0)
	case "absent":
		return sure(at.value == 0)
	case "version_is":
		return sure(version == c.Version)
	case "version_is_not":
		return sure(version != c.Version)
	case "version_below":
		return sure(version < c.Version)
	case "version_above":
		return sure(version > c.Version)
	case "value_is":
		return sure(at.value != 0 && m.names[at.value] == c.Value)
	case "value_is_not":
		return sure(at.value != 0 && m.names[at.value] != c.Value)
	}
	panic(fmt.Sprintf("%q is no condition", c.Is))
}

// perform executes one operation, whose answer must be `r` if it is known.
func (m *model) perform(s *state, o operation, r *result, version uint64) (possible, wrote bool) {
	if o.What == "get_range" || o.What == "remove_range" {
		first, last := m.span(o.Key, o.End)
		if o.What == "get_range" {
			if r == nil {
				return true, false
			}
			same, more := m.showsAll(s, r.Rows, first, last, o.Limit)
			return same && more == r.More, false
		}
		n := 0
		for i := first; i < last; i++ {
			if s.cells[i].value != 0 {
				s.cells[i] = cell{}
				n++
			}
		}
		return r == nil || r.Count == n, n > 0
	}
	at := &s.cells[m.index[o.Key]]
	there := at.value != 0
	is := "done"
	switch o.What {
	case "put":
		*at = cell{m.value(o.Value), version}
		wrote = true
	case "put_new":
		if there {
			is = "exists"
		} else {
			*at = cell{m.value(o.Value), version}
			wrote = true
		}
	case "remove":
		if there {
			*at = cell{}
			wrote = true
		} else {
			is = "absent"
		}
	case "get":
		if !there {
			is = "absent"
		} else if r != nil && (len(r.Rows) != 1 || r.Rows[0].Key != o.Key || !m.shows(s, r.Rows[0])) {
			return false, false
		}
	default:
		panic(fmt.Sprintf("%q is no operation", o.What))
	}
	return r == nil || r.Is == is, wrote
}

// execute returns whether the transaction may have had this outcome. Precondition: its outcome is known, or `succeeded`
// is what is assumed.
func (m *model) execute(s *state, e *event, succeeded, known bool) bool {
	all := true
	some := false
	for _, c := range e.Conditions {
		yes, no := m.holds(s, c)
		all = all && yes
		some = some || no
	}
	if (succeeded && !all) || (!succeeded && !some) {
		return false
	}
	if succeeded {
		for _, c := range e.Conditions {
			at := &s.cells[m.index[c.Key]]
			if c.Is == "version_is" && at.value != 0 && at.version == unknownVersion {
				at.version = c.Version
			}
		}
	}
	list := e.Then
	if !succeeded {
		list = e.Otherwise
	}
	if known && len(list) != len(e.Results) {
		return false
	}
	version := unknownVersion
	if known {
		version = e.Version
	}
	wrote := false
	for i, o := range list {
		var r *result
		if known {
			r = &e.Results[i]
		}
		possible, changed := m.perform(s, o, r, version)
		if !possible {
			return false
		}
		wrote = wrote || changed
	}
	if wrote && known {
		if version < s.next {
			return false
		}
		s.next = version
		if m.rule == "write" {
			s.next++
		}
	}
	return true
}

func (m *model) step(before state, e *event) []interface{} {
	after := before
	switch e.Kind {
	case "find":
		if e.Found {
			if !m.shows(&after, e.Rows[0]) {
				return nil
			}
		} else if after.cells[m.index[e.Key]].value != 0 {
			return nil
		}
	case "scan", "quiet":
		first, last := m.span(e.From, e.End)
		if same, _ := m.showsAll(&after, e.Rows, first, last, 0); !same {
			return nil
		}
		if e.Version != 0 {
			if e.Version+1 < after.next {
				return nil
			}
			after.next = e.Version + 1
		}
	case "write":
		if e.Return != never {
			if !m.execute(&after, e, e.Succeeded, true) {
				return nil
			}
			return []interface{}{after}
		}
		ways := []interface{}{before}
		for _, succeeded := range []bool{true, false} {
			way := before
			if m.execute(&way, e, succeeded, false) && way != before {
				ways = append(ways, way)
			}
		}
		return ways
	}
	return []interface{}{after}
}

func (m *model) check(r round) (porcupine.CheckResult, error) {
	begin := m.initial(r.begin)
	operations := make([]porcupine.Operation, 0, len(r.events)+1)
	for _, e := range append(append([]*event(nil), r.events...), r.end) {
		operations = append(operations, porcupine.Operation{ClientId: e.Client, Input: e, Call: e.Call, Return: e.Return})
	}
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{begin} },
		Step: func(s, in, _ interface{}) []interface{} { return m.step(s.(state), in.(*event)) },
	}
	return porcupine.CheckOperationsTimeout(nondeterministic.ToModel(), operations, timeoutOfRound), nil
}
