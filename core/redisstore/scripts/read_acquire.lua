-- Lets a reader in, or re-enters, unless somebody else writes.
--
-- KEYS[1]      the lock, see readwrite.lua
-- KEYS[1 + n]  sentinel of the owner's n-th read hold, up to ARGV[2]
-- ARGV[1]      owner
-- ARGV[2]      hold count the owner shall have, 1 or more; absolute
-- ARGV[3]      TTL in ms, for the last of the holds
-- ARGV[4]      prefix of sentinels
--
-- Returns   as acquire.lua
--
-- A hash without "mode" is a plain lock, held by somebody else. A writer may
-- read. An owner whose sentinels are all gone had a hold, and has none now. A
-- claim that arrives late lowers neither count nor TTL: a sentinel beyond the
-- count would no longer be looked at.

local owner, holds, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local pttl = redis.call('pttl', lock)
local mode, own, writes = unpack(redis.call('hmget', lock, 'mode', owner, owner .. ':write'))

local mine = mode and own and left(ARGV[4], owner, tonumber(own)) ~= 0
if holds > 1 and not mine then
  return 0
end
if pttl ~= -2 and not (mode == 'read' or mode == 'write' and writes) then
  if pttl < 0 then
    return -1
  end
  return -2 - pttl
end

local sentinel = KEYS[1 + holds]
local lasts = mine and math.max(ttl, redis.call('pttl', sentinel)) or ttl
redis.call('set', sentinel, '1', 'px', lasts)
if not mode then
  redis.call('hset', lock, 'mode', 'read')
end
redis.call('hset', lock, owner, mine and math.max(holds, tonumber(own)) or holds)
if ttl > pttl then
  redis.call('pexpire', lock, ttl)
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
