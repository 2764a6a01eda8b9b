-- Lowers a reader's hold count, or removes its hold. The last reader frees the
-- lock and wakes waiters, and so does one that all others end sooner than.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  sentinel of the owner
-- KEYS[3]  under a minimum hold: sentinel of the field that keeps the lock
-- ARGV[1]  owner
-- ARGV[2]  hold count that remains, absolute; 0 removes the hold
-- ARGV[3]  prefix of sentinels
-- ARGV[4]  channel on which waiters listen
-- ARGV[5]  how to publish; see publish.lua
-- ARGV[6]  under a minimum hold: the field that keeps the lock, instead of none; and
-- ARGV[7]  for how many ms. Who waits is woken all the same: the TTL may be cut
--
-- Returns  1  done, or nothing to do: the count is not above what remains
--          0  the owner has no hold. What a hold that expired has left behind
--             is removed all the same.
--
-- While readers remain, the lock expires with the last of them, as far as that
-- can be found out with a look at maxLook of them. Among many readers a few tell
-- enough: one that lives rules out that the lock is free, and its TTL belongs to
-- somebody else if that is longer than the owner's hold, or if another lasts as
-- long. It works when Redis is out of memory: HDEL or DEL come first.

local remain = tonumber(ARGV[2])
local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1])
local mode, own = fields[1], fields[2]
if not mode or not own then
  if remain == 0 then
    redis.call('del', KEYS[2]) -- a hold that was forced may have left it
  end
  return 0
end
local lasts = redis.call('pttl', KEYS[2])
local alive = lasts ~= -2 and 1 or 0
if alive == 1 and remain > 0 then
  if tonumber(own) > remain then
    redis.call('hdel', KEYS[1], '')
    redis.call('hset', KEYS[1], ARGV[1], remain)
  end
  return 1
end

-- How long the lock must last is found out before anything is changed.
local kept = ARGV[6] and alive == 1
local longest, known, pttl = kept and tonumber(ARGV[7]) or 0, true, 0
local few, slack = 5, 5 -- fields; ms by which TTLs differ that were set together
local dead = {} -- readers that were seen to have ended: nobody else removes them while others read

-- looks at some of the others; true if that is enough.
local function look(most)
  local some, all = readers(most)
  known = all
  for _, reader in ipairs(some) do
    if reader[1] ~= ARGV[1] then
      local ms = left(ARGV[3], reader[1], reader[2])
      longest, known = math.max(longest, ms), known and ms >= 0
      if ms == 0 then
        dead[#dead + 1] = reader[1]
      end
      if ms ~= 0 and not all and pttl >= 0 and (lasts + slack < pttl or longest + slack >= pttl) then
        return true
      end
    end
  end
  return all
end

if mode == 'read' and redis.call('hlen', KEYS[1]) > 2 then -- nearly always, the owner reads alone
  pttl = redis.call('pttl', KEYS[1])
  if not look(few) then
    look(maxLook + 2)
  end
elseif kept then
  pttl = redis.call('pttl', KEYS[1])
end

local freed = mode == 'read' and known and longest == 0
local cut = mode == 'read' and known and longest + slack < pttl
if freed then
  redis.call('del', KEYS[1], KEYS[2]) -- with the dead readers in it
else
  redis.call('hdel', KEYS[1], ARGV[1])
  for _, reader in ipairs(dead) do
    redis.call('hdel', KEYS[1], reader)
  end
  if mode == 'read' and known or pttl >= 0 and longest > pttl then
    redis.call('pexpire', KEYS[1], longest)
  end
  redis.call('del', KEYS[2])
end
if kept then
  redis.call('hset', KEYS[1], ARGV[6], '1')
  redis.call('set', KEYS[3], '1', 'px', ARGV[7])
end
if freed or kept or cut then -- who waits sleeps no longer than the TTL that it saw
  publish(ARGV[4], '0', ARGV[5])
end
return alive
