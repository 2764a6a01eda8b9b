-- Removes the owner's hold and wakes a waiter.
--
-- KEYS[1]  the lock, a hash {owner: hold count}
-- ARGV[1]  owner
-- ARGV[2]  channel on which waiters listen; not a key, as a second key would
--          make releases fail while the slot migrates
-- ARGV[3]  how to publish; see publish.lua
-- ARGV[4]  under a minimum hold: the field that keeps the lock, instead of none; and
-- ARGV[5]  for how many ms. Who waits is woken all the same: the TTL is cut
--
-- Returns  2 + n  done, and n connections have heard that
--          1      done, and nobody knows who has heard it
--          0      the owner has no hold
--
-- It works when Redis is out of memory: HDEL and DEL always may, and HSET may
-- once the script has written. That is what deleting a field that cannot exist
-- is for. ("#!lua flags=allow-oom" says the same, but not before Redis 7.)

-- Nearly always, the owner is alone in the lock.
if not ARGV[4] and redis.call('hlen', KEYS[1]) == 1 then
  if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
  end
  return 2 + (publish(ARGV[2], '0', ARGV[3]) or -1)
end

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end

-- The lock must not be looked at after it is gone: while its slot migrates,
-- that is an access to a key of another node, and fails with half of the work
-- done.
local others = redis.call('hlen', KEYS[1]) - 1
if others == 1 and redis.call('hexists', KEYS[1], 'mode') == 1 then
  others = 0 -- a Redisson reader overlooked this lock, came in, and left
end
if ARGV[4] then
  keep(ARGV[1], ARGV[4], ARGV[5], others > 0)
elseif others > 0 then
  redis.call('hdel', KEYS[1], ARGV[1])
  return 1
else
  redis.call('del', KEYS[1])
end
return 2 + (publish(ARGV[2], '0', ARGV[3]) or -1)
