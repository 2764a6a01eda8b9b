package rulefile

import (
	"fmt"
	"io"
	"os"

	"github.com/redlatch/redlatch/core/rule"
)

// MaxFile is the size of the largest file that is read, in bytes: enough for
// thousands of rules, too little for a wrong path to cost much.
const MaxFile = 1 << 18

// Load reads a set of rules from a file. A file that can't be read gives the
// error of the file system; anything wrong in it gives [rule.Faults] that name the
// file, see [Parse].
func Load(path string) (*rule.Set, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return ParseFile(path, data)
}

// Read returns the content of a file of rules for [ParseFile]. Of a file that is larger
// than [MaxFile], which ParseFile refuses, it returns one byte more than that.
func Read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	return data, nil
}
