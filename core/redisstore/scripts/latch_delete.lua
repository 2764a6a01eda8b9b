-- Removes a latch, so that it is open.
--
-- KEYS[1]  the latch, see latch.lua
-- ARGV[1]  channel on which waiters listen
-- ARGV[2]  how to publish; see publish.lua
--
-- Returns  1  there was one
--          0  there was none. What is no latch stays, and is an error.
--
-- The message is Redisson's for a latch that is closed, at which Redisson's
-- waiters go on waiting, and ours look.

local left, there = counted()
if not there then
  return 0
end
if not left then
  return redis.error_reply(notALatch)
end
redis.call('del', KEYS[1])
publish(ARGV[1], '1', ARGV[2])
return 1
