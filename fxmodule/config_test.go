package fxmodule_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/redlatch/redlatch/fxmodule"
)

func TestDefaultConfigIsValidAndIsWhatZeroMeans(t *testing.T) {
	for name, c := range map[string]fxmodule.Config{"default": fxmodule.DefaultConfig(), "zero": {}} {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesEveryFieldThatIsWrong(t *testing.T) {
	err := fxmodule.Config{Watchdog: -time.Second, Poll: 1, CallTimeout: 1, CheckTimeout: -1, ReleaseTimeout: -1, FollowRules: true}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"watchdog: -1s", "poll: 1ns", "callTimeout: 1ns", "checkTimeout: -1ns", "releaseTimeout: -1ns", "followRules: there is no rulesFile"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

var written = fxmodule.Config{
	Watchdog: 90 * time.Second, Poll: 200 * time.Millisecond, CallTimeout: time.Second, CheckTimeout: 3 * time.Second,
	ReleaseTimeout: 4 * time.Second, RulesFile: "locks.yaml", FollowRules: true,
}

func TestConfigIsWrittenAndReadWithDurationsAsTexts(t *testing.T) {
	for name, format := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
		want      string
	}{
		"json": {json.Marshal, json.Unmarshal, `"watchdog":"1m30s"`},
		"yaml": {yaml.Marshal, func(b []byte, v any) error { return yaml.Unmarshal(b, v) }, "watchdog: 1m30s"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := format.marshal(written)
			if err != nil || !strings.Contains(string(text), format.want) {
				t.Fatalf("wrote %s, %v: want %s in it", text, err, format.want)
			}
			var read fxmodule.Config
			if err := format.unmarshal(text, &read); err != nil || read != written {
				t.Errorf("read %+v, %v", read, err)
			}
		})
	}
}

func TestJSONLeavesMissingFieldsAsTheyAre(t *testing.T) {
	c := fxmodule.DefaultConfig()
	if err := json.Unmarshal([]byte(`{"poll":"200ms"}`), &c); err != nil {
		t.Fatal(err)
	}
	want := fxmodule.DefaultConfig()
	want.Poll = 200 * time.Millisecond
	if c != want {
		t.Errorf("got %+v", c)
	}
}

func TestJSONThatIsNoConfigIsAnErrorThatNamesTheField(t *testing.T) {
	for text, want := range map[string]string{
		`{"wachtdog":"1s"}`: `unknown field "wachtdog"`,
		`{"poll":200}`:      "poll: 200 is not a text",
		`{"poll":null}`:     "poll: null is not a text",
		`{"poll":"200"}`:    "poll: time: missing unit",
		`{"rulesFile":5}`:   "rulesFile: ",
		`{"followRules":1}`: "followRules: ",
		`[]`:                "config",
	} {
		var c fxmodule.Config
		if err := json.Unmarshal([]byte(text), &c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", text, err, want)
		}
	}
}
