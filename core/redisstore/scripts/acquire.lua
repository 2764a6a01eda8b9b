-- Grants the lock, or re-enters it, unless another owner has it.
--
-- KEYS[1]  the lock: a hash {owner: hold count}, as Redisson's getLock writes
-- ARGV[1]  owner
-- ARGV[2]  hold count the owner shall have, 1 or more; absolute, so that a
--          repetition changes nothing
-- ARGV[3]  TTL in ms
--
-- Returns   > 0          granted; the number is the fence
--             0          not granted: the claim re-enters (count > 1) a hold
--                        that the owner does not have
--            -1          busy, and the hold in the way has no expiry
--            -2 - pttl   busy for pttl more ms
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

if not mine or mine < tonumber(ARGV[2]) then -- a claim that is late lowers nothing
  redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
end
if tonumber(ARGV[3]) > pttl then -- never shortens; a key without expiry gets one
  redis.call('pexpire', KEYS[1], ARGV[3])
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
