package stage

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// lookEvery is how often the stage looks at itself, for all who watch.
const lookEvery = 150 * time.Millisecond

// maxFrames bounds a recording.
const maxFrames = 600

// board has the last state for all who watch, and the recording of the last run.
type board struct {
	ctx context.Context // of what runs

	mu       sync.Mutex
	last     *State
	text     []byte
	changed  chan struct{} // closed by the next state
	frames   []frame
	recorded time.Time // when the recording began
}

// frame is a state of a recording.
type frame struct {
	Ms    int64           `json:"ms"`
	State json.RawMessage `json:"state"`
}

// Recording is one run as a file.
type Recording struct {
	Version int     `json:"version"`
	Run     run     `json:"run"`
	Frames  []frame `json:"frames"`
}

func newBoard(ctx context.Context) *board { return &board{ctx: ctx, changed: make(chan struct{})} }

// show looks until ctx ends.
func (s *Stage) show(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if now, err := s.state(ctx); err == nil {
			s.board.put(now)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

func (b *board) put(now *State) {
	text, err := json.Marshal(now)
	if err != nil { // cannot be: numbers, strings and times
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if same(now, b.last) {
		return
	}
	b.last, b.text = now, text
	if now.Run.N > 0 && len(b.frames) < maxFrames {
		b.frames = append(b.frames, frame{time.Since(b.recorded).Milliseconds(), text})
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// record begins a new recording.
func (b *board) record() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frames, b.recorded = nil, time.Now()
}

// see returns the last state as JSON, nil if there is none yet, and what is closed by the next one.
func (b *board) see() (text []byte, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text, b.changed
}

func (b *board) recording() Recording {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := Recording{Version: 1, Frames: append([]frame{}, b.frames...)}
	if b.last != nil {
		r.Run = b.last.Run
	}
	return r
}
