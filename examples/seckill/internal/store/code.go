package store

import _ "embed" // for the text of a file

// WriteCode is the code that places an order, for a page that shows it.
//
//go:embed write.go
var WriteCode string
