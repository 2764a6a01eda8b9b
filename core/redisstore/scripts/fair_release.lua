-- Removes the owner's hold, hands the lock to the head of the queue if that is one of
-- ours, and wakes it. An owner without a hold leaves the queue.
--
-- KEYS     as in fair.lua
-- ARGV[1]  owner
-- ARGV[2]  the owner's place
-- ARGV[3]  channels of the queue, without what they end with
-- ARGV[4]  how to publish; see publish.lua
-- ARGV[5]  under a minimum hold: the field that keeps the lock, instead of none; and
-- ARGV[6]  for how many ms. Then the head is woken, but it does not have the lock
--
-- Returns  1  done
--          0  the owner has no hold. Redisson says done if nobody has one.
--
-- It works when Redis is out of memory; see release.lua. The owner leaves the
-- queue in any case: a call that arrived late may have queued it once more. The
-- queue is looked at before the hold is removed, and nothing after that. A lock
-- that is handed over is never without a field, and so never gone. The hold of the
-- new owner is short and counts 0, and its place stays for as long, until an acquire
-- of its locker finds it: its owner may be dead, or not the first of its locker.
--
-- A release of a hold that has expired wakes the head as well, which may not
-- know that the lock is free. When nobody queues, claims of other modes are woken,
-- on the plain lock's channel: that of the queue without its colon.

local fields = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
local held = fields[1]

local head = first()
local now
if head then
  now = clock()
  local second = head == ARGV[2] and redis.call('lindex', KEYS[2], 1) -- before the queue may be gone
  if leave(ARGV[2]) and head == ARGV[2] then
    head = second
  end
  head = purge(head, now)
end
if held then
  local others = redis.call('hlen', KEYS[1]) - 1
  if others == 1 and fields[2] then
    others = 0 -- a Redisson reader overlooked this lock, came in, and left
  end
  if others > 0 then
    redis.call('hdel', KEYS[1], ARGV[1])
    return 1
  end
  local successor = head and not fields[2] and ours(head)
  if ARGV[5] then
    keep(ARGV[1], ARGV[5], ARGV[6])
  elseif successor then
    redis.call('zadd', KEYS[3], now + grace, head)
    redis.call('hset', KEYS[1], successor, 0)
    redis.call('hdel', KEYS[1], ARGV[1])
    redis.call('pexpire', KEYS[1], grace)
  else
    redis.call('del', KEYS[1])
  end
end
if not head then
  if held then
    publish(string.sub(ARGV[3], 1, -2), '0', ARGV[4])
  end
elseif held or redis.call('exists', KEYS[1]) == 0 then
  wake(head, ARGV[3], ARGV[4])
end
return held and 1 or 0
