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

-- now: Redis's clock, read once per script. Returns milliseconds as a number,
-- and seconds and microseconds as Redis's own digits, joined by a space. A
-- time in milliseconds has 13 digits, which ".." still prints exactly.
local function now()
  local t = redis.call('TIME')
  local ms = t[1] * 1000 + t[2] / 1000
  return ms - ms % 1, t[1] .. ' ' .. t[2]
end
-- parse_record: the execution record as a table, or nil where the text is not
-- one. The format is described in README.md; limits, slots and binding never
-- change after the first write.
local function parse_record(text)
  local state, sec, usec, deadline, till, fingerprint, org, agent, settler, ancestors, amounts, limits, slots, extra,
    resolution, attempts = string.match(text, '^1 ([%l_]+) (%d+) (%d+) (%d+) (%d+)\n(%x*)\n([^\t\n]*)\t([^\t\n]*)\t([^\t\n]*)\t' ..
    '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
  if not state then
    return nil
  end
  return {
    state = state, sec = sec, usec = usec, deadline = deadline, till = till, fingerprint = fingerprint,
    org = org, agent = agent, settler = settler, ancestors = ancestors, amounts = amounts,
    limits = limits, slots = slots, extra = extra, resolution = resolution, attempts = attempts,
  }
end
-- format_record: the text of a record table; the inverse of parse_record.
local function format_record(r)
  return table.concat({
    '1 ' .. r.state .. ' ' .. r.sec .. ' ' .. r.usec .. ' ' .. r.deadline .. ' ' .. r.till, r.fingerprint,
    r.org .. '\t' .. r.agent .. '\t' .. r.settler .. '\t' .. r.ancestors, r.amounts, r.limits, r.slots, r.extra,
    r.resolution, r.attempts,
  }, '\n')
end
-- parse_amounts: "unit=n unit=n" as a map of unit to the digits as given, and
-- the units in the order of the text.
local function parse_amounts(text)
  local by_unit, units = {}, {}
  for unit, n in string.gmatch(text, '([^ =]+)=(%d+)') do
    by_unit[unit] = n
    units[#units + 1] = unit
  end
  return by_unit, units
end
-- may_resolve: whether a caller may settle, release or extend a record: the
-- holder, one of its immutable ancestors, the settler it named, an operator.
local function may_resolve(r, org, caller, operator)
  if r.org ~= org then
    return false
  end
  if operator == '1' or caller == r.agent or caller == r.settler then
    return true
  end
  return string.find(',' .. r.ancestors .. ',', ',' .. caller .. ',', 1, true) ~= nil
end
-- find_record: the record a caller may resolve, or an outcome to return. The
-- caller's guess of the holder, limits and slots, from which its keys were
-- built, is checked here; the right ones are in the record.
local function find_record(record_key, epoch_key, who, guess)
  local text = redis.call('GET', record_key)
  if not text then
    return nil, redis.call('EXISTS', epoch_key) == 0 and {'unavailable', 'emptied'} or {'absent'}
  end
  local r = parse_record(text)
  if not r then
    return nil, {'corrupt'}
  elseif r.state == 'charged' or not may_resolve(r, who.org, who.caller, who.operator) then
    return nil, {'absent'}
  elseif r.state == 'tombstone' then
    return r
  elseif string.find(r.resolution .. '\n' .. r.attempts, who.key_id, 1, true) then
    return nil, {'known', text}
  elseif r.state ~= 'held' and r.state ~= 'expired' and r.state ~= 'lapsed' then
    return nil, {'known', text}
  elseif r.agent ~= guess.holder or r.limits ~= guess.limits or r.slots ~= guess.slots then
    return nil, {'keys', text}
  end
  return r
end
-- read_limits: the figures of a reservation's limits, missing where the hash
-- is gone. Returns nil where one is gone and so is the epoch: then Redis was
-- emptied, and nothing may be resolved until it is rebuilt.
local function read_limits(limit_keys, epoch_key)
  local rows, missing = {}, false
  for i, key in ipairs(limit_keys) do
    local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld', 'epsilon', 'on_overrun', 'late_window')
    row.missing = not row[1]
    missing = missing or row.missing
    rows[i] = row
  end
  if missing and redis.call('EXISTS', epoch_key) == 0 then
    return nil
  end
  return rows, missing
end
-- charged_at_expiry: what the expiry of a refused overrun has already charged,
-- as a map of unit to digits, or nil. The resolution line of an expired record
-- is: expire, tab, 1 where the amount is withheld, tab, amounts charged.
local function charged_at_expiry(r)
  local charged = string.match(r.resolution, '^expire\t[01]\t(.+)$')
  return charged and parse_amounts(charged) or nil
end
-- move: changes one counter of a limit and returns the term for the entry, so
-- that what is booked and what is written are one thing. Redis does the
-- arithmetic on the caller's own digits; it takes neither "+5" nor "-0". A
-- missing limit is never created; its term is still written.
local function move(limit_key, missing, letter, field, sign, digits)
  if not missing and digits ~= '0' then
    redis.call('HINCRBY', limit_key, field, sign == '-' and '-' .. digits or digits)
  end
  return letter .. sign .. digits
end
-- finish: writes a record that is resolved, ends its place among the live and
-- its slots, begins or ends its late window, and appends the entry, all of one
-- transition.
local function finish(keys, r, entry)
  local text = format_record(r)
  redis.call('SET', keys.record, text, 'PX', entry.keep_ms)
  if entry.next_deadline then
    redis.call('ZADD', keys.lapsing, entry.next_deadline, entry.execution)
  else
    redis.call('ZREM', keys.lapsing, entry.execution)
  end
  redis.call('ZREM', keys.live, entry.execution)
  for _, slot in ipairs(keys.slots) do
    redis.call('ZREM', slot, entry.execution)
  end
  redis.call('XADD', keys.outbox, '*', 'e', '1 ' .. entry.kind .. ' ' .. entry.at .. ' ' .. entry.execution .. '\n' ..
    table.concat(entry.moves, ' ') .. '\n' .. entry.detail .. '\n' .. text)
  return text
end

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
