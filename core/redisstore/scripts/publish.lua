-- What scripts that wake somebody begin with.
--
-- KEYS     none
--
-- how is the command to publish with: publish, spublish or both. A server that refuses
-- SPUBLISH, as it is too old or does not permit it, gets PUBLISH.

local function publish(channel, message, how)
  local refused = how ~= 'publish' and type(redis.pcall('spublish', channel, message)) == 'table'
  if how ~= 'spublish' or refused then
    redis.call('publish', channel, message)
  end
end

