package redisstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1; nothing depends on its strength
	"embed"
	"encoding/hex"
)

//go:embed scripts/*.lua
var scripts embed.FS

var (
	acquireScript      = load("plain", "acquire")
	tokenAcquireScript = load("plain", "token_acquire")
	releaseScript      = load("publish", "keep", "release")
	renewScript        = load("renew")
	renewManyScript    = load("renew_many")

	fairAcquireScript = load("publish", "fair", "fair_acquire")
	fairReleaseScript = load("publish", "keep", "fair", "fair_release")

	readAcquireScript = load("read_acquire")
	readReleaseScript = load("publish", "keep", "writer", "readwrite", "read_release")
	readRenewScript   = load("read_renew")

	writeAcquireScript = load("readwrite", "write_acquire")
	writeReleaseScript = load("publish", "keep", "writer", "write_release")
	lowerScript        = load("publish", "lower")

	semaphoreAcquireScript = load("publish", "semaphore", "semaphore_acquire")
	semaphoreReleaseScript = load("publish", "semaphore", "semaphore_release")
	semaphoreKeepScript    = load("publish", "semaphore", "semaphore_keep")
	semaphoreRenewScript   = load("semaphore", "semaphore_renew")

	latchSetScript       = load("publish", "latch", "latch_set")
	latchCountDownScript = load("publish", "latch", "latch_count_down")
	latchCountScript     = load("latch", "latch_count")
	latchTellScript      = load("latch", "latch_count") // for what travels behind it; see Latch.tell
	latchDeleteScript    = load("publish", "latch", "latch_delete")

	setnxAcquireScript = load("setnx_acquire")
	setnxReleaseScript = load("publish", "setnx_release")
	setnxRenewScript   = load("setnx_renew")
	setnxInspectScript = load("setnx_inspect")

	forceReleaseScript = load("publish", "semaphore", "force_release")
	inspectScript      = load("semaphore", "inspect")
)

// script is a Lua script, and the name by which a server that has run it
// knows it.
type script struct {
	text, sha string
	name      any  // sha, as an argument
	guarded   bool // only [Store.introduce] may give it to a server
}

// load puts files together to one script: what several have in common, and
// the operation.
func load(names ...string) *script {
	var text []byte
	for _, name := range names {
		part, err := scripts.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) //nolint:forbidigo // the file is compiled in
		}
		text = append(text, part...)
	}
	return named(string(text))
}

func named(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	sha := hex.EncodeToString(sum[:])
	return &script{text: text, sha: sha, name: sha}
}
