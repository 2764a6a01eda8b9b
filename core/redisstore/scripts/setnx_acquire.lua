-- Grants a lock of the SETNX format, or lengthens it for its owner, unless
-- somebody else has it.
--
-- KEYS[1]  the lock: a string, the token of its owner
-- ARGV[1]  token
-- ARGV[2]  TTL in ms
--
-- Returns   as acquire.lua
--
-- A repetition finds its own token and is granted again. A key of another type
-- is a lock of another format: busy. A server whose memory is full refuses SET before it
-- looks at the key: that is the answer only if the key is free.

local set = redis.pcall('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])
if set and set.err and not string.find(set.err, 'OOM', 1, true) then
  return set
end
if not set or set.err then
  local pttl = redis.call('pttl', KEYS[1])
  if set and pttl == -2 then
    return set
  end
  if redis.pcall('get', KEYS[1]) ~= ARGV[1] then
    return -2 - pttl
  end
  if tonumber(ARGV[2]) > pttl then -- never shortens; a key without expiry gets one
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
