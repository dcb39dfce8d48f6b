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

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end

if redis.call('HGET', revoked_key, 'fence') ~= fence then
  return {'unavailable', 'fenced'}
elseif redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local _, now_text = now()

-- writes
redis.call('XADD', outbox_key, '*', 'e', '1 gap ' .. now_text .. ' -\n' .. moves .. '\n' .. detail .. '\n' .. subject)
return {'written'}
