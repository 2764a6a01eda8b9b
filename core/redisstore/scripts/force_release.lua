-- Removes whatever lock there is, and wakes waiters.
--
-- KEYS[1]  the lock
-- ARGV[1]  channel of plain locks; that of fair ones goes on with ":" and the
--          owner
-- ARGV[2]  channel of read/write locks
-- ARGV[3]  channel of semaphores
-- ARGV[4]  queue of fair locks
-- ARGV[5]  patience of fair locks
-- ARGV[6]  permits of semaphores
-- ARGV[7]  commands to publish with, separated by spaces
--
-- Returns  1  there was a lock
--          0  there was none, or a semaphore with all its permits
--
-- Only the lock is declared: which of the others exist depends on its kind, and
-- one that does not would make the call fail while the slot migrates. Where
-- the queue cannot be seen for that reason, its head is not woken.
--
-- A key of another type is not a lock: it fails before anything is lost.

local function publish(channel, message)
  for command in string.gmatch(ARGV[7], '%a+') do
    redis.call(command, channel, message)
  end
end

if redis.call('type', KEYS[1]).ok == 'string' then
  local free = tonumber(redis.call('get', KEYS[1]))
  if not free then
    return redis.error_reply('WRONGTYPE the key holds a text, not a lock')
  end
  if redis.call('exists', KEYS[1], ARGV[6]) == 1 then
    return 0
  end
  local out = redis.call('zcard', ARGV[6])
  redis.call('del', ARGV[6])
  redis.call('incrby', KEYS[1], out)
  publish(ARGV[3], out)
  return 1
end

local mode = redis.call('hget', KEYS[1], 'mode')
local head
local time = redis.call('time')
local waiters = redis.pcall('lrange', ARGV[4], 0, 31)
for i = 1, #waiters do -- an error has no elements
  local score = tonumber(redis.pcall('zscore', ARGV[5], waiters[i]) or 0)
  if not head and score and score > time[1] * 1000 then
    head = waiters[i]
  end
end
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
if mode then
  -- Redisson's readers publish 0 and its writers 1, for the same waiters.
  publish(ARGV[2], mode == 'write' and '1' or '0')
end
if head then
  publish(ARGV[1] .. ':' .. head, '0')
end
publish(ARGV[1], '0') -- plain waiters, too, see a read/write lock as held
return 1
