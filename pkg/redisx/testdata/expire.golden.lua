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
-- format_amounts: a map of unit to digits as "unit=n unit=n" in a given order.
local function format_amounts(by_unit, units)
  local out = {}
  for i, unit in ipairs(units) do
    out[i] = unit .. '=' .. by_unit[unit]
  end
  return table.concat(out, ' ')
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
-- refused_amounts: what an expiry charges after a refused overrun: per unit
-- the smaller of the reservation and the last refused cost; nil where no
-- overrun was refused. An attempt line is: key id, fingerprint, verb, amounts.
local function refused_amounts(r, reserved, units)
  local last = nil
  for verb, amounts in string.gmatch(r.attempts, '%x+\t%x+\t(%l+)\t([^\t\n]*)') do
    if verb == 'settle' then
      last = amounts
    end
  end
  if not last then
    return nil
  end
  local charged, refused = {}, parse_amounts(last)
  for _, unit in ipairs(units) do
    local smaller = tonumber(refused[unit]) < tonumber(reserved[unit])
    charged[unit] = smaller and refused[unit] or reserved[unit]
  end
  return charged
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
