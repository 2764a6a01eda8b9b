package rule

import _ "embed"

//go:embed rules.schema.json
var schema string

// Schema returns the JSON Schema (draft 7) of a rule file, with which editors
// complete and check it while it is written. It accepts every file that [Parse]
// accepts, and refuses what is wrong in its shape; only Parse finds all faults.
func Schema() []byte { return []byte(schema) }
