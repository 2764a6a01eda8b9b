-- Lowers the owner's hold count, or removes the hold and wakes a waiter.
--
-- KEYS[1]  the lock, a hash {owner: hold count}
-- ARGV[1]  owner
-- ARGV[2]  hold count that remains, absolute; 0 removes the hold
-- ARGV[3]  channel on which waiters listen; not a key, as a second key would
--          make releases fail while the slot migrates
-- ARGV[4]  commands to publish with, separated by spaces
-- ARGV[5]  key of the owner's first read hold, if it has one
--
-- Returns  1  done, or nothing to do: the count is not above what remains
--          0  the owner has no hold
--
-- A read hold has the same field as a plain one. It is told apart by its
-- sentinel key, which is not declared: it is looked at only beside the field
-- "mode", and where it cannot be seen, the hold is taken for a plain one.
--
-- It works when Redis is out of memory: HDEL and DEL always may, and HSET may
-- once the script has written. That is what deleting a field that cannot exist
-- is for. ("#!lua flags=allow-oom" says the same, but not before Redis 7.)

local lock, owner, remain = KEYS[1], ARGV[1], tonumber(ARGV[2])

local count = redis.call('hget', lock, owner)
if not count then
  return 0
end
if ARGV[5] ~= '' and redis.call('hexists', lock, 'mode') == 1
  and redis.pcall('exists', ARGV[5]) == 1 then
  return 0
end

if remain > 0 then
  if tonumber(count) > remain then
    redis.call('hdel', lock, '')
    redis.call('hset', lock, owner, remain)
  end
  return 1
end

-- The lock must not be looked at after it is gone: while its slot migrates,
-- that is an access to a key of another node, and fails with half of the work
-- done.
local others = redis.call('hlen', lock) - 1
if others == 1 and redis.call('hexists', lock, 'mode') == 1 then
  others = 0 -- a Redisson reader overlooked this lock, came in, and left
end
if others > 0 then
  redis.call('hdel', lock, owner)
else
  redis.call('del', lock)
  for command in string.gmatch(ARGV[4], '%a+') do
    redis.call(command, ARGV[3], '0')
  end
end
return 1
