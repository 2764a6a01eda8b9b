-- Grants the lock to the head of its queue, or re-enters it; everybody else
-- is queued.
--
-- KEYS     as in fair.lua
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have, 1 or more; absolute
-- ARGV[3]  TTL in ms
-- ARGV[4]  1 if the owner waits; 0 takes no place
-- ARGV[5]  the owner's place
-- ARGV[6]  channels of the queue, without the place they end with
-- ARGV[7]  how to publish; see publish.lua
--
-- Returns   > 0          granted; the number is the fence
--             0          not granted: the claim re-enters (count > 1) a hold
--                        that the owner does not have
--            -1          busy, and the hold in the way has no expiry
--            -2 - ms     busy for so long: the hold, or the turn of another
--
-- Repeated by an owner that has the lock, also by the release of another, it
-- lowers neither count nor TTL; by one in the queue, it renews the place.
--
-- The queue expires with the last of its places, and some time for those that
-- Redisson adds: nothing that Go made stays.

local holds, ttl = tonumber(ARGV[2]), tonumber(ARGV[3])
local pttl = redis.call('pttl', KEYS[1])
local free = pttl == -2
local fence = time[1] * 1000000 + time[2]

if not free then
  local fields = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
  if fields[1] and not fields[2] then
    if tonumber(fields[1]) < holds then
      redis.call('hset', KEYS[1], ARGV[1], holds)
    end
    if ttl > pttl then
      redis.call('pexpire', KEYS[1], ttl)
    end
    return fence
  end
end
if holds > 1 then
  return 0
end

local placed = redis.call('zscore', KEYS[3], ARGV[5])
if placed and tonumber(placed) <= now then
  redis.call('zadd', KEYS[3], now + place, ARGV[5]) -- its owner is there
end
local head, turn = purge()

if free and (not head or head == ARGV[5]) then
  if head then
    serve(head)
  end
  redis.call('hset', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ttl)
  return fence
end

-- until when the longest of Redisson's places before the owner's lasts, 0 if
-- there is none. Places of ours that are behind none get back to a short time.
local function foreign()
  local longest, before = 0, nil
  for _, name in ipairs(redis.call('lrange', KEYS[2], 0, -1)) do
    local till = tonumber(redis.call('zscore', KEYS[3], name) or 0)
    if name == ARGV[5] then
      before = longest
    elseif not ours(name) then
      longest = math.max(longest, till)
    elseif longest == 0 and till > now + place then
      redis.call('zadd', KEYS[3], now + place, name)
    end
  end
  return before or longest
end

if ARGV[4] == '1' then
  local till = now + place
  local last = redis.call('lindex', KEYS[2], -1)
  local longest = tonumber(redis.call('zrange', KEYS[3], -1, -1, 'withscores')[2] or 0)
  if longest > till or last and not ours(last) then -- else the queue has only ours
    local theirs = foreign()
    if theirs > 0 then
      till = math.max(theirs, now + wait) + wait
    end
  end
  redis.call('zadd', KEYS[3], till, ARGV[5])
  if not placed then
    redis.call('rpush', KEYS[2], ARGV[5])
  end
  local lasts = math.max(till, longest) - now + wait
  redis.call('pexpire', KEYS[2], lasts)
  redis.call('pexpire', KEYS[3], lasts)
end

if not free then
  if pttl < 0 then
    return -1
  end
  return -2 - pttl
end

-- The lock is free and its head does not come. Redisson waits for the head's
-- time to end, which can be minutes. The head is woken: it may not know.
if turn > now + grace then
  turn = now + grace
  redis.call('zadd', KEYS[3], turn, head)
end
publish(ARGV[6] .. head, '0', ARGV[7])
return -2 - math.max(turn - now, 0)
