// Package managed puts the rules of services that run Redis for you in front of
// a real Redis, for tests: a proxy that refuses what a product refuses, in its
// words, as far as its maker or its users have published them.
//
// A product that passes here may still fail as a service: nobody has tried.
package managed

// Product is something that one can rent, or run instead of Redis, and what it
// refuses.
type Product struct {
	Name  string
	Rules []Rule
}

// Rule is one thing that a product refuses.
type Rule struct {
	Refuses Refusal
	Names   []string // of commands in lower case, such as "wait" or "client id"; not for every Refusal
	Reply   string   // the error reply
	Source  string   // who says so
	Seen    string   // the day of the source, or as much of it as it has
}

// Refusal is a kind of rule.
type Refusal int

const (
	// Commands aren't served.
	Commands Refusal = iota
	// ScriptsWith have one of the commands anywhere in their text.
	ScriptsWith
	// RunningScripts are stopped at one of the commands. What the script has
	// done before stays.
	RunningScripts
	// ComputedKeys are in a script whose text has a key that isn't KEYS[n].
	ComputedKeys
	// ComputedCommands are in a script whose text has a command that is no
	// literal string.
	ComputedCommands
	// UndeclaredKeys stop a running script that comes to one.
	UndeclaredKeys
	// NoKeys is a script that is run without a key.
	NoKeys
)

const (
	unknown    = "ERR unknown command"
	notAllowed = "ERR This Redis command is not allowed from script"
	badScript  = "ERR bad lua script for redis cluster, "
)

// What the proxies of Tair say of scripts, with script_check_enable at 1, which
// is the default.
var tairScripts = []Rule{
	{
		Refuses: ComputedKeys,
		Reply:   badScript + "all the keys that the script uses should be passed using the KEYS array, and KEYS should not be in expression",
		Source:  "help.aliyun.com, Lua scripting in Tair (Redis OSS-compatible)", Seen: "2026-09-03",
	},
	{
		Refuses: ComputedCommands,
		Reply:   badScript + "first parameter of redis.call/redis.pcall must be a single literal string",
		Source:  "github.com/redisson/redisson/issues/5596", Seen: "2024-03-04",
	},
	{
		Refuses: NoKeys,
		Reply:   "ERR for redis cluster, eval/evalsha number of keys can't be negative or zero",
		Source:  "help.aliyun.com, Lua scripting in Tair (Redis OSS-compatible)", Seen: "2026-09-03",
	},
	{
		Refuses: Commands, Names: []string{"wait", "hello", "client id", "client info"}, Reply: unknown,
		Source: "alibabacloud.com, Limits on commands supported by cluster and read/write splitting instances", Seen: "2026-10-09",
	},
}

// Products are those whose rules are known.
var Products = []Product{
	{Name: "Redis", Rules: nil}, // the control: refuses nothing
	{Name: "Alibaba Cloud Tair, cluster, proxy mode", Rules: tairScripts},
	{
		Name: "Alibaba Cloud Tair, cluster, proxy mode, no PUBLISH in Lua",
		Rules: append([]Rule{{
			Refuses: ScriptsWith, Names: []string{"publish", "spublish"}, Reply: badScript + "PUBLISH is not supported",
			Source: "developer.aliyun.com/ask/636094, an answer in the maker's forum", Seen: "2024",
		}}, tairScripts...),
	},
	{
		Name: "Huawei Cloud DCS, Proxy Cluster, multi-DB",
		Rules: []Rule{{
			Refuses: ScriptsWith, Names: []string{"publish"}, Reply: notAllowed,
			Source: "support.huaweicloud.com, dcs-faq-210804001", Seen: "2023-12-20",
		}},
	},
	{
		Name: "AWS ElastiCache Serverless",
		Rules: []Rule{
			{
				Refuses: RunningScripts, Names: []string{"time"}, Reply: notAllowed,
				Source: "github.com/cristipufu/aspnetcore-redis-rate-limiting/issues/154, github.com/otovo/redis-rate-limiters/pull/11", Seen: "2024-02-08",
			},
			{
				Refuses: UndeclaredKeys, Reply: "ERR internal error",
				Source: "github.com/Effect-TS/effect-smol/issues/2328", Seen: "2026-06-03",
			},
			{
				Refuses: Commands, Names: []string{"wait"}, Reply: unknown,
				Source: "github.com/redisson/redisson/issues/5586", Seen: "2024",
			},
			awsCommands,
		},
	},
	{Name: "AWS ElastiCache, node-based", Rules: []Rule{awsCommands}},
	{
		Name: "Google Cloud Memorystore for Redis",
		Rules: []Rule{{
			Refuses: Commands, Names: []string{"acl", "client", "cluster", "command", "config", "debug", "migrate", "monitor", "object"},
			Reply:  unknown,
			Source: "docs.cloud.google.com/memorystore/docs/redis/product-constraints", Seen: "2026",
		}},
	},
	{
		Name: "Redis Cloud",
		Rules: []Rule{{
			Refuses: Commands, Names: []string{
				"wait", "select", "client tracking", "client caching", "client pause", "client reply", "reset", "debug", "migrate",
			},
			Reply:  unknown,
			Source: "github.com/redis/docs, content/operate/rs/references/compatibility/commands", Seen: "2025",
		}},
	},
	{
		Name: "Dragonfly",
		Rules: []Rule{{
			Refuses: UndeclaredKeys, Reply: "ERR script tried accessing undeclared key",
			Source: "dragonflydb.io/docs/managing-dragonfly/scripting", Seen: "2026",
		}},
	},
}

var awsCommands = Rule{
	Refuses: Commands, Names: []string{"bgrewriteaof", "bgsave", "config", "debug", "migrate", "replicaof", "save", "slaveof", "shutdown", "sync"},
	Reply:  unknown,
	Source: "docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html", Seen: "2026",
}
