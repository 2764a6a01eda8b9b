-- What scripts that wake somebody begin with.
--
-- KEYS     none
--
-- how is the command to publish with: publish, spublish or both.

local function publish(channel, message, how)
  if how ~= 'spublish' then
    redis.call('publish', channel, message)
  end
  if how ~= 'publish' then
    redis.call('spublish', channel, message)
  end
end
