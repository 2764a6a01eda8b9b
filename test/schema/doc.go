// Package schema tests the schema of rule files with the library that an editor would
// use: it accepts and refuses what the parser does.
package schema
