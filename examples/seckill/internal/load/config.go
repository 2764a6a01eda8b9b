// Package load plays the crowd of a flash sale against running instances of
// the service, and checks what the sale promises.
package load

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Config is the crowd, and where it goes.
type Config struct {
	// Targets are instances that sell the same vouchers: base URLs, or
	// "grpc://host:port".
	Targets []string
	// Users each click Clicks times; Concurrency clicks are under way at once.
	Users, Clicks, Concurrency int
	// Stock is how many vouchers there are.
	Stock int64
	// RetryTimeout is how long a click is repeated that got no final answer.
	RetryTimeout time.Duration
}

// Limits of a crowd. Each click under way measures for itself, which takes 140 KB.
const (
	maxClicks      = 1_000_000_000
	maxConcurrency = 10_000
)

func (c *Config) check() error {
	var faults []error
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"users", int64(c.Users)},
		{"clicks", int64(c.Clicks)},
		{"concurrency", int64(c.Concurrency)},
		{"stock", c.Stock},
		{"retry-timeout", int64(c.RetryTimeout)},
	} {
		if n.value < 1 {
			faults = append(faults, fmt.Errorf("--%s: must be positive", n.name))
		}
	}
	if c.Concurrency > maxConcurrency {
		faults = append(faults, fmt.Errorf("--concurrency: must be at most %d", maxConcurrency))
	}
	if c.Clicks > 0 && c.Users > maxClicks/c.Clicks {
		faults = append(faults, fmt.Errorf("--users, --clicks: together they must be at most %d clicks", maxClicks))
	}
	if len(c.Targets) == 0 {
		faults = append(faults, errors.New("--target: at least one is needed"))
	}
	for i, target := range c.Targets {
		if address, ok := strings.CutPrefix(target, grpcScheme); ok {
			if err := checkAddress(address); err != nil {
				faults = append(faults, err)
			}
			continue
		}
		u, err := url.Parse(target)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(target, "?#") {
			faults = append(faults, fmt.Errorf("--target: %q is not a base URL such as http://127.0.0.1:8080", target))
			continue
		}
		c.Targets[i] = strings.TrimRight(target, "/")
	}
	return errors.Join(faults...)
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("--grpc: %q is not an address such as 127.0.0.1:9090", address)
	}
	return nil
}
