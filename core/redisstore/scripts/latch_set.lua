-- Sets the count of a latch that has none.
--
-- KEYS[1]  the latch: what is left to count, a number; without one it is open
-- ARGV[1]  count, 1 or more
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  commands to publish with, separated by spaces
--
-- Returns  1  set
--          0  there was a count already

if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
for command in string.gmatch(ARGV[3], '%a+') do
  redis.call(command, ARGV[2], '1')
end
return 1
