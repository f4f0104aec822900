package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// What was asked of one key: a register that holds a value or nothing, which is 0.
type action int

const (
	write      action = iota // the value; nothing, if it is 0
	remove                   // found something, and took it away
	removeNone               // found nothing
	read
)

type input struct {
	what        action
	value       uint64 // written or read
	interrupted bool   // by a kill: it took effect before that, or never
}

// A history of registers: what porcupine judges, key by key. It takes from a saved history only what concerns the
// newest values; versions, records and digests are left out.
type registers map[uint64][]porcupine.Operation

// The reader of a saved history; its format is told in tests/linearizability/history.cpp.
type parser struct {
	keys   registers
	values map[uint64][]uint64 // of each key, as inspections found them, oldest first
	killed int64               // when the current life ended
	begin  int64               // of the current inspection
	end    int64
	batch  []string // fields of the batch whose parts are being read
	parts  uint64
}

func readHistory(path string) (registers, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	keys, err := parseHistory(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

func parseHistory(from io.Reader) (registers, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<30) // a line holds all records of a key
	p := parser{keys: registers{}, values: map[uint64][]uint64{}}
	if !lines.Scan() || lines.Text() != "icecore-history 1" {
		return nil, fmt.Errorf("line 1 is %q; is this a history that kill_loop has saved?", lines.Text())
	}
	for number := 2; lines.Scan(); number++ {
		if err := p.line(strings.Fields(lines.Text())); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return p.keys, lines.Err()
}

func (p *parser) line(fields []string) error {
	if len(fields) == 0 {
		return fmt.Errorf("is empty")
	}
	switch fields[0] {
	case "o":
		return p.operation(fields)
	case "life":
		numbers, err := parseNumbers(fields[1:], 1)
		if err == nil {
			p.killed = int64(numbers[0])
		}
		return err
	case "inspection":
		numbers, err := parseNumbers(fields[1:], 4)
		if err == nil {
			p.begin, p.end = int64(numbers[0]), int64(numbers[1])
		}
		return err
	case "k":
		return p.found(fields)
	default:
		return nil
	}
}

// o CLIENT CALL KEY VALUE VERSION COUNT INVOKE_NS RETURN_NS
func (p *parser) operation(fields []string) error {
	if len(fields) != 9 {
		return fmt.Errorf("has %d fields, not 9", len(fields))
	}
	client, err := strconv.Atoi(fields[1])
	if err != nil {
		return err
	}
	call := fields[2]
	numbers, err := parseNumbers(fields[3:], 6)
	if err != nil {
		return err
	}
	key, value, version, count := numbers[0], numbers[1], numbers[2], numbers[3]
	begin, end := int64(numbers[4]), int64(numbers[5])
	switch call {
	case "batch":
		p.batch, p.parts = fields, count
		return nil
	case "batch_insert", "batch_remove":
		if p.parts == 0 {
			return fmt.Errorf("a part of no batch")
		}
		p.parts--
		times, err := parseNumbers(p.batch[7:], 2)
		if err != nil {
			return err
		}
		begin, end = int64(times[0]), int64(times[1])
	}
	interrupted := end == 0
	if interrupted {
		end = p.killed
	}
	asked := input{write, value, interrupted}
	switch call {
	case "insert", "batch_insert":
	case "batch_remove":
		asked.value = 0
	case "remove":
		asked.value = 0
		switch {
		case interrupted: // whatever it found, nothing is left
		case version == 0:
			asked.what = removeNone
		default:
			asked.what = remove
		}
	case "find":
		if interrupted {
			return nil
		}
		asked.what = read
	default:
		return nil
	}
	p.add(key, porcupine.Operation{ClientId: client, Input: asked, Call: begin, Return: end})
	return nil
}

// k KEY KNOWN [VERSION VALUE]...: an inspection reads the key's newest value.
func (p *parser) found(fields []string) error {
	numbers, err := parseNumbers(fields[1:], -1)
	if err != nil {
		return err
	}
	if len(numbers) < 2 || len(numbers)%2 != 0 || numbers[1] > uint64(len(p.values[numbers[0]])) {
		return fmt.Errorf("is no list of a key's records")
	}
	key := numbers[0]
	values := p.values[key][:numbers[1]]
	for i := 3; i < len(numbers); i += 2 {
		values = append(values, numbers[i])
	}
	p.values[key] = values
	newest := uint64(0)
	if len(values) > 0 {
		newest = values[len(values)-1]
	}
	p.add(key, porcupine.Operation{Input: input{what: read, value: newest}, Call: p.begin, Return: p.end})
	return nil
}

func (p *parser) add(key uint64, operation porcupine.Operation) {
	p.keys[key] = append(p.keys[key], operation)
}

func parseNumbers(fields []string, count int) ([]uint64, error) {
	if count >= 0 && len(fields) != count {
		return nil, fmt.Errorf("has %d numbers, not %d", len(fields), count)
	}
	numbers := make([]uint64, len(fields))
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers[i] = n
	}
	return numbers, nil
}

func (r registers) sortedKeys() []uint64 {
	keys := make([]uint64, 0, len(r))
	for key := range r {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	return keys
}
