#!lua flags=no-writes
-- balance: the figures of limits, read in one step.
--
-- KEYS[1] epoch:{p}   KEYS[2] outstanding:{p}   KEYS[3..] limits
-- ARGV[i] the field of limit i in outstanding:{p}
--
-- Outcomes: unavailable (emptied) | ok, then per limit cap, adj, held, spent,
-- withheld (all - where the limit's hash is gone) and the outstanding count
local epoch_key, outstanding_key = KEYS[1], KEYS[2]
local limit_keys, fields = {unpack(KEYS, 3)}, {unpack(ARGV)}

local reply = {'ok'}
for i, key in ipairs(limit_keys) do
  local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld')
  if not row[1] and redis.call('EXISTS', epoch_key) == 0 then
    return {'unavailable', 'emptied'}
  end
  for j = 1, 5 do
    reply[#reply + 1] = row[j] or '-'
  end
  reply[#reply + 1] = redis.call('HGET', outstanding_key, fields[i]) or '0'
end
return reply
