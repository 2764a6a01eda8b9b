-- What releases do with the hold of a writer. It is put in front of each, behind
-- publish.lua and keep.lua.
--
-- KEYS[1]  the lock, see readwrite.lua

-- removes the hold, or lets it go on for ms under the name of kept, and wakes waiters.
-- Redisson publishes "1" alone, which wakes all who sleep, and is missed by who is about
-- to; "0" stays for that one. It returns what publish does.
local function stopWriting(field, kept, ms, channel, how)
  if kept then
    keep(field, kept, ms)
  else
    redis.call('del', KEYS[1])
  end
  local heard = publish(channel, '0', how)
  publish(channel, '1', how)
  return heard
end
