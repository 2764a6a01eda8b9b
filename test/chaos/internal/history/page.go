package history

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// PageSize is how much a page can hold. The file is sparse: what isn't written
// takes no room.
const PageSize = 1 << 29

// Page is a file that is written as memory. What was appended is there even if
// the process is killed in the next moment, and costs no call of the system.
type Page struct {
	memory []byte
	used   atomic.Int64
}

// NewPage makes the file.
func NewPage(path string) (*Page, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer file.Close() //nolint:errcheck // the memory stays
	if err := file.Truncate(PageSize); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("history: map %s: %w", path, err)
	}
	return &Page{memory: memory}, nil
}

// Append adds one line, with its end. It returns false if there is no room.
func (p *Page) Append(line []byte) bool {
	end := p.used.Add(int64(len(line)))
	if end > int64(len(p.memory)) {
		return false
	}
	copy(p.memory[end-int64(len(line)):end], line)
	return true
}

// Close unmaps the page. Nothing may be appended after it.
func (p *Page) Close() error { return unix.Munmap(p.memory) }

// CopyPage writes the whole lines of a page to w. A line that a kill has
// interrupted has zeros in it, or behind it, and is left out.
func CopyPage(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	const chunk = 1 << 20
	buffer := make([]byte, 0, 2*chunk)
	for empty := 0; empty < 2; { // sparse from here on
		n, err := io.ReadFull(file, buffer[len(buffer):len(buffer)+min(chunk, cap(buffer)-len(buffer))])
		if n == 0 {
			break
		}
		buffer = buffer[:len(buffer)+n]
		last := bytes.LastIndexByte(buffer, '\n') + 1
		if last == 0 {
			empty++
		}
		for line := range bytes.Lines(buffer[:last]) {
			line = line[bytes.LastIndexByte(line, 0)+1:]
			if len(line) > 1 && line[0] == '{' {
				if _, err := w.Write(line); err != nil {
					return fmt.Errorf("history: %w", err)
				}
			}
		}
		rest := copy(buffer, bytes.TrimRight(buffer[last:], "\x00"))
		buffer = buffer[:rest]
		if err != nil {
			break
		}
	}
	return nil
}
