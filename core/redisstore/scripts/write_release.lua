-- Removes the writer's hold and wakes waiters.
--
-- KEYS[1]  the lock, see readwrite.lua
-- ARGV[1]  field of the writer
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
-- ARGV[4]  under a minimum hold: the field that keeps the lock, instead of none; and
-- ARGV[5]  for how many ms
--
-- Returns  2 + n  done, and n connections have heard that
--          1      done, and nobody knows who has heard it
--          0      the owner has no hold, or reads by now
--
-- It works when Redis is out of memory; see release.lua.

local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
if fields[1] ~= 'write' or not fields[2] then
  return 0
end
return 2 + (stopWriting(ARGV[1], ARGV[4], ARGV[5], ARGV[2], ARGV[3]) or -1)
