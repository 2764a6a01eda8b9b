package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// releasing are the flags of release.
type releasing struct {
	*connection
	reason, audit string
	yes           bool
}

func newRelease(c *connection) *cobra.Command {
	r := &releasing{connection: c}
	cmd := &cobra.Command{
		Use:   "release KEY",
		Short: "Take a lock away from its holders",
		Long: `release prints what it takes from whom, wants the key typed, and a reason. The holders
learn of it at once if they have an identity and their store has notifications, else at
their next renewal; work that doesn't look at its lease goes on. What was released is a line of JSON on stderr, and the
input of the command in --audit, which must succeed first. Exits with 75 if nobody held it.`,
		Example: `  redlatch release order:4711
  redlatch release order:4711 --yes --reason "web-3 hangs, INC-812"
  redlatch release order:4711 --audit 'logger -t redlatch'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeKeys(c),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.release(cmd, args[0]) },
	}
	cmd.Flags().StringVar(&r.reason, "reason", "", "`why`, for the audit line")
	cmd.Flags().StringVar(&r.audit, "audit", "", "shell `command` that gets the audit line (env REDLATCH_AUDIT)")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "ask nothing; needs --reason")
	return cmd
}

// auditLine is what stays of a release.
type auditLine struct {
	Time   time.Time `json:"time"`
	Action string    `json:"action"`
	Key    string    `json:"key"`
	From   []string  `json:"from"`
	Reason string    `json:"reason"`
	By     string    `json:"by"`
}

var errNotTyped = exitError{code: exitUsage, err: errors.New("nothing released: the key was not typed")}

func (r *releasing) release(cmd *cobra.Command, key string) error {
	if r.yes && strings.TrimSpace(r.reason) == "" {
		return usage("--yes needs --reason")
	}
	o, err := r.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { _ = o.close(cmd.Context()) }()
	state, err := o.locker.Inspect(cmd.Context(), key)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	_, _ = fmt.Fprint(stderr, describe(key, state, time.Now()))
	if !state.Held {
		return exitError{code: exitBusy, quiet: true}
	}
	if !r.yes {
		if err := r.confirm(cmd, key); err != nil {
			return err
		}
	}
	line := auditLine{Time: time.Now().UTC(), Action: "release", Key: key, Reason: r.reason, By: operator()}
	for _, o := range state.Owners {
		from := o.Owner
		if who, ok := state.Holder(o.Owner); ok {
			from += " " + who.String()
		}
		line.From = append(line.From, from)
	}
	written, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := r.hook(cmd, written); err != nil {
		return exitError{code: exitUsage, err: fmt.Errorf("nothing released: the audit command failed: %w", err)}
	}
	freed, err := o.locker.ForceRelease(cmd.Context(), key)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "%s\n", written)
	if !freed {
		return exitError{code: exitBusy, err: errors.New("it was free when the release arrived")}
	}
	return nil
}

// confirm wants the key typed, and a reason.
func (r *releasing) confirm(cmd *cobra.Command, key string) error {
	in := bufio.NewReader(cmd.InOrStdin())
	ask := func(prompt string) string {
		_, _ = fmt.Fprint(cmd.ErrOrStderr(), prompt)
		line, _ := in.ReadString('\n') // what the end cuts off counts as typed
		return strings.TrimRight(line, "\r\n")
	}
	if ask("Type the key to take it away: ") != key {
		return errNotTyped
	}
	if r.reason == "" {
		r.reason = ask("Why: ")
	}
	if strings.TrimSpace(r.reason) == "" {
		return usage("nothing released: a reason is missing")
	}
	return nil
}

// hook runs the command that keeps audit lines.
func (r *releasing) hook(cmd *cobra.Command, line []byte) error {
	command := r.audit
	if command == "" {
		command = os.Getenv("REDLATCH_AUDIT")
	}
	if command == "" {
		return nil
	}
	hook := exec.CommandContext(cmd.Context(), "sh", "-c", command) //nolint:gosec // it is the operator's own
	hook.Stdin = strings.NewReader(string(line) + "\n")
	hook.Stdout, hook.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
	return hook.Run()
}

// operator is who runs the command.
func operator() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return name + "@" + host
}
