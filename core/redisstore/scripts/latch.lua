-- What scripts of a latch begin with.
--
-- KEYS[1]  the latch: what is left to count, a whole number; without one above zero it is
--          open

local notALatch = 'WRONGTYPE the key holds a string that is no latch'

-- what is left to count, or nil if the key holds something else, which Lua may read as a
-- number; and whether there is a key.
local function counted()
  local text = redis.call('get', KEYS[1])
  if text and not (string.find(text, '^%-?[1-9]%d*$') and #text < 20 or text == '0') then
    return nil, true
  end
  return tonumber(text or 0), text ~= false
end

