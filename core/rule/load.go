package rule

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxFile is the size of the largest file that [Load] reads, in bytes: enough for
// thousands of rules, too little for a wrong path to fill the memory.
const MaxFile = 1 << 20

// Load reads a set of rules from a file. A file that cannot be read gives the
// error of the file system; anything wrong in it gives [Faults] that name the
// file, see [Parse].
func Load(path string) (*Set, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	set, err := Parse(data)
	var faults Faults
	if errors.As(err, &faults) {
		for i := range faults {
			faults[i].Source = path
		}
		return nil, faults
	}
	return set, err
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	if len(data) > MaxFile {
		return nil, Faults{{Source: path, Reason: fmt.Sprintf("is larger than %d bytes", MaxFile)}}
	}
	return data, nil
}
