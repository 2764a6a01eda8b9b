package stage_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/stage"
)

// open opens a stage that the test ends.
func open(t *testing.T) *stage.Stage {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, err := stage.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(temp); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return s
}

// after does something and returns what the stage shows when it is over.
func after(t *testing.T, s *stage.Stage, what string, c stage.Crowd) *stage.State {
	t.Helper()
	if err := s.Do(what, c, 7, 1); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		now, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now.Busy == "" {
			return now
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s doesn't end", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// crowd is one that breaks what has no guard.
var crowd = stage.Crowd{Users: 120, Clicks: 3, Stock: 60}

// steps are the kinds of moments of a scene in a lane.
func steps(now *stage.State, lane string) string {
	var kinds []string
	for _, m := range now.Scene.Steps {
		if m.Lane == lane {
			kinds = append(kinds, m.Kind)
		}
	}
	return strings.Join(kinds, ", ")
}

func TestTheSameCrowdBreaksTheLaneWithoutAGuardAndNoOther(t *testing.T) {
	now := after(t, open(t), "crowd", crowd)
	for _, l := range now.Lanes {
		v := l.Verdict
		if broken := l.ID == "nothing"; l.Broken != broken || (v.Twice > 0) != broken || (v.Orders > v.Stock) != broken {
			t.Errorf("%s: broken %v: %+v", l.ID, l.Broken, v)
		}
		if l.ID != "nothing" && (v.Orders != crowd.Stock || v.Left != 0 || l.Placed != crowd.Stock || l.Spared == 0) {
			t.Errorf("%s: %+v", l.ID, l)
		}
		if l.Clicks != crowd.Users*crowd.Clicks || l.P50 <= 0 || l.P99 < l.P50 || v.At.IsZero() {
			t.Errorf("%s: %+v", l.ID, l)
		}
	}
}

func TestADoubleClickIsTwoOrdersWithoutALockAndARefusalWithOne(t *testing.T) {
	now := after(t, open(t), "double", stage.Crowd{})
	for lane, want := range map[string]string{
		"nothing": "looked, looked, placed, placed",
		"lock":    "looked, LOCK_CONTENDED, placed",
		"fence":   "looked, LOCK_CONTENDED, placed",
	} {
		if got := steps(now, lane); got != want {
			t.Errorf("%s: %s, want %s", lane, got, want)
		}
	}
}

// A lock alone doesn't stop a write that comes late. The fence does.
func TestAPausedHolderWritesLateUnlessTheFenceIsChecked(t *testing.T) {
	now := after(t, open(t), "pause", stage.Crowd{})
	for lane, want := range map[string]string{
		"nothing": "looked, paused, placed, woke, late write taken",
		"lock":    "looked, paused, LOCK_CONTENDED, trust ended, granted, placed, woke, late write taken",
		"fence":   "looked, paused, LOCK_CONTENDED, trust ended, granted, placed, woke, LATE_WRITE",
	} {
		if got := steps(now, lane); got != want {
			t.Errorf("%s: %s, want %s", lane, got, want)
		}
	}
	for _, l := range now.Lanes {
		if guarded := l.ID == "fence"; (l.Verdict.Twice == 0) != guarded || (l.Late == 1) != guarded {
			t.Errorf("%s: %d users with two orders, %d late writes refused", l.ID, l.Verdict.Twice, l.Late)
		}
	}
	fences := make(map[string][]uint64)
	for _, m := range now.Scene.Steps {
		if m.Kind == "looked" || m.Kind == "granted" {
			n, _ := strconv.ParseUint(m.Fence, 10, 64)
			fences[m.Lane] = append(fences[m.Lane], n)
		}
	}
	for _, lane := range []string{"lock", "fence"} {
		if f := fences[lane]; len(f) != 2 || f[1] <= f[0] {
			t.Errorf("%s: fences %d, want the second to be larger", lane, f)
		}
	}
}

func TestTheUserOfAnInstanceThatDiesIsServedWhenItsLeaseHasRunOut(t *testing.T) {
	s := open(t)
	now := after(t, s, "kill", stage.Crowd{})
	for lane, want := range map[string]string{
		"nothing": "looked, killed, placed",
		"lock":    "looked, killed, LOCK_CONTENDED, granted, placed",
		"fence":   "looked, killed, LOCK_CONTENDED, granted, placed",
	} {
		if got := steps(now, lane); got != want {
			t.Errorf("%s: %s, want %s", lane, got, want)
		}
	}
	if now.Instances[0] || !now.Instances[1] {
		t.Errorf("instances up: %v", now.Instances)
	}
	if err := s.Do("kill", stage.Crowd{}, 0, 2); !errors.Is(err, stage.ErrBusy) {
		t.Errorf("another one: %v", err)
	}
	if now := after(t, s, "crowd", crowd); now.Lanes[2].Broken || now.Lanes[2].Placed != crowd.Stock {
		t.Errorf("two of three: %+v", now.Lanes[2])
	}
	if now := after(t, s, "start", stage.Crowd{}); !now.Instances[0] {
		t.Error("it doesn't start")
	}
	if now := after(t, s, "crowd", crowd); now.Lanes[2].Broken || now.Lanes[2].Answers["NO_ANSWER"] != 0 {
		t.Errorf("all three: %+v", now.Lanes[2])
	}
}

func TestWithoutTheLockStoreTheLanesWithALockSellNothing(t *testing.T) {
	s := open(t)
	after(t, s, "stop locks", stage.Crowd{})
	now := after(t, s, "crowd", crowd)
	if now.Locks || !now.Lanes[0].Broken {
		t.Errorf("locks %v, the lane without one %+v", now.Locks, now.Lanes[0])
	}
	for _, l := range now.Lanes[1:] {
		if l.Broken || l.Verdict.Orders != 0 || l.Answers["LOCK_UNAVAILABLE"] != l.Clicks {
			t.Errorf("%s: %+v", l.ID, l)
		}
	}
	for _, scene := range []string{"double", "pause", "kill"} { // each ends all the same
		after(t, s, scene, stage.Crowd{})
	}
	after(t, s, "start", stage.Crowd{})
	after(t, s, "start locks", stage.Crowd{})
	if now := after(t, s, "crowd", crowd); now.Lanes[2].Placed != crowd.Stock {
		t.Errorf("when it is back: %+v", now.Lanes[2])
	}
}

func TestOneThingHappensAtATimeAndACrowdHasASize(t *testing.T) {
	s := open(t)
	for _, c := range []stage.Crowd{{}, {Users: 1001, Clicks: 1, Stock: 1}, {Users: 1, Clicks: 11, Stock: 1}, {Users: 1, Clicks: 1, Stock: 1001}, {Users: -1, Clicks: 1, Stock: 1}} {
		if err := s.Do("crowd", c, 1, 0); !errors.Is(err, stage.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := s.Do("dance", crowd, 1, 0); !errors.Is(err, stage.ErrUnknown) {
		t.Error(err)
	}
	if err := s.Do("pause", crowd, 1, 0); err != nil {
		t.Error(err)
	}
	if err := s.Do("crowd", crowd, 1, 0); !errors.Is(err, stage.ErrBusy) {
		t.Errorf("a crowd meanwhile: %v", err)
	}
}

func TestARunIsAFileAndEveryoneSeesTheSame(t *testing.T) {
	s := open(t)
	server := httptest.NewServer(s.Handler("/stage/", make(chan struct{})))
	defer server.Close()
	get := func(path string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/stage/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/stage/action", strings.NewReader(`{"do":"crowd","users":50,"clicks":2,"stock":20,"seed":11}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(post)
	if err != nil || response.StatusCode != http.StatusAccepted {
		t.Fatalf("%v %v", response, err)
	}
	_ = response.Body.Close()
	events := get("events")
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		var now stage.State
		if err := json.Unmarshal([]byte(data), &now); err != nil {
			t.Fatal(err)
		}
		if now.Busy == "" && now.Run.N == 1 && now.Lanes[2].Placed == 20 {
			break
		}
	}
	_ = events.Body.Close()
	var file stage.Recording
	if err := json.NewDecoder(get("recording").Body).Decode(&file); err != nil {
		t.Fatal(err)
	}
	if file.Version != 1 || file.Run.Seed != 11 || file.Run.Users != 50 || len(file.Frames) == 0 {
		t.Errorf("recording of %+v with %d frames", file.Run, len(file.Frames))
	}
	for name, link := range stage.Links() {
		path, line, _ := strings.Cut(link, "#")
		page := get(path)
		text, err := bufio.NewReader(page.Body).ReadString(0)
		if page.StatusCode != 200 || err == nil || !strings.Contains(text, `id="`+line+`"`) {
			t.Errorf("%s: %s: %d", name, link, page.StatusCode)
		}
	}
	if n := len(stage.Links()); n != 12 {
		t.Errorf("%d links: a mark is gone from the code", n)
	}
}
