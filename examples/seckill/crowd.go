package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/redlatch/redlatch/examples/seckill/internal/load"
)

type people struct {
	Users        int           `env:"SECKILL_USERS" default:"2000" placeholder:"N" help:"Number of users. Default ${default}."`
	Clicks       int           `env:"SECKILL_CLICKS" default:"5" placeholder:"K" help:"Clicks of each user. Default ${default}."`
	Concurrency  int           `env:"SECKILL_CONCURRENCY" default:"64" placeholder:"C" help:"Clicks under way at once. Default ${default}."`
	Stock        int64         `env:"SECKILL_STOCK" default:"500" placeholder:"S" help:"Vouchers on sale. Default ${default}."`
	RetryTimeout time.Duration `env:"SECKILL_RETRY_TIMEOUT" default:"90s" placeholder:"TIME" help:"How long a click with a retryable answer is repeated. Default ${default}."`
}

type crowd struct {
	Target []string `env:"SECKILL_TARGET" placeholder:"URL" help:"Instance to order from; may be given several times. Default http://127.0.0.1:8080, unless there is a --grpc."`
	GRPC   []string `name:"grpc" env:"SECKILL_TARGET_GRPC" placeholder:"ADDR" help:"Instance to order from over gRPC, host:port; may be given several times, and together with --target."`
	people `embed:""`
}

// Run lets the crowd loose.
func (c *crowd) Run(ctx context.Context, t terminal) error { return c.storm(ctx, t, c.targets()) }

func (c *crowd) targets() []string {
	targets := c.Target
	if len(targets)+len(c.GRPC) == 0 {
		targets = []string{"http://127.0.0.1:8080"}
	}
	for _, address := range c.GRPC {
		targets = append(targets, "grpc://"+address)
	}
	return targets
}

var errBroken = errors.New("an invariant is broken")

// storm runs the load and prints its result.
func (p *people) storm(ctx context.Context, t terminal, targets []string) error {
	bar := newBar(t.err, int64(p.Users)*int64(p.Clicks))
	result, err := load.Run(ctx, load.Config{
		Targets: targets, Users: p.Users, Clicks: p.Clicks, Concurrency: p.Concurrency,
		Stock: p.Stock, RetryTimeout: p.RetryTimeout,
	}, func() { _ = bar.Add(1) })
	if bar.State().CurrentNum > 0 {
		fmt.Fprintln(t.err) // leave the bar as it is
	}
	if err != nil {
		return err
	}
	if err := result.Print(t.out); err != nil {
		return err
	}
	if !result.Holds() {
		return errBroken
	}
	return nil
}

// newBar draws on a terminal as it likes; into a file it writes now and then.
func newBar(w io.Writer, total int64) *progressbar.ProgressBar {
	throttle := 2 * time.Second
	file, ok := w.(*os.File)
	live := ok && term.IsTerminal(int(file.Fd()))
	if live {
		throttle = 100 * time.Millisecond
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("clicks"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("clicks"),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(throttle),
		progressbar.OptionUseANSICodes(live),
	)
}
