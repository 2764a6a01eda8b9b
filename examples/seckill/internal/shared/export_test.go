package shared

// Kept is how many keys are remembered.
func (l *Looks[T]) Kept() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
