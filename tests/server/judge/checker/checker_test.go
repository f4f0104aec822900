package main

import (
	"fmt"
	"strings"
	"testing"
)

// Short forms of events: what is not told is zero.
func put(call, ret int, key, value string, version int) string {
	return fmt.Sprintf(`{"kind":"write","call":%d,"return":%d,"then":[{"what":"put","key":"%s","value":"%s"}],"succeeded":true,"version":%d,"results":[{"is":"done"}]}`, call, ret, key, value, version)
}

func remove(call, ret int, key, is string, version int) string {
	return fmt.Sprintf(`{"kind":"write","call":%d,"return":%d,"then":[{"what":"remove","key":"%s"}],"succeeded":true,"version":%d,"results":[{"is":"%s"}]}`, call, ret, key, version, is)
}

func pending(call int, key, value string) string {
	return fmt.Sprintf(`{"kind":"write","call":%d,"return":0,"then":[{"what":"put","key":"%s","value":"%s"}]}`, call, key, value)
}

func rows(all ...string) string { // key, value, version ...
	var some []string
	for i := 0; i < len(all); i += 3 {
		some = append(some, fmt.Sprintf(`{"key":"%s","value":"%s","version":%s}`, all[i], all[i+1], all[i+2]))
	}
	return "[" + strings.Join(some, ",") + "]"
}

func find(call, ret int, key string, found ...string) string {
	if len(found) == 0 {
		return fmt.Sprintf(`{"kind":"find","call":%d,"return":%d,"key":"%s"}`, call, ret, key)
	}
	return fmt.Sprintf(`{"kind":"find","call":%d,"return":%d,"key":"%s","found":true,"rows":%s}`, call, ret, key, rows(key, found[0], found[1]))
}

func scan(kind string, call, ret, version int, all ...string) string {
	return fmt.Sprintf(`{"kind":"%s","call":%d,"return":%d,"version":%d,"rows":%s}`, kind, call, ret, version, rows(all...))
}

func compare(call, ret int, key string, version int, succeeded bool, value string, made int) string {
	results := `[{"is":"done"}]`
	if !succeeded {
		results = `[]`
	}
	return fmt.Sprintf(`{"kind":"write","call":%d,"return":%d,"conditions":[{"key":"%s","is":"version_is","version":%d}],"then":[{"what":"put","key":"%s","value":"%s"}],"otherwise":[],"succeeded":%v,"version":%d,"results":%s}`, call, ret, key, version, key, value, succeeded, made, results)
}

func verdictOf(t *testing.T, rule string, lines ...string) string {
	t.Helper()
	all := append([]string{fmt.Sprintf(`{"kind":"history","rule":"%s"}`, rule)}, lines...)
	h, err := parseHistory(strings.NewReader(strings.Join(all, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := judge(h)
	if err != nil {
		t.Fatal(err)
	}
	return wrong
}

func TestJudgesMaps(t *testing.T) {
	begin := scan("quiet", 1, 2, 0)
	cases := []struct {
		what         string
		rule         string
		linearizable bool
		lines        []string
	}{
		{"a read behind its write", "write", true, []string{put(10, 20, "a", "x", 1), find(30, 40, "a", "x", "1"), scan("quiet", 90, 91, 1, "a", "x", "1")}},
		{"a read before its write", "write", false, []string{put(30, 40, "a", "x", 1), find(10, 20, "a", "x", "1"), scan("quiet", 90, 91, 1, "a", "x", "1")}},
		{"a stale read", "write", false, []string{put(10, 20, "a", "x", 1), find(30, 40, "a"), scan("quiet", 90, 91, 1, "a", "x", "1")}},
		{"a read of another version", "write", false, []string{put(10, 20, "a", "x", 1), find(30, 40, "a", "x", "2"), scan("quiet", 90, 91, 2, "a", "x", "1")}},
		{"two writes with one version", "write", false, []string{put(10, 20, "a", "x", 1), put(30, 40, "b", "y", 1), scan("quiet", 90, 91, 1, "a", "x", "1", "b", "y", "1")}},
		{"two writes with one version, which is open", "tag", true, []string{put(10, 20, "a", "x", 1), put(30, 40, "b", "y", 1), scan("quiet", 90, 91, 1, "a", "x", "1", "b", "y", "1")}},
		{"a version that falls", "every", false, []string{put(10, 20, "a", "x", 2), put(30, 40, "b", "y", 1), scan("quiet", 90, 91, 2, "a", "x", "2", "b", "y", "1")}},
		{"a write to a version that was read", "tag", false, []string{put(10, 20, "a", "x", 1), scan("scan", 30, 40, 1, "a", "x", "1"), put(50, 60, "b", "y", 1), scan("quiet", 90, 91, 1, "a", "x", "1", "b", "y", "1")}},
		{"a scan that tears a write beside another key's", "tag", false, []string{put(10, 20, "a", "x", 1), put(30, 40, "b", "y", 1), scan("scan", 15, 45, 1, "b", "y", "1"), scan("quiet", 90, 91, 1, "a", "x", "1", "b", "y", "1")}},
		{"a lost write", "write", false, []string{put(10, 20, "a", "x", 1), scan("quiet", 90, 91, 1)}},
		{"a write of unknown outcome that is lost", "write", true, []string{pending(10, "a", "x"), scan("quiet", 90, 91, 1)}},
		{"a write of unknown outcome that is there", "write", true, []string{pending(10, "a", "x"), scan("quiet", 90, 91, 1, "a", "x", "1")}},
		{"a write of unknown outcome that was read and is lost", "write", false, []string{pending(10, "a", "x"), find(30, 40, "a", "x", "1"), scan("quiet", 90, 91, 1)}},
		{"two succeed that compare with one version", "write", false, []string{compare(10, 20, "a", 0, true, "x", 1), compare(10, 25, "a", 0, true, "y", 2), scan("quiet", 90, 91, 2, "a", "y", "2")}},
		{"one of two succeeds", "write", true, []string{compare(10, 20, "a", 0, true, "x", 1), compare(10, 25, "a", 0, false, "y", 0), scan("quiet", 90, 91, 2, "a", "x", "1")}},
		{"none of two succeeds", "write", false, []string{compare(10, 20, "a", 0, false, "x", 0), compare(10, 25, "a", 0, false, "y", 0), scan("quiet", 90, 91, 2)}},
		{"a remove of nothing", "write", true, []string{remove(10, 20, "a", "absent", 0), scan("quiet", 90, 91, 0)}},
		{"two removes of one value", "write", false, []string{put(1, 9, "a", "x", 1), remove(10, 20, "a", "done", 2), remove(30, 40, "a", "done", 3), scan("quiet", 90, 91, 3)}},
	}
	for _, c := range cases {
		first := []string{begin}
		if c.lines[0][len(`{"kind":"write","call":`)] == '1' && strings.Contains(c.lines[0], `"call":1,`) {
			first = []string{scan("quiet", 0, 0, 0)}
		}
		wrong := verdictOf(t, c.rule, append(first, c.lines...)...)
		if (wrong == "") != c.linearizable {
			t.Errorf("%s: judged %q", c.what, wrong)
		}
	}
}

func TestJudgesWatches(t *testing.T) {
	writes := []string{scan("quiet", 1, 2, 0), put(10, 20, "a", "x", 1), put(30, 40, "b", "y", 2), put(50, 60, "a", "z", 3), scan("quiet", 90, 91, 3, "a", "z", "3", "b", "y", "2")}
	watch := func(number, after int) string {
		return fmt.Sprintf(`{"kind":"watch","watch":%d,"after":%d}`, number, after)
	}
	told := func(number, up int, all ...string) string {
		return fmt.Sprintf(`{"kind":"told","watch":%d,"told":%d,"rows":%s}`, number, up, rows(all...))
	}
	cases := []struct {
		what  string
		wrong string
		lines []string
	}{
		{"everything", "", []string{watch(1, 0), told(1, 2, "a", "x", "1", "b", "y", "2"), told(1, 3, "a", "z", "3")}},
		{"from the middle on", "", []string{watch(1, 2), told(1, 3, "a", "z", "3")}},
		{"the end is not told yet", "", []string{watch(1, 0), told(1, 1, "a", "x", "1")}},
		{"a version in parts", "", []string{watch(1, 0), told(1, 0, "a", "x", "1"), told(1, 3, "b", "y", "2", "a", "z", "3")}},
		{"in another order", "not ordered", []string{watch(1, 0), told(1, 3, "b", "y", "2", "a", "x", "1", "a", "z", "3")}},
		{"twice", "not unique", []string{watch(1, 0), told(1, 3, "a", "x", "1", "b", "y", "2", "b", "y", "2", "a", "z", "3")}},
		{"with a gap", "not reliable", []string{watch(1, 0), told(1, 3, "a", "x", "1", "a", "z", "3")}},
		{"what nobody wrote", "not reliable", []string{watch(1, 0), told(1, 3, "a", "x", "1", "b", "y", "2", "c", "?", "2", "a", "z", "3")}},
		{"progress before the change", "not bookmarkable", []string{watch(1, 0), told(1, 2), told(1, 3, "a", "x", "1", "b", "y", "2", "a", "z", "3")}},
		{"progress that falls", "not bookmarkable", []string{watch(1, 0), told(1, 2, "a", "x", "1", "b", "y", "2"), told(1, 1)}},
		{"joined watches", "", []string{watch(1, 0), told(1, 1, "a", "x", "1"), watch(2, 1), told(2, 3, "b", "y", "2", "a", "z", "3")}},
		{"joined watches with a gap", "not reliable", []string{watch(1, 0), told(1, 1, "a", "x", "1"), watch(2, 1), told(2, 3, "a", "z", "3")}},
	}
	for _, c := range cases {
		wrong := verdictOf(t, "write", append(append([]string(nil), writes...), c.lines...)...)
		if (c.wrong == "") != (wrong == "") || !strings.HasPrefix(wrong, c.wrong) {
			t.Errorf("%s: judged %q, not %q", c.what, wrong, c.wrong)
		}
	}
	both := []string{scan("quiet", 1, 2, 0),
		`{"kind":"write","call":10,"return":20,"then":[{"what":"put","key":"a","value":"x"},{"what":"put","key":"b","value":"y"}],"succeeded":true,"version":1,"results":[{"is":"done"},{"is":"done"}]}`,
		scan("quiet", 90, 91, 1, "a", "x", "1", "b", "y", "1"), watch(1, 0), told(1, 1, "a", "x", "1")}
	if wrong := verdictOf(t, "write", both...); !strings.HasPrefix(wrong, "not atomic") {
		t.Errorf("half of a version: judged %q", wrong)
	}
	ambiguous := []string{scan("quiet", 1, 2, 0), put(10, 50, "a", "x", 1), put(10, 50, "a", "y", 1),
		scan("quiet", 90, 91, 1, "a", "y", "1"), watch(1, 0), told(1, 1, "a", "x", "1", "a", "y", "1"), watch(2, 0), told(2, 1, "a", "y", "1", "a", "x", "1")}
	if wrong := verdictOf(t, "tag", ambiguous...); !strings.HasPrefix(wrong, "not resumable") {
		t.Errorf("two watches that tell one version differently: judged %q", wrong)
	}
}

func TestRejectsWhatIsNoHistory(t *testing.T) {
	for _, text := range []string{"", "x", `{"kind":"history","rule":"sometimes"}`, `{"kind":"history","rule":"tag"}`,
		`{"kind":"history","rule":"tag"}` + "\n" + put(1, 2, "a", "x", 1),
		`{"kind":"history","rule":"tag"}` + "\n" + `{"kind":"guess"}`,
		`{"kind":"history","rule":"tag"}` + "\n" + put(1, 9, "a", "x", 1) + "\n" + scan("quiet", 5, 6, 1)} {
		if h, err := parseHistory(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read as %v", text, h)
		}
	}
}
