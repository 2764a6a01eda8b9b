package redisstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1; nothing depends on its strength
	"embed"
	"encoding/hex"

	"github.com/redlatch/redlatch/core/lock"
)

//go:embed scripts/*.lua
var scripts embed.FS

var (
	acquireScript      = load("acquire")
	releaseScript      = load("release")
	renewScript        = load("renew")
	forceReleaseScript = load("force_release")
	inspectScript      = load("inspect")
)

// protocol is how one mode is kept in Redis.
type protocol struct {
	acquire, renew, release *script
	// channel is the prefix of the channel that release publishes on.
	channel string
}

var protocols = map[lock.Mode]*protocol{
	lock.Exclusive: {acquire: acquireScript, renew: renewScript, release: releaseScript, channel: lockChannel},
}

// script is a Lua script, and the name by which a server that has run it
// knows it.
type script struct{ text, sha string }

func load(name string) *script {
	text, err := scripts.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) //nolint:forbidigo // the file is compiled in
	}
	sum := sha1.Sum(text) //nolint:gosec // see the import
	return &script{text: string(text), sha: hex.EncodeToString(sum[:])}
}
