-- Lengthens the TTL of a lock of the SETNX format if it has the owner's token.
-- Never shortens it.
--
-- KEYS[1]  the lock, a string
-- ARGV[1]  token
-- ARGV[2]  TTL in ms
--
-- Returns  1  renewed
--          0  the owner does not have the lock
--
-- PEXPIRE may run when Redis is out of memory.

if redis.pcall('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(ARGV[2]) > redis.call('pttl', KEYS[1]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
