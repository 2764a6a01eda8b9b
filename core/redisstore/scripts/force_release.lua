-- Removes holds of a lock, of whatever mode, and wakes waiters. They are named, so
-- that a call that arrives late takes nothing from who came since.
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
-- ARGV[5]  and on: the fields, or permits, to remove; or the token of a lock of
--          the SETNX format
--
-- Returns  1  there was such a hold
--          0  there was none
--
-- A semaphore whose number Redisson has set without an end keeps it, and gets
-- the permits back; any other is removed with its last permit. A key of another
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
  if not tonumber(token) then
    return 0
  end
  if not KEYS[2] then
    return redis.error_reply('TRYAGAIN the permits are in another place')
  end
  local ours = redis.call('pttl', KEYS[1]) ~= -1
  local held = redis.call('zcard', KEYS[2])
  local there = {}
  for i = 5, #ARGV do
    if redis.call('zscore', KEYS[2], ARGV[i]) then
      there[#there + 1] = ARGV[i]
    end
  end
  if #there == 0 then
    return 0
  end
  if ours and held == #there then
    redis.call('del', KEYS[1])
  else
    redis.call('incrby', KEYS[1], #there)
  end
  for _, permit in ipairs(there) do
    redis.call('zrem', KEYS[2], permit)
  end
  publish(ARGV[3], #there, ARGV[4])
  return 1
end

local mode = redis.call('hget', KEYS[1], 'mode')
local head = KEYS[3] and redis.call('lindex', KEYS[3], 0)
local there, wrote = {}, false
for i = 5, #ARGV do
  if redis.call('hget', KEYS[1], ARGV[i]) then
    there[#there + 1] = ARGV[i]
    wrote = wrote or string.match(ARGV[i], ':write$')
  end
end
if #there == 0 then
  return 0
end
local left = redis.call('hlen', KEYS[1]) - #there
if left == 0 or mode and left == 1 then
  redis.call('del', KEYS[1])
  left = 0
else
  for _, field in ipairs(there) do
    redis.call('hdel', KEYS[1], field)
  end
  if wrote then -- others read, who came since
    redis.call('hset', KEYS[1], 'mode', 'read')
  end
end
if mode == 'write' then -- Redisson's readers publish 0 and its writers 1
  publish(ARGV[2], '1', ARGV[4])
elseif mode then
  publish(ARGV[2], '0', ARGV[4])
end
if left == 0 then
  if head then
    publish(ARGV[1] .. ':' .. head, '0', ARGV[4])
  end
  publish(ARGV[1], '0', ARGV[4]) -- plain waiters, too, see a read/write lock as held
end
return 1
