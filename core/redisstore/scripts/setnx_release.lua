-- Deletes a lock of the SETNX format if it has the owner's token, and wakes
-- waiters.
--
-- KEYS[1]  the lock, a string
-- ARGV[1]  token
-- ARGV[2]  channel on which waiters of this kit listen
-- ARGV[3]  how to publish; see publish.lua
-- ARGV[4]  under a minimum hold: the token that keeps the lock, instead of none; and
-- ARGV[5]  for how many ms. Who waits is woken all the same: the TTL is cut
--
-- Returns  2 + n  done, and n connections have heard that
--          1      done, and nobody knows who has heard it
--          0      the owner does not have the lock
--
-- It works when Redis is out of memory: PEXPIRE may run, and SET once the script
-- has written.

if redis.pcall('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[4] then
  redis.call('pexpire', KEYS[1], ARGV[5])
  redis.call('set', KEYS[1], ARGV[4], 'px', ARGV[5])
else
  redis.call('del', KEYS[1])
end
return 2 + (publish(ARGV[2], '0', ARGV[3]) or -1)
