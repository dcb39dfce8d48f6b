#!lua flags=allow-oom
-- expire: ends a hold whose deadline has passed, and later its late window.
--
-- Guarantee: only Redis's clock decides. A hold that expires is withheld for
-- the longest late window of its limits, so that a late settle still finds its
-- money; after a refused overrun the known cost is charged instead. A record
-- that is gone or unreadable is set aside and blocks nobody.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] lapsing:{p}
-- KEYS[3] live:{p} seg(org) seg(holder)    KEYS[4] revoked:{p}
-- KEYS[5] epoch:{p}                        KEYS[6] outbox:{p}
-- KEYS[7] quarantine:{p}                   KEYS[8..] limits, then slots
-- ARGV[1] execution   ARGV[2] holder   ARGV[3] limits line   ARGV[4] slots line
-- ARGV[5] number of limits; then per limit its unit
--
-- Outcomes, first that holds: unavailable | corrupt (set aside) | gone
-- (resolved meanwhile) | keys, record | early | expired, record | lapsed, record
local record_key, lapsing_key, live_key, revoked_key, epoch_key, outbox_key, quarantine_key = unpack(KEYS, 1, 7)
local execution, holder, limits, slots, limit_count = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local limit_units = {unpack(ARGV, 6, 5 + limit_count)}
local limit_keys = {unpack(KEYS, 8, 7 + limit_count)}
local slot_keys = {unpack(KEYS, 8 + limit_count)}

--include now
--include parse_record
--include format_record
--include parse_amounts
--include format_amounts
--include read_limits
--include charged_at_expiry
--include refused_amounts
--include move
--include finish

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
end
local kind = redis.call('TYPE', record_key).ok
local text = kind == 'string' and redis.call('GET', record_key)
if kind == 'none' and redis.call('EXISTS', epoch_key) == 0 then
  return {'unavailable', 'emptied'}
end
local r = text and parse_record(text)
local due = r and (r.state == 'held' and r.deadline or r.state == 'expired' and not charged_at_expiry(r) and r.till)
local now_ms, now_text = now()
local rows, missing = nil, false
if due then
  if r.agent ~= holder or r.limits ~= limits or r.slots ~= slots then
    return {'keys', text}
  elseif tonumber(due) > now_ms then
    return {'early', due}
  end
  rows, missing = read_limits(limit_keys, epoch_key)
  if not rows then
    return {'unavailable', 'emptied'}
  end
end

-- writes
if not r then
  redis.call('ZREM', lapsing_key, execution)
  redis.call('ZREM', live_key, execution)
  redis.call('HSET', quarantine_key, execution, kind == 'none' and 'record_missing' or 'record_corrupt')
  return {'corrupt'}
elseif not due then
  redis.call('ZREM', lapsing_key, execution)
  redis.call('ZREM', live_key, execution)
  return {'gone'}
end
local reserved, units = parse_amounts(r.amounts)
local known = r.state == 'held' and refused_amounts(r, reserved, units)
local window, moves = 0, {}
for _, row in ipairs(rows) do
  window = math.max(window, tonumber(row[8] or '3600000')) -- a missing limit's is not known: the default
end
for i, key in ipairs(limit_keys) do
  local unit, gone = limit_units[i], rows[i].missing
  local terms = gone and '!' or ''
  if r.state == 'expired' then
    terms = terms .. move(key, gone, 'w', 'withheld', '-', reserved[unit])
  else
    terms = terms .. move(key, gone, 'h', 'held', '-', reserved[unit])
    if known then
      terms = terms .. move(key, gone, 's', 'spent', '+', known[unit])
    elseif window > 0 then
      terms = terms .. move(key, gone, 'w', 'withheld', '+', reserved[unit])
    end
  end
  moves[i] = terms
end
local entry = {at = now_text, execution = execution, moves = moves, keep_ms = 2592000000, detail = missing and 'missing' or ''}
if r.state == 'expired' or window == 0 and not known then
  entry.kind = r.state == 'expired' and 'lapsed' or 'expired'
  r.state, r.till, r.resolution = 'lapsed', now_ms .. '', 'expire\t0\t'
elseif known then
  entry.kind = 'expired'
  r.state, r.till, r.resolution = 'expired', now_ms .. '', 'expire\t0\t' .. format_amounts(known, units)
else
  entry.kind = 'expired'
  r.state, r.till, r.resolution = 'expired', (now_ms + window) .. '', 'expire\t1\t'
  entry.next_deadline = r.till
end
return {entry.kind, finish(
  {record = record_key, lapsing = lapsing_key, live = live_key, outbox = outbox_key, slots = slot_keys}, r, entry)}
