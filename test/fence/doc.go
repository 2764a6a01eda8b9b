// Package fence holds the SQL of core/fence to its promises on real databases.
// It is a separate module, as users of the kit must not inherit the drivers.
package fence
