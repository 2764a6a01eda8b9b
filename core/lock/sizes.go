//go:build !machine

package lock

// sizes are the holds of permits of this locker by key, each of which names the size of its
// semaphore.
type sizes map[string]map[*hold]struct{}

func (s sizes) add(h *hold) {
	if h.mode != Semaphore {
		return
	}
	if s[h.key] == nil {
		s[h.key] = make(map[*hold]struct{})
	}
	s[h.key][h] = struct{}{}
}

func (s sizes) remove(h *hold) {
	if h.mode != Semaphore {
		return
	}
	if delete(s[h.key], h); len(s[h.key]) == 0 {
		delete(s, h.key)
	}
}

// check returns an error if c names another size than permits that are held.
func (s sizes) check(c Claim) error {
	for h := range s[c.Key] {
		if c.Mode == Semaphore && c.Size != h.size {
			return wrongSize(c.Permits, c.Size, h.size)
		}
	}
	return nil
}
