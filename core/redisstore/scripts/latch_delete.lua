-- Removes a latch, so that it is open.
--
-- KEYS[1]  the latch, see latch_set.lua
-- ARGV[1]  channel on which waiters listen
-- ARGV[2]  how to publish; see publish.lua
--
-- Returns  1  there was one
--          0  there was none
--
-- The message is Redisson's for a latch that is closed, at which Redisson's
-- waiters go on waiting, and ours look.

if redis.call('del', KEYS[1]) == 0 then
  return 0
end
publish(ARGV[1], '1', ARGV[2])
return 1
