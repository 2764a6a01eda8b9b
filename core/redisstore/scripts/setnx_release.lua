-- Deletes a lock of the SETNX format if it has the owner's token, and wakes
-- waiters.
--
-- KEYS[1]  the lock, a string
-- ARGV[1]  token
-- ARGV[2]  hold count that remains; the format keeps none, so only 0 deletes
-- ARGV[3]  channel on which waiters of this kit listen
-- ARGV[4]  how to publish; see publish.lua
-- ARGV[5]  under a minimum hold: the token that keeps the lock, instead of none; and
-- ARGV[6]  for how many ms. Who waits is woken all the same: the TTL is cut
--
-- Returns  1  done, or nothing to do
--          0  the owner does not have the lock
--
-- It works when Redis is out of memory: PEXPIRE may run, and SET once the script
-- has written.

if redis.pcall('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  if ARGV[5] then
    redis.call('pexpire', KEYS[1], ARGV[6])
    redis.call('set', KEYS[1], ARGV[5], 'px', ARGV[6])
  else
    redis.call('del', KEYS[1])
  end
  publish(ARGV[3], '0', ARGV[4])
end
return 1
