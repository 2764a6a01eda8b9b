package result_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/test/bench/internal/result"
)

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	table := &result.Table{}
	table.Add(0, "R1", "floor", map[string]float64{result.Rate: 12345.5, result.Calls: 2})
	table.Add(1, "R1", "floor", map[string]float64{result.Rate: 10000})
	table.Add(1, "R5 128", "bsm/redislock", map[string]float64{result.Rate: 0.001})

	var file bytes.Buffer
	if err := table.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := result.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Rows) != len(table.Rows) || again.Rounds() != 2 || !again.Has("R5 128") || again.Has("R2") {
		t.Fatalf("read %+v", again.Rows)
	}
	for _, row := range table.Rows {
		if got, ok := again.Get(row.Round, row.Scenario, row.Peer, row.Metric); !ok || got != row.Value {
			t.Errorf("%+v was read as %v, %v", row, got, ok)
		}
	}
	if spread := again.Spread("R1", "floor", result.Rate); spread.N != 2 || spread.Median != 11172.75 {
		t.Errorf("spread %+v", spread)
	}
	if _, ok := again.Get(0, "R5 128", "bsm/redislock", result.Rate); ok {
		t.Error("a figure of a round that did not measure it")
	}
}

func TestOtherFilesAreNotRead(t *testing.T) {
	const head = "round,scenario,peer,metric,value\n"
	for name, text := range map[string]string{
		"empty": "", "another table": "a,b,c,d,e\n", "a round that is no number": head + "x,R1,floor,ops/s,1\n",
		"a value that is no number": head + "1,R1,floor,ops/s,x\n", "a short line": head + "1,R1\n",
	} {
		if _, err := result.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
