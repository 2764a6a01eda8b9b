package httpguard

// Plans is how many routes a middleware keeps plans for.
func (m *Middleware) Plans() (n int) {
	m.plans.Range(func(any, any) bool { n++; return true })
	return n
}
