package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// eventsPath is where pages get their state from, as server-sent events.
const eventsPath = "/events"

const (
	lookEvery    = 500 * time.Millisecond
	lookTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	// quietFor is how long a stream says nothing when nothing changes.
	quietFor = 15 * time.Second
	// maxViewers is how many pages an instance serves at once.
	maxViewers = 64
)

var tooManyViewers = problem{
	Status: http.StatusServiceUnavailable, Code: "TOO_MANY_VIEWERS", Title: "Too many viewers", Retryable: true,
	Detail: fmt.Sprintf("This instance serves %d pages at once.", maxViewers),
}

// events streams the state of the sale until the client leaves or the service
// drains: an event "state" whenever something has changed, and an event
// "away" when the database doesn't answer. Both name what is away.
func (s *site) events(c *gin.Context) {
	if s.health.draining() {
		refuse(c, shuttingDown)
		return
	}
	select {
	case s.viewers <- struct{}{}:
		defer func() { <-s.viewers }()
	default:
		refuse(c, tooManyViewers)
		return
	}
	// The deadlines of the server are those of a request.
	stream := http.NewResponseController(c.Writer)
	if err := stream.SetReadDeadline(time.Time{}); err != nil {
		fail(c, err)
		return
	}
	c.Header("Content-Type", "text/event-stream")
	c.Header("X-Accel-Buffering", "no")
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var last []byte
	written := time.Time{}
	for {
		event := s.event(c)
		if !bytes.Equal(event, last) || time.Since(written) > quietFor {
			if stream.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
				return
			}
			if _, err := c.Writer.Write(event); err != nil {
				return // the client has gone
			}
			c.Writer.Flush()
			last, written = event, time.Now()
		}
		select {
		case <-ticker.C:
		case <-s.health.drained:
			return
		case <-c.Request.Context().Done():
			return
		}
	}
}

// event is the state as the stream writes it: made once for all who follow the voucher.
func (s *site) event(c *gin.Context) []byte {
	ctx, cancel := context.WithTimeout(c.Request.Context(), lookTimeout)
	defer cancel()
	event, _, err := s.panel.events.Get(ctx, c.Query("voucher"), seenFor)
	if err != nil {
		s.log.DebugContext(ctx, "page has no state", "err", err)     // readiness and requests warn
		away, _ := json.Marshal(gin.H{"away": s.panel.missing(ctx)}) // a list of strings
		return fmt.Appendf(nil, "event: away\ndata: %s\n\n", away)
	}
	return event
}

// event looks, for [site.event].
func (p *panel) event(ctx context.Context, voucherID string) ([]byte, error) {
	state, err := p.look(ctx, voucherID)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(state)
	if err != nil { // cannot be: the fields are strings, numbers and times
		return nil, err
	}
	return fmt.Appendf(nil, "retry: 1000\nevent: state\ndata: %s\n\n", data), nil
}
