-- Reads a lock. It is a script, and not two commands, for one consistent
-- answer, and because clients may send plain reads to replicas, which lag.
--
-- KEYS[1]  the lock
--
-- Returns  {pttl in ms, field, value, field, value, ...}; pttl is -2 for a free
--          lock and -1 for one without expiry. The only script that returns
--          texts: nobody waits for it.

local reply = redis.call('hgetall', KEYS[1])
table.insert(reply, 1, redis.call('pttl', KEYS[1]))
return reply
