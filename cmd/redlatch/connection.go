package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/core/sqlstore"
)

// connection is how Redis, or a database, is reached, and how the locks are named there.
type connection struct {
	url          string
	db           string
	cluster      bool
	sentinels    []string
	master       string
	user         string
	passwordFile string
	caFile       string
	certFile     string
	keyFile      string
	prefix       string
	setnx        bool
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.url, "redis", "", "`URL` of Redis without a password (env REDLATCH_REDIS; default redis://127.0.0.1:6379/0)")
	f.StringVar(&c.db, "db", "", "`URL` of a database that has the locks: postgres://…, mysql://… or sqlite:file (env REDLATCH_DB)")
	f.BoolVar(&c.cluster, "cluster", false, "the server is a node of a Redis Cluster")
	f.StringSliceVar(&c.sentinels, "sentinel", nil, "`host:port` of a Sentinel; repeat it for each")
	f.StringVar(&c.master, "master", "", "`name` of the master that the Sentinels watch")
	f.StringVar(&c.user, "user", "", "`name` of the user")
	f.StringVar(&c.passwordFile, "password-file", "", "`file` with the password (or env REDLATCH_PASSWORD)")
	f.StringVar(&c.caFile, "tls-ca", "", "PEM `file` of the CA; turns TLS on, as rediss:// does")
	f.StringVar(&c.certFile, "tls-cert", "", "PEM `file` of the client's certificate")
	f.StringVar(&c.keyFile, "tls-key", "", "PEM `file` of its key")
	f.StringVar(&c.prefix, "prefix", "", "`text` before every key in Redis")
	f.BoolVar(&c.setnx, "setnx", false, "locks are strings, as of redsync, redislock and redis-py")
}

const (
	defaultURL = "redis://127.0.0.1:6379/0"
	urlEnv     = "REDLATCH_REDIS"
	secretEnv  = "REDLATCH_PASSWORD" //nolint:gosec // the name of a variable
)

// options are those of a client.
func (c *connection) options() (*redis.UniversalOptions, error) {
	text := c.url
	if text == "" {
		text = os.Getenv(urlEnv)
	}
	if text == "" {
		text = defaultURL
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "redis" && parsed.Scheme != "rediss" && parsed.Scheme != "unix" {
		return nil, usage("the URL of Redis begins with redis://, rediss:// or unix://") // it may have a password, and isn't repeated
	}
	if _, secret := parsed.User.Password(); secret && c.url != "" {
		return nil, usage("--redis has a password, which everybody on this host can read: use REDLATCH_PASSWORD, --password-file, or REDLATCH_REDIS")
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, usage("the URL of Redis can't be read: the path is the number of a database, such as /0")
	}
	password, err := c.password(o.Password)
	if err != nil {
		return nil, err
	}
	if c.user != "" {
		o.Username = c.user
	}
	if o.TLSConfig, err = c.tls(o.TLSConfig, parsed.Hostname()); err != nil {
		return nil, err
	}
	all := &redis.UniversalOptions{
		Addrs: []string{o.Addr}, DB: o.DB, Username: o.Username, Password: password, TLSConfig: o.TLSConfig,
		DialTimeout: 3 * time.Second, ReadTimeout: 3 * time.Second, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		IsClusterMode: c.cluster,
	}
	switch {
	case len(c.sentinels) > 0 && c.master == "":
		return nil, usage("--sentinel needs --master, the name that the Sentinels have for it")
	case len(c.sentinels) == 0 && c.master != "":
		return nil, usage("--master needs --sentinel")
	case len(c.sentinels) > 0 && c.cluster:
		return nil, usage("--sentinel and --cluster exclude each other")
	case len(c.sentinels) > 0:
		all.Addrs, all.MasterName = c.sentinels, c.master
	}
	return all, nil
}

func (c *connection) password(ofURL string) (string, error) {
	if c.passwordFile != "" {
		text, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return "", usage("--password-file: %v", err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	if secret := os.Getenv(secretEnv); secret != "" {
		return secret, nil
	}
	return ofURL, nil
}

func (c *connection) tls(config *tls.Config, host string) (*tls.Config, error) {
	if c.caFile == "" && c.certFile == "" && c.keyFile == "" {
		return config, nil
	}
	if config == nil {
		config = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	if c.caFile != "" {
		pem, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, usage("--tls-ca: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca: %s has no certificate in PEM", c.caFile)
		}
	}
	if c.certFile != "" || c.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		if err != nil {
			return nil, usage("--tls-cert, --tls-key: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// store is what the commands need of redisstore and sqlstore.
type store interface {
	lock.Store
	lock.Registry
	Check(ctx context.Context, modes ...lock.Mode) error
}

// opened is a store, and a locker on it that is known to operators.
type opened struct {
	client io.Closer
	store  store
	locker *lock.Locker
	cures  cures
	where  string // the server is
}

// cures say what a user lacks.
type cures struct{ list, names string }

// open makes no call yet.
func (c *connection) open(warnings io.Writer, opts ...lock.Option) (*opened, error) {
	u, err := c.databaseURL()
	if err != nil {
		return nil, err
	}
	log, o := slog.New(slog.NewTextHandler(warnings, nil)), new(opened)
	if u != nil {
		err = c.inDatabase(o, u, log)
	} else {
		err = c.inRedis(o, log)
	}
	if err != nil {
		return nil, err
	}
	o.locker = lock.New(o.store, append([]lock.Option{lock.WithIdentity(lock.Identity{Service: "redlatch"})}, opts...)...)
	return o, nil
}

func (c *connection) inDatabase(o *opened, u *url.URL, log *slog.Logger) error {
	d, err := c.openDatabase(u)
	if err != nil {
		return err
	}
	o.client, o.where = d.pool, d.where
	o.cures = cures{"the user can't read redlatch_locks", "the user can't write redlatch_lockers"}
	o.store, err = sqlstore.New(d.pool, d.dialect, sqlstore.WithLogger(log))
	return err
}

func (c *connection) inRedis(o *opened, log *slog.Logger) error {
	all, err := c.options()
	if err != nil {
		return err
	}
	logging.Disable() // errors are returned as well
	client := redis.NewUniversalClient(all)
	options := []redisstore.Option{
		redisstore.WithLogger(log), redisstore.WithKeyPrefix(c.prefix),
		redisstore.WithPublish(redisstore.Both), // who waits isn't known: it may be an old Redisson in a cluster
	}
	if c.setnx {
		options = append(options, redisstore.WithSETNX())
	}
	o.client, o.store, o.where = client, redisstore.New(client, options...), redisAt(all)
	o.cures = cures{"the user lacks what lists locks: acl-operators in docs/security.md", "the user lacks acl-names of docs/security.md"}
	return nil
}

// closeWithin is how long the end may take when the store is away.
const closeWithin = 3 * time.Second

// close ends what is open, even if ctx has ended.
func (o *opened) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	return errors.Join(o.locker.Close(ctx), o.client.Close())
}

// redisAt says which server is asked.
func redisAt(all *redis.UniversalOptions) string {
	if all.MasterName != "" {
		return fmt.Sprintf("master %s of the Sentinels %s", all.MasterName, strings.Join(all.Addrs, ", "))
	}
	return "Redis at " + strings.Join(all.Addrs, ", ")
}
