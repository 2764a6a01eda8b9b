package key_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/core/key"
)

func TestRenderEscapesEveryByteOutsideTheUnreservedSet(t *testing.T) {
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	template := key.MustParse("l:<v>")
	for b := range 256 {
		value := string([]byte{byte(b)})
		want := fmt.Sprintf("l:%%%02X", b)
		if strings.Contains(unreserved, value) {
			want = "l:" + value
		}
		got, err := template.Render(key.Vars{"v": value})
		if err != nil || got != want {
			t.Errorf("byte 0x%02X: got %q, %v; want %q", b, got, err, want)
		}
	}
}

func TestFilters(t *testing.T) {
	const uuid = "0123abcd-89ef-4567-89ab-cdef01234567"
	big := strings.Repeat("9", 256)
	tests := map[string]struct {
		filters, value, want string // want empty: ErrInvalid
	}{
		"int zero":                {"int", "0", "0"},
		"int":                     {"int", "42", "42"},
		"int negative":            {"int", "-42", "-42"},
		"int of any size":         {"int", big, big},
		"int with leading zero":   {"int", "07", ""},
		"int of zeros":            {"int", "00", ""},
		"int with plus":           {"int", "+7", ""},
		"int with leading space":  {"int", " 7", ""},
		"int with trailing space": {"int", "7 ", ""},
		"int with line feed":      {"int", "7\n", ""},
		"int minus zero":          {"int", "-0", ""},
		"int negative with zero":  {"int", "-07", ""},
		"int minus alone":         {"int", "-", ""},
		"int two minuses":         {"int", "--7", ""},
		"int with fraction":       {"int", "7.0", ""},
		"int with exponent":       {"int", "1e3", ""},
		"int in hex":              {"int", "0x7", ""},
		"int with underscore":     {"int", "1_000", ""},
		"int in Arabic digits":    {"int", "٧", ""},
		"int in full width":       {"int", "\uff17", ""},
		"uuid":                    {"uuid", uuid, uuid},
		"uuid in capitals":        {"uuid", strings.ToUpper(uuid), uuid},
		"uuid in mixed case":      {"uuid", "0123AbCd-89ef-4567-89AB-cdef01234567", uuid},
		"uuid nil":                {"uuid", "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"},
		"uuid without hyphens":    {"uuid", strings.ReplaceAll(uuid, "-", ""), ""},
		"uuid in braces":          {"uuid", "{" + uuid + "}", ""},
		"uuid as URN":             {"uuid", "urn:uuid:" + uuid, ""},
		"uuid one short":          {"uuid", uuid[:35], ""},
		"uuid one long":           {"uuid", uuid + "0", ""},
		"uuid with g":             {"uuid", "g" + uuid[1:], ""},
		"uuid hyphen misplaced":   {"uuid", "0123abcd8-9ef-4567-89ab-cdef01234567", ""},
		"uuid digit for hyphen":   {"uuid", "0123abcd089ef-4567-89ab-cdef01234567", ""},
		"lower":                   {"lower", "AbC-Z09", "abc-z09"},
		"lower leaves lower":      {"lower", "abc", "abc"},
		"lower is ASCII only":     {"lower", "É", "%C3%89"},
		"lower leaves Kelvin":     {"lower", "\u212a", "%E2%84%AA"},
		"sha256":                  {"sha256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		"lower before sha256":     {"lower|sha256", "ABC", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		"int before sha256":       {"int|sha256", "7", "7902699be42c8a8e46fbbb4501726517e86b22c56a189f7625a6da49081b2451"},
		"int refuses, no sha256":  {"int|sha256", "07", ""},
		"lower before uuid":       {"lower|uuid", strings.ToUpper(uuid), uuid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := key.MustParse("l:<v|" + tt.filters + ">").Render(key.Vars{"v": tt.value})
			if tt.want == "" {
				wantValueError(t, err, key.ErrInvalid, "v")
				return
			}
			if err != nil || got != "l:"+tt.want {
				t.Errorf("got %q, %v; want %q", got, err, "l:"+tt.want)
			}
		})
	}
}

func TestAUUIDHasHexDigitsOnly(t *testing.T) {
	template := key.MustParse("l:<v|uuid>")
	for b := range 256 {
		value := string([]byte{byte(b)}) + "123abcd-89ef-4567-89ab-cdef01234567"
		got, err := template.Render(key.Vars{"v": value})
		if strings.Contains("0123456789abcdefABCDEF", value[:1]) {
			if want := "l:" + strings.ToLower(value); err != nil || got != want {
				t.Errorf("byte 0x%02X: got %q, %v; want %q", b, got, err, want)
			}
		} else if !errors.Is(err, key.ErrInvalid) {
			t.Errorf("byte 0x%02X: got %q, %v; want ErrInvalid", b, got, err)
		}
	}
}

func TestRenderNamesMustMatchTheTemplate(t *testing.T) {
	template := key.MustParse("lock:<path.id>:<userId>:<userId|sha256>")
	tests := map[string]struct {
		vars key.Vars
		err  error
		name string
	}{
		"all there":             {key.Vars{"path.id": "1", "userId": "2"}, nil, ""},
		"one missing":           {key.Vars{"path.id": "1"}, key.ErrMissing, "userId"},
		"none":                  {nil, key.ErrMissing, "path.id"},
		"one empty":             {key.Vars{"path.id": "", "userId": "2"}, key.ErrMissing, "path.id"},
		"one extra":             {key.Vars{"path.id": "1", "userId": "2", "x": "3"}, key.ErrUnknown, "x"},
		"extra and empty":       {key.Vars{"path.id": "1", "userId": "2", "x": ""}, key.ErrUnknown, "x"},
		"bare name for sourced": {key.Vars{"id": "1", "userId": "2"}, key.ErrMissing, "path.id"},
		"name with its filter":  {key.Vars{"path.id": "1", "userId": "2", "userId|sha256": "2"}, key.ErrUnknown, "userId|sha256"},
		"other case":            {key.Vars{"path.id": "1", "userID": "2"}, key.ErrMissing, "userId"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := template.Render(tt.vars)
			if tt.err != nil {
				if got != "" {
					t.Errorf("got key %q with an error", got)
				}
				wantValueError(t, err, tt.err, tt.name)
				return
			}
			const want = "lock:1:2:d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"
			if err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestResolveAsksInOrderWithTheWholeVar(t *testing.T) {
	template := key.MustParse("lock:<header.X-Tenant|lower>:<userId|int>")
	var asked []string
	got, err := template.Resolve(func(v key.Var) (string, error) {
		asked = append(asked, fmt.Sprintf("%s %s %q %v %d", v, v.Source, v.Name, v.Filters, v.Column))
		return map[string]string{"header.X-Tenant": "ACME", "userId": "7"}[v.String()], nil
	})
	if err != nil || got != "lock:acme:7" {
		t.Fatalf("got %q, %v", got, err)
	}
	want := []string{`header.X-Tenant header "X-Tenant" [lower] 6`, `userId  "userId" [int] 30`}
	if strings.Join(asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked for\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

type tooLarge struct{ limit int }

func (e *tooLarge) Error() string { return fmt.Sprintf("body over %d bytes: secret", e.limit) }

func TestResolveKeepsTheCauseOfTheLookup(t *testing.T) {
	template := key.MustParse("l:<a>:<b>")
	calls := 0
	_, err := template.Resolve(func(key.Var) (string, error) {
		calls++
		return "ignored", fmt.Errorf("reading: %w", &tooLarge{64})
	})
	var cause *tooLarge
	if !errors.As(err, &cause) || cause.limit != 64 {
		t.Errorf("error %v does not carry the cause", err)
	}
	if calls != 1 {
		t.Errorf("lookup was called %d times after a fault, want 1", calls)
	}
	wantValueError(t, err, cause, "a")

	_, err = template.Resolve(func(key.Var) (string, error) { return "", key.ErrAmbiguous })
	wantValueError(t, err, key.ErrAmbiguous, "a")
}

func TestErrorTextNeverContainsTheValue(t *testing.T) {
	const secret = "hunter2"
	long := strings.Repeat(secret, 1<<18)
	tests := map[string]struct {
		template string
		lookup   key.Lookup
	}{
		"refused by int":  {"l:<v|int>", func(key.Var) (string, error) { return secret, nil }},
		"refused by uuid": {"l:<v|uuid>", func(key.Var) (string, error) { return secret, nil }},
		"too long":        {"l:<v>", func(key.Var) (string, error) { return long, nil }},
		"too long a hash": {"l:<v|sha256>", func(key.Var) (string, error) { return long, nil }},
		"key too long":    {"l:<v>:<v>:<v>", func(key.Var) (string, error) { return long[:250], nil }},
		"lookup that quotes it": {"l:<v>", func(key.Var) (string, error) {
			return "", fmt.Errorf("%w: %q", key.ErrInvalid, secret)
		}},
		"lookup that quotes the value": {"l:<v>", func(key.Var) (string, error) {
			return "", errors.New("cannot use " + secret)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := key.MustParse(tt.template).Resolve(tt.lookup)
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error text has the value in it: %.200s", err)
			}
			if !strings.Contains(err.Error(), tt.template) {
				t.Errorf("error %q does not name the template", err)
			}
		})
	}
}

func TestTemplateIsSafeForConcurrentUse(t *testing.T) {
	template := key.MustParse("lock:{<tenant|lower>}:<id|int>")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 200 {
				id := fmt.Sprint(i*1000 + n)
				got, err := template.Render(key.Vars{"tenant": "ACME", "id": id})
				if err != nil || got != "lock:{acme}:"+id {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

func TestRenderAllocates(t *testing.T) {
	template := key.MustParse("lock:{order:<path.id|int>}:<userId>")
	vars := key.Vars{"path.id": "10042", "userId": "a:b"}
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := template.Render(vars); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("Render allocates %v times, want at most 2", allocs)
	}
}

func wantValueError(t *testing.T, err, cause error, name string) {
	t.Helper()
	var value *key.ValueError
	if !errors.As(err, &value) {
		t.Fatalf("error is %T (%v), want *ValueError", err, err)
	}
	if !errors.Is(err, cause) {
		t.Errorf("error %v is not %v", err, cause)
	}
	if value.Var != name {
		t.Errorf("Var = %q, want %q", value.Var, name)
	}
}
