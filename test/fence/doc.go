// Package fence holds the SQL of core/fence to its promises on real databases.
// It is a module of its own, as users of the kit must not inherit the drivers.
package fence
