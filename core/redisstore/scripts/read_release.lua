-- Lowers a reader's hold count, or removes its hold. The last reader frees the
-- lock and wakes waiters.
--
-- KEYS[1]      the lock, see readwrite.lua
-- KEYS[1 + n]  sentinel of the owner's n-th read hold, up to ARGV[2] + 1
-- ARGV[1]      owner
-- ARGV[2]      hold count that remains, absolute; 0 removes the hold
-- ARGV[3]      prefix of sentinels
-- ARGV[4]      channel on which waiters listen
-- ARGV[5]      commands to publish with, separated by spaces
--
-- Returns  1  done, or nothing to do: the count is not above what remains
--          0  the owner has no hold. What a hold that expired has left behind
--             is removed all the same.
--
-- What remains lasts as long as the longest of the owner's holds did. While
-- readers remain, the lock expires with the last of them, as far as that can be
-- found out with a look at maxLook of them. It works when Redis is out of
-- memory: HDEL or DEL come first.

local owner, remain, prefix = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local mode, own = unpack(redis.call('hmget', lock, 'mode', owner))
if not mode or not own then
  return 0
end
local count = tonumber(own)
local lasts = left(prefix, owner, count)
if lasts == 0 then
  remain = 0
elseif count <= remain then
  return 1
end

-- How long the lock must last is found out before anything is changed.
local longest, known = 0, true
if mode == 'read' then
  if remain > 0 then
    longest, known = lasts, lasts > 0
  end
  local some, all = readers()
  known = known and all
  for _, reader in ipairs(some) do
    if reader[1] ~= owner then
      local ms = left(prefix, reader[1], reader[2])
      longest, known = math.max(longest, ms), known and ms >= 0
    end
  end
end

if mode == 'read' and known and longest == 0 then
  redis.call('del', lock) -- with the dead readers in it
else
  redis.call('hdel', lock, owner)
end
if remain > 0 then
  redis.call('hset', lock, owner, remain)
  if lasts > 0 then
    redis.call('set', KEYS[1 + remain], '1', 'px', lasts)
  end
end
if longest > 0 and known then
  redis.call('pexpire', lock, longest)
end
for n = remain + 1, lasts > 0 and count or remain do
  redis.pcall('del', prefix .. ':' .. owner .. ':rwlock_timeout:' .. n)
end
if mode == 'read' and known and longest == 0 then
  publish(ARGV[4], '0', ARGV[5])
end
return lasts == 0 and 0 or 1
