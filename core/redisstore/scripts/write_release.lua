-- Lowers the writer's hold count, or removes its hold and wakes waiters. A
-- writer that reads as well goes on as a reader.
--
-- KEYS[1]  the lock, see readwrite.lua
-- ARGV[1]  owner
-- ARGV[2]  hold count that remains, absolute; 0 removes the hold
-- ARGV[3]  channel on which waiters listen
-- ARGV[4]  commands to publish with, separated by spaces
--
-- Returns  1  done, or nothing to do: the count is not above what remains
--          0  the owner has no hold
--
-- It works when Redis is out of memory; see release.lua. Redisson wakes nobody
-- when the writer goes on as a reader; others may read then, so this does.

local field, remain = ARGV[1] .. ':write', tonumber(ARGV[2])

local mode, count = unpack(redis.call('hmget', lock, 'mode', field))
if mode ~= 'write' or not count then
  return 0
end
if remain > 0 then
  if tonumber(count) > remain then
    redis.call('hdel', lock, '')
    redis.call('hset', lock, field, remain)
  end
  return 1
end
if redis.call('hlen', lock) > 2 then
  redis.call('hdel', lock, field)
  redis.call('hset', lock, 'mode', 'read')
else
  redis.call('del', lock)
end
publish(ARGV[3], '1', ARGV[4])
return 1
