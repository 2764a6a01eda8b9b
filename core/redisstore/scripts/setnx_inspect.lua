-- Reads a lock of the SETNX format.
--
-- KEYS[1]  the lock, a string
--
-- Returns  {'token', pttl, {token, '1'}, {}, 0, 0}, in the shape of inspect.lua
--          {type, pttl, {}, {}, 0, 0} of a key that is free ('none') or has
--          another type

local kind = redis.call('type', KEYS[1]).ok
local pttl = redis.call('pttl', KEYS[1])
if kind == 'string' then
  return {'token', pttl, {redis.call('get', KEYS[1]), '1'}, {}, 0, 0}
end
return {kind, pttl, {}, {}, 0, 0}
