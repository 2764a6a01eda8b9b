package integration_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/core/lock"
	"github.com/redlatch/redlatch/core/redisstore"
	"github.com/redlatch/redlatch/test/internal/process"
	"github.com/redlatch/redlatch/test/internal/redistest"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // the certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redlatch test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = pemFile(t, "CERTIFICATE", der)
	return a
}

// server writes a certificate for an address that ends at that time, and its key. It is one
// of a client as well, as nodes of a cluster show it to each other.
func (a *authority) server(t *testing.T, ip string, end time.Time) (certFile, keyFile string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemFile(t, "CERTIFICATE", der), pemFile(t, "PRIVATE KEY", secret)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tls.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trust is a client's set-up that believes the authority, and nobody else.
func (a *authority) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// secured is a server with a port for TLS next to the plain one, which is for the
// eyes of the test.
func secured(t *testing.T, a *authority, ip string, end time.Time) (server *redistest.Server, addr string) {
	t.Helper()
	server = redistest.Standalone(t, a.args(t, ip, end)...)
	return server, server.TLSAddr()
}

// args have a server, or each of a set, listen for TLS as well.
func (a *authority) args(t *testing.T, ip string, end time.Time) []string {
	t.Helper()
	cert, key := a.server(t, ip, end)
	return []string{
		"--tls-port", redistest.FreePort, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.file, "--tls-auth-clients", "no",
	}
}

func TestLocksTravelOverTLS(t *testing.T) {
	ca := newAuthority(t)
	server, addr := secured(t, ca, "127.0.0.1", time.Now().Add(time.Hour))
	holder := newLocker(t, newClient(t, &redis.Options{Addr: addr, TLSConfig: ca.trust()}))
	// Only a message can wake this one in time.
	waiter := newLocker(t, newClient(t, &redis.Options{Addr: addr, TLSConfig: ca.trust()}), lock.WithPoll(time.Hour), lock.WithWatchdog(time.Hour))

	lease := acquire(t, holder, "k", lock.WithWatchdog(time.Hour))
	got := make(chan *lock.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		next, err := waiter.Acquire(ctx, "k")
		if err != nil {
			t.Error(err)
		}
		got <- next
	}()
	admin := server.Admin(t)
	eventually(t, func() error {
		subscribed, err := admin.PubSubNumSub(t.Context(), "redisson_lock__channel:{k}").Result()
		if err == nil && subscribed["redisson_lock__channel:{k}"] == 0 {
			err = errors.New("nobody waits")
		}
		return err
	})
	release(t, lease)
	if next := <-got; next != nil {
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
		}
		release(t, next)
	}
}

// Every way in which TLS can be set up wrongly: refused before anything is
// granted, with a cause that says what to put right.
func TestTLSThatDoesNotFitGrantsNothingAndSaysWhy(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	good, goodAddr := secured(t, ca, "127.0.0.1", time.Now().Add(time.Hour))
	elsewhere, elsewhereAddr := secured(t, ca, "192.0.2.7", time.Now().Add(time.Hour))
	expired, expiredAddr := secured(t, ca, "127.0.0.1", time.Now().Add(-time.Minute))
	for name, tt := range map[string]struct {
		server *redistest.Server
		addr   string
		config *tls.Config
		why    []string // one of these
		fix    string   // Check adds it
	}{
		"a CA that is not trusted": {good, goodAddr, stranger.trust(), []string{
			"certificate signed by unknown authority", "ECDSA verification failure",
		}, "RootCAs"},
		"the certificate of another":   {elsewhere, elsewhereAddr, ca.trust(), []string{"certificate is valid for 192.0.2.7, not 127.0.0.1"}, "ServerName"},
		"a certificate that expired":   {expired, expiredAddr, ca.trust(), []string{"certificate has expired or is not yet valid"}, "renew"},
		"TLS with a plain server":      {good, good.Addr(), ca.trust(), []string{"deadline exceeded", "i/o timeout"}, "tls-port"},
		"a TLS server, asked in plain": {good, goodAddr, nil, []string{"EOF", "connection reset", "broken pipe"}, "want TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			options := &redis.Options{Addr: tt.addr, TLSConfig: tt.config, DialerRetries: 1, MaxRetries: -1, DialTimeout: time.Second}
			rdb := newClient(t, options)
			cluster := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{tt.addr}, TLSConfig: tt.config, DialerRetries: 1, MaxRedirects: -1, DialTimeout: time.Second, DisableIdentity: true,
			})
			t.Cleanup(func() { _ = cluster.Close() })
			store := redisstore.New(rdb)
			for what, err := range map[string]error{
				"standalone": store.Check(t.Context()), "cluster": redisstore.New(cluster).Check(t.Context()),
			} {
				if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), tt.addr) || !containsOne(err, tt.why) || !strings.Contains(err.Error(), tt.fix) {
					t.Errorf("Check, %s: %v, want the address, one of %q, and %q", what, err, tt.why, tt.fix)
				}
			}
			l := lock.New(store)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			lease, err := l.TryAcquire(ctx, "k")
			if lease != nil || !errors.Is(err, lock.ErrUnavailable) || !containsOne(err, tt.why) {
				t.Errorf("TryAcquire: %v, %v, want ErrUnavailable with one of %q", lease, err, tt.why)
			}
			closing, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			_ = l.Close(closing) // it may still try to undo what it does not know
			if n := tt.server.Admin(t).DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("%d keys are there", n)
			}
		})
	}
}

func containsOne(err error, texts []string) bool {
	for _, text := range texts {
		if strings.Contains(fmt.Sprint(err), text) {
			return true
		}
	}
	return false
}

// The example over rediss://, with a CA that only SSL_CERT_FILE makes known.
func TestSeckillSpeaksTLSToRedis(t *testing.T) {
	ca := newAuthority(t)
	server, addr := secured(t, ca, "127.0.0.1", time.Now().Add(time.Hour))
	binary := seckillBinary(t)

	t.Run("trusted", func(t *testing.T) {
		t.Setenv("SSL_CERT_FILE", ca.file)
		i := serve(t, binary, "--redis", "rediss://"+addr+"/0")
		status, answer, err := i.call(http.MethodPost, i.voucher(t, 1)+"/orders", "u1", "")
		if err != nil || status != http.StatusCreated {
			t.Errorf("order: %d %v %v", status, answer, err)
		}
		if log := server.Admin(t).Info(t.Context(), "commandstats").Val(); !strings.Contains(log, "cmdstat_evalsha") {
			t.Errorf("no lock was taken in this Redis: %s", log)
		}
	})
	t.Run("not trusted", func(t *testing.T) {
		t.Setenv("SSL_CERT_FILE", newAuthority(t).file)
		p, err := process.Start(process.Spec{
			Path: binary, Args: []string{"serve", "--http", process.LoopbackAddr(process.Port(t)), "--redis", "rediss://" + addr + "/0"},
			Log: filepath.Join(t.TempDir(), "serve.log"),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		eventually(t, func() error {
			if log := p.Log(); !strings.Contains(log, "certificate signed by unknown authority") && !strings.Contains(log, "ECDSA verification failure") {
				return fmt.Errorf("the log does not say why: %s", log)
			}
			return nil
		})
	})
}
