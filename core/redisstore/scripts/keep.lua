-- What releases of a hash do under a minimum hold: nobody has the lock then, and
-- everybody finds it held until that ends. It is put in front of each.
--
-- KEYS[1]  the lock, a hash

-- lets a field go on for ms under the name of kept, which no owner has. The TTL is
-- cut to that unless others have the lock as well. The hash always has a field.
-- It works when Redis is out of memory; see release.lua.
local function keep(field, kept, ms, others)
  redis.call('hdel', KEYS[1], '')
  redis.call('hset', KEYS[1], kept, '1')
  redis.call('hdel', KEYS[1], field)
  if not others then
    redis.call('pexpire', KEYS[1], ms)
  end
end
