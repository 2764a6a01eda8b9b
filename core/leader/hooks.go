package leader

// Hooks observe a candidate. Every term begins with Elected and ends with either
// Resigned or Lost. name is that of [WithName]. A nil func does nothing. [Run] goes
// on only when a hook has returned. Lost runs on a separate goroutine while the
// leader's func may still be running: a hook must not wait for that func.
type Hooks struct {
	// Elected is called before the func runs.
	Elected func(name string, term uint64)
	// Resigned is called when the lock was released; a release that the store did
	// not confirm goes on in the background. err is the func's error.
	Resigned func(name string, term uint64, err error)
	// Lost is called at the moment of the loss, although the func may still run,
	// with a cause that wraps [lock.ErrLost]. It is the place to end a process whose
	// func can't be interrupted. If the func's context had ended before, it is
	// called when the func has returned.
	Lost func(name string, term uint64, cause error)
	// Failed is called when an attempt to be elected has failed, and is made again:
	// the store is away or refuses, too many wait ([lock.ErrTooManyWaiters]), or the
	// wait that [WithLock] has set has ended.
	Failed func(name string, err error)
}

func (h *Hooks) elected(name string, term uint64) {
	if h.Elected != nil {
		h.Elected(name, term)
	}
}

func (h *Hooks) resigned(name string, term uint64, err error) {
	if h.Resigned != nil {
		h.Resigned(name, term, err)
	}
}

func (h *Hooks) lost(name string, term uint64, cause error) {
	if h.Lost != nil {
		h.Lost(name, term, cause)
	}
}

func (h *Hooks) failed(name string, err error) {
	if h.Failed != nil {
		h.Failed(name, err)
	}
}
