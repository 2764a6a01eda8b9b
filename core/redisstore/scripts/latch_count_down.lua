-- Counts a latch down by one. The last count opens it and wakes waiters.
--
-- KEYS[1]  the latch, see latch.lua
-- ARGV[1]  channel on which waiters listen
-- ARGV[2]  how to publish; see publish.lua
--
-- Returns what is left, or -1 of a latch that was open, and stays as it is.
--
-- Not absolute: run twice, it counts twice. The last count works when Redis is
-- out of memory.

local left = counted()
if not left then
  return redis.error_reply(notALatch)
end
if left > 1 then
  return redis.call('decr', KEYS[1])
end
if redis.call('del', KEYS[1]) == 0 then
  return -1
end
publish(ARGV[1], '0', ARGV[2])
return 0
