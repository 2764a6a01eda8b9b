-- Removes one hold of a lock, of whatever mode, and wakes waiters. It is named, so
-- that a call that arrives late takes nothing from who came since.
--
-- KEYS[1]  the lock
-- KEYS[2]  permits of semaphores
-- KEYS[3]  queue of fair locks
-- KEYS[4]  of a reader: its sentinel. The last keys are left out while the slot
--          migrates and they are not in one place: then a head is not woken, and a
--          sentinel expires, which means nothing without its reader
-- ARGV[1]  channel of plain locks; that of fair ones goes on with ":" and the
--          place
-- ARGV[2]  channel of read/write locks
-- ARGV[3]  channel of semaphores
-- ARGV[4]  how to publish; see publish.lua
-- ARGV[5]  the field, or permit, to remove; or the token of a lock of the SETNX
--          format; or nothing, for a number whose permits are all back
-- ARGV[6]  what the field had when it was listed: a fair lock that was handed on has
--          0 until its next owner calls, and what that one is granted then came later
--
-- Returns  1  there was such a hold
--          0  there was none
--
-- A semaphore whose number Redisson has set without an end keeps it, and gets
-- the permit back; any other is removed with its last permit, or if none is
-- left: an expiry of it, or an older version, may have left it. A key of another
-- type is not a lock: it fails before anything is lost.
--
-- No key is looked at after its last member was removed: in a slot that migrates
-- that would be an access to another node's key, which fails.

if redis.call('type', KEYS[1]).ok == 'string' then
  local token = redis.call('get', KEYS[1])
  if token == ARGV[5] then
    redis.call('del', KEYS[1])
    publish(ARGV[1], '0', ARGV[4])
    return 1
  end
  if not isNumber(token) then
    return 0
  end
  if not KEYS[2] then
    return redis.error_reply('TRYAGAIN the permits are in another place')
  end
  local time = redis.call('time')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local till = redis.call('zscore', KEYS[2], ARGV[5])
  local mine = till and tonumber(till) > now and 1 or 0
  local last = redis.call('pttl', KEYS[1]) ~= -1 and redis.call('zcount', KEYS[2], '(' .. string.format('%.0f', now), '+inf') == mine
  if not till and (ARGV[5] ~= '' or not last) then
    return 0
  end
  if last then
    redis.call('del', KEYS[1], KEYS[2])
  else
    redis.call('zrem', KEYS[2], ARGV[5])
    redis.call('incr', KEYS[1])
  end
  publish(ARGV[3], '1', ARGV[4])
  return 1
end

local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[5])
local mode = fields[1]
if not fields[2] or ARGV[6] == '0' and fields[2] ~= '0' then
  return 0
end
local heads = KEYS[3] and redis.call('lrange', KEYS[3], 0, 9) or {} -- the first may be dead
local others = redis.call('hlen', KEYS[1]) - (mode and 2 or 1)
if others == 0 then
  redis.call('del', KEYS[1])
else
  redis.call('hdel', KEYS[1], ARGV[5])
  if string.match(ARGV[5], ':write$') then -- it has read as well
    redis.call('hset', KEYS[1], 'mode', 'read')
  end
end
if KEYS[4] then
  redis.call('del', KEYS[4])
end
if mode then
  publish(ARGV[2], '0', ARGV[4])
end
if mode == 'write' then -- see writer.lua
  publish(ARGV[2], '1', ARGV[4])
end
if others == 0 then
  for _, head in ipairs(heads) do
    publish(ARGV[1] .. ':' .. head, '0', ARGV[4])
  end
  publish(ARGV[1], '0', ARGV[4]) -- plain waiters, too, see a read/write lock as held
end
return 1
