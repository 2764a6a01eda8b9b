package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/core/guard/guardtest"
)

// mistakes are command lines that don't work.
var mistakes = [][]string{
	{},
	{"sell"},
	{"serve", "--radis=redis://127.0.0.1:6379/0"},
	{"serve", "--no-lock"},
	{"serve", "--setnx"},
	{"serve", "--without-script-publish"},
	{"serve", "--without-script-time"},
	{"fleet", "--http=0.0.0.0:8080", "--redis=redis://127.0.0.1:6379/0"},
	{"serve", "--watchdog=30"},
	{"serve", "--lock-wait=-1s"},
	{"serve", "--rules=rules.yaml", "--lock-wait=1s"},
	{"serve", "--rules=nowhere.yaml"},
	{"serve", "--rules=empty.yaml"},
	{"serve", "--rules=read.yaml"},
	{"serve", "--rules=skip.yaml"},
	{"serve", "--redis=127.0.0.1:6379"},
	{"serve", "--redis=redis://127.0.0.1:1/0"},
	{"serve", "--redis=redis://127.0.0.1:1,127.0.0.1:2/0"},
	{"serve", "--redis=redis+sentinel://127.0.0.1:1"},
	{"serve", "--redis=redis+cluster://127.0.0.1:1/1"},
	{"serve", "--db=oracle://127.0.0.1/sale"},
	{"serve", "--db=postgres://clerk@127.0.0.1:1/sale"},
	{"load", "--users=0"},
	{"load", "--target=localhost"},
	{"load", "--grpc=localhost"},
}

func TestTheManualQuotesTheErrorsOfSeckill(t *testing.T) {
	manual, err := filepath.Abs("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	const order = "rules:\n- operation: POST /api/vouchers/:id/orders\n  key: lock:order:<userId>\n"
	for file, rules := range map[string]string{
		"empty.yaml": "rules: []\n", "read.yaml": order + "  mode: read\n", "skip.yaml": order + "  onBusy: skip\n",
	} {
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SECKILL_HTTP", "127.0.0.1:0")
	var messages []string
	for _, args := range mistakes {
		code, _, errs := seckill(t, args...)
		errs, advised := strings.CutSuffix(errs, "Try \"seckill --help\".\n")
		if code == 0 || advised != (code == exitUsage) {
			t.Errorf("%q: exit code %d\n%s", args, code, errs)
		}
		messages = append(messages, lastLine(errs))
	}
	guardtest.Quoted(t, manual, "seckill", messages)
}
