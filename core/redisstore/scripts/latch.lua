-- What scripts of a latch begin with.
--
-- KEYS[1]  the latch: what is left to count, a whole number; without one above zero it is
--          open

local notALatch = 'WRONGTYPE the key holds a string that is no latch'

-- what is left to count, or nil if the key holds something else, which Lua may read as a
-- number; and whether there is a key.
local function counted()
  local text = redis.call('get', KEYS[1])
  local digits = text and string.match(text, '^%-?([1-9]%d*)$')
  if text and text ~= '0' and (not digits or #digits > 19) then -- 19 are those of Java's long
    return nil, true
  end
  return tonumber(text or 0), text ~= false
end

