-- Removes a reader's hold, or its write hold if Lower has not run. The last reader
-- frees the lock and wakes waiters, and so does one that all others end sooner than.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  sentinel of the owner
-- KEYS[3]  under a minimum hold: sentinel of the field that keeps the lock
-- ARGV[1]  owner
-- ARGV[2]  channel on which waiters listen
-- ARGV[3]  how to publish; see publish.lua
-- ARGV[4]  prefix of sentinels
-- ARGV[5]  under a minimum hold: the field that keeps the lock, instead of none; and
-- ARGV[6]  for how many ms. Who waits is woken all the same: the TTL may be cut
--
-- Returns  1  done
--          0  the owner has no hold. What a hold that expired has left behind
--             is removed all the same.
--
-- While readers remain, the lock expires with the last of them, as far as that
-- can be found out with a look at maxLook of them. Among many readers a few tell
-- enough: one that lives rules out that the lock is free, and its TTL belongs to
-- somebody else if that is longer than the owner's hold, or if another lasts as
-- long. It works when Redis is out of memory: HDEL or DEL come first.

local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
if fields[1] == 'write' and fields[3] then
  stopWriting(ARGV[1] .. ':write', ARGV[5] and ARGV[5] .. ':write', ARGV[6], ARGV[2], ARGV[3])
  return 1
end
if fields[1] ~= 'read' or not fields[2] then
  redis.call('del', KEYS[2]) -- a hold that was forced may have left it
  return 0
end
local lasts = redis.call('pttl', KEYS[2])
local alive = lasts ~= -2 and 1 or 0

-- How long the lock must last is found out before anything is changed.
local kept = ARGV[5] and alive == 1
local longest, known, pttl = kept and tonumber(ARGV[6]) or 0, true, 0
local few, slack = 5, 5 -- fields; ms by which TTLs differ that were set together
local dead = {} -- readers that were seen to have ended: nobody else removes them while others read

-- looks at some of the others; true if that is enough.
local function look(most)
  local some, all = readers(most)
  known = all
  for _, reader in ipairs(some) do
    if reader[1] ~= ARGV[1] then
      local ms = left(ARGV[4], reader[1], reader[2])
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

if redis.call('hlen', KEYS[1]) > 2 then -- nearly always, the owner reads alone
  pttl = redis.call('pttl', KEYS[1])
  if not look(few) then
    look(maxLook + 2)
  end
elseif kept then
  pttl = redis.call('pttl', KEYS[1])
end

local freed, cut = known and longest == 0, known and longest + slack < pttl
if freed then
  redis.call('del', KEYS[1], KEYS[2]) -- with the dead readers in it
else
  redis.call('hdel', KEYS[1], ARGV[1])
  for _, reader in ipairs(dead) do
    redis.call('hdel', KEYS[1], reader)
  end
  if known or pttl >= 0 and longest > pttl then
    redis.call('pexpire', KEYS[1], longest)
  end
  redis.call('del', KEYS[2])
end
if kept then
  redis.call('hset', KEYS[1], ARGV[5], '1')
  redis.call('set', KEYS[3], '1', 'px', ARGV[6])
end
if freed or kept or cut then -- who waits sleeps no longer than the TTL that it saw
  publish(ARGV[2], '0', ARGV[3])
end
return alive
