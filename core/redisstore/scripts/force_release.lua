-- Removes whatever lock there is, and wakes waiters.
--
-- KEYS[1]  the lock
-- ARGV[1]  channel of plain locks
-- ARGV[2]  channel of read/write locks
--
-- Returns  1  there was a lock
--          0  there was none
--
-- A key that is not a hash is not a lock: HGET fails before anything is lost.

local mode = redis.call('hget', KEYS[1], 'mode')
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
if mode then
  -- Redisson's readers publish 0 and its writers 1, for the same waiters.
  redis.call('publish', ARGV[2], mode == 'write' and '1' or '0')
end
redis.call('publish', ARGV[1], '0') -- plain waiters, too, see a read/write lock as held
return 1
