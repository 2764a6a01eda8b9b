-- Lowers the owner's hold count, or removes the hold, and gives the lock to the
-- head of the queue if that accepts it, or else wakes it. An owner without a
-- hold leaves the queue.
--
-- KEYS     as in fair.lua
-- ARGV[1]  owner
-- ARGV[2]  hold count that remains, absolute; 0 removes the hold or the place
-- ARGV[3]  how long the owner meant to wait, in ms, if it was queued
-- ARGV[4]  channels of the queue, without the owner they end with
-- ARGV[5]  commands to publish with, separated by spaces
-- ARGV[6]  key of the owner's first read hold, if it has one; see release.lua
-- ARGV[7]  name of the owner in the queue; see fair.lua
-- ARGV[8]  TTL in ms of a hold that is given to the head
--
-- Returns  1  done, or nothing to do: the count is not above what remains
--          0  the owner has no hold. Redisson says done if nobody has one.
--
-- It works when Redis is out of memory; see release.lua. The queue is looked
-- at before the hold is removed, and nothing after that. A lock that is given
-- on is never without a field, and so never gone.
--
-- The head is told the fence of its hold, on the channel that it alone listens
-- to. Its hold is short, in case nobody hears.

local owner, remain, wait = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local name, claimed = ARGV[7], ARGV[8]

local fields = redis.call('hmget', lock, owner, 'mode')
local count = tonumber(fields[1] or 0)
if fields[1] and fields[2] and redis.pcall('exists', ARGV[6]) == 1 then
  count = 0
end

if count > 0 and remain > 0 then
  if count > remain then
    redis.call('hdel', lock, '')
    redis.call('hset', lock, owner, remain)
  end
  return 1
end

if count > 0 then
  local head = purge()
  local others = redis.call('hlen', lock) - 1
  if others == 1 and fields[2] then
    others = 0 -- a Redisson reader overlooked this lock, came in, and left
  end
  if others > 0 then
    redis.call('hdel', lock, owner)
    return 1
  end
  local heir, wished = string.match(head or '', '^(.+):transfer:(%d+)$')
  if heir and heir ~= owner and not fields[2] then
    redis.call('hdel', lock, '')
    redis.call('hset', lock, heir, 1)
    redis.call('hdel', lock, owner)
    redis.call('pexpire', lock, claimed)
    serve(head, tonumber(wished))
    local fence = string.format('%.0f', time[1] * 1000000 + time[2])
    publish(head, fence, ARGV[4], ARGV[5])
    return 1
  end
  redis.call('del', lock)
  if head then
    wake(head, ARGV[4], ARGV[5])
  end
  return 1
end

if remain > 0 then
  return 0
end
local waiters = redis.call('lrange', queue, 0, -1)
local behind = {}
for i = #waiters, 1, -1 do
  if waiters[i] == name then
    local first = i == 1 and redis.call('exists', lock) == 0
    redis.call('zrem', patience, name)
    for _, other in ipairs(behind) do
      local score = redis.call('zscore', patience, other)
      if score and wait > 0 then
        advance(other, tonumber(score), wait)
      end
    end
    redis.call('lrem', queue, 0, name)
    if first and waiters[2] then
      wake(waiters[2], ARGV[4], ARGV[5])
    end
    break
  end
  behind[#behind + 1] = waiters[i]
end
return 0
