package store

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// Address says which database to open, as the user wrote it.
type Address struct {
	engine engine
	// Exactly one of the following is set.
	sqlite   string // URI for the driver
	mysql    *mysql.Config
	postgres *pgx.ConnConfig
	// place says what and where, without secrets.
	place string
}

// String says what the address points to, without the password.
func (a Address) String() string { return a.place }

type engine uint8

const (
	engineSQLite engine = iota
	engineMySQL
	enginePostgres
)

// connectTimeout bounds one attempt to connect where the address doesn't.
const connectTimeout = 5 * time.Second

// ParseAddress reads one of
//
//	sqlite:PATH[?synchronous=normal]
//	mysql://user:password@host:port/database   (also mariadb://)
//	postgres://user:password@host:port/database
//
// MySQL takes the parameters of go-sql-driver, and socket=PATH instead of
// the host; PostgreSQL takes those of libpq. Errors don't hold the password.
func ParseAddress(text string) (Address, error) {
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		return Address{}, errors.New("must be sqlite:PATH, mysql://… or postgres://…")
	}
	switch scheme {
	case "sqlite":
		return parseSQLite(rest)
	case "mysql", "mariadb":
		return parseMySQL(text)
	case "postgres", "postgresql":
		return parsePostgres(text)
	}
	if u, err := url.Parse(scheme + ":"); err != nil || u.Scheme == "" { // it may be a part of a password
		return Address{}, errors.New("must be sqlite:PATH, mysql://… or postgres://…")
	}
	return Address{}, fmt.Errorf("unknown database %q: must be sqlite:PATH, mysql://… or postgres://…", scheme)
}

func parseSQLite(rest string) (Address, error) {
	path, query, _ := strings.Cut(rest, "?")
	path = strings.TrimPrefix(path, "//")
	if path == "" || path == ":memory:" {
		return Address{}, errors.New("sqlite: a file is needed, as in sqlite:sale.db (instances share it)")
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return Address{}, fmt.Errorf("sqlite: %w", errParameters)
	}
	synchronous := "full"
	for name, values := range params {
		value := strings.ToLower(values[0])
		if name != "synchronous" || value != "full" && value != "normal" {
			return Address{}, fmt.Errorf("sqlite: unknown parameter %s=%s: only synchronous=full or normal", name, values[0])
		}
		synchronous = value
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return Address{}, fmt.Errorf("sqlite: %w", err)
	}
	settings := url.Values{
		// Short, since it doesn't see a context end; what is still busy after it
		// is tried again.
		"_busy_timeout": {"1000"},
		"_journal_mode": {"wal"},
		"_synchronous":  {synchronous},
		"_foreign_keys": {"on"},
		// A transaction that starts as a reader and turns writer can't wait
		// for another writer: it fails at once.
		"_txlock": {"immediate"},
	}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute), RawQuery: settings.Encode(), OmitHost: true}
	return Address{engine: engineSQLite, sqlite: file.String(), place: "SQLite file " + path}, nil
}

func parseMySQL(text string) (Address, error) {
	u, err := parseURL(text)
	if err != nil {
		return Address{}, fmt.Errorf("mysql: %w", err)
	}
	database := strings.Trim(u.Path, "/")
	if database == "" || strings.ContainsAny(database, "/@") {
		return Address{}, errors.New("mysql: a database is needed, as in mysql://user:password@host:3306/database")
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Address{}, fmt.Errorf("mysql: %w", errParameters)
	}
	socket := params.Get("socket")
	params.Del("socket")
	// The driver reads its parameters from text only.
	config, err := mysql.ParseDSN("/?" + params.Encode())
	if err != nil {
		return Address{}, fmt.Errorf("mysql: %w", err)
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.DBName = database
	config.Net, config.Addr = "tcp", net.JoinHostPort(or(u.Hostname(), "127.0.0.1"), or(u.Port(), "3306"))
	if socket != "" {
		config.Net, config.Addr = "unix", socket
	}
	config.ParseTime = true
	config.Loc = time.UTC
	if config.Timeout == 0 {
		config.Timeout = connectTimeout
	}
	return Address{
		engine: engineMySQL, mysql: config,
		place: fmt.Sprintf("MySQL database %q at %s", database, config.Addr),
	}, nil
}

func parsePostgres(text string) (Address, error) {
	config, err := pgx.ParseConfig(text)
	if err != nil || strings.Contains(config.Database+hostsOf(config), "@") {
		// Most likely a password with an '@' in it, whose end is not to be shown.
		return Address{}, errors.New("postgres: malformed URL or parameter: the form is " +
			"postgres://user:password@host:5432/database?name=value, with special characters percent-encoded")
	}
	if config.Database == "" {
		return Address{}, errors.New("postgres: a database is needed, as in postgres://user:password@host:5432/database")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	// bun writes the values into the statement, so that preparing each would
	// only be a round trip more.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	where := config.Host
	if !strings.HasPrefix(where, "/") {
		where = net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	}
	return Address{
		engine: enginePostgres, postgres: config,
		place: fmt.Sprintf("PostgreSQL database %q at %s", config.Database, where),
	}, nil
}

// hostsOf are all hosts of an address.
func hostsOf(config *pgx.ConnConfig) string {
	hosts := config.Host
	for _, fallback := range config.Fallbacks {
		hosts += "," + fallback.Host
	}
	return hosts
}

// errParameters doesn't repeat them: a password may be among them.
var errParameters = errors.New("malformed parameters after '?': the form is name=value&name=value, percent-encoded")

// parseURL is url.Parse with an error that doesn't repeat the URL.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" || u.User == nil && strings.Contains(u.RawQuery, "@") {
		// Most likely a password with '/' and '?' in it, of which a part would be taken for the
		// database, which may be shown.
		return nil, errors.New("malformed URL: special characters in user and password must be percent-encoded, the port must be a number")
	}
	return u, nil
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
