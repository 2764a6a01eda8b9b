package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/redlatch/redlatch/test/bench/internal/page"
	"github.com/redlatch/redlatch/test/bench/internal/peer"
)

// stage is one kind of load. Its methods are called once each, in this order.
type stage interface {
	// warm begins the work, or what has to be there before.
	warm(ctx context.Context) error
	// measure begins to count.
	measure(ctx context.Context) error
	// stop ends counting and work.
	stop(ctx context.Context) (*Result, error)
}

// Run is a worker. It returns when in ends, also in the middle of a stage, for
// then nobody waits for its results; the process is expected to end, too.
func Run(ctx context.Context, config Config, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work, err := open(config)
	if err != nil {
		return err
	}
	commands := make(chan string)
	go func() {
		for command := range commands {
			if json.NewEncoder(out).Encode(answer(ctx, work, command)) != nil {
				return // the reader has gone, and in ends
			}
		}
	}()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		select {
		case commands <- lines.Text():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return lines.Err()
}

// answer runs one stage.
func answer(ctx context.Context, work stage, command string) (reply Reply) {
	var err error
	switch command {
	case Warm:
		err = work.warm(ctx)
	case Measure:
		err = work.measure(ctx)
	case Stop:
		reply.Result, err = work.stop(ctx)
	default:
		err = fmt.Errorf("load: unknown command %q", command)
	}
	if err != nil {
		reply.Error = err.Error()
	}
	return reply
}

func open(config Config) (stage, error) {
	if config.Kind == Handler {
		return newHandler(config)
	}
	p, ok := peer.Find(config.Peer)
	if !ok {
		return nil, fmt.Errorf("load: no peer %q", config.Peer)
	}
	locker, err := p.Open(peer.Settings{Addr: config.Addr, Lease: config.Lease})
	if err != nil {
		return nil, fmt.Errorf("load: open %s: %w", config.Peer, err)
	}
	shared, _, err := page.Map(config.Page)
	if err != nil {
		return nil, err
	}
	work, err := newStage(config, locker, shared)
	if count, ok := locker.(peer.Counting); ok && err == nil {
		work = &counted{stage: work, count: count}
	}
	return work, err
}

func newStage(config Config, locker peer.Locker, shared *page.Page) (stage, error) {
	switch config.Kind {
	case Cycle, Try:
		return newLoop(config, locker, shared), nil
	case HandOff:
		return newHandOff(config, locker, shared), nil
	case Hold:
		return newHold(config, locker), nil
	case Keys:
		return newKeys(config, locker), nil
	default:
		return nil, fmt.Errorf("load: unknown kind %q", config.Kind)
	}
}

// counted adds the statements of the locker to the result.
type counted struct {
	stage
	count  peer.Counting
	before int64
}

func (c *counted) measure(ctx context.Context) error {
	c.before = c.count.Statements()
	return c.stage.measure(ctx)
}

func (c *counted) stop(ctx context.Context) (*Result, error) {
	statements := c.count.Statements() - c.before
	result, err := c.stage.stop(ctx)
	if err == nil {
		result.Statements = statements
	}
	return result, err
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
