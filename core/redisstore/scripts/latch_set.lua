-- Sets the count of a latch that has none.
--
-- KEYS[1]  the latch: what is left to count, a number; without one it is open
-- ARGV[1]  count, 1 or more
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
--
-- Returns  1  set
--          0  there was a count already

if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
publish(ARGV[2], '1', ARGV[3])
return 1
