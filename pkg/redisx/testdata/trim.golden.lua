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

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end
-- last_id: the last id a stream has given out, also where the entry is gone;
-- 0-0 where there is no stream.
local function last_id(stream_key)
  if redis.call('EXISTS', stream_key) == 0 then
    return '0-0'
  end
  local info = redis.call('XINFO', 'STREAM', stream_key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      return info[i + 1]
    end
  end
  return '0-0'
end
-- is_before: whether a stream id is lower than another.
local function is_before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if a_ms == b_ms then
    return tonumber(a_seq) < tonumber(b_seq)
  end
  return tonumber(a_ms) < tonumber(b_ms)
end

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
