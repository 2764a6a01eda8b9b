package quiet_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/examples/seckill/internal/quiet"
)

func TestOneLineOfAKindASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(quiet.NewHandler(slog.NewTextHandler(&text, nil)))
		other := log.With("instance", 2).WithGroup("http")
		for range 3 {
			for range 500 {
				log.Warn("request failed", "route", "/a")
				other.Warn("request failed", "route", "/b") // another route says nothing new
				log.Error("request failed")
				log.Info("draining")
			}
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != 9 {
			t.Errorf("%d lines, want one for each of three kinds in each of three seconds:\n%s", len(lines), text.String())
		}
		if !strings.Contains(text.String(), "suppressed=999") {
			t.Errorf("it doesn't say how many were left out:\n%s", text.String())
		}
	})
}
