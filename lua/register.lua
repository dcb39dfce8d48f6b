#!lua
-- register: writes down that an agent exists, unless an ancestor is revoked.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] outbox:{p}
-- ARGV[1] subject line of the entry (README.md)   ARGV[2] detail, JSON
-- ARGV[3..] the ancestors
--
-- Outcomes: unavailable | revoked | registered
local revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 3)
local subject, detail = ARGV[1], ARGV[2]
local ancestors = {unpack(ARGV, 3)}

--include now

local gone = redis.call('HMGET', revoked_key, 'fence', unpack(ancestors))
if gone[1] then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
for i = 2, #ancestors + 1 do
  if gone[i] then
    return {'revoked'}
  end
end
local _, now_text = now()

-- writes
redis.call('XADD', outbox_key, '*', 'e', '1 agent_registered ' .. now_text .. ' -\n\n' .. detail .. '\n' .. subject)
return {'registered'}
