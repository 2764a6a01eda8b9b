package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// File takes lines from several goroutines.
type File struct {
	mu     sync.Mutex
	file   *os.File
	buffer *bufio.Writer
}

// Create makes a new file of lines.
func Create(path string) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &File{file: file, buffer: bufio.NewWriterSize(file, 1<<20)}, nil
}

// Write implements io.Writer for whole lines.
func (f *File) Write(lines []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buffer.Write(lines)
}

// Add appends a value as one line.
func (f *File) Add(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// Close writes what is left.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.buffer.Flush(), f.file.Close())
}

// Read reads the lines of a file. A last line that is cut off, as a process
// leaves it that was killed, doesn't count.
func Read[T any](path string) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	var all []T
	reader := bufio.NewReaderSize(file, 1<<20)
	for n := 1; ; n++ {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		var value T
		if err := json.Unmarshal(line, &value); err != nil {
			return nil, fmt.Errorf("history: %s, line %d: %w", path, n, err)
		}
		all = append(all, value)
	}
}
