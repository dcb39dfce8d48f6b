#!lua flags=allow-oom
-- settle: books what a reservation really cost and gives the rest back.
--
-- Guarantee: each reservation is resolved once. An overrun books only where
-- every limit of the unit takes it, else nothing moves and the refusal is
-- remembered and written to the ledger. After expiry the cost is always booked.
-- A limit whose hash is gone is skipped and its move marked; it is never made.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] lapsing:{p}
-- KEYS[3] live:{p} seg(org) seg(holder)    KEYS[4] revoked:{p}
-- KEYS[5] epoch:{p}                        KEYS[6] outbox:{p}
-- KEYS[7..] limits, then slots
-- ARGV[1] execution  ARGV[2] org  ARGV[3] caller  ARGV[4] 1 for an operator
-- ARGV[5] key id     ARGV[6] fingerprint   ARGV[7] guessed holder
-- ARGV[8] guessed limits line   ARGV[9] guessed slots line
-- ARGV[10] actual "unit=n unit=n", or "-" ARGV[11] status
-- ARGV[12] dispatched true, false or ''   ARGV[13] final 1 or 0
-- ARGV[14] request, for the entry         ARGV[15] number of limits; then per limit its unit
--
-- Outcomes, first that holds: unavailable | absent | corrupt | known, record
-- (resolved, or this key was seen) | keys, record | unit_unknown, unit |
-- attempts | overrun, record | settled, record | late_settled, record
local record_key, lapsing_key, live_key, revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 6)
local execution, org, caller, operator, key_id, fingerprint = unpack(ARGV, 1, 6)
local guess = {holder = ARGV[7], limits = ARGV[8], slots = ARGV[9]}
local actual, status, dispatched, final, request = unpack(ARGV, 10, 14)
local limit_count = tonumber(ARGV[15])
local limit_units = {unpack(ARGV, 16, 15 + limit_count)}
local limit_keys = {unpack(KEYS, 7, 6 + limit_count)}
local slot_keys = {unpack(KEYS, 7 + limit_count)}

--include now
--include parse_record
--include format_record
--include parse_amounts
--include format_amounts
--include may_resolve
--include find_record
--include read_limits
--include booked_amounts
--include charged_at_expiry
--include overrun_fits
--include move
--include finish

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
end
local r, outcome = find_record(record_key, epoch_key,
  {org = org, caller = caller, operator = operator, key_id = key_id}, guess)
if not r then
  return outcome
elseif r.state == 'tombstone' then
  return {'known', format_record(r)}
end
local reserved, units = parse_amounts(r.amounts)
local booked, unknown, stranger = booked_amounts(reserved, units, actual, status, dispatched, final)
if stranger then
  return {'unit_unknown', stranger}
end
local rows, missing = read_limits(limit_keys, epoch_key)
if not rows then
  return {'unavailable', 'emptied'}
end
local refused = r.state == 'held' and not overrun_fits(rows, limit_units, reserved, booked)
local _, attempt_count = string.gsub(r.attempts, '\n', '')
if refused and attempt_count >= 16 then
  return {'attempts'}
end
local now_ms, now_text = now()
local booked_text = format_amounts(booked, units)

-- writes
if refused then
  local epsilon = {}
  for i, row in ipairs(rows) do
    epsilon[limit_units[i]] = epsilon[limit_units[i]] or row[6] or '0'
  end
  r.attempts = r.attempts .. table.concat({key_id, fingerprint, 'settle', booked_text, r.amounts,
    format_amounts(epsilon, units)}, '\t') .. '\n'
  local text = format_record(r)
  redis.call('SET', record_key, text, 'KEEPTTL')
  redis.call('XADD', outbox_key, '*', 'e',
    '1 overrun_refused ' .. now_text .. ' ' .. execution .. '\n\n' .. request .. '\n' .. text)
  return {'overrun', text}
end
local earlier, moves = charged_at_expiry(r), {}
local late = r.state ~= 'held'
for i, key in ipairs(limit_keys) do
  local unit, gone = limit_units[i], rows[i].missing
  local terms = gone and '!' or ''
  if not late then
    terms = terms .. move(key, gone, 'h', 'held', '-', reserved[unit])
  elseif r.state == 'expired' and not earlier then
    terms = terms .. move(key, gone, 'w', 'withheld', '-', reserved[unit])
  end
  terms = terms .. move(key, gone, 's', 'spent', '+', booked[unit])
  if earlier then
    terms = terms .. move(key, gone, 's', 'spent', '-', earlier[unit])
  end
  moves[i] = terms
end
local before = late and (r.state == 'expired' and not earlier and 'expired' or earlier and 'charged' or 'lapsed') or 'held'
r.resolution = table.concat({'settle', key_id, fingerprint, before, booked_text, earlier and format_amounts(earlier, units) or '-',
  unknown and '1' or '0', missing and '1' or '0'}, '\t')
r.state, r.till = late and 'late_settled' or 'settled', now_ms .. ''
return {r.state, finish(
  {record = record_key, lapsing = lapsing_key, live = live_key, outbox = outbox_key, slots = slot_keys}, r,
  {kind = r.state, at = now_text, execution = execution, moves = moves, detail = request, keep_ms = 86400000})}
