-- Grants the lock to the head of its queue, or re-enters it; everybody else
-- is queued.
--
-- KEYS     as in fair.lua
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have, 1 or more; absolute
-- ARGV[3]  TTL in ms
-- ARGV[4]  how long the owner means to wait, in ms; 0 takes no place
-- ARGV[5]  how long a free lock is kept for the head, in ms
-- ARGV[6]  channels of the queue, without the owner they end with
-- ARGV[7]  commands to publish with, separated by spaces
-- ARGV[8]  name of the owner in the queue; see fair.lua
--
-- Returns   > 0          granted; the number is the fence
--             0          not granted: the claim re-enters (count > 1) a hold
--                        that the owner does not have
--            -1          busy, and the hold in the way has no expiry
--            -2 - ms     busy for so long: the hold, or the turn of another
--
-- An owner to whom the lock may be given gets {busy as above, clock}: fences of
-- later grants are larger than that clock.
--
-- Repeated by an owner that has the lock, it lowers neither count nor TTL; by one in
-- the queue, it changes nothing. Only that a place that is about to be given
-- up is kept, as its owner is there.

local owner, holds, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local wait, grace, name = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[8]

local pttl = redis.call('pttl', lock)
local free = pttl == -2
local fence = time[1] * 1000000 + time[2]

if not free then
  local fields = redis.call('hmget', lock, owner, 'mode')
  if fields[1] and not fields[2] then
    redis.call('hset', lock, owner, math.max(holds, tonumber(fields[1])))
    if ttl > pttl then
      redis.call('pexpire', lock, ttl)
    end
    return fence
  end
end
if holds > 1 then
  return 0
end

local place = redis.call('zscore', patience, name)
if place and wait > 0 and place - now < wait / 2 then
  redis.call('zadd', patience, now + wait, name)
end
local head, removed = purge()

if free and (not head or head == name) then
  if head then
    serve(name, wait)
  end
  redis.call('hset', lock, owner, holds)
  redis.call('pexpire', lock, ttl)
  return fence
end

if wait > 0 and not redis.call('zscore', patience, name) then
  local ahead = pttl
  local last = redis.call('lindex', queue, -1)
  local score = last and redis.call('zscore', patience, last)
  if score then
    ahead = score - now
  end
  redis.call('zadd', patience, math.max(ahead, 0) + wait + now, name)
  redis.call('rpush', queue, name)
end

local function busy(n)
  return name == owner and n or {n, fence}
end

if not free then
  return busy(pttl < 0 and -1 or -2 - pttl)
end

-- The lock is free and its head does not come. Redisson waits for the head's
-- patience to end, which can be minutes.
local turn = tonumber(redis.call('zscore', patience, head) or now)
if turn > now + grace then
  turn = now + grace
  redis.call('zadd', patience, turn, head)
end
if removed > 0 then
  wake(head, ARGV[6], ARGV[7]) -- it does not know that it is its turn
end
return busy(-2 - math.max(turn - now, 0))
