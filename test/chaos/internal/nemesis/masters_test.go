package nemesis_test

import (
	"reflect"
	"testing"

	"github.com/redlatch/redlatch/test/chaos/internal/nemesis"
)

func TestATimeInWhichMastersChangeIsSeenWhole(t *testing.T) {
	a, b, both, none := []string{"a"}, []string{"b"}, []string{"b", "a"}, []string(nil)
	quiet, hung := []string{"a", nemesis.Silent}, []string{"b", nemesis.Silent}
	three, other, four := []string{"a", "b", "c"}, []string{"d", "b", "c"}, []string{"a", "b", "c", "d"}
	for name, test := range map[string]struct {
		want  int
		looks [][]string
		spans [][2]int64
	}{
		"nothing":                         {1, [][]string{a, a, a}, nil},
		"between two looks":               {1, [][]string{a, a, b, b, b, b}, [][2]int64{{1, 4}}},
		"by way of none":                  {1, [][]string{a, none, none, b, b, b}, [][2]int64{{0, 5}}},
		"two at a time":                   {1, [][]string{a, a, both, both, b, b, b}, [][2]int64{{1, 6}}},
		"by one that didn't answer":       {1, [][]string{a, a, quiet, quiet, both, b, b, b}, [][2]int64{{1, 7}}},
		"to one, and another is silent":   {1, [][]string{a, both, hung, hung, b, b}, [][2]int64{{0, 5}}},
		"nothing, but silence":            {1, [][]string{a, quiet, quiet, a, both, a}, [][2]int64{{3, 5}}},
		"and back":                        {1, [][]string{a, both, a, a, both, both, a}, [][2]int64{{0, 2}, {3, 6}}},
		"not over in the end":             {1, [][]string{a, both, both}, [][2]int64{{0, 3}}},
		"one of three":                    {3, [][]string{three, three, four, other, other, other}, [][2]int64{{1, 5}}},
		"one of three, that is seen once": {3, [][]string{three, other, three, three}, [][2]int64{{0, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nemesis.Looks(test.want, test.looks...); !reflect.DeepEqual(got, test.spans) {
				t.Errorf("changes %v, want %v", got, test.spans)
			}
		})
	}
}
