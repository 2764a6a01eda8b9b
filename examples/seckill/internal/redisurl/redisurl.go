// Package redisurl turns one URL into the Redis client that it describes.
package redisurl

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Target is the Redis that a URL points to.
type Target struct {
	place string
	open  func() redis.UniversalClient
}

// String says what the URL points to, without the password.
func (t Target) String() string { return t.place }

// Open returns a client, which the caller closes. It doesn't connect.
func (t Target) Open() redis.UniversalClient { return t.open() }

const forms = "use redis://host:6379/0, redis+sentinel://host:26379,host:26379/mymaster/0 or redis+cluster://host:6379,host:6379 (rediss for TLS)"

// Parse reads one of
//
//	redis://[user:password@]host[:port][/db]
//	redis+sentinel://[user:password@]host[:port],…/master[/db]
//	redis+cluster://[user:password@]host[:port],…      (also redis://…?cluster)
//
// and the same with rediss for TLS. User and password are those of the Redis
// nodes; sentinels that want some take sentinel_username and
// sentinel_password. Other parameters are those of go-redis, such as
// dial_timeout=1s. Errors don't hold the password.
func Parse(text string) (Target, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return Target{}, errors.New(forms)
	}
	base, kind, _ := strings.Cut(scheme, "+")
	if u, err := url.Parse(scheme + ":"); err != nil || u.Scheme == "" { // it may be a part of a password
		return Target{}, errors.New(forms)
	}
	if base != "redis" && base != "rediss" {
		return Target{}, fmt.Errorf("unknown scheme %q: %s", scheme, forms)
	}
	a, err := split(rest)
	if err != nil {
		return Target{}, err
	}
	if cluster, given := a.take("cluster"); given {
		switch {
		case kind == "" && (cluster == "" || cluster == "true"):
			kind = "cluster"
		case kind == "" && cluster == "false", kind == "cluster" && cluster != "false":
		default:
			return Target{}, errors.New("cluster: must be true or false, and agree with the scheme: " + forms)
		}
	}
	switch kind {
	case "":
		return a.standalone(base)
	case "sentinel":
		return a.sentinel(base)
	case "cluster":
		return a.cluster(base)
	default:
		return Target{}, fmt.Errorf("unknown scheme %q: %s", scheme, forms)
	}
}

// address is a URL with any number of hosts, which net/url doesn't read.
type address struct {
	user  *url.Userinfo
	hosts []string
	path  []string
	query url.Values
}

var errMalformed = errors.New("malformed URL: special characters in user and password must be percent-encoded; " + forms)

func split(rest string) (*address, error) {
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path+query, "@") || strings.Contains(rest+query, "#") {
		// Most likely a password with a '/', '?' or '#' in it: read as it
		// stands, its end would be taken for something that may be shown.
		return nil, errMalformed
	}
	at := strings.LastIndexByte(authority, '@')
	hosts := authority[at+1:]

	a := &address{}
	u, err := url.Parse("redis://" + authority[:at+1] + "host?" + query)
	if err != nil {
		return nil, errMalformed
	}
	if a.query, err = url.ParseQuery(u.RawQuery); err != nil { // Query drops what is malformed
		return nil, errMalformed
	}
	a.user = u.User
	for host := range strings.SplitSeq(hosts, ",") {
		h, err := url.Parse("redis://" + host)
		if err != nil || h.Host == "" || h.Host != host {
			return nil, errMalformed
		}
		a.hosts = append(a.hosts, host)
	}
	if path = strings.Trim(path, "/"); path != "" {
		a.path = strings.Split(path, "/")
	}
	return a, nil
}

// take removes a parameter and returns it.
func (a *address) take(name string) (value string, given bool) {
	values, given := a.query[name]
	a.query.Del(name)
	if given {
		value = values[0]
	}
	return value, given
}

// where lists the hosts, with ports.
func (a *address) where(port string) []string {
	list := make([]string, len(a.hosts))
	for i, host := range a.hosts {
		h, _ := url.Parse("redis://" + host) // was parsed before
		name, number := h.Hostname(), h.Port()
		if number == "" {
			number = port
		}
		list[i] = net.JoinHostPort(name, number)
	}
	return list
}

// standard writes the address as go-redis reads it: one host, the others as
// parameters.
func (a *address) standard(scheme string, hosts []string, path string) string {
	u := url.URL{Scheme: scheme, User: a.user, Host: hosts[0], Path: path}
	query := a.query
	for _, host := range hosts[1:] {
		query.Add("addr", host)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

func (a *address) standalone(scheme string) (Target, error) {
	hosts := a.where("6379")
	if len(hosts) > 1 {
		return Target{}, errors.New("more than one host: " + forms)
	}
	options, err := redis.ParseURL(a.standard(scheme, hosts, strings.Join(a.path, "/")))
	if err != nil {
		return Target{}, plain(err)
	}
	if err := check(options.DB, options.PoolSize); err != nil {
		return Target{}, err
	}
	options.DialTimeout = cmp.Or(options.DialTimeout, dialTimeout)
	options.DialerRetries = max(options.DialerRetries, dialAttempts)
	options.ContextTimeoutEnabled = true
	return Target{
		place: "Redis at " + hosts[0],
		open:  func() redis.UniversalClient { return redis.NewClient(options) },
	}, nil
}

func (a *address) sentinel(scheme string) (Target, error) {
	if len(a.path) < 1 || len(a.path) > 2 {
		return Target{}, errors.New("the master's name is missing, as in redis+sentinel://host:26379/mymaster/0")
	}
	master, err := url.PathUnescape(a.path[0])
	if err != nil {
		return Target{}, errors.New("malformed master name")
	}
	sentinelUser, _ := a.take("sentinel_username")
	sentinelPassword, _ := a.take("sentinel_password")
	hosts := a.where("26379")
	db := ""
	if len(a.path) == 2 {
		db = a.path[1]
	}
	a.query.Set("master_name", master)
	options, err := redis.ParseFailoverURL(a.standard(scheme, hosts, db))
	if err != nil {
		return Target{}, plain(err)
	}
	if err := check(options.DB, options.PoolSize); err != nil {
		return Target{}, err
	}
	// go-redis takes the user of such a URL for the sentinels'.
	options.Username = a.user.Username()
	options.Password, _ = a.user.Password()
	options.SentinelUsername, options.SentinelPassword = sentinelUser, sentinelPassword
	options.DialTimeout = cmp.Or(options.DialTimeout, dialTimeout)
	options.DialerRetries = max(options.DialerRetries, dialAttempts)
	options.ContextTimeoutEnabled = true
	return Target{
		place: fmt.Sprintf("Redis master %q of the sentinels at %s", master, strings.Join(hosts, ", ")),
		open:  func() redis.UniversalClient { return redis.NewFailoverClient(options) },
	}, nil
}

func (a *address) cluster(scheme string) (Target, error) {
	if len(a.path) > 0 && (len(a.path) > 1 || a.path[0] != "0") {
		return Target{}, errors.New("a cluster has no database but 0")
	}
	hosts := a.where("6379")
	options, err := redis.ParseClusterURL(a.standard(scheme, hosts, ""))
	if err != nil {
		return Target{}, plain(err)
	}
	if err := check(0, options.PoolSize); err != nil {
		return Target{}, err
	}
	options.DialTimeout = cmp.Or(options.DialTimeout, dialTimeout)
	options.ContextTimeoutEnabled = true
	options.DialerRetries = max(options.DialerRetries, dialAttempts)
	// A dead node never says that it was replaced. The default looks for its
	// successor once a minute.
	options.ClusterStateReloadInterval = 2 * time.Second
	return Target{
		place: "Redis cluster at " + strings.Join(hosts, ", "),
		open:  func() redis.UniversalClient { return redis.NewClusterClient(options) },
	}, nil
}

// dialAttempts is how often a connection is tried before the command that
// needs it fails. The default of go-redis, five, hides for half a second that
// nobody is there.
const (
	dialAttempts = 1
	dialTimeout  = 2 * time.Second
)

// maxPool is far more connections than a server accepts by default.
const maxPool = 100_000

// check refuses numbers with which go-redis panics, or which it ignores.
func check(db, pool int) error {
	switch {
	case db < 0:
		return fmt.Errorf("invalid database number: %d", db)
	case pool < 0 || pool > maxPool:
		return fmt.Errorf("pool_size: must be between 0, which is the default, and %d", maxPool)
	}
	return nil
}

// plain takes the URL out of an error of net/url.
func plain(err error) error {
	var wrong *url.Error
	if errors.As(err, &wrong) {
		return errors.New("malformed URL")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "redis: "))
}
