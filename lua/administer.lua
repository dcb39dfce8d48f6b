#!lua flags=allow-oom
-- administer: writes down what an operator or admin has done that has no entry
-- of its own. It is a log of actions: the same one again is written again.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] outbox:{p}
-- ARGV[1] subject line of the entry (README.md)   ARGV[2] detail, JSON
--
-- Outcomes: unavailable | administered
local revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 3)
local subject, detail = ARGV[1], ARGV[2]

--include now

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local _, now_text = now()

-- writes
redis.call('XADD', outbox_key, '*', 'e', '1 administered ' .. now_text .. ' -\n\n' .. detail .. '\n' .. subject)
return {'administered'}
