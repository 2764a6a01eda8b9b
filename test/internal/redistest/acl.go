package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/test/internal/process"
)

// ACLEnv names a variable with a document that has rules for users of Redis.
// If it is set, they bind everybody who doesn't say who they are: clients of
// [Server.Client], and everybody who gets an address from a test. Tests look and meddle
// with [Server.Admin], which may do everything but EVALSHA, so that no lock is
// taken with it by mistake. A command that was refused to the others fails the
// test.
//
// The names of keys aren't bound, as those of tests have no prefix in common.
const ACLEnv = "REDLATCH_TEST_ACL"

const (
	adminName, adminSecret = "admin", "of-tests"
	documentedPrefix       = "lk:"
)

func restricted() bool { return os.Getenv(ACLEnv) != "" }

// ReadACL returns the rules in blocks of a document that are fenced as code in
// the language of that name.
func ReadACL(document string, blocks ...string) ([]string, error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return nil, err
	}
	var rules []string
	for _, block := range blocks {
		_, rest, found := strings.Cut(string(text), "\n```"+block+"\n")
		body, _, closed := strings.Cut(rest, "\n```")
		if !found || !closed {
			return nil, fmt.Errorf("%s has no block %q", document, block)
		}
		rules = append(rules, strings.Fields(body)...)
	}
	return rules, nil
}

// adminArgs make the user for the tests, and for what servers tell each other.
func adminArgs() []string {
	if !restricted() {
		return nil
	}
	return []string{
		"--user", adminName, "on", ">" + adminSecret, "~*", "&*", "+@all", "-evalsha",
		"--masteruser", adminName, "--masterauth", adminSecret,
	}
}

// adminConfig is adminArgs for a sentinel.
func adminConfig(name string) []string {
	if !restricted() {
		return nil
	}
	return []string{
		"user " + adminName + " on >" + adminSecret + " ~* &* +@all",
		"sentinel auth-user " + name + " " + adminName, "sentinel auth-pass " + name + " " + adminSecret,
		"sentinel sentinel-user " + adminName, "sentinel sentinel-pass " + adminSecret,
	}
}

// MigrateAuth is what MIGRATE needs at its end to be let in by the other
// server.
func MigrateAuth() []any {
	if !restricted() {
		return nil
	}
	return []any{"AUTH2", adminName, adminSecret}
}

// AdminLogin is what somebody who speaks the protocol by hand has to say first.
func AdminLogin() string {
	if !restricted() {
		return ""
	}
	return "AUTH " + adminName + " " + adminSecret + "\r\n"
}

// Admin returns a plain go-redis client of this server that may do what tests
// do besides locking, closed when t ends.
func (s *Server) Admin(t process.Host) *redis.Client {
	t.Helper()
	client := redis.NewClient(s.adminOptions())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *Server) adminOptions() *redis.Options {
	options := &redis.Options{Addr: s.Addr(), DisableIdentity: true}
	if restricted() {
		options.Username, options.Password = adminName, adminSecret
	}
	return options
}

// Admin is [ClusterSet.Client] for what tests do besides locking.
func (set *ClusterSet) Admin(t process.Host) *redis.ClusterClient {
	t.Helper()
	node := set.Masters[0].adminOptions()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: set.Addrs(), DisableIdentity: true, Username: node.Username, Password: node.Password,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Permit gives the bound user more, for a test in whose client an application
// does more than locking. It lasts until a restart.
func (s *Server) Permit(t process.Host, rules ...string) {
	t.Helper()
	if !restricted() {
		return
	}
	set := []any{"ACL", "SETUSER", "default"}
	for _, rule := range rules {
		set = append(set, rule)
	}
	if err := s.Admin(t).Do(t.Context(), set...).Err(); err != nil {
		t.Fatalf("redistest: permit %v: %v", rules, err)
	}
}

// restrict binds the user that one is without a name. Its password, if the
// arguments set one, stays.
func (s *Server) restrict() error {
	if !restricted() {
		return nil
	}
	rules, err := ReadACL(os.Getenv(ACLEnv), s.blocks()...)
	if err != nil {
		return err
	}
	set := []any{"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all", "~*"}
	for _, rule := range rules {
		if rule[0] == '+' || rule[0] == '&' {
			set = append(set, strings.Replace(rule, documentedPrefix, "", 1))
		}
	}
	return s.asAdmin(func(ctx context.Context, admin *redis.Client) error {
		// Servers before 7.2 don't know the command that names clients.
		_ = admin.Do(ctx, append(slices.Clip(set), "+client|setinfo")...).Err()
		return admin.Do(ctx, set...).Err()
	})
}

// blocks are those of the document that are about this kind of server.
func (s *Server) blocks() []string {
	switch {
	case slices.Contains(s.args, "--sentinel"):
		return []string{"acl-sentinel"}
	case slices.Contains(s.args, "--cluster-enabled"):
		return []string{"acl", "acl-options", "acl-names", "acl-operators", "acl-cluster"}
	default:
		return []string{"acl", "acl-options", "acl-names", "acl-operators"}
	}
}

// audit reports what was refused to the user without a name since the server
// started.
func (s *Server) audit() error {
	if !restricted() {
		return nil
	}
	return s.asAdmin(func(ctx context.Context, admin *redis.Client) error {
		log, err := admin.Do(ctx, "ACL", "LOG", 100).Slice()
		for _, entry := range log {
			if MayBeRefused(entry) {
				continue
			}
			if text := fmt.Sprint(entry); strings.Contains(text, "username default") || strings.Contains(text, "username:default") {
				err = errors.Join(err, fmt.Errorf("%s refused: %s", s.Addr(), text))
			}
		}
		return err
	})
}

// MayBeRefused reports whether an entry of ACL LOG is about the one command that
// the kit tries without needing it: the check at start reads a setting of a
// cluster where that is permitted.
func MayBeRefused(entry any) bool { return strings.Contains(fmt.Sprint(entry), "config|get") }

func (s *Server) asAdmin(do func(ctx context.Context, admin *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	admin := redis.NewClient(s.adminOptions())
	defer func() { _ = admin.Close() }()
	return do(ctx, admin)
}
