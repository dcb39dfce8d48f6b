#!lua flags=allow-oom
-- gap: writes down that an operator accepted the loss of ledger entries, with
-- what the counters had moved that no entry says. It moves no counter.
--
-- Guarantee: written only while the caller's own fence stands, so nothing has
-- moved since the cut that the moves were worked out from.
--
-- KEYS[1] revoked:{p}   KEYS[2] epoch:{p}   KEYS[3] outbox:{p}
-- ARGV[1] the fence   ARGV[2] moves, one word a limit
-- ARGV[3] detail, JSON   ARGV[4] subject line of the entry (README.md)
--
-- Outcomes: unavailable, why | written
local revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 3)
local fence, moves, detail, subject = unpack(ARGV, 1, 4)

--include now

if redis.call('HGET', revoked_key, 'fence') ~= fence then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local _, now_text = now()

-- writes
redis.call('XADD', outbox_key, '*', 'e', '1 gap ' .. now_text .. ' -\n' .. moves .. '\n' .. detail .. '\n' .. subject)
return {'written'}
