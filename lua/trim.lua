#!lua flags=allow-oom
-- trim: remembers how far an outbox is on the ledger, and drops what is.
--
-- Guarantee: nothing is dropped that is not on the ledger. The position never
-- goes back, so a slow second scribe changes nothing. Where Redis knows less
-- than the ledger it has lost writes: the partition is fenced in the same step.
-- The newest entries stay, so that a ledger that lost its tail can be refilled.
--
-- KEYS[1] outbox:{p}   KEYS[2] scribe:{p}   KEYS[3] revoked:{p}   KEYS[4] epoch:{p}
-- ARGV[1] position: outbox id of the last entry on the ledger; '' for none
-- ARGV[2] stream sequence and ARGV[3] hash of the ledger's last entry
-- ARGV[4] outbox id below which entries may go, '' for none
-- ARGV[5] stream sequence that the caller has stored here before; 0 for none
-- ARGV[6] longest time an entry on the ledger is kept, ms
--
-- Outcomes, first that holds: emptied | fenced | stale, stored stream sequence |
-- lost, last outbox id | trimmed, last outbox id
local outbox_key, scribe_key, revoked_key, epoch_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local position, stream_seq, hash, floor = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stored_before, keep_ms = tonumber(ARGV[5]), tonumber(ARGV[6])

--include now
--include last_id
--include is_before

if redis.call('EXISTS', epoch_key) == 0 then
  return {'emptied'}
elseif redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'fenced'}
end
local stored = redis.call('HMGET', scribe_key, 'position', 'stream_seq')
local stored_seq = tonumber(stored[2] or '0')
if stored_seq > tonumber(stream_seq) then
  return {'stale', stored[2]}
end
local last = last_id(outbox_key)
local now_ms = now()
local lost = stored_seq < stored_before or position ~= '' and is_before(last, position)
if not lost and position ~= '' and position ~= (stored[1] or '') then
  lost = #redis.call('XRANGE', outbox_key, position, position) == 0
end
local age = string.format('%.0f-0', now_ms - keep_ms)
if floor == '' or is_before(floor, age) then
  floor = age
end
if position ~= '' and is_before(position, floor) then
  floor = position
end

-- writes
if lost then
  redis.call('HSET', revoked_key, 'fence', 'lost')
  return {'lost', last}
end
if stored_seq < tonumber(stream_seq) or position ~= (stored[1] or '') then
  redis.call('HSET', scribe_key, 'position', position, 'stream_seq', stream_seq, 'hash', hash)
end
if position ~= '' then
  redis.call('XTRIM', outbox_key, 'MINID', '~', floor)
end
return {'trimmed', last}
