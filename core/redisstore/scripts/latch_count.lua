-- Reads a latch. It is a script because clients may send plain reads to
-- replicas, which lag.
--
-- KEYS[1]  the latch, see latch.lua
--
-- Returns what is left to count, 0 for an open latch. Redisson sets any number: one
-- below zero is open, and of one that a double can't hold this is less.

local left = counted()
if not left then
  return redis.error_reply(notALatch)
end
return math.max(0, math.min(left, 9007199254740992))
