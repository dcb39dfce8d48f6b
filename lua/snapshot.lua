#!lua flags=no-writes
-- snapshot: the figures of limits and the outbox's last id, read in one step:
-- a consistent cut. Everything up to that id is in the figures, nothing after.
--
-- KEYS[1] outbox:{p}   KEYS[2..] at most 256 limits
--
-- Outcomes: ok, last outbox id, then per limit cap, adj, held, spent, withheld;
-- all '' where the limit's hash is gone
local outbox_key = KEYS[1]
local limit_keys = {unpack(KEYS, 2)}

--include last_id

local reply = {'ok', last_id(outbox_key)}
for _, key in ipairs(limit_keys) do
  local row = redis.call('HMGET', key, 'cap', 'adj', 'held', 'spent', 'withheld')
  for j = 1, 5 do
    reply[#reply + 1] = row[j] or ''
  end
end
return reply
