package subs

import "github.com/redis/go-redis/v9"

// route finds connections of the sharded plane for channels that have none.
func (all *subscriptions) route() {
	for failures := 0; ; {
		select {
		case <-all.unassigned:
			if all.assignAll() {
				failures = 0
				continue
			}
			failures++
			all.pause(failures)
			signal(all.unassigned)
		case <-all.ctx.Done():
			return
		}
	}
}

// commonOnly does without the sharded plane, which the servers refuse.
func (all *subscriptions) commonOnly() {
	all.unsharded.Store(true)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.without[sharded] = true
	for _, c := range all.shards {
		c.end()
	}
	for _, watched := range all.channels {
		all.begin(watched)
	}
}

// assignAll gives connections to the channels without one. It returns false if
// that failed for some.
func (all *subscriptions) assignAll() bool {
	all.mu.Lock()
	var names []string
	for name, watched := range all.channels {
		if watched.shard == nil && !all.without[sharded] {
			names = append(names, name)
		}
	}
	all.mu.Unlock()
	assigned := true
	for _, name := range names {
		node, err := guarded(func() (*redis.Client, error) { return all.Cluster.MasterForKey(all.ctx, name) })
		if err == nil {
			all.assign(name, node)
			continue
		}
		assigned = false // the topology is not known
		all.refuse(all.Failure(err), func(refused string, _ *channel) bool { return refused == name })
	}
	return assigned
}

// assign gives a channel the connection of the master that has its slot.
func (all *subscriptions) assign(name string, node *redis.Client) {
	all.mu.Lock()
	defer all.mu.Unlock()
	watched := all.channels[name]
	if watched == nil || watched.shard != nil || all.without[sharded] {
		return
	}
	c := all.shards[node]
	if c == nil {
		c = all.newConnection(node)
		all.shards[node] = c
	}
	watched.shard = c
	signal(c.changed)
}

// moved follows that the server has ended a subscription: its slot has gone to
// another node. For one that we have ended, there is nothing to do.
func (c *connection) moved(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	watched := c.channels[name]
	if watched == nil || watched.shard != c || c.sent[name] != watched {
		return
	}
	c.Cluster.ReloadState(c.ctx)
	delete(c.sent, name)
	c.unassign(watched)
}

// unassign makes a channel look for another connection; mu is held.
func (all *subscriptions) unassign(watched *channel) {
	watched.shard, watched.heard[sharded] = nil, false
	signal(all.unassigned)
}

// hangUp ends a connection of the sharded plane that was lost, or is that of a
// node which has not all the slots that it was thought to have.
func (c *connection) hangUp() {
	c.mu.Lock()
	if c.shards[c.node] != c {
		c.mu.Unlock()
		return // it is done
	}
	delete(c.shards, c.node)
	c.each(func(watched *channel) { watched.heard[sharded] = false })
	drops := c.dropped()
	c.mu.Unlock()
	c.Cluster.ReloadState(c.ctx)
	c.end() // now: the client would go on by itself
	c.pause(drops)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(c.unassign)
}

// each visits the channels of a connection of the sharded plane; mu is held.
func (c *connection) each(visit func(watched *channel)) {
	for _, watched := range c.channels {
		if watched.shard == c {
			visit(watched)
		}
	}
}
