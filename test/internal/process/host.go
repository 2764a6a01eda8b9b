package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// Host is what servers live in, and end with: a test, or a [Program].
type Host interface {
	Helper()
	Context() context.Context // ends before the cleanups run
	TempDir() string
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Program is a Host outside of tests. Use [RunProgram].
type Program struct {
	ctx context.Context
	dir string
	log func(line string)

	mu       sync.Mutex
	folders  int
	cleanups []func()
	failures []error
}

// RunProgram runs body with a Host whose folders are made below dir and stay
// there. Whatever body started is gone when it returns: ctx is cancelled for
// it, and the cleanups run, the last first. The error joins what was reported
// to the Host. Lines of Logf go to log.
func RunProgram(ctx context.Context, dir string, log func(line string), body func(p *Program)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := filepath.Abs(dir) // servers run in their folders
	if err != nil {
		return fmt.Errorf("process: %w", err)
	}
	p := &Program{ctx: ctx, dir: dir, log: log}
	p.Go(func() { body(p) })()
	cancel()
	for clean := p.lastCleanup(); clean != nil; clean = p.lastCleanup() {
		p.Go(clean)()
	}
	return errors.Join(p.failures...)
}

// Go runs f on a goroutine that Fatalf may end, and returns how to wait for
// its end.
func (p *Program) Go(f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() { <-done }
}

func (p *Program) lastCleanup() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.cleanups) - 1
	if last < 0 {
		return nil
	}
	clean := p.cleanups[last]
	p.cleanups = p.cleanups[:last]
	return clean
}

// Helper implements Host.
func (*Program) Helper() {}

// Context implements Host.
func (p *Program) Context() context.Context { return p.ctx }

// TempDir implements Host with a new folder that stays.
func (p *Program) TempDir() string {
	p.mu.Lock()
	p.folders++
	dir := filepath.Join(p.dir, fmt.Sprintf("%02d", p.folders))
	p.mu.Unlock()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.Fatal(err)
	}
	return dir
}

// Cleanup implements Host.
func (p *Program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// Failed implements Host.
func (p *Program) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.failures) > 0
}

// Logf implements Host.
func (p *Program) Logf(format string, args ...any) { p.log(fmt.Sprintf(format, args...)) }

// Errorf implements Host.
func (p *Program) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Errorf(format, args...))
}

// Fatal implements Host. It ends the goroutine: call it on one of
// [Program.Go], or on that of the body.
func (p *Program) Fatal(args ...any) { p.Fatalf("%s", fmt.Sprint(args...)) }

// Fatalf implements Host. See [Program.Fatal].
func (p *Program) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf implements Host: what a test skips, a program can't do.
func (p *Program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }
