package lock

// takesTransfer says whether the acquisition may be given the key by another
// owner's release. The hold is short then, so that somebody must renew it; and
// it is of one hold count, so that its owner must be nobody else's.
func (a *acquisition) takesTransfer() bool {
	return a.transfer != nil && a.claim.Mode == Fair && !a.shared &&
		a.o.lease == 0 && a.claim.TTL >= a.transfer.TransferTTL()
}

// transferred returns the fence of the hold that the waiter was given since
// the store's last answer, which had that clock. 0 means that there is none, or
// none that can be trusted for long enough: then the waiter has to ask.
func (a *acquisition) transferred(clock uint64) (fence uint64) {
	fence = a.waiter.given.Swap(0)
	if clock == 0 || fence <= clock {
		return 0 // it was given before that answer, which says that it is gone
	}
	if a.now()-a.asked >= a.transfer.TransferTTL()/3 {
		return 0 // a renewal would be due, which asking does as well
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if fence <= a.gates[a.claim.Key].fence {
		return 0 // another of this process has got the key since
	}
	return fence
}
