package wire

import (
	"bytes"
	"errors"
	"strconv"
)

var errProtocol = errors.New("wire: the client broke the protocol")

// Parser cuts a stream of bytes into commands.
type Parser struct{ rest []byte }

// Feed returns the commands that are complete.
func (p *Parser) Feed(b []byte) (commands [][]string, err error) {
	p.rest = append(p.rest, b...)
	for {
		args, n, err := command(p.rest)
		if err != nil || n == 0 {
			return commands, err
		}
		p.rest = p.rest[n:]
		commands = append(commands, args)
	}
}

// command reads one command; n is 0 while it is not complete.
func command(b []byte) (args []string, n int, err error) {
	count, n, err := header(b, '*')
	if n == 0 || err != nil {
		return nil, 0, err
	}
	args = make([]string, count)
	for i := range args {
		size, m, err := header(b[n:], '$')
		if m == 0 || err != nil || len(b) < n+m+size+2 {
			return nil, 0, err
		}
		n += m
		args[i] = string(b[n : n+size])
		n += size + 2
	}
	return args, n, nil
}

// header reads a line such as "$3".
func header(b []byte, kind byte) (number, n int, err error) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return 0, 0, nil
	}
	if b[0] != kind {
		return 0, 0, errProtocol
	}
	number, err = strconv.Atoi(string(b[1:end]))
	if err != nil || number < 0 {
		return 0, 0, errProtocol
	}
	return number, end + 2, nil
}

// Command writes a command as a client does.
func Command(args []string) []byte {
	b := append([]byte{'*'}, strconv.Itoa(len(args))...)
	b = append(b, '\r', '\n')
	for _, arg := range args {
		b = append(append(b, '$'), strconv.Itoa(len(arg))...)
		b = append(append(append(b, '\r', '\n'), arg...), '\r', '\n')
	}
	return b
}
