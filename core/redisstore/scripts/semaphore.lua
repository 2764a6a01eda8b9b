-- What the scripts of semaphores and of inspections have in common. It is put in front
-- of each, behind publish.lua.
--
-- KEYS     none

-- whether a string is a number of permits, an integer of 32 bits, and not a token of the
-- SETNX format.
local function isNumber(text)
  return #text <= 11 and string.match(text, '^%-?%d+$') ~= nil
end
