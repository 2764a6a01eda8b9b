package main

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlatch/redlatch/core/sqlstore"
)

// database is how a database is reached.
type database struct {
	dialect sqlstore.Dialect
	where   string
	pool    *sql.DB
}

const (
	databaseEnv = "REDLATCH_DB"
	// dialTimeout bounds the time to connect, unless the URL says more.
	dialTimeout = 3 * time.Second
	// connections are as many as the docs of the store advise for a pool at least.
	connections = 4
)

// databaseURL is the URL of a database, or empty if the locks are in Redis.
func (c *connection) databaseURL() (*url.URL, error) {
	text := c.db
	if text == "" && c.url == "" {
		text = os.Getenv(databaseEnv)
	}
	if text == "" {
		return nil, nil
	}
	if c.url != "" {
		return nil, usage("--db and --redis exclude each other")
	}
	if c.db == "" && os.Getenv(urlEnv) != "" {
		return nil, usage("%s and %s are both set: name the one to use with --db or --redis", databaseEnv, urlEnv)
	}
	for name, given := range map[string]bool{
		"cluster": c.cluster, "sentinel": len(c.sentinels) > 0, "master": c.master != "", "prefix": c.prefix != "", "setnx": c.setnx,
	} {
		if given {
			return nil, usage("--%s is for Redis, and the locks are in a database", name)
		}
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errDatabaseURL // it may have a password, and isn't repeated
	}
	if _, secret := u.User.Password(); secret && c.db != "" || c.db != "" && u.Query().Has("password") {
		return nil, usage("--db has a password, which everybody on this host can read: use REDLATCH_PASSWORD, --password-file, or %s", databaseEnv)
	}
	return u, nil
}

var errDatabaseURL = usage("the URL of a database is such as postgres://user@host/database, mysql://user@host/database or sqlite:file")

// openDatabase makes no call yet.
func (c *connection) openDatabase(u *url.URL) (*database, error) {
	var d *database
	var err error
	switch u.Scheme {
	case "postgres", "postgresql":
		d, err = c.postgres(u)
	case "mysql", "mariadb":
		d, err = c.mysql(u)
	case "sqlite":
		return openSQLite(u)
	default:
		err = errDatabaseURL
	}
	if err != nil {
		return nil, err
	}
	d.pool.SetMaxOpenConns(connections)
	d.pool.SetMaxIdleConns(connections)
	return d, nil
}

func (c *connection) postgres(u *url.URL) (*database, error) {
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, errDatabaseURL
	}
	if config.Password, err = c.password(config.Password); err != nil {
		return nil, err
	}
	if c.user != "" {
		config.User = c.user
	}
	own, err := c.tls(nil, config.Host)
	if err != nil {
		return nil, err
	}
	if own != nil {
		config.TLSConfig = own
		for _, other := range config.Fallbacks { // no attempt without TLS
			other.TLSConfig = own
		}
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = dialTimeout
	}
	return &database{sqlstore.PostgreSQL, "PostgreSQL at " + config.Host + "/" + config.Database, stdlib.OpenDB(*config)}, nil
}

// rowWait bounds, in seconds, how long a statement waits for the row of a key, which a
// transaction of [sqlstore.Store.InTx] has until it ends.
const rowWait = "2"

func (c *connection) mysql(u *url.URL) (*database, error) {
	config, err := mysql.ParseDSN("tcp(" + u.Host + ")/" + strings.TrimPrefix(u.EscapedPath(), "/") + "?" + u.RawQuery)
	if err != nil || config.DBName == "" || u.Host == "" {
		return nil, errDatabaseURL
	}
	config.User = u.User.Username()
	if c.user != "" {
		config.User = c.user
	}
	secret, _ := u.User.Password()
	if config.Passwd, err = c.password(secret); err != nil {
		return nil, err
	}
	own, err := c.tls(nil, u.Hostname())
	if err != nil {
		return nil, err
	}
	if own != nil {
		config.TLS = own
	}
	if config.Timeout == 0 {
		config.Timeout = dialTimeout
	}
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	if _, given := config.Params["innodb_lock_wait_timeout"]; !given {
		config.Params["innodb_lock_wait_timeout"] = rowWait
	}
	config.Logger = &mysql.NopLogger{} // errors are returned as well
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, errDatabaseURL
	}
	return &database{sqlstore.MySQL, "MySQL at " + config.Addr + "/" + config.DBName, sql.OpenDB(connector)}, nil
}

// openSQLite opens a file that must be there, with one connection, as there is one writer.
func openSQLite(u *url.URL) (*database, error) {
	file := u.Opaque
	if file == "" {
		file = u.Path
	}
	if file == "" || u.Host != "" {
		return nil, errDatabaseURL
	}
	path := (&url.URL{Path: file}).EscapedPath()
	pool, err := sql.Open("sqlite", "file:"+path+"?mode=rw&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	return &database{sqlstore.SQLite, "SQLite in " + file, pool}, nil
}
