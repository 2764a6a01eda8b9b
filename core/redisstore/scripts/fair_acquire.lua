-- Grants the lock to the head of its queue; everybody else is queued. A locker's
-- turn goes to the waiter that calls for it, whichever of its places is the head: the
-- waiter may have lost its place, and got another.
--
-- KEYS     as in fair.lua
-- ARGV[1]  owner
-- ARGV[2]  TTL in ms
-- ARGV[3]  the owner's place
-- ARGV[4]  channels of the queue, without what they end with
-- ARGV[5]  how to publish; see publish.lua
-- ARGV[6]  and on: the places to take or to keep, in order: those of the locker's
--          waiters that are due. That of the owner is among them if it waits
--
-- Returns   > 0          granted; the number is the fence
--           -2           busy, and the hold in the way has no expiry
--           -4 - 2 * ms  busy for so long: the hold, or the turn of another.
--                        Both are one more if a hold or a place of Redisson may
--                        be before the owner: it wakes places, not lockers
--
-- A hold that counts 0 was handed over by a release, and is the locker's turn as
-- well: nobody trusts it yet. Repeated by an owner that has the lock, the
-- call may lengthen the TTL, and changes nothing else.
--
-- The queue expires with the last of its places, and some time for the ones that
-- Redisson adds: nothing that Go made stays.

local most = 10 ^ 14 -- ms for which a queue lasts: Redisson waits for up to 2^63
local ttl = tonumber(ARGV[2])
local pttl = redis.call('pttl', KEYS[1])
local free = pttl == -2
local now, fence = clock()
local mine, holder, handed

if not free then
  local fields = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
  mine = not fields[2] and fields[1]
  if not mine then
    local other = redis.call('hrandfield', KEYS[1], 1, 'withvalues')
    holder = other[1]
    handed = other[2] == '0' and lockerOf(holder .. ':redlatch') == lockerOf(ARGV[3])
  elseif mine == '0' then
    mine, holder, handed = nil, ARGV[1], true
  end
end

-- false if nobody queues, else the head, or true where it does not matter.
local queued = mine or handed or first()

local due = {}
for i = 6, #ARGV do
  if ARGV[i] ~= ARGV[3] or not mine and not handed then
    local till = queued and redis.call('zscore', KEYS[3], ARGV[i])
    if till and tonumber(till) <= now then
      redis.call('zadd', KEYS[3], now + place, ARGV[i]) -- its owner is there
    end
    due[ARGV[i]] = true
  end
end

local head, turn

-- takes the place that is served out of the queue.
local function serve()
  if head and not leave(ARGV[3]) then
    leave(head)
  end
  head = nil
end

if mine then
  if ttl > pttl then
    redis.call('pexpire', KEYS[1], ttl)
  end
else
  if handed then
    head = holder .. ':redlatch'
  else
    head, turn = purge(queued, now)
  end
  mine = handed or free and (not head or lockerOf(head) == lockerOf(ARGV[3]))
  if mine then
    due[ARGV[3]] = nil
    if head and next(due) then -- served last: a queue that is gone may not be looked at
      redis.call('zrem', KEYS[3], '') -- so that the rest works when Redis is out of memory
    else
      serve()
    end
    redis.call('hset', KEYS[1], ARGV[1], 1)
    if handed and holder ~= ARGV[1] then
      redis.call('hdel', KEYS[1], holder)
    end
    redis.call('pexpire', KEYS[1], ttl)
  end
end

-- until when a place of ours lasts, behind places of Redisson of which the longest
-- lasts until then; 0 if there is none.
local function lasting(longest)
  if longest == 0 then
    return now + place
  end
  return math.max(longest, now + wait) + wait
end

-- keeps the places that are due, and shortens the ones of ours that are no longer behind
-- one of Redisson's. It returns until when the longest of those lasts.
local function keepAmongOthers()
  local longest = 0
  for _, name in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
    local till = tonumber(redis.call('zscore', KEYS[3], name) or 0)
    if not ours(name) then
      longest = math.max(longest, till)
    elseif due[name] or longest == 0 and till > now + place then
      redis.call('zadd', KEYS[3], lasting(longest), name)
      due[name] = nil
    end
  end
  return longest
end

local foreign = 0
if next(due) then
  local last = redis.call('lindex', KEYS[2], -1)
  local longest = tonumber(redis.call('zrange', KEYS[3], -1, -1, 'withscores')[2] or 0)
  if longest > 0 and not last then -- without their queue, these are no places
    redis.call('del', KEYS[3])
    longest = 0
  end
  if longest > now + place or last and not ours(last) then -- else the queue has only ours
    foreign = keepAmongOthers()
  end
  local till = lasting(foreign)
  for i = 6, #ARGV do
    if due[ARGV[i]] then
      due[ARGV[i]] = nil
      if not redis.call('zscore', KEYS[3], ARGV[i]) then
        redis.call('rpush', KEYS[2], ARGV[i])
      end
      redis.call('zadd', KEYS[3], till, ARGV[i])
    end
  end
  local lasts = math.min(math.max(till, longest) - now + wait, most)
  redis.call('pexpire', KEYS[2], lasts)
  redis.call('pexpire', KEYS[3], lasts)
end
if mine then
  serve()
  return fence
end

local apart = 0
if foreign > 0 or holder and not string.match(holder, '^%x+%-%x+%-8') then
  apart = 1
end
if not free then
  if pttl < 0 then
    return apart - 2
  end
  return apart - 4 - 2 * math.min(pttl, most)
end

-- The lock is free and its head does not come. Redisson waits for the head's
-- time to end, which can be minutes. The head is woken: it may not know.
if turn > now + grace then
  turn = now + grace
  redis.call('zadd', KEYS[3], turn, head)
end
wake(head, ARGV[4], ARGV[5])
return apart - 4 - 2 * math.max(turn - now, 0)
