-- Grants the lock unless another owner has it.
--
-- KEYS[1]  the lock: a hash {owner: 1}, as Redisson's getLock writes
-- ARGV[1]  owner
-- ARGV[2]  TTL in ms
--
-- Returns   > 0          granted; the number is the fence
--            -1          busy, and the hold in the way has no expiry
--            -2 - pttl   busy for pttl more ms
--
-- A repetition by the owner is granted again: it may lengthen the TTL, and changes
-- nothing else.
--
-- The fence is the server's clock in microseconds (it fits a double, 53 bits,
-- until the year 2255). Nothing is stored for it, so the hash stays exactly
-- Redisson's and no key outlives its lock. It grows from owner to owner while
-- the clock goes forward, because between two grants lie a release or an
-- expiry and the start of another script. A repetition by the same owner may
-- return a later number than a first reply that was lost; nobody saw that one.
--
-- A hash with the field "mode" is a read/write lock of that name: held by
-- somebody else, whatever fields it has.

if not mine then
  redis.call('hset', KEYS[1], ARGV[1], '1')
end
if tonumber(ARGV[2]) > pttl then -- never shortens; a key without expiry gets one
  redis.call('pexpire', KEYS[1], ARGV[2])
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
