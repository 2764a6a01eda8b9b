-- Removes a latch, so that it is open.
--
-- KEYS[1]  the latch, see latch_set.lua
-- ARGV[1]  channel on which waiters listen
-- ARGV[2]  how to publish; see publish.lua
--
-- Returns  1  there was one
--          0  there was none. What is no latch stays, and is an error.
--
-- The message is Redisson's for a latch that is closed, at which Redisson's
-- waiters go on waiting, and ours look.

local count = redis.call('get', KEYS[1])
if not count then
  return 0
end
if not tonumber(count) then
  return redis.error_reply('WRONGTYPE the key holds a string that is no latch')
end
redis.call('del', KEYS[1])
publish(ARGV[1], '1', ARGV[2])
return 1
