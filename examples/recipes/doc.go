// Package recipes is one tested func for each common use of a lock, short enough to
// be copied. docs/recipes.md shows them by task, and says what each can't do.
//
// The SQL is that of SQLite. PostgreSQL has $1 for the first question mark, and MySQL
// has INSERT IGNORE for ON CONFLICT DO NOTHING. schema.sql has the tables.
package recipes
