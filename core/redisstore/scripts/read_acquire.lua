-- Lets a reader in, or re-enters, unless somebody else writes.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  sentinel of the owner
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have, 1 or more; absolute
-- ARGV[3]  TTL in ms
--
-- Returns   as acquire.lua
--
-- A hash without "mode" is a plain lock, held by somebody else. A writer may
-- read. An owner whose sentinel is gone had a hold, and has none now. A claim
-- that arrives late lowers neither count nor TTL.

local holds, ttl = tonumber(ARGV[2]), tonumber(ARGV[3])
local pttl = redis.call('pttl', KEYS[1])
local mode, own, writes
local lasts = -2
if pttl ~= -2 then
  lasts = redis.call('pttl', KEYS[2])
  local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
  mode, own, writes = fields[1], fields[2], fields[3]
end

local mine = mode and own and lasts ~= -2
if holds > 1 and not mine then
  return 0
end
if pttl ~= -2 and not (mode == 'read' or mode == 'write' and writes) then
  if pttl < 0 then
    return -1
  end
  return -2 - pttl
end

if not mine or ttl > lasts then
  redis.call('set', KEYS[2], '1', 'px', ttl)
end
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], holds)
elseif not mine or tonumber(own) < holds then
  redis.call('hset', KEYS[1], ARGV[1], holds)
end
if ttl > pttl then
  redis.call('pexpire', KEYS[1], ttl)
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
