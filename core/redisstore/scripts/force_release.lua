-- Removes the lock, of whatever mode, and wakes waiters.
--
-- KEYS[1]  the lock
-- KEYS[2]  permits of semaphores
-- KEYS[3]  queue of fair locks. The last keys are left out while the slot migrates
--          and they are not in one place: then a head is not woken
-- ARGV[1]  channel of plain locks; that of fair ones goes on with ":" and the
--          place
-- ARGV[2]  channel of read/write locks
-- ARGV[3]  channel of semaphores
-- ARGV[4]  how to publish; see publish.lua
--
-- Returns  1  there was a lock
--          0  there was none, or a semaphore with all its permits
--
-- A semaphore whose number Redisson has set without an end keeps it, and gets
-- all permits back; any other is removed. A key of another type is not a lock:
-- it fails before anything is lost.

if redis.call('type', KEYS[1]).ok == 'string' then
  if not tonumber(redis.call('get', KEYS[1])) then
    return redis.error_reply('WRONGTYPE the key holds a string that is no lock')
  end
  if not KEYS[2] then
    return redis.error_reply('TRYAGAIN the permits are in another place')
  end
  local taken = redis.call('zcard', KEYS[2])
  local ours = redis.call('pttl', KEYS[1]) ~= -1
  if taken > 0 then
    redis.call('del', KEYS[2])
    redis.call('incrby', KEYS[1], taken)
  end
  if ours then
    redis.call('del', KEYS[1])
  end
  if taken == 0 then
    return 0
  end
  publish(ARGV[3], taken, ARGV[4])
  return 1
end

local mode = redis.call('hget', KEYS[1], 'mode')
local head = KEYS[3] and redis.call('lindex', KEYS[3], 0)
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
if mode == 'write' then -- Redisson's readers publish 0 and its writers 1
  publish(ARGV[2], '1', ARGV[4])
elseif mode then
  publish(ARGV[2], '0', ARGV[4])
end
if head then
  publish(ARGV[1] .. ':' .. head, '0', ARGV[4])
end
publish(ARGV[1], '0', ARGV[4]) -- plain waiters, too, see a read/write lock as held
return 1
