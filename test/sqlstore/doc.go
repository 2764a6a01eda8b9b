// Package sqlstore holds core/sqlstore to the contract of lock.Store on real databases.
// It is a separate module, as users of the kit must not inherit the drivers.
package sqlstore
