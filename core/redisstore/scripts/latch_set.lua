-- Sets the count of a latch that is open.
--
-- KEYS[1]  the latch, see latch.lua
-- ARGV[1]  count, 1 or more
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
--
-- Returns  1  set
--          0  there was a count already

local left = counted()
if not left then
  return redis.error_reply(notALatch)
end
if left > 0 then
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
publish(ARGV[2], '1', ARGV[3])
return 1
