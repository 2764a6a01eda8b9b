package managed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxArgs and maxArg bound what is read: far more than a client of a test sends.
const maxArgs, maxArg = 1 << 16, 1 << 24

// readCommand reads one command as clients send it: an array of strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$', maxArg)
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte, limit int) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil || line[0] != kind || n < 0 || n > limit {
		return 0, errors.New("managed: no command: " + strconv.Quote(line))
	}
	return n, nil
}

// writeCommand is the reverse of readCommand.
func writeCommand(args []string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return out
}

// refusal is a command that has the server behind answer with an error, so that
// replies keep their order.
func refusal(reply string) []string {
	return []string{"EVAL", "return redis.error_reply(ARGV[1])", "0", reply}
}

// rewrite returns what the server behind is sent for a command.
func (s *Server) rewrite(args []string) []string {
	if len(args) == 0 {
		return args
	}
	name := strings.ToLower(args[0])
	whole := name
	if len(args) > 1 {
		whole += " " + strings.ToLower(args[1])
	}
	for _, r := range s.product.Rules {
		switch {
		case r.Refuses == Commands && (slices.Contains(r.Names, name) || slices.Contains(r.Names, whole)),
			r.Refuses == NoKeys && (name == "eval" || name == "evalsha") && len(args) > 2 && args[2] == "0":
			return s.refuse(whole, r.Reply)
		}
	}
	switch {
	case name == "eval" && len(args) > 2, whole == "script load" && len(args) == 3:
		at := 1
		if name == "script" {
			at = 2
		}
		if reply := s.product.read(args[at]); reply != "" {
			return s.refuse("a script", reply)
		}
		args = slices.Clone(args)
		args[at] = s.learn(args[at])
	case name == "evalsha" && len(args) > 2:
		run, known := s.known(args[1])
		if !known {
			return refusal("NOSCRIPT No matching script. Please use EVAL.")
		}
		args = slices.Clone(args)
		args[1] = run
	}
	return args
}
