package ginlock

import "reflect"

// CanReadRoutes reports whether engine, a pointer, has its routes where Gin has
// them.
func CanReadRoutes(engine any) bool {
	_, ok := readTrees(reflect.ValueOf(engine).Elem())
	return ok
}
