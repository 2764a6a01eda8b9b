-- Lengthens the TTL of a read hold whose owner still has it, or of its write hold if
-- Lower has not run. Never creates a hold, never shortens one, and never keeps another
-- owner's.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  sentinel of the owner; left out while the slot migrates and they are not in
--          one place: then only a write hold is renewed
-- ARGV[1]  owner
-- ARGV[2]  TTL in ms
--
-- Returns  1  renewed
--          0  not held by that owner
--
-- PEXPIRE and DEL may run when Redis is out of memory.

local ttl = tonumber(ARGV[2])
local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
if fields[1] ~= 'write' or not fields[3] then
  if not KEYS[2] then
    return redis.error_reply('TRYAGAIN the sentinel is in another place')
  end
  local lasts = redis.call('pttl', KEYS[2])
  if not fields[1] or not fields[2] or lasts == -2 then
    redis.call('del', KEYS[2]) -- without its reader it means nothing, and nobody else removes it
    return 0
  end
  if ttl > lasts then
    redis.call('pexpire', KEYS[2], ttl)
  end
end
if ttl > redis.call('pttl', KEYS[1]) then
  redis.call('pexpire', KEYS[1], ttl)
end
return 1
