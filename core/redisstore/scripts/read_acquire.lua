-- Lets a reader in unless somebody else writes.
--
-- KEYS[1]  the lock, see readwrite.lua
-- KEYS[2]  sentinel of the owner
-- ARGV[1]  owner
-- ARGV[2]  TTL in ms
--
-- Returns   as acquire.lua
--
-- A hash without "mode" is a plain lock, held by somebody else. An owner that still
-- writes, as Lower has not run, goes on writing. An owner whose sentinel is gone had a
-- hold, and has none now. A repetition may lengthen the TTL, and changes nothing else.

local ttl = tonumber(ARGV[2])
local pttl = redis.call('pttl', KEYS[1])
local mode, own, writes
local lasts = -2
if pttl ~= -2 then
  lasts = redis.call('pttl', KEYS[2])
  local fields = redis.call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
  mode, own, writes = fields[1], fields[2], fields[1] == 'write' and fields[3]
end
if pttl ~= -2 and mode ~= 'read' and not writes then
  return -2 - pttl
end

if not writes and not (own and lasts ~= -2) then
  redis.call('set', KEYS[2], '1', 'px', ttl)
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], '1')
elseif not writes and ttl > lasts then
  redis.call('pexpire', KEYS[2], ttl)
end
if ttl > pttl then
  redis.call('pexpire', KEYS[1], ttl)
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
