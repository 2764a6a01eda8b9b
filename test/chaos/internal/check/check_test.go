package check_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/test/chaos/internal/check"
	"github.com/redlatch/redlatch/test/chaos/internal/history"
)

const (
	ok      = history.OK
	notHeld = history.NotHeld
	lost    = history.Lost
	unknown = history.Unknown
)

func TestLegalHistories(t *testing.T) {
	semaphore := func() *script { return &script{key: "s", mode: "semaphore"} }
	readWrite := func() *script { return &script{key: "rw", mode: "read"} }
	for name, s := range map[string]*script{
		"nothing":                           exclusive(),
		"one after the other":               exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, ok).got("b1", 7, 8, 11),
		"granted while the release returns": exclusive().got("a1", 0, 2, 10).gave("a1", 5, 9, ok).got("b1", 6, 7, 11),
		"busy while it is held":             exclusive().got("a1", 0, 2, 10).busy("b", 3, 4).gave("a1", 5, 6, ok),
		"busy before the grant returns":     exclusive().got("a1", 0, 9, 10).busy("b", 3, 4).gave("a1", 10, 11, ok),
		"after the lease":                   exclusive().got("a1", 0, 2, 10).got("b1", 301, 302, 11).gave("b1", 303, 304, ok),
		"re-entry": exclusive().got("a1", 0, 2, 10).again("a1", 3, 4, 10).busy("b", 5, 6).shared("a1", 7, 8).
			busy("b", 9, 10).gave("a1", 11, 12, ok).got("b1", 13, 14, 11),
		"renewed": exclusive().got("a1", 0, 2, 10).renewed("a1", 200, 202, ok).busy("b", 400, 401).gave("a1", 410, 411, ok),
		"lost, then released by another call": exclusive().got("a1", 0, 2, 10).got("b1", 310, 311, 12).
			late("a1", 320, 321, notHeld).busy("a", 330, 331),
		"a release nobody answered":         exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, unknown).got("b1", 20, 21, 11),
		"… that comes later":                exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, unknown).busy("b", 20, 21),
		"lost here, not yet there":          exclusive().got("a1", 0, 2, 10).gave("a1", 298, 299, lost).busy("b", 300, 301),
		"… that comes later than a renewal": exclusive().got("a1", 0, 2, 10).gave("a1", 5, 6, unknown).renewed("a1", 7, 9, ok).got("b1", 20, 21, 11),
		"released twice, by a repetition": exclusive().got("a1", 0, 2, 10).got("b1", 40, 42, 11).
			gave("a1", 5, 400, notHeld),
		"released by a call that nobody answered, and called again": exclusive().got("a1", 0, 2, 10).
			add(history.Event{Kind: history.Freed, Outcome: unknown, Owner: "a1", Call: 5, Return: 50}).
			gave("a1", 5, 60, notHeld).got("b1", 70, 71, 11),
		"readers together": readWrite().in("read", "a1", 0, 1, 10).in("read", "b1", 2, 3, 11).gaveIn("read", "a1", 4, 5).
			gaveIn("read", "b1", 6, 7).in("write", "c1", 8, 9, 12).gaveIn("write", "c1", 10, 11).in("read", "a2", 12, 13, 13),
		"a re-entry that outlasts the first lease": exclusive().got("a1", 0, 2, 10).again("a1", 3, 4, 10).shared("a1", 5, 6).busy("b", 7, 8).
			gave("a1", 9, 10, ok).got("b1", 11, 12, 11),
		"a writer who reads": readsOn().busyIn("read", "b", 4, 5).
			stopsReading("a1", 6, 7).busyIn("read", "b", 8, 9).gaveIn("write", "a1", 10, 11).in("read", "b1", 12, 13, 11),
		"a writer who reads on": readsOn().busyIn("read", "b", 4, 5).
			lowered("a1", 6, 8).in("read", "b1", 9, 10, 11).busyIn("write", "c", 11, 12).gaveIn("read", "a1", 13, 14).
			gaveIn("read", "b1", 15, 16).in("write", "c1", 17, 18, 12),
		"… renewed as a writer and as a reader": readsOn().lowered("a1", 6, 8).
			renewed("a1", 5, 9, notHeld).modeOfLast("write").renewed("a1", 7, 9, ok).busyIn("write", "c", 250, 251).gaveIn("read", "a1", 260, 261),
		"… whose Lower had no answer, and did not run": readsOn().unlowered("a1", 6, 8).
			busyIn("read", "b", 9, 10).gaveIn("read", "a1", 13, 14),
		"… whose Lower had no answer, and ran": readsOn().unlowered("a1", 6, 8).
			in("read", "b1", 9, 10, 11).busyIn("write", "c", 11, 12).gaveIn("read", "a1", 13, 14).gaveIn("read", "b1", 15, 16),
		"… whose process doesn't know yet that Lower ran": readsOn().lowered("a1", 6, 8).stoppedUntil(12).in("read", "b1", 9, 10, 11).gaveIn("read", "b1", 10, 11).
			busyIn("read", "a", 11, 12).in("read", "a2", 13, 14, 12),
		"… whose process never gets to know that Lower ran": readsOn().unlowered("a1", 6, 8).in("read", "b1", 9, 10, 11).gaveIn("read", "b1", 11, 12).
			renewed("a1", 250, 251, ok).renewed("a1", 500, 501, ok).busyIn("read", "a", 700, 701).gaveIn("read", "a1", 702, 703).fenceOfLast(10).
			in("read", "a2", 704, 705, 12),
		"… renewed as a writer after Lower, which had no answer": readsOn().unlowered("a1", 6, 8).renewed("a1", 5, 9, notHeld).modeOfLast("write").
			busyIn("write", "b", 250, 251).gaveIn("read", "a1", 260, 261),
		"… renewed by another Lower without an answer, when a reader was in": readsOn().unlowered("a1", 6, 8).in("read", "b1", 9, 10, 11).
			add(history.Event{Kind: history.Doubt, Op: history.Lowered, Mode: "read", Owner: "a1", Call: 150, Return: 160}).
			renewed("a1", 620, 621, ok).gaveIn("read", "a1", 625, 626),
		"… and was killed meanwhile": readsOn().
			add(history.Event{Kind: history.Begin, Op: history.Lower, Mode: "write", Owner: "a1", Fence: 10, Call: 6}).
			fault("worker killed", 0, 8, 8, false).in("read", "b1", 9, 10, 11).busyIn("write", "c", 11, 12),
		"permits": semaphore().permits("a1", 0, 1, 10, 2).permits("b1", 2, 3, 11, 1).busy("c", 4, 5).
			gave("b1", 6, 7, ok).permits("c1", 8, 9, 12, 1),
		"permits that expired": semaphore().permits("a1", 0, 1, 10, 2).permits("b1", 310, 311, 11, 3),
		"permits that expired, and others that may have been returned": semaphore().permits("a1", 0, 1, 10, 2).permits("b1", 250, 251, 11, 1).
			gave("b1", 260, 261, unknown).permits("c1", 310, 311, 12, 1).permits("d1", 312, 313, 13, 1).busy("e", 320, 321),
		"held by a killed worker": exclusive().got("a1", 0, 2, 10).fault("worker killed", 0, 5, 6, false).
			busy("b", 200, 201).got("b1", 310, 311, 11),
		"renewed by a call that nobody answered": exclusive().got("a1", 0, 2, 10).
			add(history.Event{Kind: history.Doubt, Op: history.Renew, Owner: "a1", Call: 150, Return: 160}).
			renewed("a1", 400, 402, ok).late("a1", 410, 411, ok),
		"stopped between the grant and its return": exclusive().stopped("a1", 0, 2, 700, 10).got("b1", 690, 691, 11).
			late("a1", 701, 702, lost).gave("b1", 710, 711, ok),
		"granted by the second of two calls, which is answered first": exclusive().
			add(history.Event{Kind: history.Grant, Owner: "a1", Call: 0, Return: 360, Fence: 9}).
			got("a1", 300, 358, 10).stoppedUntil(370).gave("a1", 590, 591, ok),
		"handed over, and renewed after its lease": (&script{key: "f", mode: "fair"}).got("a1", 0, 2, 10).renewed("a1", 700, 702, ok).
			late("a1", 710, 711, ok),
		"handed on": exclusive().got("a1", 0, 2, 10).handed("a1", 5, 7, 11).busy("b", 8, 9).handed("a1", 10, 12, 12).
			gave("a1", 20, 21, ok).got("b1", 22, 23, 74),
		"handed on, renewed for the one before": exclusive().got("a1", 0, 2, 10).handed("a1", 100, 102, 11).renewed("a1", 99, 110, ok).
			busy("b", 390, 391).gave("a1", 395, 396, ok),
		"handed on with what is left of the trust": exclusive().got("a1", 0, 2, 10).until(295).renewed("a1", 50, 55, ok).
			handed("a1", 100, 102, 11).until(345).gave("a1", 110, 111, ok),
		"handed on to one who had given up": exclusive().got("a1", 0, 2, 10).passed("a1", 5, 7, 10).busy("b", 50, 51).freed("a1", 7, 60).
			got("b1", 61, 62, 74),
		"handed on by one who had given up": exclusive().got("a1", 0, 2, 10).passed("a1", 5, 7, 10).took("a1", 4, 60, 12).busy("b", 50, 51).
			gave("a1", 70, 71, ok).got("b1", 80, 81, 74),
		"handed on, and killed": exclusive().got("a1", 0, 2, 10).handed("a1", 5, 7, 11).fault("worker killed", 0, 8, 9, false).
			busy("b", 200, 201).got("b1", 310, 311, 74),
		"handed on, and released by force": exclusive().got("a1", 0, 2, 10).handed("a1", 5, 7, 11).
			add(history.Event{Kind: history.Force, Outcome: ok, Call: 8, Return: 9}).got("b1", 10, 11, 74).gave("b1", 20, 21, ok).
			gave("a1", 20, 21, notHeld),
		"handed on when it had been released by force": exclusive().got("a1", 0, 2, 10).
			add(history.Event{Kind: history.Force, Outcome: ok, Call: 3, Return: 4}).got("b1", 5, 6, 74).handed("a1", 10, 12, 11).
			gave("b1", 20, 21, ok).gave("a1", 22, 23, notHeld),
		"released by force before its caller knew of it": exclusive().got("a1", 0, 50, 10).
			add(history.Event{Kind: history.Force, Outcome: ok, Call: 20, Return: 21}).got("b1", 22, 24, 74).gave("b1", 60, 61, ok).
			gave("a1", 70, 71, notHeld),
		"released by the force of one that was killed": exclusive().got("a1", 0, 2, 10).add(history.Event{Kind: history.Begin, Op: history.Force, Worker: 2, Call: 8}).
			fault("worker killed", 2, 30, 31, false).got("b1", 10, 11, 74).gave("b1", 20, 21, ok).gave("a1", 22, 23, notHeld),
		"handed on to another writer": readWrite().in("write", "a1", 0, 1, 10).passed("a1", 5, 7, 10).modeOfLast("write").
			took("a1", 4, 8, 11).modeOfLast("write").gaveIn("write", "a1", 10, 11).in("read", "b1", 12, 13, 74),
		"granted again by a call whose answer came later": exclusive().got("a1", 0, 2, 10).
			add(history.Event{Kind: history.Grant, Owner: "a1", Worker: 0, Call: 50, Return: 60, Fence: 10}).gave("a1", 320, 321, ok),
		"forgotten by Redis": exclusive().got("a1", 0, 2, 10).fault("failover", -1, 5, 40, true).
			got("b1", 50, 51, 11).gave("b1", 60, 61, ok).gave("a1", 70, 71, notHeld),
	} {
		t.Run(name, func(t *testing.T) {
			if rules := s.judge(t); len(rules) > 0 {
				t.Errorf("found %q in a legal history", slices.Sorted(maps.Keys(rules)))
			}
		})
	}
}

func TestIllegalHistories(t *testing.T) {
	claim := func(fence uint64, at int64) history.Event {
		return history.Event{Kind: history.Claim, Fence: fence, Call: at}
	}
	write := func(fence uint64, at, value int64) history.Event {
		return history.Event{Kind: history.Write, Fence: fence, Call: at, Value: value}
	}
	for name, test := range map[string]struct {
		*script
		want []string
	}{
		"double grant, fresh fence": {
			exclusive().got("a1", 0, 2, 10).got("b1", 3, 4, 11).gave("a1", 8, 9, ok).gave("b1", 8, 9, ok),
			[]string{"handover", "overlap", "model illegal"},
		},
		"double grant, stale fence": {
			exclusive().got("a1", 0, 2, 10).got("b1", 3, 4, 9).gave("a1", 8, 9, ok).gave("b1", 8, 9, ok),
			[]string{"fence order", "handover", "overlap", "model illegal"},
		},
		"fence falls": {
			exclusive().got("a1", 0, 2, 10).gave("a1", 3, 4, ok).got("b1", 5, 6, 9), []string{"fence order", "handover", "model illegal"},
		},
		"fence twice": {
			exclusive().got("a1", 0, 2, 10).gave("a1", 3, 4, ok).got("b1", 5, 6, 10), []string{"fence twice", "model illegal"},
		},
		"fence of a re-entry": {
			exclusive().got("a1", 0, 2, 10).again("a1", 3, 4, 11), []string{"fence of a re-entry"},
		},
		"busy when all is released": {
			exclusive().got("a1", 0, 2, 10).gave("a1", 3, 4, ok).busy("b", 6, 7), []string{"model illegal"},
		},
		"busy on a key that nobody had": {exclusive().busy("b", 6, 7), []string{"model illegal"}},
		"busy after the lease":          {exclusive().got("a1", 0, 2, 10).busy("b", 310, 311), []string{"model illegal"}},
		"a foreign release is accepted": {
			exclusive().got("a1", 0, 2, 10).got("b1", 310, 311, 11).late("a1", 320, 321, ok).busy("c", 330, 331),
			[]string{"model illegal"},
		},
		"a release gets lost": {
			exclusive().got("a1", 0, 2, 10).gave("a1", 3, 4, notHeld), []string{"model illegal"},
		},
		"lost without a reason": {
			exclusive().got("a1", 0, 2, 10).renewed("a1", 100, 102, notHeld), []string{"model illegal"},
		},
		"renewed after the release": {
			exclusive().got("a1", 0, 2, 10).gave("a1", 3, 4, ok).renewed("a1", 100, 102, ok),
			[]string{"after the release", "model illegal"},
		},
		"trusted for too long": {
			exclusive().got("a1", 0, 2, 10).gave("a1", 320, 321, lost), []string{"trust"},
		},
		"trusted while another has it": {
			exclusive().got("a1", 0, 2, 10).got("b1", 305, 306, 11).gave("a1", 320, 321, lost), []string{"trust", "overlap"},
		},
		"handed on without a fresh fence": {
			exclusive().got("a1", 0, 2, 10).passed("a1", 5, 7, 10).took("a1", 4, 8, 10).gave("a1", 20, 21, ok),
			[]string{"fence twice", "handover", "model illegal"},
		},
		"handed on with the fence of the next grant": {
			exclusive().got("a1", 0, 2, 10).handed("a1", 5, 7, 11).gave("a1", 8, 9, ok).got("b1", 10, 11, 11),
			[]string{"fence twice", "model illegal"},
		},
		"handed on before it was released": {
			exclusive().got("a1", 0, 2, 10).took("a1", 3, 4, 11).passed("a1", 5, 7, 10).gave("a1", 8, 9, ok),
			[]string{"after the release", "overlap", "handover", "model illegal"},
		},
		"handed on, and never released by the one before": {
			exclusive().got("a1", 0, 2, 10).took("a1", 3, 4, 11), []string{"handover", "model illegal"},
		},
		"handed on when it had expired": {
			exclusive().got("a1", 0, 2, 10).handed("a1", 310, 311, 11).gave("a1", 330, 331, ok),
			[]string{"trust", "model illegal"},
		},
		"handed on with fresh trust": {
			exclusive().got("a1", 0, 2, 10).until(295).handed("a1", 5, 7, 11).until(301).renewed("a1", 20, 21, ok).gave("a1", 310, 311, ok),
			[]string{"trust"},
		},
		"handed on, and granted to another": {
			exclusive().got("a1", 0, 2, 10).handed("a1", 5, 7, 11).got("b1", 10, 11, 74).gave("b1", 15, 16, ok).gave("a1", 20, 21, ok),
			[]string{"overlap", "handover", "model illegal"},
		},
		"handed on to one who had given up, and kept": {
			exclusive().got("a1", 0, 2, 10).passed("a1", 5, 7, 10).freed("a1", 7, 9).busy("b", 50, 51), []string{"model illegal"},
		},
		"handed on to one who had given up, and renewed": {
			exclusive().got("a1", 0, 2, 10).passed("a1", 5, 7, 10).renewed("a1", 100, 101, ok).renewed("a1", 350, 351, ok).
				add(history.Event{Kind: history.Pulse, Call: 800}), []string{"kept"},
		},
		"a fence that falls after a release by force": {
			exclusive().got("a1", 0, 2, 10).add(history.Event{Kind: history.Force, Outcome: ok, Call: 8, Return: 9}).got("b1", 10, 11, 9),
			[]string{"fence order", "handover"},
		},
		"a reader next to a writer who reads": {
			readsOn().in("read", "b1", 4, 5, 11).
				lowered("a1", 6, 8).gaveIn("read", "a1", 9, 10).gaveIn("read", "b1", 11, 12),
			[]string{"overlap", "model illegal"},
		},
		"a writer next to one who reads on": {
			readsOn().lowered("a1", 4, 5).
				in("write", "b1", 6, 7, 11).gaveIn("read", "a1", 9, 10).gaveIn("write", "b1", 11, 12),
			[]string{"overlap", "model illegal"},
		},
		"readers are kept out by one who reads on": {
			readsOn().lowered("a1", 4, 5).
				busyIn("read", "b", 6, 7).gaveIn("read", "a1", 9, 10),
			[]string{"model illegal"},
		},
		"… by its process, which knows that Lower ran": {
			readsOn().lowered("a1", 6, 8).stoppedUntil(12).busyIn("read", "a", 13, 14), []string{"model illegal"},
		},
		"… by another process, and Lower ran": {
			readsOn().lowered("a1", 6, 8).stoppedUntil(12).busyIn("read", "b", 10, 11), []string{"model illegal"},
		},
		"… by another process, long after a Lower without an answer that ran": {
			readsOn().unlowered("a1", 6, 8).in("read", "b1", 9, 10, 11).gaveIn("read", "b1", 11, 12).
				renewed("a1", 250, 251, ok).renewed("a1", 500, 501, ok).busyIn("read", "c", 700, 701).gaveIn("read", "a1", 702, 703).fenceOfLast(10),
			[]string{"model illegal"},
		},
		"a renewal as a writer finds nothing before Lower": {
			readsOn().renewed("a1", 4, 5, notHeld).modeOfLast("write").unlowered("a1", 6, 8).gaveIn("read", "a1", 9, 10), []string{"model illegal"},
		},
		"a writer gets in next to one whose Lower had no answer": {
			readsOn().unlowered("a1", 6, 8).renewed("a1", 9, 10, notHeld).modeOfLast("write").in("write", "b1", 20, 21, 11).
				gaveIn("write", "b1", 22, 23).gaveIn("read", "a1", 30, 31),
			[]string{"overlap", "model illegal"},
		},
		"one who reads on is back after its release": {
			readsOn().lowered("a1", 4, 5).
				gaveIn("read", "a1", 9, 10).busyIn("write", "b", 11, 12),
			[]string{"model illegal"},
		},
		"one who reads on, and the store doesn't know": {
			readsOn().
				add(history.Event{Kind: history.Lower, Outcome: ok, Mode: "write", Owner: "a1", Fence: 10, Call: 4, Return: 5}).gaveIn("read", "a1", 9, 10),
			[]string{"record"},
		},
		"a writer among readers": {
			(&script{key: "rw", mode: "read"}).in("read", "a1", 0, 1, 10).in("write", "b1", 2, 3, 11).
				gaveIn("read", "a1", 8, 9).gaveIn("write", "b1", 8, 9),
			[]string{"overlap", "model illegal"},
		},
		"a reader next to a writer": {
			(&script{key: "rw", mode: "read"}).in("write", "a1", 0, 1, 10).in("read", "b1", 2, 3, 11).
				gaveIn("write", "a1", 8, 9).gaveIn("read", "b1", 8, 9),
			[]string{"overlap", "model illegal"},
		},
		"readers keep a reader out": {
			(&script{key: "rw", mode: "read"}).in("read", "a1", 0, 1, 10).busy("b", 2, 3), []string{"model illegal"},
		},
		"too many permits": {
			(&script{key: "s", mode: "semaphore"}).permits("a1", 0, 1, 10, 2).permits("b1", 2, 3, 11, 2).
				gave("a1", 8, 9, ok).gave("b1", 8, 9, ok),
			[]string{"permits", "model illegal"},
		},
		"busy with permits left": {
			(&script{key: "s", mode: "semaphore"}).permits("a1", 0, 1, 10, 2).busy("b", 2, 3), []string{"model illegal"},
		},
		"a stale write": {
			exclusive().add(claim(10, 1)).add(claim(11, 2)).add(write(10, 3, 1)), []string{"stale write"},
		},
		"a lost update": {
			exclusive().add(claim(10, 1)).add(write(10, 2, 1)).add(claim(11, 3)).add(write(11, 4, 1)), []string{"lost update"},
		},
		"a grant that the store never made": {
			exclusive().add(history.Event{Kind: history.Acquire, Outcome: ok, Owner: "a1", Call: 1, Return: 2, Fence: 1}),
			[]string{"record"},
		},
		"a call that never returned": {
			exclusive().add(history.Event{Kind: history.Begin, Op: history.Acquire, Call: 1}), []string{"record"},
		},
		"a force that never returned": {
			exclusive().add(history.Event{Kind: history.Begin, Op: history.Force, Call: 1}), []string{"record"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := test.judge(t)
			for _, want := range test.want {
				if !rules[want] {
					t.Errorf("%q is not found, only %q", want, slices.Sorted(maps.Keys(rules)))
				}
			}
			if len(rules) != len(test.want) {
				t.Errorf("found %q, want %q", slices.Sorted(maps.Keys(rules)), test.want)
			}
		})
	}
}

// What isn't known excuses what it may have caused, and nothing else.
func TestDoubtsExcuseRefusalsForAWhile(t *testing.T) {
	doubt := history.Event{Kind: history.Doubt, Op: history.Acquire, Owner: "a1", Call: 1, Return: 5}
	if rules := exclusive().add(doubt).busy("b", 100, 101).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although an unknown owner may have it", rules)
	}
	if rules := exclusive().add(doubt).busy("b", 1000, 1001).judge(t); !rules["model illegal"] {
		t.Error("a refusal long after all doubts is accepted")
	}
	// The request may wait until Redis runs again.
	paused := exclusive().add(doubt).fault("redis paused", -1, 3, 700, false)
	if rules := paused.busy("b", 1000, 1001).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the request ran after the pause", rules)
	}
	// Or longer, if Redis is stopped again at once.
	again := exclusive().add(doubt).fault("redis paused", -1, 3, 350, false).fault("redis paused", -1, 351, 700, false)
	if rules := again.busy("b", 1000, 1001).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the request ran after the second pause", rules)
	}
	// One that is stopped has sent what it sends.
	stopped := exclusive().add(doubt).fault("worker paused", 0, 3, 700, false)
	if rules := stopped.busy("b", 1000, 1001).judge(t); !rules["model illegal"] {
		t.Error("a refusal is excused by a request that nothing has kept")
	}
	// An owner that gets the key after the request ran has it alone.
	next := exclusive().add(doubt).got("b1", 400, 401, 11).gave("b1", 405, 406, ok)
	if rules := next.busy("c", 500, 501).judge(t); !rules["model illegal"] {
		t.Error("a refusal is excused by an owner that cannot have come back")
	}
}

// A try doesn't overtake a caller of the same process that waits for the key.
func TestAnEarlierCallerOfTheProcessExplainsARefusal(t *testing.T) {
	waits := func(name string, from, to int64) *script {
		return exclusive().add(history.Event{
			Kind: history.Acquire, Outcome: history.GaveUp, Worker: worker(name), Client: 7, ID: 7, Call: from, Return: to, Canceled: true,
		})
	}
	if rules := waits("b", 100, 105).busy("b", 102, 103).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the key is reserved for another caller", rules)
	}
	if rules := waits("c", 100, 105).busy("b", 102, 103).judge(t); !rules["model illegal"] {
		t.Error("a caller of another process explains a refusal")
	}
	if rules := waits("b", 100, 105).busy("b", 106, 107).judge(t); !rules["model illegal"] {
		t.Error("a caller who has left explains a refusal")
	}
}

// A cut that was waited for leaves no doubt about when the request ran.
func TestDoubtsEndWithACutThatHasSettled(t *testing.T) {
	for name, test := range map[string]struct {
		note    string
		settled bool
		excused bool
	}{
		"settled":                {"EOF", true, false},
		"not settled":            {"EOF", false, true},
		"another kind of error":  {"i/o timeout", true, true},
		"write to what was cut":  {"write tcp: broken pipe", true, false},
		"reset by the other end": {"read tcp: connection reset by peer", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := exclusive().fault("reply cut", 0, 0, 8, false)
			s.faults[0].Settled = test.settled
			s.add(history.Event{Kind: history.Doubt, Op: history.Acquire, Owner: "a1", Call: 1, Return: 5, Note: test.note})
			if rules := s.busy("b", 300, 301).judge(t); len(rules) > 0 {
				t.Errorf("found %v, although the request may have run", rules)
			}
			if rules := s.busy("b", 400, 401).judge(t); rules["model illegal"] == test.excused {
				t.Errorf("excused: %v, want %v", !rules["model illegal"], test.excused)
			}
		})
	}
}

func TestForgottenLocksAreCountedAndNotHidden(t *testing.T) {
	s := exclusive().got("a1", 0, 2, 10).fault("failover", -1, 5, 40, true).got("b1", 50, 51, 11).
		gave("b1", 60, 61, ok).gave("a1", 70, 71, notHeld)
	if found, excused := s.timeline().Rules(); len(found) > 0 || excused != 1 {
		t.Errorf("found %v and excused %d, want one excused overlap", found, excused)
	}
	verdicts, err := s.timeline().Search("")
	if err != nil || verdicts.Aside != 1 || verdicts.OK != 0 {
		t.Errorf("verdicts %+v, %v, want one history set aside", verdicts, err)
	}
	// Fences have to rise all the same.
	s = exclusive().got("a1", 0, 2, 10).fault("failover", -1, 5, 40, true).got("b1", 50, 51, 9)
	if rules := s.judge(t); !rules["fence order"] {
		t.Errorf("found %v, want the fence that fell", rules)
	}
}

func TestFairOrder(t *testing.T) {
	queued := func(owner string, from, to int64) history.Event {
		return history.Event{Kind: history.Queued, Outcome: ok, Owner: owner, Worker: worker(owner), Call: from, Return: to}
	}
	overtaken := func() *script {
		s := &script{key: "f", mode: "fair"}
		return s.got("a1", 0, 2, 10).add(queued("b1", 3, 4)).add(queued("c1", 20, 21)).gave("a1", 30, 31, ok).
			got("c1", 32, 33, 11).gave("c1", 34, 35, ok).got("b1", 36, 37, 12)
	}
	if rules := overtaken().judge(t); !rules["fair order"] || len(rules) != 1 {
		t.Errorf("found %v, want that somebody was overtaken", rules)
	}
	if rules := overtaken().fault("worker paused", 1, 25, 35, false).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although the first was stopped meanwhile", rules)
	}
	if rules := overtaken().fault("worker paused", 0, 25, 35, false).judge(t); !rules["fair order"] {
		t.Error("a pause of somebody else excuses it")
	}
	if rules := overtaken().fault("script flush", -1, 25, 35, false).judge(t); !rules["fair order"] {
		t.Error("a fault that delays nobody excuses it")
	}
	lost := history.Event{Kind: history.Doubt, Op: history.Acquire, Owner: "c1", Worker: worker("c1"), Call: 2, Return: 5}
	if rules := overtaken().add(lost).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although an earlier call of the second may have queued it first", rules)
	}
	lost.Owner = "c2"
	if rules := overtaken().add(lost).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although another of its process may have left its place", rules)
	}
	lost.Worker = worker("a1")
	if rules := overtaken().add(lost).judge(t); !rules["fair order"] {
		t.Error("a place of another process excuses it")
	}
	lost.Owner, lost.Worker, lost.Call = "c1", worker("c1"), 15
	if rules := overtaken().add(lost).judge(t); !rules["fair order"] {
		t.Error("a call that was made after the first was queued excuses it")
	}
	lost = history.Event{Kind: history.Doubt, Op: history.Acquire, Owner: "b1", Worker: worker("b1"), Call: 22, Return: 24}
	if rules := overtaken().add(lost).judge(t); len(rules) > 0 {
		t.Errorf("found %v, although a later call of the first may have been granted", rules)
	}
	lost.Call, lost.Return = 34, 35
	if rules := overtaken().add(lost).judge(t); !rules["fair order"] {
		t.Error("a call that was made after the second was served excuses it")
	}
	s := &script{key: "f", mode: "fair"}
	s.got("a1", 0, 2, 10).add(queued("b1", 3, 40)).add(queued("c1", 20, 21)).gave("a1", 30, 31, ok).
		got("c1", 32, 33, 11).gave("c1", 34, 35, ok).got("b1", 41, 42, 12)
	if rules := s.judge(t); len(rules) > 0 {
		t.Errorf("found %v, although both asked at the same time", rules)
	}
}

// At a size as in a run: no mutant gets away, and nothing is found without one.
func TestMutantsOfALongHistory(t *testing.T) {
	long := func() *script {
		s := exclusive()
		for i := range int64(1000) {
			owner := string(rune('a'+i%8)) + "."
			at := i * 10
			owner += string(rune('0' + i/100))
			owner += string(rune('0'+i/10%10)) + string(rune('0'+i%10))
			s.got(owner, at, at+3, uint64(at+100)).busy("a", at+3, at+5).gave(owner, at+4, at+7, ok)
		}
		return s
	}
	if rules := long().judge(t); len(rules) > 0 {
		t.Fatalf("found %v in the history without a mutant", rules)
	}
	const grant, taken, release = 5 * 500, 5*500 + 1, 5*500 + 4
	for name, mutate := range map[string]func(s *script){
		"double grant, fresh fence": func(s *script) { s.got("z1", 5004, 5005, 5101) },
		"double grant, stale fence": func(s *script) { s.got("z1", 5004, 5005, 50) },
		"fence falls":               func(s *script) { s.events[grant].Fence, s.events[taken].Fence = 1, 1 },
		"fence twice":               func(s *script) { s.events[grant].Fence, s.events[taken].Fence = 5090, 5090 },
		"busy when released":        func(s *script) { s.busy("b", 5008, 5009) },
		"foreign release accepted":  func(s *script) { s.gave("z1", 5002, 5003, ok) },
		"busy on a free key":        func(s *script) { s.busy("b", 20_000, 20_001) },
		"release lost":              func(s *script) { s.events[release].Outcome = notHeld },
	} {
		t.Run(name, func(t *testing.T) {
			s := long()
			mutate(s)
			if rules := s.judge(t); len(rules) == 0 {
				t.Error("not found")
			}
		})
	}
}

// When all of Redis is slow, many calls are under way at a time, and their
// fences tell nothing about when they began.
func TestCrowdsOfCallsAtATimeAreDecided(t *testing.T) {
	const readers = 40
	crowd := func() *script {
		s := &script{key: "rw", mode: "readwrite"}
		order := rand.New(rand.NewPCG(1, 1)).Perm(readers)
		for i := range int64(readers) {
			owner := fmt.Sprintf("%c%d", 'a'+rune(i%8), i)
			s.in("read", owner, i, 100, uint64(order[i]+1)).gaveIn("read", owner, 101, 200)
		}
		return s
	}
	decide := func(s *script) check.Verdicts {
		timeline := check.NewTimeline(check.Settings{Topology: "standalone", Patience: 5 * time.Second}, s.events, s.faults)
		verdicts, err := timeline.Search("")
		if err != nil {
			t.Fatal(err)
		}
		return verdicts
	}
	if v := decide(crowd().in("write", "z1", 150, 210, readers+1)); v.OK != 1 {
		t.Errorf("verdicts %+v, want the history to fit", v)
	}
	if v := decide(crowd().in("write", "z1", 95, 96, readers+1)); v.Illegal != 1 {
		t.Errorf("verdicts %+v, want a writer among readers to be found", v)
	}
}

func TestIllegalHistoriesAreDrawn(t *testing.T) {
	dir := t.TempDir()
	s := exclusive().got("a1", 0, 2, 10).got("b1", 3, 4, 11).fault("reply cut", 0, 1, 2, false)
	verdicts, err := s.timeline().Search(dir)
	if err != nil || verdicts.Illegal != 1 {
		t.Fatalf("verdicts %+v, %v", verdicts, err)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "k.html"))
	if err != nil || !strings.Contains(string(picture), "reply cut") {
		t.Errorf("the picture does not show the fault: %v", err)
	}
}
