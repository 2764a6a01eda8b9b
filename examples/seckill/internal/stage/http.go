package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxViewers   = 64
	writeTimeout = 10 * time.Second
	quietFor     = 15 * time.Second
	maxAction    = 4 << 10 // bytes
)

// Handler serves the stage under a path that ends with a slash:
//
//	GET  events       what the page shows, as server-sent events "stage"
//	POST action       {"do":"crowd","users":…,"clicks":…,"stock":…,"seed":…}, and so on
//	GET  recording    the last run as a file
//	GET  code/FILE    the code behind a number
//
// It ends its streams when drained is closed.
func (s *Stage) Handler(path string, drained <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	viewers := make(chan struct{}, maxViewers)
	mux.HandleFunc("GET "+path+"events", func(w http.ResponseWriter, r *http.Request) {
		select {
		case viewers <- struct{}{}:
			defer func() { <-viewers }()
			s.stream(w, r, drained)
		default:
			answer(w, http.StatusServiceUnavailable, "TOO_MANY_VIEWERS")
		}
	})
	mux.HandleFunc("POST "+path+"action", s.act)
	mux.HandleFunc("GET "+path+"recording", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Disposition", `attachment; filename="redlatch-run.json"`)
		_ = json.NewEncoder(w).Encode(s.board.recording()) // the client has gone
	})
	mux.HandleFunc("GET "+path+"code/{file}", showCode)
	return mux
}

func (s *Stage) stream(w http.ResponseWriter, r *http.Request, drained <-chan struct{}) {
	stream := http.NewResponseController(w)
	_ = stream.SetReadDeadline(time.Time{}) // an error means that there is none
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	for {
		text, changed := s.board.see()
		_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout))
		if text != nil {
			if _, err := fmt.Fprintf(w, "retry: 1000\nevent: stage\ndata: %s\n\n", text); err != nil {
				return
			}
		}
		if stream.Flush() != nil {
			return
		}
		timer := time.NewTimer(quietFor)
		select {
		case <-changed:
		case <-timer.C:
		case <-drained:
			timer.Stop()
			return
		case <-r.Context().Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// action is what a button asks for.
type action struct {
	Do string `json:"do"`
	Crowd
	Seed     int64 `json:"seed"`
	Instance int   `json:"instance"`
}

func (s *Stage) act(w http.ResponseWriter, r *http.Request) {
	var a action
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAction)).Decode(&a); err != nil {
		answer(w, http.StatusBadRequest, "BAD_REQUEST")
		return
	}
	switch err := s.Do(a.Do, a.Crowd, a.Seed, a.Instance); { //nolint:contextcheck // what a button leads to outlives its request
	case err == nil:
		answer(w, http.StatusAccepted, "OK")
	case errors.Is(err, ErrBusy):
		answer(w, http.StatusConflict, "BUSY")
	default:
		answer(w, http.StatusBadRequest, "BAD_REQUEST")
	}
}

// Do does what a button says: "crowd", "double", "pause", "kill", "start", "stop locks",
// "start locks". A seed of 0 is another one each time.
func (s *Stage) Do(what string, c Crowd, seed int64, instance int) error {
	switch what {
	case "crowd":
		if seed == 0 {
			seed = rand.Int64N(1_000_000) + 1
		}
		return s.Send(c, seed)
	case "double":
		return s.DoubleClick()
	case "pause":
		return s.Pause()
	case "kill":
		return s.Kill(instance)
	case "start":
		return s.StartInstance(instance)
	case "stop locks", "start locks":
		s.StopLocks(what == "stop locks")
		return nil
	}
	return ErrUnknown
}

func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"code":%q}`, code)
}

// showCode shows a file with an anchor on each line.
func showCode(w http.ResponseWriter, r *http.Request) {
	text, known := code[r.PathValue("file")]
	if !known {
		answer(w, http.StatusNotFound, "NOT_FOUND")
		return
	}
	var page bytes.Buffer
	title := html.EscapeString(r.PathValue("file"))
	fmt.Fprintf(&page, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>%s</title><link rel=\"stylesheet\" href=\"../../page.css\"><main class=\"code\"><h1>%s</h1><pre tabindex=\"0\">", title, title)
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		n := strconv.Itoa(i + 1)
		fmt.Fprintf(&page, "<span id=\"L%s\">%4s  %s\n</span>", n, n, html.EscapeString(line))
	}
	page.WriteString("</pre></main></html>")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(page.Bytes()) // the client has gone
}
