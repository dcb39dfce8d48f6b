#!lua flags=allow-oom
-- release: gives back what a reservation holds or withholds.
--
-- Guarantee: each reservation is resolved once. A release that overtakes its
-- reserve leaves a tombstone, so that the reserve is denied when it arrives.
-- After a refused overrun there is a known cost, and release is denied.
--
-- KEYS[1] reservation:{p} seg(execution)   KEYS[2] lapsing:{p}
-- KEYS[3] live:{p} seg(org) seg(holder)    KEYS[4] revoked:{p}
-- KEYS[5] epoch:{p}                        KEYS[6] outbox:{p}
-- KEYS[7..] limits, then slots
-- ARGV[1] execution  ARGV[2] org  ARGV[3] caller  ARGV[4] 1 for an operator
-- ARGV[5] key id     ARGV[6] fingerprint   ARGV[7] guessed holder
-- ARGV[8] guessed limits line   ARGV[9] guessed slots line
-- ARGV[10] tombstone after its head line, or '' where the record must exist
-- ARGV[11] request, for the entry          ARGV[12] number of limits; then per limit its unit
--
-- Outcomes, first that holds: unavailable | absent | corrupt | known, record
-- (resolved, or this key was seen) | keys, record | tombstone | overrun |
-- nothing, record (denied or lapsed) | released, record
local record_key, lapsing_key, live_key, revoked_key, epoch_key, outbox_key = unpack(KEYS, 1, 6)
local execution, org, caller, operator, key_id, fingerprint = unpack(ARGV, 1, 6)
local guess = {holder = ARGV[7], limits = ARGV[8], slots = ARGV[9]}
local tombstone, request, limit_count = ARGV[10], ARGV[11], tonumber(ARGV[12])
local limit_units = {unpack(ARGV, 13, 12 + limit_count)}
local limit_keys = {unpack(KEYS, 7, 6 + limit_count)}
local slot_keys = {unpack(KEYS, 7 + limit_count)}

--include now
--include parse_record
--include format_record
--include parse_amounts
--include may_resolve
--include find_record
--include read_limits
--include charged_at_expiry
--include move
--include finish

if redis.call('HEXISTS', revoked_key, 'fence') == 1 then
  return {'unavailable', 'fenced'}
end
local r, outcome = find_record(record_key, epoch_key,
  {org = org, caller = caller, operator = operator, key_id = key_id}, guess)
local overtakes = not r and outcome[1] == 'absent' and tombstone ~= '' and redis.call('EXISTS', record_key) == 0
if not r and not overtakes then
  return outcome
elseif r and r.state == 'tombstone' then
  return {'tombstone'}
elseif r and (charged_at_expiry(r) or string.find(r.attempts, '\tsettle\t', 1, true)) then
  return {'overrun', format_record(r)}
elseif r and r.state == 'lapsed' then
  return {'nothing', format_record(r)}
end
local rows, missing = nil, false
if r then
  rows, missing = read_limits(limit_keys, epoch_key)
  if not rows then
    return {'unavailable', 'emptied'}
  end
end
local now_ms, now_text = now()

-- writes
if overtakes then
  redis.call('SET', record_key, '1 tombstone ' .. now_text .. ' ' .. now_ms .. ' ' .. now_ms .. '\n' .. tombstone,
    'PX', 3600000)
  return {'tombstone'}
end
local reserved = parse_amounts(r.amounts)
local letter, field = 'h', 'held'
if r.state == 'expired' then
  letter, field = 'w', 'withheld'
end
local moves = {}
for i, key in ipairs(limit_keys) do
  local gone = rows[i].missing
  moves[i] = (gone and '!' or '') .. move(key, gone, letter, field, '-', reserved[limit_units[i]])
end
r.resolution = table.concat({'release', key_id, fingerprint, r.state, missing and '1' or '0'}, '\t')
r.state, r.till = 'released', now_ms .. ''
return {'released', finish(
  {record = record_key, lapsing = lapsing_key, live = live_key, outbox = outbox_key, slots = slot_keys}, r,
  {kind = 'released', at = now_text, execution = execution, moves = moves, detail = request, keep_ms = 86400000})}
