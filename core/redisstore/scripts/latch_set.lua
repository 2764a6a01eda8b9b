-- Sets the count of a latch that is open.
--
-- KEYS[1]  the latch: what is left to count, a number; without one above zero it is
--          open
-- ARGV[1]  count, 1 or more
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
--
-- Returns  1  set
--          0  there was a count already

local left = tonumber(redis.call('get', KEYS[1]) or 0)
if not left then
  return redis.error_reply('WRONGTYPE the key holds a string that is no latch')
end
if left > 0 then
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
publish(ARGV[2], '1', ARGV[3])
return 1
