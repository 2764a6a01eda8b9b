package readme_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/rule"
)

// figure is a constant of the code, and the documents that say its value.
type figure struct {
	file, name, value string
	said              []said
}

type said struct{ document, words string }

var figures = []figure{
	{"core/lock/params.go", "freshTries", "3", []said{{"docs/guarantees.md", "gets `ErrUnavailable` after three tries or one call timeout"}}},
	{"core/lock/params.go", "waiterPatience", "30 * time.Second", []said{
		{"docs/guarantees.md", "waiting behind another owner rides out half a minute"},
		{"docs/operations.md", "wait on, for half a minute"},
		{"docs/wire.md", "for half a minute by one that waits already"},
	}},
	{"core/lock/option.go", "DefaultCallTimeout", "2 * time.Second", []said{
		{"docs/operations.md", "`lock.WithCallTimeout` (2 s)"},
		{"docs/quorum.md", "| `lock.WithCallTimeout` | 2 s |"},
		{"docs/from-redisson.md", "`lock.WithCallTimeout(d)` (2 s)"},
		{"docs/configuration.md", "callTimeout: 2s"},
	}},
	{"core/lock/option.go", "DefaultHandoffs", "FenceStep - 1", []said{
		{"README.md", "without Redis, up to 63 times in a row"},
		{"README.zh-CN.md", "最多连续 63 次"},
		{"docs/locks.md", "up to 63 times or 10 ms"},
		{"docs/guarantees.md", "up to 63 times in a row and within 10 ms of the grant"},
		{"docs/benchmarks.md", "up to 63 times without a call"},
		{"docs/configuration.md", "handoffs: 63"},
	}},
	{"core/lock/option.go", "DefaultHandoffTime", "10 * time.Millisecond", []said{{"docs/configuration.md", "handoffTime: 10ms"}}},
	{"core/lock/option.go", "DefaultMargin", "2 * time.Millisecond", []said{
		{"docs/guarantees.md", "less 1 % and 2 ms"}, {"docs/quorum.md", "1 % and 2 ms before"}, {"docs/configuration.md", "margin: 2ms"},
	}},
	{"core/lock/option.go", "MaxDuration", "365 * 24 * time.Hour", []said{{"docs/wire.md", "at most 365 days (`lock.MaxDuration`)"}}},
	{"core/lock/option.go", "MaxPermits", "4096", []said{{"docs/wire.md", "at most 4096 permits (`lock.MaxPermits`)"}}},
	{"core/lock/option.go", "maxAcquireTTL", "30 * time.Second", []said{
		{"docs/guarantees.md", "What a process that dies leaves lasts for 30 s"}, {"docs/quorum.md", "what is left expires within 30 s"},
	}},
	{"core/lock/params.go", "placePoll", "2500 * time.Millisecond", []said{{"docs/wire.md", "and every 2.5 s all"}}},
	{"core/lock/wall.go", "maxLeap", "100 * time.Millisecond", []said{{"docs/guarantees.md", "for more than 100 ms in all"}}},
	{"core/lock/renewer.go", "maxRound", "1000", []said{{"docs/benchmarks.md", "renews 1,000 locks in a round"}}},
	{"core/redisstore/sender.go", "overlap", "5", []said{
		{"docs/operations.md", "five as long as it answers within 10 ms"}, {"docs/benchmarks.md", "up to five batches"},
	}},
	{"core/redisstore/sender.go", "stuckAfter", "10 * time.Millisecond", []said{{"docs/operations.md", "as long as it answers within 10 ms"}}},
	{"core/redisstore/sender.go", "maxWorkers", "16", []said{
		{"docs/operations.md", "at most 16 connections of each server"}, {"docs/quorum.md", "at most 16 connections of it"},
	}},
	{"core/redisstore/sender.go", "maxMute", "4 * maxWorkers", []said{{"docs/operations.md", "up to 64 in all"}, {"docs/quorum.md", "64 in all"}}},
	{"core/redisstore/circuit.go", "DefaultCircuitFailures", "5", []said{{"docs/operations.md", "After five calls in a row"}, {"docs/configuration.md", "circuitFailures: 5"}}},
	{"core/redisstore/circuit.go", "DefaultCircuitPause", "250 * time.Millisecond", []said{{"docs/operations.md", "the pause (250 ms)"}, {"docs/configuration.md", "circuitPause: 250ms"}}},
	{"core/redisstore/send.go", "maxSettle", "2 * time.Second", []said{{"docs/wire.md", "repeated: for 2 s by default"}}},
	{"core/redisstore/renew.go", "renewBatch", "50", []said{{"docs/wire.md", "up to 50 locks"}, {"docs/benchmarks.md", "one script renews 50 keys"}}},
	{"core/redisstore/latch.go", "latchPoll", "5 * time.Second", []said{{"docs/wire.md", "or every 5 s for a latch"}, {"docs/from-redisson.md", "looks every 5 s besides"}}},
	{"core/redisstore/internal/subs/subs.go", "pingEvery", "3 * time.Second", []said{{"docs/wire.md", "The connection is pinged every 3 s"}}},
	{"core/redisstore/internal/subs/subs.go", "silence", "8 * time.Second", []said{{"docs/wire.md", "given up after 8 s without an answer"}}},
	{"core/lock/params.go", "keptWatch", "100 * time.Millisecond", []said{{"docs/wire.md", "The subscription stays for 100 ms after the last waiter"}, {"docs/benchmarks.md", "A subscription that is kept for 100 ms"}}},
	{"core/redisstore/scripts/fair.lua", "place, grace, wait", "15000, 5000, 300000", []said{
		{"docs/wire.md", "A place of ours lasts for 15 s"},
		{"docs/wire.md", "is passed over 5 s after"},
		{"docs/wire.md", "expires** 5 min after"},
		{"docs/from-redisson.md", "A place lasts for 15 s"},
		{"docs/from-redisson.md", "is passed after 5 s"},
		{"docs/bugs-of-peers.md", "is given up after five seconds"},
	}},
	{"core/redisstore/scripts/fair.lua", "maxPurge", "1000", []said{{"docs/wire.md", "passes over all of them (up to 1,000)"}}},
	{"core/redisstore/scripts/readwrite.lua", "maxLook", "100", []said{{"docs/wire.md", "at most 100 of them in a call"}}},
	{"core/quorum/store.go", "defaultNodeTimeout", "100 * time.Millisecond", []said{{"docs/quorum.md", "(`SetNodeTimeout`, default 100 ms)"}}},
	{"core/quorum/store.go", "voteTimeouts", "10", []said{{"docs/quorum.md", "for ten node timeouts at most"}}},
	{"core/leader/run.go", "minPause", "100 * time.Millisecond", []said{{"docs/leader.md", "after 100 ms at first and 2 s at most"}}},
	{"core/leader/run.go", "maxPause", "2 * time.Second", []said{{"docs/leader.md", "after 100 ms at first and 2 s at most"}}},
	{"core/telemetry/catalog.go", "MaxNames", "200", []said{{"docs/telemetry.md", "there are 200"}}},
	{"core/guard/httpguard/option.go", "DefaultMaxBody", "1 << 20", []said{{"docs/gin.md", "up to 1 MiB"}, {"docs/templates.md", "at most 1 MiB"}}},
	{"core/guard/httpguard/option.go", "DefaultRetryAfter", "time.Second", []said{{"docs/gin.md", "sets the header `Retry-After` | 1 s |"}}},
	{"grpclock/rpcguard/locks.go", "DefaultRetryDelay", "100 * time.Millisecond", []said{{"docs/grpc.md", "have clients wait: 100 ms by default"}}},
	{"core/guard/httpguard/json.go", "maxInteger", "1<<53 - 1", []said{{"docs/templates.md", "an integer below 2^53"}}},
	{"core/rule/rulefile/load.go", "MaxFile", "1 << 18", []said{{"docs/configuration.md", "The largest file is 256 KiB"}}},
	{"core/rule/rulefile/rulewatch/option.go", "DefaultPoll", "5 * time.Second", []said{{"docs/configuration.md", "looked at every five seconds"}}},
	{"core/rule/rulefile/rulewatch/watcher.go", "settle", "100 * time.Millisecond", []said{{"docs/configuration.md", "hasn't changed for a tenth of a second"}}},
}

// When a constant changes, this names the sentences that say its old value.
func TestFiguresInDocumentsAreThoseOfTheCode(t *testing.T) {
	for _, f := range figures {
		declared := regexp.MustCompile(`(?m)^\s*(?:const |local )?` + regexp.QuoteMeta(f.name) + `\s*=\s*` + regexp.QuoteMeta(f.value) + `\s*(?:--.*|//.*)?$`)
		if !declared.MatchString(read(t, f.file)) {
			t.Errorf("%s: %s is no longer %s; change this table, and what says so:", f.file, f.name, f.value)
			for _, s := range f.said {
				t.Logf("\t%s: %s", s.document, s.words)
			}
		}
		for _, s := range f.said {
			if !strings.Contains(flowing(read(t, s.document)), s.words) {
				t.Errorf("%s doesn't say %q of %s in %s", s.document, s.words, f.name, f.file)
			}
		}
	}
}

// flowing joins the lines of a document.
func flowing(text string) string { return strings.Join(strings.Fields(text), " ") }

// The defaults of the Redis client change with its version.
func TestDefaultsOfTheClientInDocumentsAreItsOwn(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	o := rdb.Options()
	for document, words := range map[string]string{
		"docs/quorum.md": fmt.Sprintf("(`ReadTimeout`, %d s)", o.ReadTimeout/time.Second),
		"docs/errors.md": fmt.Sprintf("the client's ReadTimeout of %v", o.ReadTimeout),
	} {
		if !strings.Contains(read(t, document), words) {
			t.Errorf("%s doesn't say %q", document, words)
		}
	}
	if words := fmt.Sprintf("| the clients' `DialerRetries` | %d |", o.DialerRetries); !strings.Contains(read(t, "docs/quorum.md"), words) {
		t.Errorf("docs/quorum.md doesn't say %q", words)
	}
}

var capital = regexp.MustCompile(`[A-Z]`)

func TestTheManualHasEveryFieldOfARule(t *testing.T) {
	_, option, _ := strings.Cut(read(t, "docs/grpc.md"), "spelled as a .proto does: ")
	option, _, _ = strings.Cut(option, "\n\n")
	for _, f := range rule.Fields() {
		if !strings.Contains(read(t, configuration), "\n| `"+f.Name+"` | ") {
			t.Errorf("%s has no field %s", configuration, f.Name)
		}
		inProto := strings.ToLower(capital.ReplaceAllString(f.Name, "_$0"))
		if f.Name != "operation" && f.Name != "also" && !regexp.MustCompile("`"+inProto+"[`:]").MatchString(option) {
			t.Errorf("docs/grpc.md has no field %s", inProto)
		}
	}
}

// linksOf are the files that a page leads to, by their path from the root.
func linksOf(t *testing.T, page string) (links []string) {
	t.Helper()
	prose, _ := split(read(t, page))
	for _, match := range linkTarget.FindAllStringSubmatch(code.ReplaceAllString(strings.Join(prose, "\n"), ""), -1) {
		file, fragment, _ := strings.Cut(match[1], "#")
		if file != "" && !strings.Contains(file, "://") {
			links = append(links, path.Join(path.Dir(page), file)+"#"+fragment)
		}
	}
	return links
}
