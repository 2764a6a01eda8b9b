package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// gaveUp is the reason of clicks that got no final answer within RetryTimeout.
const gaveUp = "GAVE_UP"

const (
	firstPause = 10 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Run puts a voucher on sale, lets the crowd click until every click has its
// final answer, and gets the report of the service. clicked, if not nil, is
// called after every click, from several goroutines.
//
// An answer is final unless it says that the request wasn't carried out but
// may be next time (LOCK_CONTENDED, 503, a lost lock) or there was none. Such
// a click is repeated, after a pause that grows and is never in step with
// others; a target that doesn't answer is passed over for a while. Repeating
// is safe: a user gets one order at most.
//
// The error isn't nil if the sale couldn't be carried out; a Result whose
// invariants are broken is no error.
func Run(ctx context.Context, c Config, clicked func()) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if clicked == nil {
		clicked = func() {}
	}
	targets, err := newTargets(c.Targets, c.Concurrency)
	if err != nil {
		return nil, err
	}
	defer targets.close() //nolint:errcheck // every answer is in by then
	r := &run{
		Config: c, targets: targets, clicked: clicked,
		crowd: strconv.FormatUint(uint64(rand.Uint32()), 36),
	}
	if err := r.anyTarget(ctx, func(on client) (err error) {
		r.voucherID, err = on.createVoucher(ctx, newOffer(c.Stock))
		return err
	}); err != nil {
		return nil, fmt.Errorf("create voucher: %w", err)
	}
	start := time.Now()
	seen := r.clickAll(ctx)
	elapsed := time.Since(start)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	report, counted, err := r.verdict(ctx)
	if err != nil {
		return nil, err
	}
	return r.result(seen, report, counted, start, elapsed), nil
}

// verdict returns what the counters say, and what the orders say when they are counted,
// which is nil if the service doesn't count. A request without an answer may still be
// carried out: both are then read again.
func (r *run) verdict(ctx context.Context) (report Report, counted *Report, err error) {
	deadline := time.Now().Add(r.RetryTimeout)
	for {
		before, err := r.report(ctx)
		if err != nil {
			return Report{}, nil, fmt.Errorf("report: %w", err)
		}
		counted, err := r.count(ctx, deadline)
		if err != nil {
			return Report{}, nil, fmt.Errorf("count the orders: %w", err)
		}
		after, err := r.report(ctx)
		if err != nil {
			return Report{}, nil, fmt.Errorf("report: %w", err)
		}
		if before == after || time.Now().After(deadline) {
			return after, counted, nil
		}
	}
}

func (r *run) report(ctx context.Context) (report Report, err error) {
	err = r.anyTarget(ctx, func(on client) (err error) {
		report, err = on.report(ctx, r.voucherID)
		return err
	})
	return report, err
}

func (r *run) count(ctx context.Context, deadline time.Time) (counted *Report, err error) {
	for attempt := 0; ; attempt++ {
		err := r.anyTarget(ctx, func(on client) error {
			report, err := on.count(ctx, r.voucherID)
			if err == nil {
				counted = &report
			}
			return err
		})
		switch {
		case err == nil || errors.Is(err, errNoCount) && !errors.Is(err, errCounting):
			return counted, nil
		case !errors.Is(err, errCounting) || time.Now().After(deadline) || !pause(ctx, attempt):
			return nil, err
		}
	}
}

type run struct {
	Config
	targets   *targets
	clicked   func()
	crowd     string // makes the users of this run its own
	voucherID string
}

// anyTarget calls one target after the other until one answers.
func (r *run) anyTarget(ctx context.Context, ask func(on client) error) error {
	var errs []error
	for _, target := range r.targets.list {
		err := ask(target)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", target.url, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// clickAll runs the crowd. The clicks of a user come together, as those of an
// impatient finger do, and each goes to another instance.
func (r *run) clickAll(ctx context.Context) *tally {
	clicks := make(chan int)
	workers := make([]*tally, r.Concurrency)
	var running sync.WaitGroup
	for i := range workers {
		workers[i] = newTally()
		running.Go(func() {
			for n := range clicks {
				r.click(ctx, n, workers[i])
				r.clicked()
			}
		})
	}
	for n := range r.Users * r.Clicks {
		select {
		case clicks <- n:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(clicks)
	running.Wait()
	total := newTally()
	for _, worker := range workers {
		total.add(worker)
	}
	return total
}

// click is the nth click, with all its attempts.
func (r *run) click(ctx context.Context, n int, seen *tally) {
	user := n / r.Clicks
	id := r.crowd + "-" + strconv.Itoa(user)
	deadline := time.Now().Add(r.RetryTimeout)
	for attempt := 0; ctx.Err() == nil; attempt++ {
		target := r.targets.pick(n + attempt)
		sent := time.Now()
		a, err := target.order(ctx, r.voucherID, id)
		switch {
		case err != nil:
			if ctx.Err() != nil {
				return
			}
			r.targets.failed(target)
			if !neverSent(err) {
				seen.unknown++
			}
		case a.placed:
			seen.answered(time.Since(sent))
			seen.placed[user]++
			seen.lastOrder = time.Now()
			return
		default:
			seen.answered(time.Since(sent))
			if a.ambiguous() {
				seen.unknown++
			}
			if a.final {
				seen.refused[a.reason]++
				return
			}
			seen.retried[a.reason]++
		}
		if time.Now().After(deadline) {
			seen.refused[gaveUp]++
			return
		}
		if !pause(ctx, attempt) {
			return
		}
	}
}

// pause waits before the next attempt. It doesn't wait as long as
// Retry-After says, which speaks to people's browsers: a crowd is impatient.
func pause(ctx context.Context, attempt int) bool {
	limit := min(firstPause<<min(attempt, 10), maxPause)
	timer := time.NewTimer(limit/2 + rand.N(limit/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
